"""How each source looks: Okabe-Ito colour for light and dark, a line, a name and what it means.

The page never tells sources apart by colour alone: text has an underline, tree nodes a dash, bars a hatching for each.
"""

from dataclasses import dataclass
from urllib.parse import quote

from spectra.guess import Source


@dataclass(frozen=True, slots=True)
class Underline:
    """An underline as a tile that repeats: width in px, an SVG path in a box 4 px high, stroke width."""

    width: int
    path: str
    stroke: float

    def image(self, colour: str) -> str:
        """CSS `url()` of the tile in one colour."""
        tile = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="4">'
            f'<path d="{self.path}" fill="none" stroke="{colour}" stroke-width="{self.stroke}"/></svg>'
        )
        return f'url("data:image/svg+xml,{quote(tile)}")'


@dataclass(frozen=True, slots=True)
class Look:
    """name: on the legend. meaning: its tooltip. light / dark: colour in each mode.

    underline: in texts. dash: SVG stroke-dasharray in trees. hatch: plotly pattern of the bars (it has eight).
    """

    name: str
    meaning: str
    light: str
    dark: str
    underline: Underline | None
    dash: str
    hatch: str


LOOKS: dict[Source, Look] = {
    Source.FORWARD: Look(
        "Forward dictionary",
        "Runs of tokens seen to follow the last token",
        "#0072B2",
        "#56B4E9",
        Underline(8, "M0 2H8", 2),
        "none",
        "",
    ),
    Source.BACKWARD: Look(
        "Backward dictionary",
        "The next token of the longest run that ends like this text",
        "#E69F00",
        "#E69F00",
        Underline(9, "M0 2H6", 2),
        "7 3",
        "/",
    ),
    Source.RETRIEVAL: Look(
        "Retrieval",
        "What followed the same words in a datastore of other texts",
        "#009E73",
        "#2FC79A",
        Underline(4, "M1 2H3", 2),
        "2 2.5",
        ".",
    ),
    Source.POOL: Look(
        "Candidate pool",
        "A guess that earlier forward passes were already refining",
        "#CC79A7",
        "#CC79A7",
        Underline(8, "M0 .7H8M0 3.3H8", 1.2),
        "14 2",
        "x",
    ),
    Source.NGRAM: Look(
        "N-grams",
        "What followed the same last words earlier in this text or in the window of Lookahead",
        "#7A5AC8",
        "#B39DF3",
        Underline(8, "M0 3C2 3 2 1 4 1S6 3 8 3", 1.4),
        "1 3",
        "\\",
    ),
    Source.RECYCLED: Look(
        "Recycled",
        "What the model found likely after this token the last time it was scored",
        "#D55E00",
        "#FF8A4C",
        Underline(12, "M0 2H6M8.5 2H10.5", 2),
        "8 3 2 3",
        "-",
    ),
    Source.AUTOMATON: Look(
        "Suffix automaton",
        "What followed the longest repeat of this text's end",
        "#8A6D00",
        "#D9C65A",
        Underline(6, "M0 3.3H6M3 .4V3", 1.2),
        "4 4",
        "|",
    ),
    Source.MEMORY: Look(
        "Earlier answers",
        "What followed the same words in an answer that was given before",
        "#1B6E5A",
        "#7FD8C0",
        Underline(7, "M1 2H3M5 .5V3.5", 1.6),
        "3 2 7 2",
        ".",
    ),
    Source.DRAFT: Look(
        "Draft model",
        "A guess of a small model that runs ahead of the large one",
        "#B0174A",
        "#FF7A9C",
        Underline(10, "M0 3L5 1L10 3", 1.4),
        "10 2 2 2",
        "+",
    ),
    Source.SECOND: Look(
        "Second draft model",
        "A guess of a second small model; the one that comes along was trained on what the first one misses",
        "#4E7A00",
        "#A9D14A",
        Underline(10, "M0 1H5V3H10", 1.4),
        "5 2",
        "+",
    ),
    Source.MODEL: Look(
        "Model itself",
        "The model's own pick: one from every forward pass",
        "#C3C7CE",
        "#4D5462",
        None,
        "none",
        "",
    ),
}
"""The project's own sources, in the order of the legend and of the stacked bars."""

OTHER_UNDERLINE = Underline(4, "M0 2H4", 1)
"""Of a source that is not among them."""


def look_of(source: Source) -> Look:
    """How a source looks; one without an entry is grey and goes by its own name."""
    if source in LOOKS:
        return LOOKS[source]
    name = source[:1].upper() + source[1:].replace("-", " ")
    return Look(name, "A drafter that is not the project's own", "#6B7280", "#9CA3AF", OTHER_UNDERLINE, "3 3", "")


def legend() -> list[dict[str, str]]:
    """One row a source, as the browser reads it."""
    return [
        {"source": source, "name": look.name, "meaning": look.meaning, "hatch": look.hatch, "dash": look.dash}
        for source, look in LOOKS.items()
    ]


def css() -> str:
    """A class for each source that sets its colour, underline and dash, in light and dark, and one that hides them."""
    rules = []
    other = look_of(Source("other"))
    for scheme, colour in ((":root", other.light), (".dark", other.dark)):
        rules.append(f"{scheme}{{--c:{colour};--line-of:{OTHER_UNDERLINE.image(colour)};--dash:{other.dash}}}")
    for source, look in LOOKS.items():
        for scheme, colour in (("", look.light), (".dark ", look.dark)):
            underline = look.underline.image(colour) if look.underline else "none"
            rules.append(f"{scheme}.source-{source}{{--c:{colour};--line-of:{underline};--dash:{look.dash}}}")
        rules.append(f".off-{source} .t.source-{source}{{background:none!important}}")
    return "\n".join(rules)
