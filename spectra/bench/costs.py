"""Another device's step costs from a file, to plan as if on that device."""

import argparse
import json
from pathlib import Path

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
        table = json.loads(path.read_text(encoding="utf-8"))
        return StepCost(tuple((int(queries), float(seconds)) for queries, seconds in table))
    except (OSError, ValueError, TypeError) as error:
        raise SpectraError("cost", f"{path} is not a JSON list of [queries, seconds] in rising order") from error
