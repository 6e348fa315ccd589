"""The figures of a run, against sums done by hand."""

import pytest

from spectra.guess import Guess, Source
from spectra.metrics import Judged, distinct4, first_difference, judge, overall, speedup, summarize
from spectra.trace import StepTrace, TreeTrace
from spectra.tree import ROOT, TokenTree


def step(tree, path, tokens, seconds, *, prefill=0.0, finish=""):
    sources = (*(tree.sources[n][0] for n in path), Source.MODEL)[: len(tokens)]
    trace = TreeTrace.of(tree)
    return StepTrace(0, tuple(tokens), sources, tuple(path), tuple(tokens), trace, seconds, prefill, {}, finish)


@pytest.fixture
def steps():
    first = TokenTree(9)
    first.insert(Guess((1, 2), Source.FORWARD))
    first.insert(Guess((1, 3), Source.BACKWARD))
    first.add(ROOT, 1, Source.POOL, eligible=False)
    first.insert(Guess((5,), Source.RETRIEVAL))
    second = TokenTree(7)
    second.insert(Guess((8,), Source.FORWARD))
    return [
        step(first, [1, 2], [1, 2, 7], 0.5, prefill=1.0),
        step(second, [], [6], 0.25),
        step(TokenTree(6), [], [0], 0.25, finish="eos"),
    ]


def test_by_hand(steps):
    figures = summarize(steps)
    assert (figures.tokens, figures.passes, figures.finish) == (5, 3, "eos")
    assert figures.tau == 5 / 3
    assert figures.seconds == 2.0
    assert figures.prefill_seconds == 1.0
    assert figures.micro == 2.5
    assert figures.macro == (3 / 0.5 + 1 / 0.25 + 1 / 0.25) / 3
    assert figures.first_token_seconds == 1.5
    assert figures.share == {Source.FORWARD: 2 / 5, Source.MODEL: 3 / 5}
    assert figures.offered == {Source.FORWARD: 3, Source.BACKWARD: 2, Source.RETRIEVAL: 1}
    assert figures.acceptance == {Source.FORWARD: 2 / 3, Source.BACKWARD: 1 / 2, Source.RETRIEVAL: 0.0}
    assert figures.distinct4 == 1.0


def test_guesses_are_judged_by_what_came_of_them_and_of_their_parent(steps):
    deep = TokenTree(9)
    deep.insert(Guess((5, 6, 7), Source.RETRIEVAL))
    assert judge(step(deep, [], [1], 0.1)) == {Source.RETRIEVAL: Judged(accepted=0, offered=1, guessed=3)}
    assert judge(steps[0]) == {
        Source.FORWARD: Judged(2, 2, 2),
        Source.BACKWARD: Judged(1, 2, 2),
        Source.RETRIEVAL: Judged(0, 1, 1),
    }
    figures = summarize([steps[0], step(deep, [], [1], 0.1)])
    assert figures.guessed == {Source.FORWARD: 2, Source.BACKWARD: 2, Source.RETRIEVAL: 4}
    assert figures.of_guessed == {Source.FORWARD: 1.0, Source.BACKWARD: 0.5, Source.RETRIEVAL: 0.0}
    assert figures.offered[Source.RETRIEVAL] == 2


def test_a_guess_of_several_sources_is_one_of_all_guesses(steps):
    deep = TokenTree(9)
    deep.insert(Guess((5, 6, 7), Source.RETRIEVAL))
    every = [*steps, step(deep, [], [1], 0.1)]
    assert overall(every) == Judged(accepted=2, offered=6, guessed=8)
    assert sum(summarize(every).guessed.values()) == 9


def test_an_empty_run_gives_zeros():
    figures = summarize([])
    assert (figures.tokens, figures.tau, figures.micro, figures.macro, figures.finish) == (0, 0.0, 0.0, 0.0, "")
    assert figures.share == {}


def test_speedup_by_total_time_and_by_the_papers_mean(steps):
    plain = summarize([step(TokenTree(1), [], [1], 1.0), step(TokenTree(1), [], [1], 3.0)])
    fast = summarize(steps)
    assert speedup(plain, fast) == 2.5 / 0.5
    assert speedup(plain, fast, macro=True) == fast.macro / ((1 + 1 / 3) / 2)
    assert speedup(summarize([]), fast) == 0.0


def test_distinct4():
    assert distinct4([1, 2, 3]) == 1.0
    assert distinct4([1, 1, 1, 1, 1, 1]) == 1 / 3


def test_first_difference():
    assert first_difference([1, 2], [1, 2]) is None
    assert first_difference([1, 2], [1, 3]) == 1
    assert first_difference([1, 2], [1, 2, 3]) == 2
    assert first_difference([], [5]) == 0
