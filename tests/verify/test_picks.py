"""Sampling: keyed noise, the order of processors, ties, and agreement with transformers' own sampling."""

import random

import numpy as np
import pytest
import torch
from drafting import Scripted, decode_by, method_of, random_tree
from generating import WritesInPlace
from recording import record
from scipy.stats import chi2_contingency
from tiny import VOCABULARY, make, model_of, target_of
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LogitsProcessor, LogitsProcessorList, TopKLogitsWarper

from spectra import Limits, Sampling, SpectraError
from spectra.tree import TokenTree
from spectra.verify.noise import Noise, keyed_noise
from spectra.verify.picks import NO_NUMBER, Chooser, Scores, _highest, probabilities_of, processors_of

CPU = torch.device("cpu")


def test_whoever_drafts_reads_the_noise_that_the_pick_is_made_with():
    noise, logits = Noise(3, 50, CPU), torch.randn(50, dtype=torch.float32)
    row = keyed_noise(3, 7, 50, CPU)
    assert list(noise.read(7)) == pytest.approx(row.tolist(), rel=1e-3)
    assert torch.equal(torch.from_numpy(np.asarray(noise.read(7))), row)
    assert noise.row(7, 50, CPU) is noise.row(7, 50, CPU)
    assert torch.equal(noise.row(7, 60, CPU), keyed_noise(3, 7, 60, CPU))
    picks = Chooser(Sampling(1.0, seed=3), noise=noise).choose(Scores(logits[None]), {0: 0}, TokenTree(1), [0] * 7)
    assert picks.pick(0) == (logits.softmax(-1) / row).argmax()
    for token in (-1, 50):  # -1 would be the last one of a list
        with pytest.raises(IndexError, match=f"token {token} is not one of 50"):
            noise.read(7)[token]
    noise.forget(8)
    assert torch.equal(noise.row(7, 50, CPU), row)


def test_the_draw_of_a_row_on_a_gpu_waits_for_nothing():
    """A step has many rows, and one copy to the host at its end."""
    scores = torch.tensor([[1.0, 5.0, 5.0, 2.0]])
    draw = record(lambda: _highest(scores))
    assert draw().tolist() == [1]
    scores[0, 3] = float("nan")
    assert draw().tolist() == [NO_NUMBER]
    infinite = record(lambda: torch.cat([_highest(scores, drawn=True), _highest(scores)]))
    scores[0, 3] = float("inf")
    assert infinite().tolist() == [NO_NUMBER, 3]


KINDS = [Sampling(0.7, seed=5), Sampling(1.0, seed=6), Sampling(1.3, top_k=4, seed=7), Sampling(0.9, top_p=0.6, seed=8)]


@pytest.mark.parametrize("sampling", [*KINDS, Sampling(0.8, min_p=0.1, seed=9)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_that_are_drawn_side_by_side_have_the_picks_that_each_has_alone(sampling, dtype):
    logits = (4 * torch.randn(12, 5000, generator=torch.Generator().manual_seed(1))).to(dtype)
    logits[9, 77] = float("nan")
    logits[10, 78] = float("inf")
    rows, positions = [3, 0, 9, 10, 11, 3, 7], [20, 21, 22, 22, 25, 20, 21]
    chooser = Chooser(sampling)
    alone = [int(chooser._drawn(logits, [row], [at])) for row, at in zip(rows, positions, strict=True)]
    assert chooser._drawn(logits, rows, positions).tolist() == alone
    assert alone[2:4] == [NO_NUMBER, NO_NUMBER]
    assert alone[0] == alone[5] == chooser._pick(logits[3], [], 20)
    assert alone[1] == chooser._pick(logits[0], [], 21)


@pytest.mark.parametrize("sampling", KINDS)
def test_numbers_that_rows_are_drawn_by_are_sent_without_waiting(sampling, monkeypatch):
    """The copy that `torch.tensor` makes to a device waits until all that the device computes is done."""
    make_tensor, copies = torch.tensor, []

    def on_host(*args, device=None, **options):
        assert str(device or "cpu") == "cpu"
        return make_tensor(*args, **options)

    class Copies(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function is torch.ops.aten._to_copy.default and args[0].is_cpu:
                copies.append(kwargs.get("non_blocking"))
            return function(*args, **(kwargs or {}))

    logits, chooser = torch.empty(9, 300, device="meta"), Chooser(sampling)
    monkeypatch.setattr(torch, "tensor", on_host)
    with Copies():
        assert chooser._drawn(logits, [3, 1, 4], [7, 8, 8]).shape == (3,)
    assert copies
    assert all(copies)


def test_many_rows_are_drawn_by_as_many_operations_as_one():
    logits, chooser = torch.randn(40, 300), Chooser(Sampling(0.8, top_k=9, seed=2))
    counts = []

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            counts[-1] += 1
            return function(*args, **(kwargs or {}))

    for some in (1, 40):
        counts.append(0)
        with Count():
            chooser._drawn(logits, list(range(some)), list(range(5, 5 + some)))
    assert counts[0] == counts[1] < 80


def test_greedy_picks_take_no_noise_whatever_the_processors():
    scores = torch.randn(50)
    assert Chooser(Sampling(), [TopKLogitsWarper(5)])._ranked(scores, 3) is scores


@pytest.mark.parametrize("seed", range(4))
def test_drafters_are_told_the_noise_of_each_depth(seed):
    sampling, prompt, seen = Sampling(1.0, seed=seed), [3, 4, 5], []

    class Reader:
        def begin(self, prompt):
            pass

        def grow(self, tree, tokens):
            seen.extend((len(tokens) - 1 + depth, list(tree.noise(depth))) for depth in (1, 2, 5))

        def observe(self, tokens, outcome):
            pass

    list(decode_by(target_of(model_of("llama")), prompt, method_of([Reader()]), sampling=sampling, limits=Limits(5)))
    assert len(seen) == 15
    for position, row in seen:
        assert row == pytest.approx(keyed_noise(seed, position, VOCABULARY, CPU).tolist(), rel=1e-3)


def test_whole_numbers_are_as_good_as_others():
    """A browser and JSON send 2 for 2.0, and transformers' own processors refuse it."""
    sampling = Sampling(2, repetition_penalty=3, top_p=1, min_p=0)
    assert [type(each).__name__ for each in processors_of(sampling)] == [
        "RepetitionPenaltyLogitsProcessor",
        "TemperatureLogitsWarper",
    ]
    assert sampling == Sampling(2.0, repetition_penalty=3.0)


def test_processors_in_the_order_of_transformers():
    names = [type(p).__name__ for p in processors_of(Sampling(0.5, 3, 0.9, 0.1, 1.2))]
    config = {"do_sample": True, "temperature": 0.5, "top_k": 3, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.2}
    seen = []

    def spy(model, input_ids, logits_processor, **_):
        seen.extend(type(p).__name__ for p in logits_processor)
        return input_ids

    make("gpt2").generate(torch.tensor([[1, 2]]), max_new_tokens=2, custom_generate=spy, **config)
    assert names == seen
    assert len(processors_of(Sampling())) == 0
    assert len(processors_of(Sampling(1.0, seed=4))) == 0


def choose(sampling, logits, tree, tokens, processors=None):
    chooser = Chooser(sampling, processors)
    return chooser, chooser.choose(Scores(logits), {n: n for n in range(len(tree))}, tree, tokens)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ties_go_to_the_lowest_id(dtype):
    tree = random_tree(random.Random(1), 3)
    logits = torch.zeros(3, 50_000, dtype=dtype)
    logits[1, [9, 4, 30_000]] = 1.0
    assert choose(Sampling(), logits, tree, [1])[1].pick(1) == 4
    logits = logits[:, :50].contiguous()
    for processors in (None, [lambda ids, scores: scores]):
        _, picks = choose(Sampling(), logits, tree, [1], processors)
        assert [picks.pick(n) for n in range(3)] == [0, 4, 0]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("draw", [None, lambda scores, seed, position: int(scores.argmax())])
@pytest.mark.filterwarnings("error")
def test_a_processor_with_parameters_that_learn_is_taken_as_it_is(temperature, draw):
    bias = torch.zeros(50, requires_grad=True)
    chooser = Chooser(Sampling(temperature, seed=1), [lambda ids, scores: scores + bias], draw=draw)
    tree = random_tree(random.Random(1), 1)
    assert 0 <= chooser.choose(Scores(torch.randn(1, 50) * 9), {0: 0}, tree, [1]).pick(0) < 50


def test_what_a_tree_asks_is_the_best_token_outside_a_set():
    tree = random_tree(random.Random(2), 4)
    logits = torch.arange(50.0).repeat(4, 1)
    tickets = [tree.ask(1), tree.ask(1, {49, 48}), tree.ask(3, {49}), tree.ask(2, {}.keys())]
    for sampling in (Sampling(), Sampling(0.7), Sampling(repetition_penalty=1.3)):
        before = logits.clone()
        _, picks = choose(sampling, logits, tree, [1])
        assert [picks.read(t) for t in tickets] == [49, 47, 48, 49]
        assert picks.read(99) is None
        assert torch.equal(logits, before)


def test_likely_tokens_of_every_row_beside_the_picks_and_the_answers():
    tree = random_tree(random.Random(6), 4)
    tickets = [tree.ask(2), tree.ask(1, {49})]
    logits = torch.arange(50.0).repeat(4, 1)
    logits[1, [7, 3, 30]] = 60.0  # equals: lowest id first
    for sampling in (Sampling(), Sampling(0.7), Sampling(repetition_penalty=1.3)):
        picks = Chooser(sampling, top=3).choose(Scores(logits), {0: 0, 1: 1, 3: 2, 2: 3}, tree, [1])
        assert picks.top == {0: [49, 48, 47], 1: [3, 7, 30], 3: [49, 48, 47], 2: [49, 48, 47]}
        assert [picks.read(t) for t in tickets] == [49, 3]
        assert choose(sampling, logits, tree, [1])[1].top == {}


class Same(LogitsProcessor):
    """Changes nothing, but the engine cannot know that."""

    def __init__(self):
        self.seen = []

    def __call__(self, input_ids, scores):
        self.seen.append(input_ids[0].tolist())
        return scores


def test_blind_and_lazy_processing_agree():
    dice = random.Random(3)
    for seed in range(30):
        tree = random_tree(dice, 12)
        tokens = [dice.randrange(50) for _ in range(5)] + [tree.tokens[0]]
        logits = torch.randn(12, 50, generator=torch.Generator().manual_seed(seed))
        sampling = Sampling(0.8, dice.choice((0, 5)), dice.choice((1.0, 0.8)), dice.choice((0.0, 0.1)), seed=seed)
        blind, fast = choose(sampling, logits, tree, tokens)
        same = Same()
        lazy, slow = choose(sampling, logits, tree, tokens, LogitsProcessorList([*processors_of(sampling), same]))
        assert blind.blind
        assert not lazy.blind
        order = dice.sample(range(12), 12)
        assert [fast.pick(n) for n in order] == [slow.pick(n) for n in order]
        assert same.seen == [[*tokens, *tree.path_tokens(n)] for n in order]


def test_a_processor_sees_exactly_what_plain_decoding_shows_it():
    model, prompt = model_of("llama"), [5, 6, 7]
    target = target_of(model)
    watching = [Same(), Same()]
    outputs = []
    for same, method in zip(watching, ("autoregressive", None), strict=True):
        if method is None:
            method = method_of([Scripted("branches", outputs[0], 3, vocabulary=VOCABULARY)], 64)
        steps = decode_by(target, prompt, method, sampling=Sampling(0.9, seed=5), limits=Limits(20), processors=[same])
        outputs.append([token for step in steps for token in step.tokens])
    assert outputs[0] == outputs[1]
    assert watching[0].seen == [prompt + outputs[0][:i] for i in range(20)]
    assert watching[1].seen[:20] == watching[0].seen


def test_a_processor_that_writes_in_place_works_on_a_copy():
    logits = torch.randn(1, 50)
    before = logits.clone()
    picks = Chooser(Sampling(1.0), [WritesInPlace()]).choose(Scores(logits), {0: 0}, TokenTree(1), [3])
    first = picks.probabilities(0)
    assert np.array_equal(picks.probabilities(0), first)
    picks.pick(0)
    assert torch.equal(logits, before)


def test_a_distribution_of_no_numbers_is_an_error_whichever_row_it_is_of():
    logits = torch.randn(3, 50)
    logits[2, 7] = float("nan")
    with pytest.raises(SpectraError, match=r"^draft: its logits are no numbers"):
        probabilities_of(LogitsProcessorList(), logits, [[]] * 3, ("draft", "temperature"))
    assert len(probabilities_of(LogitsProcessorList(), logits[:2], [[]] * 2, ("draft", "temperature"))) == 2


SETTINGS = {
    "plain": {"temperature": 1.0},
    "filtered": {"temperature": 1.3, "top_k": 12, "top_p": 0.9},
    "penalty": {"temperature": 0.9, "repetition_penalty": 1.4, "min_p": 0.05},
}


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(settings, id=name, marks=() if name == "plain" else pytest.mark.all_cases)
        for name, settings in SETTINGS.items()
    ],
)
def test_distribution_equals_transformers(settings, cases):
    """Pairs of sampled tokens, drafted with guesses that are often right, against generate(do_sample=True)."""
    draws, prompt, new = cases(800, 10_000), [3, 14, 15, 9], 2
    model = make("llama", initializer_range=0.15)
    target = target_of(model)
    torch.manual_seed(0)
    ids = torch.tensor([prompt] * draws)
    config = {"top_k": 0, **settings}
    theirs = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=True, max_new_tokens=new, eos_token_id=None, **config
    )[:, len(prompt) :].tolist()
    usual = max({tuple(t) for t in theirs}, key=lambda pair: theirs.count(list(pair)))
    ours = []
    for seed in range(draws):
        drafters = [Scripted("branches", usual, len(prompt), vocabulary=VOCABULARY, seed=seed)]
        steps = decode_by(
            target, prompt, method_of(drafters, 16), sampling=Sampling(**settings, seed=seed), limits=Limits(new)
        )
        ours.append([token for step in steps for token in step.tokens])
    assert_alike([t[0] for t in ours], [t[0] for t in theirs])
    assert_alike([t[1] for t in ours], [t[1] for t in theirs])
    assert_alike([tuple(t) for t in ours], [tuple(t) for t in theirs])


def assert_alike(ours, theirs):
    """Chi-square of two samples; rare values are counted together."""
    values = sorted(set(ours) | set(theirs))
    pairs = [(ours.count(v), theirs.count(v)) for v in values]
    common = [pair for pair in pairs if sum(pair) >= 12]
    rest = [sum(column) for column in zip(*(pair for pair in pairs if sum(pair) < 12), strict=True)]
    table = [*common, rest] if sum(rest) else common
    assert len(table) > 3
    assert chi2_contingency(list(zip(*table, strict=True))).pvalue > 1e-4


def test_a_processor_that_gives_no_tensor_is_named():
    with pytest.raises(SpectraError, match="logits_processor: one gives a ndarray"):
        chain = LogitsProcessorList([lambda ids, scores: scores.numpy()])
        probabilities_of(chain, torch.zeros(1, 9), [[1]], ("model", "logits_processor"))
