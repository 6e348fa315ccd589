"""What the loop is made of. A `Method`: drafters that grow the token tree, a budget that cuts it, a walk to verify it.

And what the loop asks of a target. Plain ints and protocols, no torch: who provides one of these imports it from here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from spectra.errors import SpectraError
from spectra.guess import Source
from spectra.inside import Inside
from spectra.settings import Limits, Sampling, Value, check_functions, check_kind, check_nodes, check_number
from spectra.tree import ROOT, Noise, TokenTree
from spectra.verify.walk import walk


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one forward pass said. tree: as scored. path: accepted nodes. emitted: tokens added to the output.

    read(ticket): the answer to `tree.ask`, None when that node was cut.
    known: the target's own next token at every node where it is known (all scored ones after a greedy pass).
    top: the target's most likely tokens at every scored node, best first; empty unless a drafter asks (`top_k`).
    """

    tree: TokenTree
    path: Sequence[int]
    emitted: Sequence[int]
    read: Callable[[int], int | None]
    known: Mapping[int, int] = field(default_factory=dict)
    top: Mapping[int, Sequence[int]] = field(default_factory=dict)


class Drafter(Protocol):
    """Grows the token tree and learns from the outcome. Lives for one answer.

    `begin` comes once, then `grow` and `observe` once a step. In a batch a step may go without guesses: it has no
    `grow`. A drafter that wants `Outcome.top` has an attribute `top_k`, how many tokens it wants of each node.
    docs/drafter.md has an example.
    """

    def begin(self, prompt: Sequence[int]) -> None:
        """Once, before the first step. prompt: all of its token ids."""
        ...

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        """Add guesses for what follows `tokens` (all committed ones, the tree's root being the last)."""
        ...

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        """Learn from a step. tokens: all committed ones, this step's included."""
        ...


@runtime_checkable
class Holder(Protocol):
    """A drafter that reports how many n-grams it has learned, by the source that guesses from them."""

    def held(self) -> Mapping[Source, int]: ...


@runtime_checkable
class Explainer(Protocol):
    """A drafter that tells what it finds and learns, for a trace that is to hold it. Neither call is timed."""

    def look(self, tokens: Sequence[int]) -> Inside:
        """Before a step: what it holds that bears on `tokens`. What the step teaches is kept for `taught`."""
        ...

    def taught(self) -> Inside:
        """After the step: what it learned, and drew."""
        ...


@runtime_checkable
class Finisher(Protocol):
    """A drafter whose `end` is called when an answer is complete (not when it was broken off)."""

    def end(self, tokens: Sequence[int]) -> None:
        """tokens: prompt and answer."""
        ...


class Budget(Protocol):
    """Decides which nodes are worth a query token."""

    def choose(self, tree: TokenTree) -> TokenTree:
        """The part of the grown tree that is worth scoring."""
        ...

    def observe(self, grown: TokenTree, emitted: Sequence[int]) -> None:
        """Learn from how the step went. grown: the whole tree, cut nodes included."""
        ...


class Scored(Protocol):
    """The outcome of one forward pass over a tree.

    known: the target's picks that have been made so far, by node. top: the most likely tokens of each scored node, best
    first; empty unless `Target.start` was asked for them.
    """

    known: dict[int, int]

    @property
    def top(self) -> Mapping[int, Sequence[int]]: ...

    def pick(self, node: int) -> int:
        """The target's own token after an eligible node, drawn for that output position."""
        ...

    def probabilities(self, node: int) -> NDArray[np.float64]:
        """[vocabulary]: the distribution that `pick(node)` draws from."""
        ...

    def read(self, ticket: int) -> int | None:
        """The answer to `TokenTree.ask`; None when that node was not scored."""
        ...


class Session(Protocol):
    """One sequence on a target: its KV cache and its random noise."""

    prefill_seconds: float

    def score(self, tree: TokenTree, tokens: Sequence[int]) -> Scored:
        """One forward pass over the whole tree. tokens: everything committed, the tree's root being the last."""
        ...

    def noise(self, position: int) -> Noise | None:
        """What the draw of the token at `position` is keyed by: Exp(1) a vocabulary entry; None at temperature 0.

        The token is argmax(p / noise): who guesses may know the noise, and the picks do not depend on who does.
        """
        ...

    def keep(self, path: Sequence[int]) -> None:
        """Commit the root's and these nodes' cache rows, drop the rest."""
        ...

    def close(self) -> None:
        """Give the target back. Safe to call twice."""
        ...


class Opener(Protocol):
    """Opens sequences on a target."""

    def start(
        self,
        prompt: Sequence[int],
        max_new_tokens: int,
        max_query_tokens: int,
        sampling: Sampling,
        *,
        top_k: int = 0,
    ) -> Session:
        """Open a sequence and prefill all of `prompt` but its last token.

        max_query_tokens: most nodes a tree may have, the root included. top_k: how many likely tokens of each scored
        node every step tells (`Scored.top`). Raises SpectraError when prompt and answer do not fit the context;
        TargetBusyError while another is open.
        """
        ...


class Target(Opener, Protocol):
    """A causal language model that can score token trees.

    eos: ids that end an answer. trees: False when the model can only score chains (it places tokens by cache slot, not
    by position id).
    """

    @property
    def eos(self) -> frozenset[int]: ...

    @property
    def trees(self) -> bool: ...


class Asked(NamedTuple):
    """What one sequence asks of a forward pass, see `Session.score`."""

    session: Any
    tree: TokenTree
    tokens: Sequence[int]


class ReadingSession(Session, Protocol):
    """A sequence whose prompt is read run by run."""

    def read_on(self) -> bool:
        """Read the next run of the prompt. Returns whether it was the last; only then a tree may be scored."""
        ...


class Group(Opener, Protocol):
    """Sequences of one owner on a target. While it is open, nobody else decodes there.

    Closing a session that it opened ends that sequence only.

    joins: their rows go through one forward pass; otherwise one after the other.
    """

    @property
    def joins(self) -> bool: ...

    def start(
        self,
        prompt: Sequence[int],
        max_new_tokens: int,
        max_query_tokens: int,
        sampling: Sampling,
        *,
        top_k: int = 0,
        reads: bool = True,
    ) -> ReadingSession:
        """See `Opener.start`. reads: False for a sequence whose prompt `read_on` reads."""
        ...

    def check(
        self, prompt: Sequence[int], max_new_tokens: int, processors: Sequence[Any] | None = None, prefix: Any = None
    ) -> None:
        """Raise the SpectraError that `start` would."""
        ...

    def score(self, asked: Sequence[Asked]) -> Sequence[Scored]:
        """Score all trees, the sessions being this group's, each at most once. A row's bits are those it has alone."""
        ...

    def cache_bytes(self, prompt_tokens: int, max_new_tokens: int, max_query_tokens: int) -> int:
        """What the KV cache of such a sequence takes where it shares nothing."""
        ...

    def shared_bytes(self, prompt: Sequence[int]) -> int:
        """How much less it takes for this prompt, because an open sequence holds its beginning."""
        ...

    def is_being_read(self, prompt: Sequence[int]) -> bool:
        """Whether an open sequence has still to read tokens that this prompt begins with too, and could then share."""
        ...

    def held_bytes(self) -> int:
        """What the KV caches of the open sequences take, and those that they share."""
        ...

    def close(self) -> None:
        """Close all sessions and give the target back. Safe to call twice."""
        ...


class SharedTarget(Target, Protocol):
    """A target that several sequences can share.

    max_query_tokens: most query tokens of one forward pass.
    """

    @property
    def max_query_tokens(self) -> int: ...

    def group(self) -> Group:
        """Raises TargetBusyError while another sequence or group is open."""
        ...


Walk = Callable[[TokenTree, Scored], tuple[list[int], list[int]]]
"""(the scored tree, what was scored) -> (accepted nodes from the root's child down, a token for each and the next)."""


def walk_picks(tree: TokenTree, scored: Scored) -> tuple[list[int], list[int]]:
    """The usual walk, along the target's own picks: what it writes is plain decoding's, token for token."""
    return walk(tree, scored.pick)


@dataclass(slots=True)
class Method:
    """One answer's drafters and budget. Make a fresh one for each answer: both learn as they go.

    name: for traces. max_nodes: guessed tokens a step, at most. walk: how the scored tree is walked. settings: what the
    fields of `MethodSettings` that it has came to here; None where the budget decides. Raises SpectraError for drafters
    and a budget that are none, and for numbers out of range.
    """

    name: str
    drafters: Sequence[Drafter]
    budget: Budget
    max_nodes: int
    walk: Walk = walk_picks
    settings: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.drafters, Sequence):
            raise SpectraError("drafters", f"a {type(self.drafters).__name__} is no list of them; give one")
        for drafter in self.drafters:
            check_drafter(drafter)
        check_functions("budget", self.budget, ("choose", "observe"), f"`FixedBudget({self.max_nodes})`")
        check_nodes(self.max_nodes)

    @property
    def top_k(self) -> int:
        """How many likely tokens of each scored node its drafters want."""
        return max((getattr(drafter, "top_k", 0) for drafter in self.drafters), default=0)

    def choose(self, grown: TokenTree) -> TokenTree:
        """What the budget keeps of a grown tree. Raises SpectraError for no tree, and for one under another token."""
        chosen = self.budget.choose(grown)
        check_kind("budget", chosen, TokenTree, "tree.subset(nodes)", needed=True)
        if chosen.tokens[ROOT] != grown.tokens[ROOT]:
            raise SpectraError("budget", "its tree has another root than the grown one; give `tree.subset(nodes)`")
        return chosen


CALLED = ("held", "look", "taught", "end")
"""Functions of `Holder`, `Explainer` and `Finisher`, which a drafter may have."""
MAX_TOP_K = 1024


def check_drafter(drafter: Any) -> None:
    """Raises SpectraError for what is no drafter, and for one whose attributes stand where functions are called."""
    check_functions("drafters", drafter, ("begin", "grow", "observe"), "one that has begin, grow and observe")
    for name in CALLED:
        if hasattr(drafter, name) and not callable(getattr(drafter, name)):
            which = f"{name} of a {type(drafter).__name__}"
            raise SpectraError("drafters", f"{which} would be called and is no function; name it otherwise")
    check_number("top_k", getattr(drafter, "top_k", 0), 0, MAX_TOP_K, whole=True)


def check_parts(target: object, method: object, sampling: object, limits: object) -> None:
    """Raises SpectraError for one of another kind, as the name of a preset or a number of tokens. None: the default."""
    check_functions("target", target, ("start",), '`load_target("MODEL")`')
    check_kind("method", method, Method, 'make_method("spectra", target)', needed=True)
    assert isinstance(method, Method)
    check_nodes(method.max_nodes)  # who made it may have set another
    check_kind("sampling", sampling, Sampling, "Sampling(temperature=0.8)")
    check_kind("limits", limits, Limits, "Limits(256)")
