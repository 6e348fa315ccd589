"""Another device's step costs from a file, to plan as if on that device."""

import argparse
import json
import math
from pathlib import Path
from typing import Any

from spectra.errors import SpectraError
from spectra.target.protocol import StepCost


def add_cost_argument(parser: argparse.ArgumentParser) -> None:
    """The argument --cost, for `read_cost`."""
    parser.add_argument(
        "--cost", type=Path, metavar="FILE", help="plan by another device's T(q): JSON, [[queries, seconds], ...]"
    )


def read_cost(path: Path) -> StepCost:
    """A JSON list of [queries, seconds]. Raises SpectraError for anything else."""
    try:
        return cost_of(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise SpectraError(
            "cost", f"{path} is not a JSON list of [queries, seconds] in rising order, all above 0; give one that is"
        ) from error


def cost_of(table: Any) -> StepCost:
    """From the list as JSON has it. Raises ValueError, TypeError or OverflowError for anything else."""
    cost = StepCost(tuple((int(queries), float(seconds)) for queries, seconds in table))
    if not all(queries >= 1 and 0 < seconds < math.inf for queries, seconds in cost.table):
        raise ValueError("query counts and seconds are above 0")
    return cost
