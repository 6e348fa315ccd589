"""What all commands share: options as fields of frozen dataclasses, help, one line for bad input, exit codes.

A command's options are a dataclass: each field is an option of that name, type and default, and the dataclass itself
refuses what cannot be. A field that is a dataclass brings its own fields. A tuple is given with commas between its
values; a tuple of paths by an option for each: `datastores` by `--datastore A --datastore B`; a list by its values side
by side: `data` by `--data A B`. A switch that is on by default is turned off: `refine` by `--no-refine`.

Options of a dataclass that has an `ENVIRONMENT`, "SPECTRA" for example, may be given in the environment too:
`--some-option` as SPECTRA_SOME_OPTION, several values with commas between them. The command line goes first.
"""

import argparse
import math
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from spectra.errors import SpectraError, one_line
from spectra.service.loading import check_model
from spectra.target.choices import check_choices, check_device_name
from spectra.target.hub_cache import is_there
from spectra.target.placement import Placement

if TYPE_CHECKING:
    from spectra.target.load import PlainNetwork

Options = TypeVar("Options")
MODEL_HELP = {
    "model": "a hub id, a folder or a GGUF file (default: the embedded SmolLM2-135M-Instruct)",
    "device": "cpu, cuda, cuda:1, ... (default: a GPU where there is one)",
    "dtype": "auto, bf16, fp16 or fp32",
    "weights": "auto, bf16, int8 or q4; auto is the blocks that the model's file has where they can be read, else bf16",
    "device_map": "spread the model over devices: auto, balanced, balanced_low_0, sequential, or a JSON file",
    "max_memory": "with a device map that is computed, what a device may hold: 0=20GiB,1=20GiB,cpu=60GiB",
    "offload_folder": "with a device map, where the parts go that fit no device",
    "numerics": "auto, exact or fast",
    "step": "auto, eager, on a CPU native, on a GPU graphs, flash or flash-eager",
    "datastores": "retrieve from this store (may be repeated; default: those that come with the project and fit)",
    "remember": "a folder that finished answers join; later answers are guessed from them (default: none)",
    "estimates": "what guesses of the model are worth: a file of `python -m spectra.bench fit` (default: the one "
    "beside the first datastore, or what is built in)",
    "drafts": "a draft model of the same tokenizer (may be repeated; default: those that come with the project)",
}
SAID = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
"""What the environment may say of an option that is on or off."""

EXPLAIN_HELP = "the trace also tells what dictionaries and datastores held, found and learned at each step"
METHOD_HELP = {
    "backward": "guess from the backward dictionary, or not",
    "forward": "guess from the forward dictionary, or not",
    "guesses": "G, the most guesses a step",
    "nodes": "the most guessed tokens a step",
    "order": "N, the length of an n-gram",
    "pool": "keep a candidate pool, or not",
    "refine": "the chance that a pool row must predict a token that no n-gram begins with",
    "retrieval": "guess from a datastore, or not",
    "rows": "W, the rows of the candidate pool",
    "subngrams": "learn every n-gram of a pool row, or the whole row only",
    "successors": "how many likely successors of each scored token are kept to guess from",
}
"""Of `MethodSettings`; what is left out is as the preset has it."""


class DefaultsHelp(argparse.HelpFormatter):
    """Help that says every option's default."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        default = action.default
        complete = action.help == argparse.SUPPRESS or "default" in (action.help or "")
        if complete or default in (None, (), "", argparse.SUPPRESS) or isinstance(default, bool | list | dict):
            return action.help
        values = default if isinstance(default, tuple) else (default,)
        shown = ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
        return f"{action.help} (default: {shown})"


class Parser(argparse.ArgumentParser):
    """argparse without the usage block: one short line, exit code 2. The help of an option says its default."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": DefaultsHelp, **settings})
        self.read: dict[str, str] = {}
        """Variables of the environment that options are read from, as far as they are set."""

    def error(self, message: str) -> NoReturn:
        if variable := self.read.get(message.removeprefix("argument ").partition(":")[0]):
            message = f"{message}; the environment has {variable}"
        self.exit(2, f"{one_line(f'{self.prog}: {message}')}\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """A help that cannot be written raises OSError; argparse says nothing, or nothing before Python ends."""
        if file is not sys.stdout:
            return super()._print_message(message, file)
        print(message, end="", flush=True)
        return None

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """`--` is no value: argparse of Python 3.11 and 3.12 gives an empty list. A blank path is `.`."""
        if arg_strings == ["--"] and action.nargs in (None, "+"):
            raise argparse.ArgumentError(action, "'--' is no value; give one")
        if action.type in (Path, path_of) and any(not text.strip() for text in arg_strings):
            raise argparse.ArgumentError(action, "it is blank; give a path, `.` for this folder")
        return super()._get_values(action, arg_strings)  # type: ignore[misc]


def number(kind: type[int] | type[float]) -> Callable[[str], Any]:
    """An argparse type whose error says what to give."""

    def parse(text: str) -> Any:
        try:
            value = kind(text)
            if kind is int or math.isfinite(value):
                return value
        except ValueError:
            pass
        wanted = "whole number" if kind is int else "number"
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not a {wanted}; give one")

    return parse


def path_of(text: str) -> Path:
    """An argparse type for a folder that may be a hub id instead: `./x` and `x/` are paths, which a `Path` forgets."""
    path = Path(text)
    return path.absolute() if (text.startswith("./") or text.endswith("/")) and not is_there(text) else path


def names(text: str) -> tuple[str, ...]:
    """The parts between commas, each once, blanks dropped."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def several(text: str) -> tuple[str, ...]:
    """An argparse type: `names`, of which there must be one."""
    if found := names(text):
        return found
    raise argparse.ArgumentTypeError("there is none; give one or more, with commas between them")


def numbers(field: str, texts: Sequence[str], kind: type[int] | type[float]) -> tuple[Any, ...]:
    """Each as a number, equal ones once. Raises SpectraError naming `field`."""
    try:
        return tuple(dict.fromkeys(map(number(kind), texts)))
    except argparse.ArgumentTypeError as error:
        raise SpectraError(field, str(error)) from error


class _Kind(NamedTuple):
    """The type of one value of a field. several: the field is a tuple or a list of them. open: it may be None."""

    base: type
    several: bool = False
    open: bool = False
    listed: bool = False


def add_options(
    parser: Parser,
    options: type,
    texts: Mapping[str, str],
    *,
    positional: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
    hidden: Collection[str] = (),
    without: Collection[str] = (),
) -> None:
    """An option for each field. texts: help by field name. positional: fields that are given without a name.

    defaults: in the place of the dataclass's. hidden: left out of the help. without: fields that are added elsewhere.
    """
    hints = get_type_hints(options)
    for one in fields(options):
        if one.name in without:
            continue
        if is_dataclass(hints[one.name]):
            add_options(
                parser, hints[one.name], texts,
                positional=positional, defaults=defaults, hidden=hidden, without=without,
            )  # fmt: skip
            continue
        kind = _kind(hints[one.name])
        text = argparse.SUPPRESS if one.name in hidden else texts[one.name]
        option = _option(one, kind)
        default = (defaults or {}).get(one.name, _default(one))
        if prefix := getattr(options, "ENVIRONMENT", ""):
            if said := environment(f"{prefix}-{option}"):
                default = said
                parser.read[f"--{option}"] = _variable(f"{prefix}-{option}")
            if kind.base is bool and isinstance(default, str) and default.lower() not in SAID:
                parser.error(f"argument --{option}: {default!r} is neither yes nor no; give 1 or 0")
        if one.name in positional:
            often: dict[str, Any] = {} if default is MISSING else {"nargs": "?", "default": default}
            often = {"nargs": "+"} if kind.several else often
            parser.add_argument(one.name, metavar=one.name.upper(), type=kind.base, help=text, **often)
            continue
        switched_off = kind.base is bool and not kind.open and default is True
        option = f"no-{option}" if switched_off else option
        parser.add_argument(f"--{option}", dest=one.name, help=text, **_settings(kind, default))


def environment(option: str) -> str:
    """What the environment says of it: "spectra-device-map" is SPECTRA_DEVICE_MAP. "" where it says nothing."""
    return os.environ.get(_variable(option), "").strip()


def _variable(option: str) -> str:
    return option.upper().replace("-", "_")


def read_options(options: type[Options], chosen: argparse.Namespace) -> Options:
    """The dataclass from parsed arguments.

    Raises SpectraError for what it refuses, with the variables of the environment that may be the reason.
    """
    hints = get_type_hints(options)
    values: dict[str, Any] = {}
    for one in fields(options):  # type: ignore[arg-type]
        if is_dataclass(hints[one.name]):
            values[one.name] = read_options(hints[one.name], chosen)  # type: ignore[arg-type]
            continue
        kind = _kind(hints[one.name])
        value = getattr(chosen, one.name)
        if value is not None and kind.several and kind.base in (int, float):
            value = numbers(one.name, value, kind.base)
        if kind.base is Path:
            check_reachable(one.name, value)
        values[one.name] = tuple(value) if kind.several and not kind.listed and value is not None else value
    try:
        return options(**values)
    except SpectraError as error:
        if not (found := variables(options)):
            raise
        raise SpectraError(error.field, f"{error.problem}; the environment has {', '.join(found)}") from error


def variables(options: type) -> list[str]:
    """Those of the environment that options are read from, as far as they are set."""
    hints, prefix, found = get_type_hints(options), getattr(options, "ENVIRONMENT", ""), []
    for one in fields(options):
        if is_dataclass(hints[one.name]):
            found += variables(hints[one.name])  # type: ignore[arg-type]
        elif prefix and environment(name := f"{prefix}-{_option(one, _kind(hints[one.name]))}"):
            found.append(_variable(name))
    return found


def check_reachable(field: str, value: Path | Sequence[Path] | None) -> None:
    """Raise SpectraError for paths that cannot even be asked for: too long, or behind a folder that is closed."""
    for path in [value] if isinstance(value, Path) else value or ():
        try:
            path.exists()
        except OSError as error:
            raise SpectraError(field, f"{str(path)[:80]!r} cannot be used ({error.strerror}); give another") from None


def _kind(hint: Any) -> _Kind:
    """Of X, X | None, tuple[X, ...], tuple[X, ...] | None or list[X]."""
    nullable = get_origin(hint) is UnionType
    if nullable:
        hint = next(part for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) in (tuple, list):
        return _Kind(get_args(hint)[0], several=True, open=nullable, listed=get_origin(hint) is list)
    return _Kind(hint, open=nullable)


def _option(one: "Field[Any]", kind: _Kind) -> str:
    """Its name on the command line."""
    return (one.name.removesuffix("s") if _repeated(kind) else one.name).replace("_", "-")


def _default(one: "Field[Any]") -> Any:
    """MISSING where the option is required."""
    return one.default if one.default_factory is MISSING else one.default_factory()


def _repeated(kind: _Kind) -> bool:
    """Whether each value has an option of its own."""
    return kind.several and kind.base is Path and not kind.listed


class _Repeated(argparse.Action):
    """Like "append", but what is given takes the place of the default."""

    def __call__(self, parser: Any, chosen: argparse.Namespace, value: Any, option: str | None = None) -> None:
        before = getattr(chosen, self.dest)
        setattr(chosen, self.dest, [*before, value] if isinstance(before, list) else [value])


def _settings(kind: _Kind, default: Any) -> dict[str, Any]:
    """How argparse takes an option of this kind. default: a text from the environment is parsed like a given one."""
    if kind.base is bool:
        if kind.open:
            return {"action": argparse.BooleanOptionalAction, "default": default}
        said = SAID[default.lower()] if isinstance(default, str) else default
        return {"action": "store_false" if default is True else "store_true", "default": said}
    if _repeated(kind):
        paths = tuple(map(path_of, names(default))) if isinstance(default, str) else ()
        return {"action": _Repeated, "default": paths, "type": path_of, "metavar": "PATH"}
    settings: dict[str, Any] = {"required": True} if default is MISSING else {"default": default}
    if kind.several and not kind.listed:
        return settings | {"type": several, "metavar": "A,B,..."}
    if kind.listed:
        settings |= {"nargs": "+"}
    if kind.base is Path:
        return settings | {"type": Path, "metavar": "PATH"}
    if kind.base in (int, float):
        return settings | {"type": number(kind.base), "metavar": "N"}
    return settings


@dataclass(frozen=True, slots=True)
class Network:
    """A model to load as it is, nothing measured.

    model: a hub id, a folder or a GGUF file, None for the embedded one.
    """

    ENVIRONMENT: ClassVar = "SPECTRA"
    model: str | None = None
    device: str | None = None
    dtype: str = "auto"
    weights: str = "auto"
    placement: Placement = field(default_factory=Placement)

    def __post_init__(self) -> None:
        check_model(self.model, self.placement)
        check_device_name(self.device, self.placement)
        check_choices(device=self.device, dtype=self.dtype, weights=self.weights, placement=self.placement)

    def load(self) -> "PlainNetwork":
        """See `load_network`."""
        from spectra.target.load import load_network

        return load_network(
            self.model, device=self.device, dtype=self.dtype, weights=self.weights, **self.placement.arguments()
        )


def add_model(parser: argparse.ArgumentParser) -> None:
    """The option of commands that take a model's tokenizer alone."""
    parser.add_argument("--model", default=environment("spectra-model") or None, help=MODEL_HELP["model"])


def exit_code(program: str, go: Callable[[], int], *, resumes: bool = False) -> int:
    """What `go` returns; 2 and one line on stderr for bad input or where the disk or a file refuses, 130 when it is
    stopped, 141 when the reader of stdout went.

    resumes: the same command, given again, goes on where it was.
    """
    try:
        check_working_folder()
        code = go()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _drop_output()
        return 141
    except SpectraError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(one_line(f"{program}: {error}"), file=sys.stderr)
        _drop_output()
        return 2
    except KeyboardInterrupt:
        print(f"\n{program}: stopped{'; the same command goes on from here' if resumes else ''}", file=sys.stderr)
        return 130


def check_working_folder() -> None:
    """Raise SpectraError where it was deleted: torch's own libraries would end the process."""
    try:
        os.getcwd()  # noqa: PTH109 - nothing is done with it
    except FileNotFoundError:
        raise SpectraError("working folder", "it was deleted; change to another one (cd) first") from None


def _drop_output() -> None:
    """What is still in stdout's buffer, and could not be written, goes nowhere."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
