"""Kinds of files that a command writes and the page reads: the name and the version that stand in each."""

from typing import Any, NamedTuple


class FileKind(NamedTuple):
    """format: what a file says that it is. version: of its fields."""

    format: str
    version: int

    def fits(self, data: Any) -> bool:
        """A file with this content is of this kind, in whatever version."""
        return isinstance(data, dict) and data.get("format") == self.format


RACE = FileKind("spectra-race", 1)
DIVERGENCE = FileKind("spectra-divergence", 1)
