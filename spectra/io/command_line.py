"""A command as it can be typed again, for reports and cards that say how they were made."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any


def command_line(program: str, arguments: Sequence[str]) -> str:
    """Quoted where that is needed; of absolute paths only the last part."""
    return f"{program} {shlex.join(Path(one).name if one.startswith('/') else one for one in arguments)}"


def options_of(given: Any) -> list[str]:
    """The fields of a dataclass that are not at their defaults, as options: what `spectra.cli.arguments` reads back."""
    words = []
    for one in fields(given):
        value, option = getattr(given, one.name), f"--{one.name.replace('_', '-')}"
        default = one.default if one.default_factory is MISSING else one.default_factory()
        if is_dataclass(value):
            words += options_of(value)
        elif value and value != default and isinstance(value, tuple) and isinstance(value[0], Path):
            words += [part for path in value for part in (option.removesuffix("s"), str(path))]
        elif value != default:
            words += [option, ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    return words


def without_options(environment: Mapping[str, str]) -> dict[str, str]:
    """For a process that is given `options_of`: an option left out is at its default, whatever a variable says.

    SPECTRA_NATIVE and SPECTRA_NATIVE_ISA are no options, and stay.
    """
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("SPECTRA_") or name.startswith("SPECTRA_NATIVE")
    }
