"""Lanes of a comparison: plain decoding, the ticked methods, one with settings of its own, one setting over values."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from spectra.errors import SpectraError
from spectra.settings import METHOD_NUMBERS, AnswerRequest, MethodSettings, Value
from visual.engine import PLAIN
from visual.method_settings import FIELDS
from visual.names import named
from visual.request import number, plainly

MAX_VALUES = 8


class Sweep(NamedTuple):
    """One setting of a method over values."""

    name: str
    values: tuple[float, ...]

    def lanes(self, request: AnswerRequest) -> dict[str, AnswerRequest]:
        """Lane -> the request with that value."""
        return {
            f"{request.method} {FIELDS[self.name].letter}={value:g}": replace(
                request, settings=self.settings(request.settings, value)
            )
            for value in self.values
        }

    def settings(self, own: MethodSettings, value: float) -> MethodSettings:
        """The panel's with that value. No rows are no pool, so a pool that was switched on is not asked for then."""
        pool = None if own.pool and self.name == "rows" and not value else own.pool
        return replace(own, pool=pool, **{self.name: value})  # type: ignore[arg-type]

    def names(self, request: AnswerRequest, preset: Mapping[str, Value]) -> dict[str, str]:
        """What the page calls the lanes. What the panel has as the preset has it is not said: it is asked for beside
        the varied one, and may come to less.
        """
        as_it_is = {name for name, value in request.settings.changed.items() if preset.get(name) == value}
        unsaid = as_it_is - {self.name}
        return {
            lane: named(
                each.method, {name: value for name, value in each.settings.changed.items() if name not in unsaid}
            )
            for lane, each in self.lanes(request).items()
        }

    def facts(self, request: AnswerRequest) -> dict[str, Any]:
        """What the browser must know: the setting's name and the value of each lane."""
        values = dict(zip(self.lanes(request), self.values, strict=True))
        return {"letter": FIELDS[self.name].letter, "values": values}


def read_sweep(name: object, text: object) -> Sweep | None:
    """From the form; None where no setting is chosen. Raises `SpectraError` for the field "values"."""
    if name not in METHOD_NUMBERS:
        return None
    span = METHOD_NUMBERS[str(name)]
    example = "0, 0.1, 0.5, 1" if not span.whole else "2, 4, 8"
    parts = [part.strip() for part in str(text or "").split(",") if part.strip()]
    if not parts:
        raise SpectraError("values", f"there is none; give numbers with commas between them, such as {example}")
    if len(parts) > MAX_VALUES:
        raise SpectraError("values", f"{len(parts)} values; give at most {MAX_VALUES}: every one is a run")
    values = [number("values", part) for part in parts]
    for value in values:
        try:
            MethodSettings(**{str(name): value})
        except SpectraError as error:
            raise SpectraError("values", str(error).removeprefix(f"{error.field}: ")) from None
    written: dict[str, float] = {}  # two that are written alike would be one lane
    for value in values:
        written.setdefault(f"{value:g}", value)
    return Sweep(str(name), tuple(written.values()))


def lanes_of(
    request: AnswerRequest, ticked: Sequence[str], own: AnswerRequest, sweep: Sweep | None
) -> dict[str, AnswerRequest]:
    """Plain decoding first, then the ticked methods as they are, then the own settings or the sweep over them.

    own: the method of the panel with what was changed there; without a change and without a sweep it is no lane.
    Raises `SpectraError` when nothing is to be compared.
    """
    lanes = {PLAIN: plainly(request)}
    lanes |= {method: replace(request, method=method, settings=MethodSettings()) for method in ticked}
    if sweep is not None:
        lanes |= sweep.lanes(own)
    elif own.settings.changed:
        lanes[f"{own.method} own"] = own
    if len(lanes) == 1:
        raise SpectraError("methods", "none is chosen; tick at least one, or change or sweep a setting")
    return lanes
