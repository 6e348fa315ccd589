"""The loop of every benchmark: of each item (a prompt, as a rule) measure the cells that no row has yet.

A benchmark says what its cells are and how rows are measured; skipping what is known, writing each row as soon as it is
known, leaving out what does not fit and telling how far it is happen here.
"""

import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from spectra.bench.run.rows import Row, Rows, claimed_rows
from spectra.bench.tasks import Prompt
from spectra.errors import SpectraError

Cell = Mapping[str, Any]
"""What is measured of an item, as fields of its row: {"method": "anpd", "temperature": 0.8}."""


class Item(Protocol):
    """What a run measures, in every cell: a prompt, for example."""

    @property
    def key(self) -> Mapping[str, Any]:
        """The fields of a row that say what was measured."""
        ...


Measured = TypeVar("Measured", bound=Item)

Measure = Callable[[Measured, Sequence[Cell]], Iterable[Row]]
"""(item, its missing cells) -> the figures of each cell, in that order."""


class Watch(Protocol):
    """Progress callbacks of a run."""

    def step(self, *, ran: bool = True) -> None:
        """An item is done. ran: False when nothing of it had to be measured."""
        ...

    def leave_out(self, item: Item, error: SpectraError) -> None:
        """The rest of an item cannot be measured. Raises where that ends the run."""
        ...


def resume(
    rows: Rows,
    items: Sequence[Measured],
    cells: Sequence[Cell],
    measure: Measure[Measured],
    watch: Watch,
    together: Callable[[Cell], Hashable] | None = None,
) -> list[Row]:
    """Append what `rows` lacks, each row as soon as it is known; returns the rows of these items and cells.

    together: the same for cells that are measured together, and all of them again where one is lacking; the last row of
    a cell counts.
    """
    for row in missing_rows(rows.all, items, cells, measure, watch, together):
        rows.add(row)
    names = _names(items, cells)
    return list({_values(row, names): row for row in rows_of(rows.all, items, cells)}.values())


def run_prompts(
    out: Path,
    name: str,
    settings: Mapping[str, Any],
    prompts: Sequence[Prompt],
    cells: Sequence[Cell],
    measure: Measure[Prompt],
) -> list[Row]:
    """`resume` with the file `name` of a folder whose rows all have these settings.

    Raises SpectraError where the folder holds rows of other settings, or no prompt fits the context.
    """
    return resume(claimed_rows(out, settings, name), prompts, cells, measure, PromptProgress(len(prompts)))


def missing_rows(
    known: Iterable[Row],
    items: Sequence[Measured],
    cells: Sequence[Cell],
    measure: Measure[Measured],
    watch: Watch,
    together: Callable[[Cell], Hashable] | None = None,
) -> Iterator[Row]:
    """The rows that `known` lacks. An item of which a cell cannot be measured is left out from there on."""
    names = _names(items, cells)
    done = {_values(row, names) for row in known}
    for item in items:
        missing = [cell for cell in cells if _values({**item.key, **cell}, names) not in done]
        if together is not None:
            sets = set(map(together, missing))
            missing = [cell for cell in cells if together(cell) in sets]
        try:
            if missing:
                for cell, figures in zip(missing, measure(item, missing), strict=True):
                    yield {**item.key, **cell, **figures}
        except SpectraError as error:
            watch.leave_out(item, error)
        watch.step(ran=bool(missing))


def rows_of(rows: Iterable[Row], items: Sequence[Item], cells: Sequence[Cell]) -> list[Row]:
    """Those of these items and cells."""
    names = _names(items, cells)
    wanted = {_values({**item.key, **cell}, names) for item in items for cell in cells}
    return [row for row in rows if _values(row, names) in wanted]


def _names(items: Sequence[Item], cells: Sequence[Cell]) -> list[str]:
    """The fields that tell one row from the others."""
    return [*(items[0].key if items else ()), *(cells[0] if cells else ())]


def _values(row: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in names)


class PromptProgress:
    """One line on stderr, rewritten: how many prompts are done and how long the rest will take. What is printed next,
    an error too, takes its place.

    What was there already from an earlier run does not count for the time left. total: items. each: prompts of one.
    others: whether others have prompts too, so that it may be that none of these fits.
    """

    def __init__(self, total: int, each: int = 1, *, others: bool = False) -> None:
        self.total = total
        self.each = each
        self.others = others
        self.done = 0
        self._ran = 0
        self._left_out = 0
        self._began = time.monotonic()

    def step(self, *, ran: bool = True) -> None:
        """ran: False when nothing of the prompt had to be run."""
        self.done += 1
        if ran:
            self._ran += 1
        text = f"{self.done * self.each}/{self.total * self.each} prompts"
        if self._ran and self.done < self.total:
            seconds = (time.monotonic() - self._began) / self._ran
            text += f", {clock((self.total - self.done) * seconds)} left"
        print(f"{text:<40}", end="\n" if self.done == self.total else "\r", file=sys.stderr, flush=True)

    def leave_out(self, item: Item, error: SpectraError) -> None:
        """Say on a line of its own that a prompt does not fit. Raises any other error, and one when none is left.

        `step` counts it all the same.
        """
        if error.field != "prompt":
            raise error
        text = f"{' '.join(map(str, item.key.values()))} is left out: {error}"
        print(f"{text:<40}", file=sys.stderr, flush=True)
        self._left_out += 1
        if self._left_out == self.total and not self.others:
            raise none_fits()


def none_fits() -> SpectraError:
    """What is wrong where nothing could be measured."""
    return SpectraError("max_new_tokens", "no prompt and answer fit the model's context; ask for fewer")


def clock(seconds: float) -> str:
    """90 -> 1:30, 3700 -> 1:01:40."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
