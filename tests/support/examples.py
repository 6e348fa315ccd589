"""What README and docs show: their pages, their blocks of code and their command lines."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHERS = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "assets/hub/README.md", "datastores/README.md")]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^\n((?: {4}\S.*\n(?: {4}.*\n)*)+)", re.MULTILINE)
INLINE = re.compile(
    r"`((?:[A-Z_]+=\S+ )*(?:(?:python|accelerate|spectra|spectra-demo)\s(?:[^`]*\s)?--"
    r"|python\s(?:-m\sspectra[.\w]*\s\w+|-m\spytest|[\w/]+\.py)\s)[^`]*)`"
)
VARIABLE = re.compile(r"^[A-Z_]+=")
PLACEHOLDER = re.compile(r"<[a-z ]+>")
REDIRECTED = (">", "|")
SHELL = ("for", "do", "done")


@dataclass(frozen=True, slots=True)
class Command:
    """One command line. variables: those set before it, as `NAME=value`. words: the rest, as a shell splits it, with
    PLACEHOLDER for `<what to put here>`."""

    page: str
    line: str
    variables: tuple[str, ...]
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: {self.line[:60]}"


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    return [code for kind, code in FENCED.findall(text_of(page)) if kind == language]


def commands() -> Iterator[Command]:
    """Every command line in a block of shell, fenced or indented, its continued lines joined, and in a sentence or a
    table where it has flags or arguments: those without name a program."""
    for page in [*PAGES, *OTHERS]:
        text = FENCED.sub("", text_of(page))
        said = [" ".join(command.split()) for command in INLINE.findall(text)]
        found = [*blocks(page, "sh"), *INDENTED.findall(text), *said]
        for line in re.sub(r"\\\n *", "", "\n".join(found)).splitlines():
            words = shlex.split(PLACEHOLDER.sub("PLACEHOLDER", line), comments=True)
            first = next((at for at, word in enumerate(words) if not VARIABLE.match(word)), len(words))
            if words[first:] and words[first] not in SHELL and not line.lstrip().startswith('"'):
                yield Command(name_of(page), line.strip(), tuple(words[:first]), tuple(words[first:]))
