"""Steps of fixed shape: captured once, then replayed at other lengths, for other tokens and trees; equal logits."""

import random

import pytest
import torch
from drafting import random_tree
from recording import Counting, PlainFlash, attend_row_by_row, record
from tiny import FAMILIES, VOCABULARY, make, model_of, target_of

from spectra.errors import SpectraError
from spectra.target.attention_metadata import slot_mask
from spectra.target.cache import Layout
from spectra.target.cuda_graphs import static_attention
from spectra.target.cuda_graphs.static_pass import Buffers, StaticPass
from spectra.target.cuda_graphs.steps import StaticSteps
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.huggingface import Execution
from spectra.target.step_choice import captured_plan

BUCKETS = (1, 4, 20)
LENGTHS = (7, 0, 40, 460)


@pytest.fixture(autouse=True)
def attention_row_by_row(monkeypatch):
    monkeypatch.setattr(static_attention, "attend_by_position", attend_row_by_row)


def chains_of(tree):
    return [[0, *tree.path(node)] for node in range(len(tree))]


def both(target, cache, length, count, dice):
    """(logits by a captured step, by an ordinary one) of a random tree after `length` random tokens."""
    cache.length = 0
    run = [dice.randrange(VOCABULARY) for _ in range(length)]
    with torch.inference_mode():
        if run:
            target.forward(cache, run, [[]] * length, [length - 1], prefill=True)
        cache.length = length
        tree = random_tree(dice, count, VOCABULARY)
        rows = dice.sample(range(count), dice.randrange(1, count + 1))
        got = target.forward(cache, tree.tokens, chains_of(tree), rows)
        with target.using(Execution(target.plan)):
            usual = target.forward(cache, tree.tokens, chains_of(tree), rows)
    return got, usual


SOME = {
    "masked": FAMILIES,
    "exact": ("llama-g3", "gpt2", "gemma3"),
    "flash": ("llama-g3", "gpt2", "qwen2"),
}
CASES = [
    pytest.param(family, attend, marks=() if family in some else pytest.mark.all_cases)
    for attend, some in SOME.items()
    for family in FAMILIES
]


@pytest.mark.parametrize(("family", "attend"), CASES)
def test_replays_equal_ordinary_steps(family, attend, cases):
    static_attention.register()
    target = target_of(model_of(family), ExecutionPlan(counts=BUCKETS))
    capture = Counting()
    steps = StaticSteps(attend, capture, PlainFlash)
    target.use(Execution(target.plan, steps=steps))
    cache = steps.lend(target, 500, Layout())
    dice = random.Random(family)
    for length in LENGTHS:
        for count in cases((1, 17), (1, 3, 17)):
            got, usual = both(target, cache, length, count, dice)
            assert got.shape == usual.shape
            assert (got - usual).abs().max() < 1e-9 * usual.std()
    assert capture.made == cases(2, 3)
    assert bool(steps.flashed) == (attend == "flash")
    assert target.config._attn_implementation == "sdpa"


def test_replays_equal_ordinary_steps_in_fp32():
    target = target_of(model_of("llama-g3", torch.float32), ExecutionPlan(counts=BUCKETS))
    target.use(Execution(target.plan, steps=StaticSteps("flash", record, PlainFlash)))
    cache = target.steps.lend(target, 500, Layout())
    for length in LENGTHS:
        got, usual = both(target, cache, length, 17, random.Random(length))
        assert (got - usual).abs().max() < 1e-4 * usual.std()


@pytest.mark.parametrize(("length", "grow"), [(490, "wide"), (100, "deep")])
def test_a_graph_made_within_a_step_leaves_its_earlier_passes_alone(length, grow):
    """An exact step goes in several passes; one of them may be the first to read a longer span, or a deeper chain."""
    static_attention.register()
    target = target_of(make("llama-g3", max_position_embeddings=1024).double(), ExecutionPlan("exact", chunk=16))
    chains = chains_of(random_tree(random.Random(1), 40)) if grow == "wide" else [range(n + 1) for n in range(80)]
    dice, count = random.Random(0), len(chains)
    run, tokens = ([dice.randrange(VOCABULARY) for _ in range(n)] for n in (length, count))
    capture = Counting()
    steps = StaticSteps("exact", capture)
    captured = captured_plan(target.plan, "graphs")
    cache = steps.lend(target, 700, target.layout)
    restore = target.adapt()
    with torch.inference_mode():
        target.forward(cache, run, [[]] * length, [length - 1], prefill=True)
        cache.length = length
        usual = target.forward(cache, tokens, chains, range(count))
        with target.using(Execution(captured, steps=steps)):
            got = target.forward(cache, tokens, chains, range(count))
    restore()
    assert capture.made == 2
    assert (got - usual).abs().max() < 1e-9 * usual.std()


def test_stock_attention_may_hand_out_rows_before_heads(monkeypatch):
    """As its kernel for fp32 does on a GPU."""
    stock = torch.nn.functional.scaled_dot_product_attention

    def rows_first(*args, **options):
        return stock(*args, **options).transpose(1, 2).contiguous().transpose(1, 2)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", rows_first)
    target = target_of(model_of("llama-g3"), ExecutionPlan(counts=BUCKETS))
    target.use(Execution(target.plan, steps=StaticSteps("masked", record, PlainFlash)))
    got, usual = both(target, target.steps.lend(target, 500, Layout()), 30, 3, random.Random(1))
    assert not target.steps.broken
    assert (got - usual).abs().max() < 1e-9 * usual.std()


def test_layers_with_a_window_do_without_flash():
    target = target_of(model_of("qwen2"), ExecutionPlan(counts=BUCKETS))
    target.use(Execution(target.plan, steps=StaticSteps("flash", record, PlainFlash)))
    cache = target.steps.lend(target, 500, Layout())
    both(target, cache, 30, 3, random.Random(1))
    kinds = target.config.layer_types
    assert 0 < target.steps.flashed == kinds.count("full_attention") < len(kinds)


@pytest.mark.parametrize("window", [None, 5, 70])
def test_the_mask_made_on_the_device_is_the_one_by_slot(window):
    dice = random.Random(window)
    for length, queries in ((0, 1), (0, 12), (9, 100), (40, 64), (128, 65)):
        chains = chains_of(random_tree(dice, queries))
        buffers = Buffers(queries, torch.device("cpu"))
        buffers.fill(length, list(range(queries)), chains, [queries - 1])
        step = StaticPass(buffers, 256, "masked", PlainFlash, depth=64)
        mask = step.mask(window)
        assert torch.equal(mask[:, : length + queries], slot_mask(length, chains, window))
        assert not mask[:, length + queries :].any()
        assert torch.equal(step.bias(window, torch.float32, 2) == 0, mask.repeat(2, 1))
        assert buffers.tokens.tolist() == list(range(queries))
        assert buffers.rows.tolist() == [queries - 1] + [0] * (queries - 1)


def test_a_graph_holds_no_number_of_its_own():
    """The recorder does what a graph does: new numbers in the same memory count, and waiting for one is refused."""
    memory = torch.tensor([1.0, 2.0])
    replay = record(lambda: (memory * 2).sum(0, keepdim=True))
    memory[0] = 5.0
    assert replay().tolist() == [14.0]
    for waits in (lambda: memory * memory[0].item(), lambda: memory[memory > 1], lambda: torch.tensor([1]) + 1):
        with pytest.raises(RuntimeError, match="waits"):
            record(waits)


def test_settings_it_does_not_know_are_refused():
    tensor = torch.zeros(1, 2, 1, 8)
    step = StaticPass(Buffers(1, torch.device("cpu")), 1, "masked", PlainFlash, depth=1)
    for settings, word in (({"softcap": 3.0, "spectra_metadata": step}, "softcap"), ({}, "step")):
        with pytest.raises(SpectraError, match=word) as error:
            static_attention.static_attention(None, tensor, tensor, tensor, None, **settings)
        assert error.value.field == "step"
