"""A race that gained little says why, from its traces."""

from dataclasses import replace
from typing import Any

import pytest

from spectra.guess import Source
from spectra.trace import StepTrace, Trace, TreeTrace
from visual.wire.figures import COMPARABLE, figures
from visual.wire.slow_reason import ALIKE, NONE_RIGHT, slow_reason

REPEATING = [1, 2, 3, 4] * 10
NEW = list(range(100, 140))


def plain_of(tokens: list[int], prefill: float = 0.0) -> Trace:
    tree = TreeTrace((0,), (-1,), ((Source.MODEL,),), (True,), (None,))
    steps = [
        StepTrace(i, (token,), (Source.MODEL,), (), (token,), tree, 0.02, 0.0 if i else prefill)
        for i, token in enumerate(tokens)
    ]
    return Trace("autoregressive", "Tiny", "hi", (1,), {"temperature": 0.0}, steps=closed(steps))


def guessed(
    tokens: list[int],
    *,
    seconds: float = 0.02,
    right: int = 0,
    offered: int = 4,
    temperature: float = 0.0,
    prefill: float = 0.0,
    **more: Any,
) -> Trace:
    """Steps of 4 guesses in a chain; every second step has `right` of them accepted."""
    steps: list[StepTrace] = []
    done = 0
    while done < len(tokens):
        path = tuple(range(1, 1 + right)) if len(steps) % 2 else ()
        own = tuple(tokens[done : done + len(path) + 1])
        tree = TreeTrace(
            tuple(range(1 + offered)),
            tuple(range(-1, offered)),
            ((Source.MODEL,), *[(Source.FORWARD,)] * offered),
            (True,) * (1 + offered),
            (None,) * (1 + offered),
        )
        sources = [Source.FORWARD] * len(own)
        row = StepTrace(len(steps), own, tuple(sources), path[: len(own)], own, tree, seconds, **more)
        steps.append(row if steps else replace(row, prefill_seconds=prefill))
        done += len(own)
    return Trace("spectra", "Tiny", "hi", (1,), {"temperature": temperature}, steps=closed(steps))


def closed(steps: list[StepTrace]) -> list[StepTrace]:
    return [*steps[:-1], replace(steps[-1], finish="length")]


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (
            guessed(NEW, seconds=0.04, right=2),
            "A pass gave 2.00 tokens, but took 2.00 times as long as a plain one: wide",
        ),
        (guessed(NEW, seconds=0.04, right=2, parts={"draft": 0.03}), "75 % of its time went into making the guesses."),
        (
            guessed(NEW, temperature=1.0),
            "At temperature 1 a draw is hard to foresee: 0 % of 160 guesses were accepted.",
        ),
        (guessed(NEW), "The answer hardly repeats itself (100 % of its runs of four tokens are distinct), so"),
        (guessed(REPEATING), "Only 0 % of 160 guesses were accepted: the answer was not what the sources knew."),
        (
            guessed(NEW[:20], seconds=0.08),
            "A pass gave one token, but took 4.00 times as long as a plain one: wide",
        ),
        (guessed(NEW, seconds=0.08, temperature=1.0), "A pass gave one token, but took 4.00 times"),
        (guessed(NEW, seconds=0.08, offered=0), "No source had a guess"),
        (guessed(NEW[:9]), "The answer has only 9 tokens: too few"),
        (guessed(NEW[:1]), "The answer has only one token: too few"),
        (guessed(NEW, offered=0), "No source had a guess"),
    ],
)
def test_the_sentence_names_what_the_traces_hold(method: Trace, said: str) -> None:
    shown = figures(plain_of(method.tokens), method)
    few = len(method.tokens) < COMPARABLE
    assert shown["speedup"] is None if few else shown["speedup"] < 1.1
    assert said in shown["why"]
    assert shown["why"].count(". ") == 0 and shown["why"].endswith(".")


def test_a_race_that_was_stopped_early_is_not_a_short_answer() -> None:
    method = guessed(NEW)
    method.steps = method.steps[:12]
    assert figures(plain_of(NEW), method)["why"].startswith("The race ended after 12 tokens of the method: too few")


def test_a_single_guess_is_one() -> None:
    method = guessed(NEW, offered=0)
    method.steps[3] = guessed(NEW, offered=1).steps[3]
    said = slow_reason(plain_of(NEW), method, 1.0)
    assert said.endswith("so there was little to guess from: 0 % of 1 guess was accepted.")


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("tokens", "said"),
    [(REPEATING, "The sources guessed seldom"), (NEW, "so there was little to guess from")],
)
def test_few_guesses_that_were_right_are_not_blamed(tokens: list[int], said: str, temperature: float) -> None:
    method = guessed(tokens, offered=0, temperature=temperature)
    right = guessed(tokens, offered=1, right=1).steps[1]
    method.steps = [*method.steps[:3], replace(right, index=3), *method.steps[5:]]
    why = slow_reason(plain_of(tokens), method, 1.0)
    assert why.endswith(f"{said}: 1 guess in 39 passes, 1 accepted.")


def test_a_budget_that_left_guesses_out_is_named() -> None:
    method = guessed(NEW, offered=0)
    method.steps = [replace(step, offered=3) for step in method.steps]
    assert slow_reason(plain_of(NEW), method, 1.0).startswith("The budget tried 0 of 120 tokens that were offered")


def test_a_budget_of_a_fixed_size_is_not_said_to_weigh_guesses() -> None:
    """The look-up of the prompt with a node budget of 1 was told that its guesses were too unlikely for their time."""
    method = guessed(NEW, offered=0)
    method.steps[3] = replace(guessed(NEW, offered=1).steps[3], offered=9)
    assert "The budget tried" not in slow_reason(plain_of(NEW), method, 1.0)
    tree = replace(method.steps[3].tree, probability=(None, 0.3))
    method.steps[3] = replace(method.steps[3], tree=tree)
    assert slow_reason(plain_of(NEW), method, 1.0).startswith("The budget tried 1 of 9 tokens that were offered")


@pytest.mark.parametrize("source", [Source.RETRIEVAL, Source.DRAFT])
def test_new_text_is_no_reason_where_nothing_is_guessed_from_the_text(source: Source) -> None:
    method = guessed(NEW)
    sources = ((Source.MODEL,), *[(source,)] * 4)
    method.steps = [replace(step, tree=replace(step.tree, sources=sources)) for step in method.steps]
    said = "Only 0 % of 160 guesses were accepted: the answer was not what the sources knew."
    assert slow_reason(plain_of(NEW), method, 1.0) == said


@pytest.mark.parametrize("name", ["rest", "spectra-retrieval", "spectra-paper-retrieval-no-ppl"])
def test_what_datastores_do_not_know_did_not_have_to_come_back_in_the_text(name: str) -> None:
    method = replace(guessed(NEW, offered=0), method=name)
    assert slow_reason(plain_of(NEW), method, 1.0) == "No source had a guess: the datastores did not know this text."


def test_passes_that_vanish_beside_a_prompt_are_no_error() -> None:
    """A recording of such times was no answer but a traceback."""
    assert slow_reason(plain_of(NEW), guessed(NEW, seconds=1e-300, prefill=1e6), 0.1).endswith(".")


def test_sources_that_were_switched_off_are_named() -> None:
    method = guessed(NEW, offered=0)
    for changed, why in (
        (
            {"forward": False, "retrieval": False, "order": 3},
            "the race ran with no forward dictionary and no retrieval",
        ),
        (
            dict.fromkeys(("forward", "backward", "pool"), False),
            "the race ran with no forward dictionary, no backward dictionary and no pool",
        ),
        ({"rows": 3}, "nothing in the prompt or the answer came back"),
    ):
        method.settings["method"] = {"changed": changed, "values": {}}
        assert slow_reason(plain_of(NEW), method, 1.0) == f"No source had a guess: {why}."


@pytest.mark.parametrize(
    ("name", "nodes", "why"),
    [
        ("spechub", 0, "the node budget has no room for one"),
        ("spechub", 2, "nothing in the prompt or the answer came back"),
        ("spectra-paper-core", 3, "the node budget has no room for pool rows, which all its n-grams come from"),
        ("spectra-paper-core", 4, "nothing in the prompt or the answer came back"),
        ("lookahead", 3, "the node budget has no room for pool rows, which all its n-grams come from"),
        ("spectra-paper-retrieval", 3, "the datastores did not know this text"),
        ("spectra", 3, "nothing in the prompt or the answer came back"),
    ],
)
def test_a_node_budget_without_room_is_named(name: str, nodes: int, why: str) -> None:
    """It blamed the prompt and the answer."""
    method = guessed(NEW, offered=0)
    if nodes == 4:
        row = TreeTrace((0, 1), (-1, 0), ((Source.MODEL,), (Source.POOL,)), (True, False), (None, None))
        method.steps[0] = replace(method.steps[0], tree=row)
    method = replace(method, method=name)
    method.settings["method"] = {"changed": {"nodes": max(nodes, 1)}, "values": {"nodes": nodes}}
    assert slow_reason(plain_of(NEW), method, 1.0) == f"No source had a guess: {why}."


@pytest.mark.parametrize(
    ("changed", "values", "said"),
    [
        ({"rows": 20}, {"rows": 16, "pool": True},
         "W was 16 instead of 20: the node budget has no room for more rows."),
        ({"rows": 4, "nodes": 120}, {"rows": 4, "nodes": 76, "pool": True},
         "budget was 76 instead of 120: the other settings, or this device, allow no more."),
        ({"rows": 4, "pool": False, "refine": 0.5}, {"rows": 0, "refine": 0.5, "pool": False},
         "W and refine changed nothing: there was no candidate pool."),
        ({"rows": 4, "pool": False, "refine": 0.5, "subngrams": False}, {"rows": 0, "pool": False},
         "W, refine and sub-n-grams changed nothing: there was no candidate pool."),
        ({"refine": 0.0}, {"rows": 0, "refine": 0.0, "pool": False},
         "refine changed nothing: there was no candidate pool."),
        ({"rows": 2, "nodes": 1}, {"rows": 0, "nodes": 1, "refine": 0.1, "pool": False},
         "W was 0 instead of 2: the node budget has no room for more rows."),
        ({"rows": 0}, {"rows": 0, "refine": 0.1, "pool": False}, ""),
        ({"subngrams": False}, {"rows": 0, "subngrams": False, "pool": False},
         "sub-n-grams changed nothing: there was no candidate pool."),
        ({"subngrams": False}, {"rows": 3, "subngrams": False, "pool": True}, ""),
        ({"nodes": 16}, {"nodes": 14}, "budget was 14 instead of 16: the method, or this device, makes no more of it."),
        ({"rows": 0}, {}, ""),
        ({"rows": 4}, {}, ""),
    ],
)  # fmt: skip
def test_a_setting_that_was_cut_is_told(changed: dict[str, object], values: dict[str, object], said: str) -> None:
    method = guessed(NEW)
    method.settings["method"] = {"changed": changed, "values": values}
    assert figures(plain_of(NEW), method)["cut"] == said


def test_a_long_prompt_is_named() -> None:
    """By each lane: a draft model reads it too."""
    shown = figures(plain_of(NEW, prefill=10.0), guessed(NEW, right=3, prefill=10.2))
    assert shown["speedup"] < 1.1
    assert shown["why"].startswith(
        "Reading the prompt took 10.00 of 10.80 seconds plain and 10.20 of 10.52 by the method; after it"
    )


def test_a_race_without_guesses_gained_nothing_whatever_its_times_say() -> None:
    """It was called 1.28 times as fast on a busy machine."""
    shown = figures(plain_of(NEW), guessed(NEW, offered=0, seconds=0.01))
    assert shown["speedup"] > 1.1 and shown["why"] == ALIKE


def test_a_race_of_wrong_guesses_alone_gained_nothing_whatever_its_times_say() -> None:
    """It was shown as 1.9 times as fast on a busy machine, and nothing was said of it."""
    assert slow_reason(plain_of(NEW), guessed(NEW, seconds=0.01), 2.0) == NONE_RIGHT


def test_a_race_that_gained_says_nothing() -> None:
    shown = figures(plain_of(NEW), guessed(NEW, right=3))
    assert shown["speedup"] > 1.1 and shown["why"] == ""
