"""What properties of a guess are worth: the weights with which `estimates.py` begins, built in or fitted to a model.

`python -m spectra.bench fit` writes a file of them from recorded answers. No torch.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectra.errors import SpectraError
from spectra.guess import Source
from spectra.io.files import write_text
from spectra.io.json_text import read_json

FORMAT, VERSION = "spectra-estimates", 1
FILE = "estimates.json"
"""Its name beside a datastore."""
UNKNOWN = -2.0
"""Of a property that no answer had."""

Feature = tuple[object, ...]
"""(source, grade, past the first token), ("and", another source) or ("confidence", class).

No named tuple: made for every guess of a step, those take a fifth longer, 18 us more for 80 guesses.
"""


@dataclass(frozen=True, slots=True)
class Weights:
    """features: log-odds. drawn: what a guess is worth less at temperature 1 than at 0. luck: of g at temperature 1."""

    features: Mapping[Feature, float]
    drawn: float = -0.7
    luck: float = 0.65

    def write(self, path: Path, facts: Mapping[str, Any]) -> None:
        """facts: what else the file says of itself."""
        features = {name_of(feature): round(weight, 3) for feature, weight in self.features.items()}
        data = {
            "format": FORMAT, "version": VERSION, **facts,
            "drawn": round(self.drawn, 3), "luck": round(self.luck, 3), "features": dict(sorted(features.items())),
        }  # fmt: skip
        write_text(path, json.dumps(data, indent=1) + "\n", "out")


def read_weights(path: Path) -> Weights:
    """What it says nothing of is as built in. Raises SpectraError for what `Weights.write` did not write."""
    try:
        data = read_json(path)
        if data["format"] != FORMAT or data["version"] != VERSION:
            raise ValueError(f"no {FORMAT} of version {VERSION}")
        features = {feature_of(name): _finite(weight) for name, weight in data["features"].items()}
        return Weights({**BUILT_IN.features, **features}, _finite(data["drawn"]), _finite(data["luck"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SpectraError(
            "estimates",
            f"{path} is no file of estimates ({str(error)[:80]}); write one with `python -m spectra.bench fit`",
        ) from error


def name_of(feature: Feature) -> str:
    """As files have it: backward/2, backward/2/later, and/recycled, confidence/3."""
    kind, *rest = feature
    if len(rest) == 2:
        return f"{kind}/{rest[0]}/later" if rest[1] else f"{kind}/{rest[0]}"
    return f"{kind}/{rest[0]}"


def feature_of(name: str) -> Feature:
    """Raises ValueError for a name that `name_of` does not give."""
    kind, value, *later = name.split("/")
    if later not in ([], ["later"]):
        raise ValueError(f"{name!r} names no property")
    if kind == "and" and not later:
        return kind, Source(value)
    grade = int(value)
    if kind == "confidence" and not later:
        return kind, grade
    return Source(kind), grade, bool(later)


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no weight")
    return float(value)


def _grades(source: Source, first: Sequence[float], later: Sequence[float]) -> dict[Feature, float]:
    """Weights by grade, of a guess's first token and of its later ones."""
    return {(source, grade, past): w for past, row in ((False, first), (True, later)) for grade, w in enumerate(row)}


BUILT_IN = Weights(
    {
        **_grades(Source.FORWARD, (-2.4, -2.1, -2.5, -2.8, -3.3, -3.9), (-0.6, -0.8, -1.0, -1.2, -1.5, -1.9)),
        **_grades(Source.BACKWARD, (-1.3, -1.3, -0.4, 0.2, 0.8), (-0.6, -0.6, 0.0, 0.6, 1.5)),
        **_grades(Source.RETRIEVAL, (-1.7,), (-1.1,)),
        **_grades(Source.POOL, (-2.2,), (-0.8,)),
        **_grades(
            Source.AUTOMATON,
            (-1.4, -1.4, -0.2, 0.7, 0.7, 0.8, 0.8, 1.7, 2.1),
            (0.3, 0.3, 0.7, 1.1, 1.1, 1.2, 1.7, 1.7, 2.7),
        ),
        **_grades(
            Source.RECYCLED,
            (-1.1, -2.4, -3.0, -3.5, -3.6, -3.7, -3.9, -4.0),
            (-1.2, -2.5, -2.9, -3.2, -3.4, -3.6, -3.8, -3.9),
        ),
        **_grades(
            Source.DRAFT, (1.5, 0.3, -0.4, -1.3, -2.1, -2.8, -3.4, -4.2), (1.5, 0.3, -0.4, -1.3, -2.1, -2.8, -3.4, -4.2)
        ),
        **_grades(Source.MEMORY, (-1.7,), (-1.1,)),
        ("and", Source.RECYCLED): 0.5,
        ("and", Source.DRAFT): 0.4,
        ("and", Source.MEMORY): 0.8,
        ("and", Source.AUTOMATON): 0.4,
        ("and", Source.FORWARD): 0.2,
        ("and", Source.RETRIEVAL): 1.4,
        **{("confidence", grade): w for grade, w in enumerate((0.4, 1.3, 3.0, 1.4, -0.3, -0.9, -1.6, -2.1, -2.5), 1)},
        **{("confidence", grade): w for grade, w in enumerate((0.4, -0.3, -0.5, -0.6, 2.2, 2.8, 3.2, 5.2), 10)},
    }
)
"""Log-odds of 300 greedy answers of the embedded model, none of them a benchmark's, with a store of other answers.

Of copies and of confidence from 10 on, which batches have: of 190 prompts at temperatures 0 and 0.7 (docs/benchmarks).
"""
