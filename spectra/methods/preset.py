"""How a named method is made: from a target, its resources, a limit on nodes and the answer's sampling."""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spectra.budget.step_cost import StepCost
from spectra.drafters.continuations import NGramStore
from spectra.drafters.draft_model import Draft
from spectra.errors import SpectraError
from spectra.method import Method, Target
from spectra.methods.resources import Resources
from spectra.settings import MethodSettings, Sampling

log = logging.getLogger("spectra")

STORE_COMMAND = "python -m spectra.datastore build --corpus FILES --model MODEL --out datastores/NAME"


class CostedTarget(Target, Protocol):
    """What presets ask of a target besides: its name, what a step costs, and how wide one may be."""

    @property
    def name(self) -> str: ...

    @property
    def cost(self) -> StepCost: ...

    @property
    def max_query_tokens(self) -> int:
        """Most query tokens of one step."""
        ...


@dataclass(frozen=True, slots=True)
class Setup:
    """What a method is made for. name: the preset's. nodes: guessed tokens a step, at most; None: the method's own.

    step_cost: another device's T(q), to plan by it in the place of the target's. settings: what else was changed.
    together: how many sequences will be scored in one pass.
    """

    name: str
    target: CostedTarget
    resources: Resources = field(default_factory=Resources)
    nodes: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    step_cost: StepCost | None = None
    settings: MethodSettings = field(default_factory=MethodSettings)
    together: int = 1

    @property
    def seed(self) -> int:
        return self.sampling.seed

    @property
    def cost(self) -> StepCost:
        """T(q) that budgets plan by."""
        return self.target.cost if self.step_cost is None else self.step_cost

    @property
    def shared_cost(self) -> StepCost:
        """T'(q) of one of the sequences, where all of them have steps of q rows."""
        return self.cost if self.together == 1 else self.cost.shared(self.together)

    @property
    def row_worth(self) -> float:
        """The chance of being accepted at which a row pays, beside the other sequences if there are some."""
        return max(0.0, self.shared_cost.seconds(2) / self.shared_cost.seconds(1) - 1)

    @property
    def seconds_a_token(self) -> float:
        """Of plain decoding."""
        return self.shared_cost.seconds(1) / self.together

    def max_nodes(self, usual: int, *, at_most: int | None = None) -> int:
        """Guessed tokens a step: `usual`, or as many as were asked for, within what the method and the device take."""
        wanted = usual if self.nodes is None else self.nodes
        if at_most is not None:
            wanted = min(wanted, at_most)
        fits = self.target.max_query_tokens - 1
        if wanted > fits:
            log.warning("%s: %d of %d guessed tokens fit a step here; pool rows go first", self.name, fits, wanted)
        return min(wanted, fits)

    def stores(self, *, refined: bool = True) -> Sequence[NGramStore]:
        """The stores of one kind. Raises SpectraError with the command that builds one."""
        found = [store for store in self.resources.stores if store.refined == refined]
        if not found:
            kind = "" if refined else "unrefined "
            option = "" if refined else " --no-refine"
            raise SpectraError(
                "datastore",
                f"no {kind}datastore fits {self.target.name}; "
                f"build one (`{STORE_COMMAND}{option}`) and name it: --datastore PATH, in Python datastores=[PATH]",
            )
        return found

    def drafts(self, max_models: int) -> Sequence[Draft]:
        """The first draft models, at most `max_models`. Raises SpectraError where there is none."""
        if not self.resources.drafts:
            raise SpectraError(
                "draft",
                f"no draft model fits {self.target.name}; "
                "name one that has its tokenizer: --draft PATH, in Python drafts=[PATH]",
            )
        return self.resources.drafts[:max_models]


Build = Callable[[Setup], Method]


@dataclass(frozen=True, slots=True)
class Preset:
    """summary: one-line description. build: makes a fresh `Method`.

    drawn: its drafts carry probabilities, so that above temperature 0 it is exact in distribution, not token for token.
    takes: the fields of `MethodSettings` that it has. asks: whether it asks a draft model. reads: whether it guesses
    from datastores, as long as no setting says otherwise.
    """

    summary: str
    build: Build
    drawn: bool = False
    takes: Collection[str] = ("nodes",)
    asks: bool = False
    reads: bool = False
