"""What a user changed about a method, applied to the settings of its dictionaries and their pool."""

from dataclasses import fields, replace

from spectra.drafters.core import CoreSettings
from spectra.errors import SpectraError
from spectra.settings import MethodSettings, Value

CORE = tuple(one.name for one in fields(MethodSettings) if one.name not in ("successors",))
"""The fields that a method with dictionaries takes."""


def changed_core(base: CoreSettings, settings: MethodSettings) -> CoreSettings:
    """`base` with what was changed. A list of the forward dictionary is never shorter than G.

    Raises SpectraError for a pool without rows.
    """
    own = {one.name for one in fields(CoreSettings)}
    core = replace(base, **{name: value for name, value in settings.changed.items() if name in own})  # type: ignore[arg-type]
    if settings.pool and not core.rows:
        raise SpectraError("rows", "it is 0 here, so there is no pool; give 1 or more, or switch the pool off")
    rows = 0 if settings.pool is False else core.rows
    return replace(core, rows=rows, capacity=max(core.capacity, core.guesses or 0))


def values_of(core: CoreSettings, nodes: int, *, retrieval: bool, successors: int | None = None) -> dict[str, Value]:
    """The fields of `MethodSettings` by value; `successors` only where it is a number."""
    values: dict[str, Value] = {
        "order": core.order,
        "rows": core.rows,
        "guesses": core.guesses,
        "refine": core.refine,
        "nodes": nodes,
        "forward": core.forward,
        "backward": core.backward,
        "subngrams": core.subngrams,
        "pool": core.rows > 0,
        "retrieval": retrieval,
    }
    return values if successors is None else values | {"successors": successors}
