"""What may be set about a training run, checked once, here. No torch."""

from dataclasses import asdict, dataclass
from typing import Any

from spectra.errors import SpectraError
from spectra.settings import check_number

MAY_CHANGE = ("steps", "teacher_tokens", "decay", "finish", "general", "matrix_rate", "vector_rate", "solved", "batch")
"""Settings that may be others when a stopped run goes on; the card tells from which step."""

COUNTS = {
    "layers": (1, 64),
    "hidden": (8, 8192),
    "heads": (1, 64),
    "intermediate": (8, 32768),
    "steps": (1, 2**31),
    "batch": (16, 2**24),
    "length": (8, 2**20),
    "frequent": (0, 2**24),
    "negatives": (1, 2**24),
    "teacher_tokens": (0, 2**40),
    "top": (1, 1024),
    "seed": (0, 2**63 - 1),
}
"""The least and the most of each whole number."""
SHARES = ("general", "decay", "finish", "matrix_rate", "vector_rate", "solved")


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """layers, hidden, heads, intermediate (width of the MLP): the shape. length: longest conversation, in tokens;
    batch: tokens a step, padding included.

    The softmax runs over candidates: what the batch's answers say, the `frequent` most frequent tokens and `negatives`
    random ones. In the last `finish` share of the steps it runs over the vocabulary, the embeddings, rounded to 8 bits,
    rest, and what is learned are the target's `top` probabilities at `teacher_tokens` answer tokens (0: the tokens, as
    before). general: share of the steps in which text that the target did not write fades out. decay: last share of the
    steps, in which learning rates fall to zero. solved: weight of a position that the first draft model gets right,
    when one is given. held: share of the prompts that is held back.
    """

    layers: int = 3
    hidden: int = 128
    heads: int = 4
    intermediate: int = 384
    steps: int = 3000
    batch: int = 4096
    length: int = 1024
    frequent: int = 2048
    negatives: int = 1024
    general: float = 0.5
    decay: float = 0.5
    finish: float = 0.04
    matrix_rate: float = 0.01
    vector_rate: float = 0.002
    teacher_tokens: int = 0
    top: int = 16
    solved: float = 0.2
    held: float = 0.0625
    seed: int = 0

    def __post_init__(self) -> None:
        for name, bounds in COUNTS.items():
            check_number(name.replace("_", "-"), getattr(self, name), *bounds, whole=True)
        for name in SHARES:
            check_number(name.replace("_", "-"), getattr(self, name), 0, 1)
        check_number("held", self.held, 0, 0.5)
        if self.hidden % 2:
            raise SpectraError("hidden", f"{self.hidden} is odd, and a head has an even width; give an even number")
        if self.hidden % (2 * self.heads):
            raise SpectraError(
                "heads", f"{self.hidden} does not divide into {self.heads} heads of even width; give fewer"
            )
        if self.batch < self.length:
            raise SpectraError("batch", f"{self.batch} tokens do not hold one conversation of {self.length}; give more")

    @property
    def finish_at(self) -> int:
        """The step from which the embeddings rest."""
        return self.steps - round(self.finish * self.steps)

    def rate(self, step: int) -> float:
        """What learning rates are multiplied with: a short rise, a plateau, a straight fall."""
        rise = (step + 1) / (1 + min(100, self.steps // 20))
        fall = (self.steps - step) / max(1.0, self.decay * self.steps)
        return min(1.0, rise, fall)

    def generality(self, step: int) -> float:
        """The chance that a step reads text that the target did not write."""
        return max(0.0, 1 - step / (self.general * self.steps)) if self.general else 0.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
