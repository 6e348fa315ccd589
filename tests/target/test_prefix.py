"""A kept cache: the next turn is the same whichever method wrote the last one, and nothing but the prefix is used."""

import random
import sys
import weakref

import pytest
import torch
from drafting import Scripted, decode_by, method_of
from reference import plain
from tiny import FAMILIES, VOCABULARY, make, model_of, target_of
from uncollected import uncollected

from spectra import Limits, Request, Sampling, decode_many
from spectra.service.prefix_caches import PrefixCaches
from spectra.target.cache import SlabCache
from spectra.target.load import wrap_model
from spectra.target.prefix import Prefix, common

EXACT = ("llama", "gpt2", "qwen2", "gemma3")
SAMPLINGS = (Sampling(), Sampling(temperature=0.8, seed=11))
TURNS = ("next", "stopped", "next", "edited", "again", "next")
TOKENS = 22


@pytest.fixture(scope="module")
def targets():
    return {}


def exact(family, targets, numerics="exact"):
    if (family, numerics) not in targets:
        targets[family, numerics] = wrap_model(make(family).bfloat16(), numerics=numerics)
    return targets[family, numerics]


def turn(target, prompt, method, prefix, sampling, *, most=TOKENS, stop=None, steps=None):
    """The answer's tokens; closed once `stop` tokens are out, or after so many steps."""
    out, passes = [], decode_by(target, prompt, method, sampling=sampling, limits=Limits(most), prefix=prefix)
    for number, step in enumerate(passes, 1):
        out += step.tokens
        if (stop is not None and len(out) >= stop) or number == steps:
            passes.close()
    return out


def following(kind, prompt, answer, dice):
    """The next turn's prompt: what was said, an edit that cuts it, or the same once more."""
    said = [dice.randrange(VOCABULARY) for _ in range(dice.randrange(2, 12))]
    if kind == "again":
        return prompt
    whole = [*prompt, *answer]
    return whole[: dice.randrange(3, len(whole) - 1)] + said if kind == "edited" else whole + said


def committed(prefix, length):
    """Keys and values of the first slots, all layers."""
    return [slab[..., :length, :] for slab in prefix._cache.slabs]


def talk(target, method, sampling, dice):
    """Some turns by both methods, each with a cache of its own; yields (kind, both prefixes) after asserting."""
    kept = {"plain": Prefix(), "method": Prefix()}
    prompt = [dice.randrange(VOCABULARY) for _ in range(9)]
    for number, kind in enumerate(TURNS):
        seed = Sampling(sampling.temperature, seed=sampling.seed + number)
        steps = 3 if kind == "stopped" else None
        answer = turn(target, prompt, method, kept["method"], seed, steps=steps)
        truth = turn(target, prompt, "autoregressive", kept["plain"], seed, stop=len(answer))
        assert answer == truth, (kind, number)
        assert kept["plain"].tokens == kept["method"].tokens == (*prompt, *answer[:-1])
        assert kept["plain"].reused == kept["method"].reused
        yield kind, prompt, kept
        prompt = following(TURNS[(number + 1) % len(TURNS)], prompt, answer, dice)


@pytest.mark.parametrize(
    ("family", "sampling"),
    [
        pytest.param(family, sampling, id=f"{name}-{family}", marks=() if number % 2 else pytest.mark.all_cases)
        for sampling, name, first in zip(SAMPLINGS, ("greedy", "0.8"), (0, 1), strict=True)
        for number, family in enumerate(EXACT, first)
    ],
)
def test_the_next_turn_is_the_same_whichever_method_wrote_the_last(family, sampling, targets):
    target = exact(family, targets)
    for seed, method in enumerate(("spectra", "spectra-paper-core")):
        before = 0
        for kind, prompt, kept in talk(target, method, sampling, random.Random(f"{family} {seed}")):
            length = len(kept["plain"].tokens)
            for ours, theirs in zip(committed(kept["method"], length), committed(kept["plain"], length), strict=True):
                assert torch.equal(ours, theirs), (method, kind)
            reused = kept["method"].reused
            assert reused == (len(prompt) - 1 if kind == "again" else before) or kind == "edited"
            assert (0 < reused < before) if kind == "edited" else True
            before = length


def test_fast_numerics_do_not_hold_these_bits(targets):
    """The test above can fail: with stock kernels a tree step writes other keys than a plain step."""
    target = target_of(make("llama").bfloat16())
    prompt, kept = list(range(9)), (Prefix(), Prefix())
    truth = turn(target, prompt, "autoregressive", kept[0], Sampling())
    drafter = Scripted("branches", truth, len(prompt), vocabulary=VOCABULARY, seed=1)
    turn(target, prompt, method_of([drafter], most=40), kept[1], Sampling())
    length = len(prompt) + 4
    pairs = zip(committed(kept[0], length), committed(kept[1], length), strict=True)
    assert not all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_turn_from_a_kept_cache_is_what_the_stock_model_writes(family):
    """In float64, where writing keys by a step or by a prefill makes no difference that shows."""
    model, dice = model_of(family), random.Random(family)
    target, prefix, prompt = target_of(model), Prefix(), list(range(8))
    for number, sampling in enumerate((Sampling(), Sampling(0.8, seed=3), Sampling())):
        answer = turn(target, prompt, "spectra-paper-core", prefix, sampling)
        assert answer == plain(model, prompt, sampling, most=TOKENS)[0]
        assert (prefix.reused > 0) == (number > 0)
        prompt = following("edited" if number else "next", prompt, answer, dice)


def test_two_conversations_on_one_target_do_not_mix():
    target = target_of(model_of("llama"))
    starts = {"a": [1, 2, 3, 4, 5], "b": [1, 2, 3, 9, 9]}

    def run(names):
        prefixes, prompts = {n: Prefix() for n in "ab"}, {n: list(starts[n]) for n in "ab"}
        for name in names:
            out = turn(target, prompts[name], "spectra", prefixes[name], Sampling(), most=10)
            prompts[name] += [*out, 7]
        return prompts

    mixed, apart = run("ababab"), run("aaabbb")
    assert mixed == apart and mixed["a"] != mixed["b"]


def test_slots_are_used_again_and_grow_when_a_turn_needs_more():
    target, prefix = target_of(model_of("llama")), Prefix()
    prompt = list(range(20))
    answer = turn(target, prompt, "autoregressive", prefix, Sampling(), most=60)
    first = prefix._cache
    turn(target, [*prompt, *answer[:5], 9], "autoregressive", prefix, Sampling(), most=10)
    assert prefix._cache is first and prefix.reused == 25 and prefix.size > 0
    turn(target, [*prompt, *answer[:5], 9], "autoregressive", prefix, Sampling(), most=200)
    assert prefix._cache.capacity > first.capacity and prefix.reused == 25


def test_the_last_prompt_token_is_never_taken_from_the_cache():
    target, prefix = target_of(model_of("llama")), Prefix()
    once = turn(target, [3, 4, 5], "autoregressive", prefix, Sampling(), most=6)
    assert turn(target, [3, 4, 5], "spectra", prefix, Sampling(), most=6) == once
    assert prefix.reused == 2
    assert turn(target, [3], "spectra", prefix, Sampling(), most=6) and prefix.reused == 0


def test_what_another_target_wrote_is_let_go():
    prefix = Prefix()
    turn(target_of(model_of("llama")), [3, 4, 5], "spectra", prefix, Sampling(), most=6)
    other = target_of(model_of("llama", seed=1))
    expected = turn(other, [3, 4, 5, 6], "spectra", None, Sampling())
    assert turn(other, [3, 4, 5, 6], "spectra", prefix, Sampling()) == expected
    assert prefix.reused == 0


@pytest.mark.parametrize("step", ["auto", "eager"])
def test_what_other_weights_wrote_is_let_go(step):
    model, prefix = make("llama").bfloat16(), Prefix()
    target = wrap_model(model, numerics="exact", step=step)
    turn(target, [3, 4, 5], "spectra", prefix, Sampling(), most=6)
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(-1)
    expected = turn(target, [3, 4, 5, 6], "spectra", None, Sampling())
    assert turn(target, [3, 4, 5, 6], "spectra", prefix, Sampling()) == expected
    assert prefix.reused == 0
    assert turn(target, [3, 4, 5, 6, 7], "spectra", prefix, Sampling()) and prefix.reused == 4


def test_an_answer_that_fails_leaves_only_what_was_committed():
    target, prefix = target_of(model_of("llama")), Prefix()

    def fails(tokens):
        if len(tokens) > 8:
            raise RuntimeError("criteria")
        return False

    with pytest.raises(RuntimeError, match="criteria"):
        list(decode_by(target, [3, 4, 5], "autoregressive", limits=Limits(20, criteria=fails), prefix=prefix))
    truth = plain(model_of("llama"), [3, 4, 5], Sampling(), most=12)[0]
    assert prefix.tokens == (3, 4, 5, *truth)[: len(prefix.tokens)] and len(prefix.tokens) == 7
    assert turn(target, [3, 4, 5], "spectra", prefix, Sampling(), most=12) == truth


def held(tokens=(1, 2, 3)):
    cache = SlabCache(layers=1, capacity=4)
    rows = torch.arange(3.0).view(1, 1, 3, 1)
    cache.layers[0].update(rows, -rows)
    cache.length = 3
    return Prefix(tokens, cache, "owner")


def test_a_copy_is_cut_and_shares_no_memory():
    kept = held()
    copy = kept.copy(2)
    assert copy.tokens == (1, 2) and kept.tokens == (1, 2, 3)
    with torch.inference_mode():
        copy._cache.layers[0].keys.fill_(9)
    assert kept._cache.layers[0].keys[0, 0, :3, 0].tolist() == [0, 1, 2]
    assert copy.take([1, 2, 3], "owner")[0] == 2
    assert kept.copy(0).take([1, 2], "owner") == (0, None) and Prefix().copy(9).tokens == ()


def test_few_conversations_are_kept_and_the_longest_unused_goes_first():
    kept = PrefixCaches(max_visitors=2)
    for key in ("a", "b", "a", "c"):
        kept.of(key).leave([1, 2, 3], held()._cache, "owner")
    assert len(kept) == 2 and kept.of("a").tokens == (1, 2, 3)
    assert kept.copy("b", 3).tokens == () and kept.copy("c", 1).tokens == (1,)
    kept.drop("a")
    kept.drop("a")
    assert kept.of("a").tokens == ()
    kept.clear()
    assert len(kept) == 0


def test_kept_caches_have_a_bound_in_bytes():
    size = held().size
    kept = PrefixCaches(max_visitors=9, max_bytes=2 * size)
    for key in "abc":
        kept.of(key).leave([1, 2, 3], held()._cache, "owner")
    kept.of("c")
    assert kept.copy("a", 3).tokens == () and kept.copy("b", 3).tokens == (1, 2, 3)


def test_caches_of_answers_that_ran_together_have_the_same_bound():
    """Taken ones were not counted, and all that came back stayed until somebody's next turn."""
    size = held().size
    kept = PrefixCaches(max_visitors=9, max_bytes=2 * size)
    for one in [kept.of(key) for key in "abcd"]:
        one.leave([1, 2, 3], held()._cache, "owner")
    assert [kept.copy(key, 3).tokens for key in "abcd"] == [(), (), (1, 2, 3), (1, 2, 3)]


def test_a_kept_cache_goes_with_its_prefix(targets):
    """The session of the last turn held it, until the garbage collector came."""
    target, prefix = exact("llama", targets), Prefix()
    turn(target, [1, 2, 3], method_of([]), prefix, Sampling(), most=4)
    cache = weakref.ref(prefix._cache)
    with uncollected():
        turn(target, [1, 2, 3], method_of([]), prefix, Sampling(), most=4)
        assert cache() is prefix._cache
        del prefix
        assert cache() is None


def test_what_two_prompts_begin_with():
    dice = random.Random(8)
    for _ in range(300):
        a, b = ([dice.randrange(2) for _ in range(dice.randrange(9))] for _ in range(2))
        alike = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        assert common(a, tuple(b)) == common(tuple(a), b) == alike


def test_long_prompts_are_not_compared_token_by_token():
    """All that wait are compared at every step with what is being read."""
    lines, before, first = [], sys.gettrace(), list(range(4096))

    def count(frame, event, argument):
        lines.append(event)
        return count

    sys.settrace(count)
    try:
        alike = common([*first, 1], [*first, 2, 3])
    finally:
        sys.settrace(before)
    assert alike == 4096 and len(lines) < 200


@pytest.mark.parametrize("together", [False, True])
def test_what_is_called_when_a_cache_is_left_may_fail(targets, together):
    """The target stayed busy for good."""

    def breaks():
        raise LookupError("broken")

    target = exact("llama", targets)

    def answered(prefix):
        if together:
            request = Request([1, 2, 3], method_of([]), limits=Limits(4), options={"prefix": prefix})
            return [token for _, step in decode_many(target, [request]) for token in step.tokens]
        return turn(target, [1, 2, 3], method_of([]), prefix, Sampling(), most=4)

    with pytest.raises(LookupError, match="broken"):
        answered(Prefix(on_leave=breaks))
    assert len(answered(Prefix())) == 4
