"""The project's own sources, in the order of `Source`."""

from spectra.guess import Source

KNOWN_SOURCES = tuple(value for value in vars(Source).values() if isinstance(value, Source))
