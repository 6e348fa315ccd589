"""Writes docs/options.md: every option of every command, from the parsers themselves.

PYTHONPATH=.:tests/support python tests/tools/options_page.py
"""

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from programs import PARSERS

PAGE = Path(__file__).parents[2] / "docs" / "options.md"
HEAD = """# All options

Every option of every command, and the page's. Written from the commands themselves by `tests/tools/options_page.py`,
and compared with them by a test. `--help` of a command says the same. *Models* stands for the commands that load one to
decode with. The environment may hold the options of [models](command-line.md#model-options) and of `app.py`:
`--some-option` is `SPECTRA_SOME_OPTION`.

| option | commands | default | meaning |
|---|---|---|---|
"""


def commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Short name and parser of each."""
    for program, build in PARSERS.items():
        parser = build()
        below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        short = program.removeprefix("spectra").removeprefix(".")
        yield short or program, parser
        for name, one in below[0].choices.items() if below else ():
            yield f"{short} {name}".strip(), one


def default_of(action: argparse.Action) -> str:
    """As it is given on the command line; "" where the help says it or there is none."""
    value = action.default
    if action.required:
        return "required"
    if value == sys.executable:
        return "the one that runs"
    if isinstance(value, bool):  # of a switch that turns something off too
        return "off"
    if value in (None, (), [], {}, "", argparse.SUPPRESS) or "(default: " in (action.help or ""):
        return ""
    values = value if isinstance(value, list | tuple) else [value]
    return f"`{','.join(f'{one:g}' if isinstance(one, float) else str(one) for one in values)}`"


def page() -> str:
    """The whole document. No variable of ours may be set."""
    rows: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    loading: list[str] = []
    for command, parser in commands():
        for action in parser._actions:
            shown = action.help != argparse.SUPPRESS and not isinstance(action, argparse._HelpAction)
            if action.option_strings and shown:
                option = "`, `".join(action.option_strings)
                rows[option, default_of(action), " ".join((action.help or "").split())].append(command)
                if option == "--numerics":
                    loading.append(command)
    lines = []
    for (option, default, text), names in sorted(rows.items()):
        own = [f"`{name}`" for name in names if name not in loading] if set(loading) <= set(names) else None
        where = ", ".join(["*models*", *own] if own is not None else [f"`{name}`" for name in names])
        lines.append(f"| `{option}` | {where} | {default} | {text.replace('|', '&#124;').replace('%%', '%')} |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    for name in [name for name in os.environ if name.startswith(("SPECTRA_", "GRADIO_SERVER_"))]:
        del os.environ[name]
    PAGE.write_text(page(), encoding="utf-8")
