"""From trees to what vLLM verifies: one chain a request, and how long each may be beside the others. Plain numbers."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from spectra.tree import ROOT, TokenTree


class GuessedChain(NamedTuple):
    """tokens: a guessed continuation. chances: for each, that it and all before it are what the model writes."""

    tokens: tuple[int, ...] = ()
    chances: tuple[float, ...] = ()


def best_chain(tree: TokenTree, chances: Sequence[float], max_tokens: int) -> GuessedChain:
    """The path from the root, at most `max_tokens` long, of which the most tokens can be expected to be accepted.

    chances: of every node's whole path (`Estimates.path_probabilities`).
    """
    expected = [0.0] * len(tree)
    best = ROOT
    for node in range(1, len(tree)):
        if tree.eligible[node] and tree.depths[node] <= max_tokens:
            expected[node] = expected[tree.parents[node]] + chances[node]
            if expected[node] > expected[best]:
                best = node
    path = tree.path(best)
    return GuessedChain(tuple(tree.tokens[node] for node in path), tuple(chances[node] for node in path))


def share(chains: Sequence[GuessedChain], seconds: Callable[[int], float], rows: int) -> list[int]:
    """How many tokens of each chain to verify: as many as yield the most tokens a second of the whole batch.

    seconds: of a step by its query tokens. rows: requests in the step; each yields a token without any guess. The
    likeliest guesses come first, whichever request's they are, so chains get shorter as the batch grows and may be cut
    to nothing.
    """
    ranked = sorted(
        (-chance, depth, owner) for owner, chain in enumerate(chains) for depth, chance in enumerate(chain.chances)
    )
    gain, best, size = float(rows), rows / seconds(rows) if rows else 0.0, 0
    for count, (negative, _, _) in enumerate(ranked, 1):
        gain -= negative
        rate = gain / seconds(rows + count)
        if rate > best:
            best, size = rate, count
    lengths = [0] * len(chains)
    for _, _, owner in ranked[:size]:
        lengths[owner] += 1
    return lengths
