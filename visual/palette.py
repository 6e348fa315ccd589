"""How each source looks: Okabe-Ito colour for light and dark, underline style, a name and what it means.

The page never tells sources apart by colour alone: every one has an underline of its own.
"""

from dataclasses import asdict, dataclass

from spectra.guess import Source


@dataclass(frozen=True, slots=True)
class Look:
    """name: on the legend. meaning: its tooltip. light / dark: colour in each mode. line: CSS border style."""

    name: str
    meaning: str
    light: str
    dark: str
    line: str


LOOKS: dict[Source, Look] = {
    Source.FORWARD: Look(
        "Forward dictionary", "Runs of tokens seen to follow the last token", "#0072B2", "#56B4E9", "solid"
    ),
    Source.BACKWARD: Look(
        "Backward dictionary",
        "The next token of the longest run that ends like this text",
        "#E69F00",
        "#E69F00",
        "dashed",
    ),
    Source.RETRIEVAL: Look(
        "Retrieval", "What followed the same words in a datastore of other texts", "#009E73", "#2FC79A", "dotted"
    ),
    Source.POOL: Look(
        "Candidate pool", "A guess that earlier forward passes were already refining", "#CC79A7", "#CC79A7", "double"
    ),
    Source.NGRAM: Look(
        "N-grams of the text", "What followed the same last words earlier in this text", "#7A5AC8", "#B39DF3", "groove"
    ),
    Source.RECYCLED: Look(
        "Recycled",
        "What the model found likely after this token the last time it was scored",
        "#D55E00",
        "#FF8A4C",
        "ridge",
    ),
    Source.AUTOMATON: Look(
        "Suffix automaton", "What followed the longest repeat of this text's end", "#8A6D00", "#D9C65A", "outset"
    ),
    Source.MODEL: Look(
        "Model itself", "The model's own pick: one from every forward pass", "#C3C7CE", "#4D5462", "none"
    ),
}
"""In the order of the legend and of the stacked bars. A dict of every `Source`."""


def legend() -> list[dict[str, str]]:
    """One row a source, as the browser reads it."""
    return [{"source": source.value, **asdict(look)} for source, look in LOOKS.items()]


def css() -> str:
    """A class for each source that sets its colour and line, for light and for dark."""
    rules = [
        f".{source.value}{{--c:{look.light};--dash:{look.line}}}.dark .{source.value}{{--c:{look.dark}}}"
        for source, look in LOOKS.items()
    ]
    return "\n".join(rules)
