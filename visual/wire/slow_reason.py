"""Why a race gained little, in one sentence, read off both traces. No measuring."""

import re

from spectra.guess import Source
from spectra.metrics import Summary, overall, summarize
from spectra.trace import Trace
from visual.method_settings import in_words, listed

WORTH = 1.1
"""Times as fast as plain decoding, below which a race says why."""
FEW_TOKENS = 24
GAINS = 1.2
"""Tokens a pass from which on it is not the guesses that failed."""
WARM = 0.5
"""Temperature from which on the draws are hard to foresee."""
NEW_TEXT = 0.9
"""Share of distinct 4-grams of a text that hardly repeats itself."""
WIDE = 2
"""Rows of a pass, pool rows too, from which on it is a wide one."""
SELDOM = 0.25
"""Guesses a pass, below which the budget hardly guessed."""
WELL = 0.5
"""Share of accepted guesses from which on it is not they that failed, but that there were few."""
ALIKE = "Nothing was guessed, so both took the same passes: what their times differ by is this machine's noise."
NONE_RIGHT = "No guess was accepted, so it took as many passes as plain decoding: what it was faster by is noise."
STORES_ALONE = re.compile(r"rest$|.*-retrieval")
"""Methods that guess from datastores alone."""
POOL_ALONE = re.compile(r"spectra-paper(?!-retrieval)|lookahead")
"""Methods whose n-grams come from the rows of their pool alone."""
NOT_FROM_THE_TEXT = {Source.RETRIEVAL, Source.DRAFT, Source.SECOND}
"""Sources for which it does not matter whether the answer repeats itself."""
SWITCHES = ("forward", "backward", "pool", "retrieval")
"""Settings that switch off a source, or what it learns from."""


def slow_reason(plain: Trace, method: Trace, speedup: float) -> str:
    """One sentence, "" where the race gained enough by its guesses. Both traces hold a step at least."""
    base, ours = summarize(plain.steps), summarize(method.steps)
    if speedup >= WORTH:
        if ours.passes < ours.tokens:
            return ""
        return ALIKE if all(len(step.tree) == 1 for step in method.steps) else NONE_RIGHT
    longer = max(_pass_seconds(ours), 1e-9) / max(_pass_seconds(base), 1e-9)
    if ours.tau / longer >= WORTH and base.prefill_seconds > 0:
        return (
            f"Reading the prompt took {base.prefill_seconds:.2f} of {base.seconds:.2f} seconds plain and "
            f"{ours.prefill_seconds:.2f} of {ours.seconds:.2f} by the method; after it the method was "
            f"{_ratio(ours.tau / longer)} times as fast."
        )
    costly = longer >= GAINS * ours.tau  # what made it slower, however few guesses were right
    drafted = _draft_share(method) > 0.5 * (1 - 1 / max(longer, 1.0))
    if ours.tau >= GAINS or (costly and (drafted or _rows(method) >= WIDE)):
        tokens = "one token" if ours.tau == 1 else f"{_ratio(ours.tau)} tokens"
        gained = f"A pass gave {tokens}, but took {_ratio(longer)} times as long as a plain one"
        if drafted:
            return f"{gained}: {_percent(_draft_share(method))} of its time went into making the guesses."
        return f"{gained}: wide passes are slow on this device."
    if ours.tokens < FEW_TOKENS:
        return too_short(ours.tokens, cut=not ours.finish)
    accepted, _, guessed = overall(method.steps)
    offered = sum(step.offered or 0 for step in method.steps)
    if guessed < SELDOM * ours.passes and offered > guessed and _weighed(method):
        return (
            f"The budget tried {guessed} of {offered} tokens that were offered: the others were too unlikely for what "
            "a wider pass costs on this device."
        )
    if not guessed:
        return f"No source had a guess: {_no_guess(method)}."
    made = "1 guess" if guessed == 1 else f"{guessed} guesses"
    right = f"{_percent(accepted / guessed)} of {made} {'was' if guessed == 1 else 'were'} accepted"
    well = accepted >= WELL * guessed
    if well:
        right = f"{made} in {ours.passes} passes, {accepted} accepted"
    temperature = method.settings.get("temperature")
    if isinstance(temperature, int | float) and temperature >= WARM and not well:
        return f"At temperature {temperature:g} a draw is hard to foresee: {right}."
    if ours.distinct4 >= NEW_TEXT and not ours.guessed.keys() <= NOT_FROM_THE_TEXT:
        new = f"{_percent(ours.distinct4)} of its runs of four tokens are distinct"
        return f"The answer hardly repeats itself ({new}), so there was little to guess from: {right}."
    if well:
        return f"The sources guessed seldom: {right}."
    return f"Only {right}: the answer was not what the sources knew."


def _no_guess(method: Trace) -> str:
    """What kept a method from guessing at all."""
    if method.values.get("nodes") == 0:
        return "the node budget has no room for one"
    if STORES_ALONE.match(method.method):
        return "the datastores did not know this text"
    if off := _switched_off(method):
        return f"the race ran with {off}"
    pooled = any(not each for step in method.steps for each in step.tree.eligible)
    if POOL_ALONE.match(method.method) and "nodes" in method.changed and not pooled:
        return "the node budget has no room for pool rows, which all its n-grams come from"
    return "nothing in the prompt or the answer came back"


def too_short(tokens: int, *, cut: bool = False) -> str:
    """Why an answer of so few tokens gained nothing. cut: the race ended before it did."""
    only = "one token" if tokens == 1 else f"{tokens} tokens"
    had = f"The race ended after {only} of the method" if cut else f"The answer has only {only}"
    return f"{had}: too few to learn from and to guess again."


def _ratio(x: float) -> str:
    """As the page writes it: half is rounded up."""
    return f"{x + 1e-9:.2f}"


def _percent(share: float) -> str:
    return f"{100 * share + 1e-9:.0f} %"


def _pass_seconds(lane: Summary) -> float:
    return (lane.seconds - lane.prefill_seconds) / max(lane.passes, 1)


def _rows(trace: Trace) -> float:
    """Of a pass, on average."""
    return sum(len(step.tree.tokens) for step in trace.steps) / len(trace.steps)


def _draft_share(trace: Trace) -> float:
    """Part of the steps' time that went into guessing."""
    seconds = sum(step.seconds for step in trace.steps)
    return sum(step.parts.get("draft", 0.0) for step in trace.steps) / seconds if seconds > 0 else 0.0


def _weighed(trace: Trace) -> bool:
    """Whether the budget left guesses out because they were unlikely, not because there were too many for its size."""
    trees = [step.tree for step in trace.steps]
    return not any(tree.eligible[n] and tree.probability[n] is None for tree in trees for n in range(1, len(tree)))


def _switched_off(trace: Trace) -> str:
    """Sources that the visitor left out, in words; "" for none."""
    return listed([in_words({name: False}) for name in SWITCHES if trace.changed.get(name) is False])
