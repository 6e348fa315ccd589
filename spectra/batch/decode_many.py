"""The loop of `decode` for several sequences: each grows its tree, one forward pass scores all, each takes its part.

Sequences join when there is a place and room for their cache, and leave when they end.
"""

from collections.abc import Iterable, Iterator, Sequence

from spectra.batch.line import Line
from spectra.batch.request import Request
from spectra.budget.share import Ranker, share
from spectra.decode import Decoding
from spectra.method import Asked, Group, Scored, SharedTarget
from spectra.settings import check_number
from spectra.trace import StepTrace
from spectra.tree import TokenTree

AT_ONCE = 16


def decode_many(
    target: SharedTarget,
    requests: Iterable[Request],
    *,
    at_once: int = AT_ONCE,
    cache_bytes: int | None = None,
) -> Iterator[tuple[int, StepTrace]]:
    """Answer all requests, several at a time; yields (number of the request, its step) as they come.

    The tokens of each are those that `decode` gives it alone. A request is taken from `requests` when there is a place
    for it; where they are a sequence, all are checked before the first is decoded. The seconds of a step are those that
    its sequence waited for it: the forward pass, and what was done for the others since its own tree was grown.

    at_once: the most sequences together. cache_bytes: the most that their KV caches take together, None for no limit;
    who does not fit waits, and so do those behind. Closing the generator frees the target. Raises SpectraError for bad
    input, a cache that could never fit, or drafters that two sequences share; TargetBusyError for a busy target.
    """
    check_number("at_once", at_once, 1, 4096, whole=True)
    if cache_bytes is not None:
        check_number("cache_bytes", cache_bytes, 1, 2**63 - 1, whole=True)
    group = target.group()
    try:
        line = Line(target, group, requests, at_once=at_once, cache_bytes=cache_bytes)
        while running := line.running():
            grown = [one.grow() for one in running.values()]
            chosen = _choose(list(running.values()), grown, target.max_query_tokens, joins=group.joins)
            asked = [
                Asked(one.session, one.cut(tree), one.tokens)
                for one, tree in zip(running.values(), chosen, strict=True)
            ]
            scored = _score(group, asked, target.max_query_tokens)  # ONE forward pass, where it holds them
            steps = [
                one.take(tree, each) for one, (_, tree, _), each in zip(running.values(), asked, scored, strict=True)
            ]
            yield from zip(running, steps, strict=True)
    finally:
        group.close()


def _choose(sequences: Sequence[Decoding], grown: Sequence[TokenTree], most: int, *, joins: bool) -> list[TokenTree]:
    """What is scored of the grown trees. Where they go into one pass of up to `most` rows, they share its budget."""
    budgets = [one.method.budget for one in sequences]
    if len(sequences) == 1 or not joins:
        return [budget.choose(tree) for budget, tree in zip(budgets, grown, strict=True)]
    rankers = {at: budget for at, budget in enumerate(budgets) if isinstance(budget, Ranker)}
    trees = {at: budget.choose(grown[at]) for at, budget in enumerate(budgets) if at not in rankers}
    if rankers:
        rankings = [ranker.rank(grown[at]) for at, ranker in rankers.items()]
        rows = sum(map(len, trees.values()))
        first = next(iter(rankers.values()))
        trees |= zip(rankers, share(rankings, first, others=len(trees), rows=rows, most=most), strict=True)
    return [trees[at] for at in range(len(sequences))]


def _score(group: Group, asked: Sequence[Asked], most: int) -> list[Scored]:
    """In passes of at most `most` rows; a tree goes into one pass."""
    scored: list[Scored] = []
    some: list[Asked] = []
    for one in asked:
        if some and sum(len(each.tree) for each in some) + len(one.tree) > most:
            scored += group.score(some)
            some = []
        some.append(one)
    return [*scored, *group.score(some)]
