"""Options as fields of dataclasses: how each kind of field is typed, its default, and what is refused."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from spectra.cli.arguments import MODEL_HELP, DefaultsHelp, Parser, add_options, read_options
from spectra.errors import SpectraError


@dataclass(frozen=True, slots=True)
class Inner:
    folder: Path
    stores: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Options:
    inner: Inner
    text: str
    max_tokens: int = 9
    share: float = 0.5
    names: tuple[str, ...] = ("a", "b")
    sizes: tuple[int, ...] | None = None
    factors: tuple[float, ...] = (0.0, 2.5)
    place: str = field(default_factory=lambda: "here")
    file: Path | None = None
    loud: bool = False

    def __post_init__(self):
        if self.max_tokens < 1:
            raise SpectraError("max_tokens", "too few")


NAMES = ("folder", "stores", "text", "max_tokens", "share", "names", "sizes", "factors", "place", "file", "loud")
HELP = {name: f"what {name} is" for name in NAMES}


@pytest.fixture
def parser():
    parser = Parser(prog="program", formatter_class=DefaultsHelp)
    add_options(parser, Options, HELP, positional=("text",))
    return parser


def read(parser, line):
    return read_options(Options, parser.parse_args(line.split()))


def test_what_is_not_given_is_the_dataclasss_default(parser):
    assert read(parser, "hello --folder x") == Options(Inner(Path("x")), "hello")


def test_every_kind_of_field(parser):
    line = "hello --folder x --store y --store z --max-tokens 3 --share .25 --names c,,d,c --factors 1,1.0,3 --loud"
    options = read(parser, f"{line} --place there --file f")
    assert options == Options(
        Inner(Path("x"), (Path("y"), Path("z"))),
        "hello",
        3,
        0.25,
        ("c", "d"),
        None,
        (1.0, 3.0),
        "there",
        Path("f"),
        True,
    )


def test_defaults_of_a_command_and_hidden_fields():
    parser = Parser(prog="program", formatter_class=DefaultsHelp)
    more = {"defaults": {"names": ("z",)}, "hidden": ("share",), "without": ("text", "file")}
    add_options(parser, Options, HELP, **more)
    assert parser.parse_args(["--folder", "x"]).names == ("z",)
    help_text = " ".join(parser.format_help().split())
    assert "--names A,B,... what names is (default: z)" in help_text
    assert "--share" not in help_text and "--file" not in help_text


def test_help_says_every_default(parser):
    help_text = " ".join(parser.format_help().split())
    for text in (
        "what max_tokens is (default: 9)",
        "what factors is (default: 0,2.5)",
        "what place is (default: here)",
    ):
        assert text in help_text
    for name in ("stores", "file", "loud"):
        assert f"what {name} is (default" not in help_text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("hello", "--folder"),
        ("--folder x", "TEXT"),
        ("hello --folder x --max-tokens x", "'x' is not a whole number; give one"),
        ("hello --folder x --factors ,", "argument --factors: there is none; give one or more"),
        ("hello --folder x --names ,", "argument --names: there is none; give one or more"),
    ],
)
def test_what_cannot_be_parsed_is_one_line(parser, capsys, line, said):
    with pytest.raises(SystemExit) as stop:
        parser.parse_args(line.split())
    err = capsys.readouterr().err
    assert stop.value.code == 2 and err.startswith("program: ") and said in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("--max-tokens 0", "max_tokens: too few"),
        ("--factors 1,x", "factors: 'x' is not a number; give one"),
    ],
)
def test_what_cannot_be_is_refused_by_name(parser, more, said):
    with pytest.raises(SpectraError, match=f"^{said}"):
        read(parser, f"hello --folder x {more}")


def test_numbers_that_were_given_are_numbers_of_their_kind(parser):
    with pytest.raises(SpectraError, match=r"^sizes: '1.5' is not a whole number; give one"):
        read(parser, "hello --folder x --sizes 1,1.5")


@dataclass(frozen=True, slots=True)
class Given:
    ENVIRONMENT: ClassVar = "GIVEN"
    text: str = "a"
    max_tokens: int = 9
    names: tuple[str, ...] = ()
    stores: tuple[Path, ...] = ()
    loud: bool = False


@pytest.fixture
def parse(monkeypatch):
    for name, value in {
        "TEXT": "b", "MAX_TOKENS": "3", "NAMES": "c,d", "STORE": "x,y", "LOUD": "1", "STORES": "z", "FILE": "",
    }.items():  # fmt: skip
        monkeypatch.setenv(f"GIVEN_{name}", value)
    parser = Parser(prog="program")
    add_options(parser, Given, HELP)
    return lambda line="": read_options(Given, parser.parse_args(line.split()))


def test_the_environment_gives_what_the_command_line_does_not(parse):
    assert parse() == Given("b", 3, ("c", "d"), (Path("x"), Path("y")), loud=True)
    assert parse("--text e --store z --store y --names f") == Given("e", 3, ("f",), (Path("z"), Path("y")), loud=True)


def test_what_the_environment_gives_is_checked_alike(parse, monkeypatch, capsys):
    monkeypatch.setenv("GIVEN_MAX_TOKENS", "many")
    parser = Parser(prog="program")
    add_options(parser, Given, HELP)
    with pytest.raises(SystemExit):
        parser.parse_args([])
    err = capsys.readouterr().err
    assert "--max-tokens: 'many' is not a whole number" in err
    assert err.endswith("; the environment has GIVEN_MAX_TOKENS\n")


def test_what_the_environment_has_is_said_of_options_that_exclude_each_other(monkeypatch):
    from spectra.cli.main import build_parser
    from spectra.service.loading import ModelOptions

    chosen = build_parser().parse_args(["generate", "hello", "--device", "cuda:0", "--device-map", "auto"])
    with pytest.raises(SpectraError, match=r"^device: .*give one of them$"):
        read_options(ModelOptions, chosen)
    monkeypatch.setenv("SPECTRA_DEVICE_MAP", "auto")
    chosen = build_parser().parse_args(["generate", "hello", "--device", "cuda:0"])
    with pytest.raises(SpectraError, match=r"^device: .*give one of them; the environment has SPECTRA_DEVICE_MAP$"):
        read_options(ModelOptions, chosen)


def test_every_command_takes_every_model_option(monkeypatch):
    from spectra.cli.bench import build_parser as bench
    from spectra.cli.main import build_parser as main
    from spectra.service.loading import ModelOptions

    monkeypatch.setenv("SPECTRA_DEVICE_MAP", "auto")
    monkeypatch.setenv("SPECTRA_MAX_MEMORY", "0=20GiB,cpu=60GiB")
    for parser, command in ((main(), "generate hello"), (bench(), "latency")):
        options = read_options(ModelOptions, parser.parse_args([*command.split(), "--weights", "int8", "--draft", "d"]))
        assert options.placement.arguments() == {"device_map": "auto", "max_memory": {0: "20GiB", "cpu": "60GiB"}}
        assert options.weights == "int8" and options.drafts == (Path("d"),)


def test_the_page_that_lists_model_options_lists_all_of_them():
    from spectra.service.loading import ModelOptions

    page = Path(__file__).parents[2] / "docs" / "command-line.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    rows = [line.split("|")[1:3] for line in lines if line.startswith("| `--") and "`SPECTRA_" in line]
    documented = [(option.strip(" `"), name.strip(" `")) for option, name in rows]
    parser = Parser(prog="program")
    add_options(parser, ModelOptions, MODEL_HELP)
    options = [action.option_strings[-1] for action in parser._actions if action.dest != "help"]
    assert sorted(documented) == sorted((one, f"SPECTRA{one[1:].replace('-', '_').upper()}") for one in options)
