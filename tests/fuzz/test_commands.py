"""Command lines as nobody would type them: options that a command can use, or one line and exit code 2."""

import argparse
import contextlib
import io
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from damage import is_one_short_line
from hypothesis import example, given
from hypothesis import strategies as st

from spectra.cli import bench, datastore, main, serving, train
from spectra.cli.arguments import read_options
from spectra.cli.main import GenerateOptions
from spectra.cli.race import RaceOptions
from spectra.errors import SpectraError

VALUES = (
    "",
    " ",
    "-1",
    "0",
    "1",
    "1e999",
    "nan",
    "inf",
    "x" * 5000,
    "1" * 5000,
    "../..",
    "a,b,,",
    "\udcff",
    "<b>",
    "spectra",
    "--",
)
words = st.one_of(st.sampled_from(VALUES), st.text(st.characters(exclude_characters="\0"), max_size=12))


def options_of(parser: Any) -> list[str]:
    """Every option of a parser and of its commands."""
    found = []
    for action in parser._actions:
        found += action.option_strings
        if isinstance(action.choices, dict):
            for name, inner in action.choices.items():
                found += [name, *options_of(inner)]
    return sorted(set(found) - {"-h", "--help"})


def read_main(chosen: Any) -> Any:
    kinds = {"generate": GenerateOptions, "race": RaceOptions}
    return read_options(kinds[chosen.command], chosen) if chosen.command in kinds else None


READ: dict[ModuleType, Callable[[Any], Any]] = {
    main: read_main,
    bench: lambda chosen: read_options(bench.COMMANDS[chosen.command].options, chosen),
    datastore: lambda chosen: read_options(chosen.options, chosen),
    train: lambda chosen: read_options(train.Train, chosen),
    serving: lambda chosen: None,
}
PARSERS = {module: module.build_parser() for module in READ}
NAMES = {module: options_of(parser) for module, parser in PARSERS.items()}


@pytest.mark.parametrize("module", READ, ids=lambda module: module.__name__.rpartition(".")[2])
@given(st.data())
def test_any_arguments(module: ModuleType, data: st.DataObject) -> None:
    first = data.draw(st.sampled_from([name for name in NAMES[module] if not name.startswith("-")] or [""]))
    rest = data.draw(st.lists(st.one_of(st.sampled_from(NAMES[module]), words), max_size=7))
    check(module, [first, *rest])


@given(st.lists(words, min_size=1, max_size=3))
@example(["--temperature", "1e999"])
@example(["--seed", "1" * 5000])
@example(["--seed", str(2**64)])
@example(["--model", "\udcff"])
@example(["--datastore", "x" * 5000])
@example(["--trace", "\udcff"])
def test_generate(rest: list[str]) -> None:
    check(main, ["generate", "hello", *rest])


def check(module: ModuleType, arguments: list[str]) -> None:
    """argparse ends with 2 and a line, the options with a SpectraError; nothing else is raised."""
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr), contextlib.redirect_stdout(io.StringIO()):
            chosen = PARSERS[module].parse_args(arguments, argparse.Namespace(command_line=""))
            READ[module](chosen)
    except SystemExit as stop:
        assert stop.code == 2 and stderr.getvalue().count("\n") == 1
    except SpectraError as error:
        assert is_one_short_line(error)
