"""The loop of `decode` for several sequences: each grows its tree, one forward pass scores all, each takes its part.

Sequences join when there is a place and room for their cache, and leave when they end.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from spectra.batch.learned import DraftingWorth, PassTime, Trust
from spectra.batch.queue import RequestQueue
from spectra.batch.request import Request
from spectra.budget.policy import AdaptiveBudget
from spectra.budget.share import Ranking, least_chances, share, worths_at_the_end
from spectra.decode import Decoding
from spectra.method import Asked, Group, Scored, SharedTarget, walk_picks
from spectra.settings import check_functions, check_number
from spectra.trace import StepTrace
from spectra.tree import TokenTree

AT_ONCE = 16

X = TypeVar("X")
Y = TypeVar("Y")


class Running(Protocol):
    """Says before each step whose turn it is."""

    def failed(self, number: int, error: BaseException) -> None:
        """The drafters, criteria or processors of a sequence failed: it has no more steps. Or raises the error."""
        ...

    def running(self) -> Mapping[int, Decoding]:
        """The sequences of the next step by number; it may wait for some. Empty: the loop ends."""
        ...

    def no_more(self) -> bool:
        """Whether no other sequence will join these, so that all are done when the last one is."""
        ...


def decode_many(
    target: SharedTarget,
    requests: Iterable[Request],
    *,
    at_once: int = AT_ONCE,
    cache_bytes: int | None = None,
) -> Generator[tuple[int, StepTrace], None, None]:
    """Answer all requests, several at a time; yields (number of the request, its step) as they come.

    The tokens of each are those that `decode` gives it alone. A request is taken from `requests` when there is a place
    for it; where they are a sequence, all that it holds by then are checked before the first is decoded. The seconds of
    a step are those that its sequence waited for it: the forward pass, and what was done for the others since its own
    tree was grown.

    at_once: the most sequences together. cache_bytes: the most that their KV caches take together, None for no limit;
    who does not fit waits, and so do those behind. Closing the generator frees the target. When the first
    step is asked for it raises SpectraError for bad input, a cache that could never fit, or drafters that two sequences
    share, and TargetBusyError for a busy target.
    """
    check_number("at_once", at_once, 1, 4096, whole=True)
    if cache_bytes is not None:
        check_number("cache_bytes", cache_bytes, 1, 2**63 - 1, whole=True)
    check_functions("target", target, ("group",), '`load_target("MODEL")`')
    group = target.group()
    try:
        queue = RequestQueue(target, group, requests, at_once=at_once, cache_bytes=cache_bytes)
        yield from decode_queue(target, group, queue)
    finally:
        group.close()


def decode_queue(target: SharedTarget, group: Group, queue: Running) -> Iterator[tuple[int, StepTrace]]:
    """The steps of those whom the queue names, until it names none. group: the one that their sequences are in."""
    trust, passes = Trust(), PassTime()
    worth_at: defaultdict[int, DraftingWorth] = defaultdict(DraftingWorth)  # by how many sequences share a pass
    while running := queue.running():
        shares = group.joins and len(running) > 1 and any(map(_adapts, running.values()))
        worth = worth_at[len(running)]
        asks = worth.asks() if shares else True
        began = time.perf_counter()
        budget, count = _adaptive(running.values()), len(running)
        worth_of = dict.fromkeys(running, 1.0)
        if queue.no_more():
            left = [one.limits.max_new_tokens - one.produced for one in running.values()]
            worth_of = dict(zip(running, worths_at_the_end(left), strict=True))
        shared = _shared_pass(trust, passes, budget, count)
        if asks:
            more = target.max_query_tokens - count
            _say_least(running, worth_of, shared.beyond, more, budget if shares else None)
        grown = _each(queue, running, partial(_grow, asks=asks))
        wanted = _wanted(queue, running, grown, ranked=group.joins and len(grown) > 1)
        sequences = [running[number] for number in wanted]
        if not sequences:
            continue
        if len(sequences) < count:  # some failed
            budget, count = _adaptive(sequences), len(sequences)
            worth = worth_at[count]
            shared = _shared_pass(trust, passes, budget, count)
        worths = [worth_of[number] for number in wanted]
        chosen = _choose(sequences, list(wanted.values()), worths, target.max_query_tokens, shared)
        _lap(sequences, "wait")
        trees = [one.cut(tree) for one, tree in zip(sequences, chosen, strict=True)]
        asked = {
            number: Asked(one.session, tree, one.tokens)
            for number, one, tree in zip(wanted, sequences, trees, strict=True)
        }
        drafted = time.perf_counter()
        scored = _score(queue, group, asked, target.max_query_tokens)  # ONE forward pass, where it holds them
        _lap(sequences, "forward")
        forward = time.perf_counter() - drafted
        passed = {number: Passed(running[number], asked[number].tree, found) for number, found in scored.items()}
        steps = _each(queue, passed, _take)
        after = time.perf_counter() - drafted - forward
        for number, step in steps.items():
            if len(grown[number]) > 1:
                trust.learn(grown[number], step.tokens)
        if shares and budget is not None:
            rows = sum(map(len, trees))
            seconds = budget.seconds(rows)
            passes.learn(seconds[rows], forward, count)
            if asks:
                guessed, promised = _promised(trees, worths)
                of_whole = (shared.beyond + seconds[rows - guessed]) / (shared.beyond + seconds[rows])
                drafting = drafted - began + after * guessed / rows
                worth.learn(drafting, forward, of_whole, shared.trust * promised)
        yield from steps.items()


def _each(queue: Running, things: Mapping[int, X], work: Callable[[X], Y]) -> dict[int, Y]:
    """What `work` makes of each; the error of one that fails goes to the queue."""
    made = {}
    for number, thing in things.items():
        try:
            made[number] = work(thing)
        except BaseException as error:  # noqa: BLE001 - it is one sequence's own
            queue.failed(number, error)
    return made


def _grow(one: Decoding, *, asks: bool) -> TokenTree:
    return one.grow(asks=asks or not _adapts(one))


@dataclass(frozen=True, slots=True)
class Passed:
    """A sequence, the tree that it was asked about, and what the pass found."""

    one: Decoding
    tree: TokenTree
    scored: Scored


def _take(passed: Passed) -> StepTrace:
    passed.one.lap("wait")
    return passed.one.take(passed.tree, passed.scored)


def _adapts(one: Decoding) -> bool:
    """Whether its text is the same whatever its trees are, and its budget weighs what they cost.

    A walk of one's own may read the whole tree, and a budget of one's own chooses by other rules.
    """
    method = one.method
    weighs = isinstance(method.budget, AdaptiveBudget) and type(method.budget).choose is AdaptiveBudget.choose
    return weighs and method.walk is walk_picks


def _adaptive(sequences: Iterable[Decoding]) -> AdaptiveBudget | None:
    """The first such budget, which knows T(q). None where there is none."""
    return next((one.method.budget for one in sequences if isinstance(one.method.budget, AdaptiveBudget)), None)


class SharedPass(NamedTuple):
    """Of a pass that several trees share: see `Trust` and `PassTime`."""

    trust: float
    beyond: float


def _shared_pass(trust: Trust, passes: PassTime, budget: AdaptiveBudget | None, count: int) -> SharedPass:
    """Of so many sequences."""
    plain = budget.seconds(count)[count] if budget else 0.0  # T of a row for each
    return SharedPass(trust.share, passes.beyond(count, plain))


def _say_least(
    running: Mapping[int, Decoding],
    worth_of: Mapping[int, float],
    beyond: float,
    more: int,
    budget: AdaptiveBudget | None,
) -> None:
    """Tell budgets what a node must promise in this pass. beyond: see `SharedPass`. more: the most rows that it can
    have besides. budget: None where each sequence weighs its own rows."""
    count = len(running)
    least = [0.0] * count
    if budget is not None and all(map(_adapts, running.values())):
        more = max(0, min(more, sum(one.method.max_nodes for one in running.values())))
        plain = beyond + budget.seconds(count)[count]
        least = least_chances(list(worth_of.values()), plain, budget.cheapest_row(count, more))
    for one, chance in zip(running.values(), least, strict=True):
        if isinstance(one.method.budget, AdaptiveBudget):
            one.method.budget.least = chance


def _promised(trees: Iterable[TokenTree], worths: Sequence[float]) -> tuple[int, float]:
    """(Nodes that have a chance, how many a sequence are accepted by it), these by what a token is worth to each."""
    chances = [[p for p in tree.probability if p is not None] for tree in trees]
    promised = sum(worth * sum(some) for worth, some in zip(worths, chances, strict=True))
    return sum(map(len, chances)), promised / sum(worths)


def _lap(sequences: Sequence[Decoding], part: str) -> None:
    for one in sequences:
        one.lap(part)


def _wanted(
    queue: Running, running: Mapping[int, Decoding], grown: Mapping[int, TokenTree], *, ranked: bool
) -> dict[int, TokenTree | Ranking]:
    """What the budget of each says of its grown tree: which part is scored, or how the nodes rank.

    ranked: all go into one pass, and share its budget where theirs can.
    """

    keeps = any(tree.reads for tree in grown.values())

    def ask(number: int) -> TokenTree | Ranking:
        if len(grown[number]) == 1:
            return grown[number]
        one = running[number]
        budget = one.method.budget
        if ranked and isinstance(budget, AdaptiveBudget) and _adapts(one):
            return budget.rank(grown[number], 0.0 if keeps else budget.least)
        return one.method.choose(grown[number])

    return _each(queue, {number: number for number in grown}, ask)


def _choose(
    sequences: Sequence[Decoding],
    wanted: Sequence[TokenTree | Ranking],
    worths: Sequence[float],
    max_rows: int,
    shared: SharedPass,
) -> list[TokenTree]:
    """What is scored. Trees that are ranked share the budget of one pass of up to `max_rows` rows.

    worths: of a token, to each.
    """
    trees = {at: one for at, one in enumerate(wanted) if isinstance(one, TokenTree)}
    rankings = {at: one._replace(worth=worths[at]) for at, one in enumerate(wanted) if isinstance(one, Ranking)}
    budget = _adaptive(sequences)
    if rankings and budget is not None:
        rows = sum(map(len, trees.values()))
        others = sum(worths[at] for at in trees)
        ranked = list(rankings.values())
        parts = share(ranked, budget.seconds, others=others, rows=rows, max_rows=max_rows, **shared._asdict())
        trees |= zip(rankings, parts, strict=True)
    return [trees[at] for at in range(len(sequences))]


def _score(queue: Running, group: Group, asked: Mapping[int, Asked], max_rows: int) -> dict[int, Scored]:
    """In passes of at most `max_rows` rows; a tree goes into one pass."""
    passes: list[dict[int, Asked]] = [{}]
    rows = 0
    for number, one in asked.items():
        rows += len(one.tree)
        if passes[-1] and rows > max_rows:
            passes.append({})
            rows = len(one.tree)
        passes[-1][number] = one
    scored: dict[int, Scored] = {}
    for some in passes:
        try:
            scored |= zip(some, group.score(list(some.values())), strict=True)
        except Exception as error:  # noqa: BLE001 - it may be one sequence's own, as where there is no memory for its cache
            if len(some) == 1:
                queue.failed(next(iter(some)), error)
            else:
                scored |= _each(queue, some, lambda one: group.score([one])[0])
    return scored
