"""Comma-separated values on the command line."""

from collections.abc import Collection

from spectra.errors import SpectraError


def names(text: str) -> list[str]:
    """The parts, blanks dropped."""
    return [part.strip() for part in text.split(",") if part.strip()]


def known(field: str, given: list[str], choices: Collection[str]) -> list[str]:
    """Each name once. Raises SpectraError naming `field` where there is none or one that is no choice."""
    if not given:
        raise SpectraError(field, "there is none; give names with commas between them")
    for name in given:
        if name not in choices:
            raise SpectraError(field, f"{name!r} is unknown; choose from {', '.join(choices)}")
    return list(dict.fromkeys(given))


def numbers(field: str, texts: list[str], kind: type[int] | type[float]) -> list[float]:
    """Each as a number, equal ones once. Raises SpectraError naming `field`."""
    if not texts:
        raise SpectraError(field, "there is none; give numbers with commas between them")
    values: list[float] = []
    for text in texts:
        try:
            values.append(kind(text))
        except ValueError as error:
            whole = "whole " if kind is int else ""
            raise SpectraError(field, f"{text!r} is not a number; give a {whole}number") from error
    return list(dict.fromkeys(values))
