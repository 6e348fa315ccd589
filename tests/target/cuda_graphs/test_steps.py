"""Captured steps end to end: the tokens of plain decoding; what is captured, when, and what happens where it fails."""

import gc
import random
import weakref

import pytest
import torch
from drafting import Scripted, decode_by, method_of
from recording import Counting, PlainFlash, attend_row_by_row, record
from reference import plain
from tiny import VOCABULARY, make, model_of, target_of

from spectra import Limits, Sampling
from spectra.errors import SpectraError
from spectra.guess import Source
from spectra.target.cache import Layout
from spectra.target.cuda_graphs import static_attention
from spectra.target.cuda_graphs.capture import launched
from spectra.target.cuda_graphs.steps import SPANS, StaticSteps
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.huggingface import Execution
from spectra.target.prefix import Prefix
from spectra.tree import ROOT

BUCKETS = (1, 4, 16, 48)
PROMPT = [5, 9, 33, 2, 17, 40, 21]


@pytest.fixture(autouse=True)
def attention_row_by_row(monkeypatch):
    monkeypatch.setattr(static_attention, "attend_by_position", attend_row_by_row)


@pytest.fixture
def captured():
    """A target whose steps are captured; its capture counts."""

    def of(model, attend="masked", **options):
        static_attention.register()
        target = target_of(model, ExecutionPlan(counts=BUCKETS))
        target.use(Execution(target.plan, steps=StaticSteps(attend, Counting(), PlainFlash, **options)))
        return target, target.steps._capture

    return of


def answer(target, method, count=30, prompt=PROMPT, sampling=None, **options):
    steps = decode_by(target, prompt, method, sampling=sampling, limits=Limits(count), **options)
    return [token for step in steps for token in step.tokens]


@pytest.mark.parametrize(("family", "attend"), [("llama", "exact"), ("qwen2", "masked"), ("gpt2", "flash")])
def test_the_tokens_are_those_of_plain_decoding(family, attend, captured, cases):
    model = model_of(family)
    target, capture = captured(model, attend)
    some = [(Sampling(), "branches"), (Sampling(0.8, seed=3), "chaos")]
    for sampling, kind in cases(some, [*some, (Sampling(), "chaos"), (Sampling(0.8, seed=3), "almost")]):
        truth, _ = plain(model, PROMPT, sampling, most=20)
        assert answer(target, "autoregressive", 20, sampling=sampling) == truth
        drafter = Scripted(kind, truth, len(PROMPT), vocabulary=VOCABULARY)
        assert answer(target, method_of([drafter], 40), 20, sampling=sampling) == truth
    assert capture.made == len(BUCKETS)
    assert not target.steps.broken


def test_every_step_is_a_replay(captured, monkeypatch):
    target, _ = captured(model_of("llama"))
    forward, passes = target.call, []
    monkeypatch.setattr(target, "call", lambda *a: passes.append(a[0].shape[1]) or forward(*a))
    answer(target, "spectra-paper-core", nodes=15)
    assert passes == [len(PROMPT) - 1, *[1, 1, 4, 4, 16, 16]]  # the prefill; each capture warms up once
    passes.clear()
    answer(target, "autoregressive")
    assert passes == [len(PROMPT) - 1]


def test_an_empty_context_is_left_to_the_ordinary_way(captured):
    truth, _ = plain(model_of("llama"), [3], Sampling(), most=12)
    target, _ = captured(model_of("llama"), "flash")
    assert answer(target, "spectra-paper-core", 12, [3]) == truth
    assert torch.isfinite(torch.cat([slab.flatten() for slab in target.steps.cache.slabs])).all()


def test_more_rows_than_the_largest_graph_go_the_ordinary_way(captured):
    target, _ = captured(model_of("llama"))
    truth, _ = plain(model_of("llama"), PROMPT, Sampling(), most=20)
    drafter = Scripted("deep", truth, len(PROMPT), vocabulary=VOCABULARY)
    assert answer(target, method_of([drafter], 60), 20) == truth


def test_a_longer_session_gets_another_cache_and_a_shorter_one_the_same(captured):
    target, capture = captured(make("llama", max_position_embeddings=4096))
    answer(target, "autoregressive", 4)
    first = target.steps.cache
    assert first.capacity == SPANS[0]
    answer(target, "autoregressive", 4, [1] * 300)
    assert target.steps.cache is first
    assert capture.made == 1
    answer(target, "autoregressive", 4, [1] * 600)
    assert (target.steps.cache.capacity, capture.made) == (SPANS[1], 2)
    answer(target, "autoregressive", 4)
    assert capture.made == 3  # a short context reads fewer slots, and the graph of that went with its cache


def test_a_second_session_over_the_same_model_does_without(captured):
    target, _ = captured(model_of("llama"))
    other = target_of(target.model, target.plan)
    other.use(target.execution)
    truth = answer(target, "autoregressive", 12)
    first = decode_by(target, PROMPT, "autoregressive", limits=Limits(12))
    tokens = list(next(first).tokens)
    assert answer(other, "autoregressive", 12) == truth
    assert tokens + [token for step in first for token in step.tokens] == truth
    assert target.steps.lend(target, 9, Layout()) is target.steps.cache


def test_a_changed_model_is_captured_again(captured):
    model = make("llama")
    target, capture = captured(model)
    before = answer(target, "autoregressive", 12)
    with torch.no_grad():
        model.lm_head.weight.mul_(-1)  # in place: a graph reads the same memory
    changed, _ = plain(model, PROMPT, Sampling(), most=12)
    assert changed != before
    assert answer(target, "autoregressive", 12) == changed
    assert capture.made == 1
    model.lm_head.weight = torch.nn.Parameter(-model.lm_head.weight.detach().clone())
    assert answer(target, "autoregressive", 12) == before
    assert capture.made == 2
    model.double()
    assert answer(target, "autoregressive", 12) == plain(model, PROMPT, Sampling(), most=12)[0]
    assert capture.made == 3


def test_a_hook_sees_every_step(captured):
    model = make("llama")
    target, capture = captured(model)
    seen = []
    handle = model.lm_head.register_forward_hook(lambda *_: seen.append(1))
    answer(target, "autoregressive", 9)
    assert (len(seen), capture.made) == (10, 0)
    handle.remove()
    answer(target, "autoregressive", 9)
    assert (len(seen), capture.made) == (10, 1)


def test_what_cannot_be_captured_goes_the_ordinary_way_with_one_line(captured, caplog):
    model = model_of("llama")
    truth, _ = plain(model, PROMPT, Sampling(), most=30)
    target, capture = captured(model)
    capture.fails = RuntimeError("operation not permitted when stream is capturing\nmore of it")
    assert answer(target, "spectra-paper-core") == truth
    assert answer(target, "autoregressive") == truth
    assert [record.getMessage() for record in caplog.records] == [
        "step: eager, because a step cannot be captured (operation not permitted when stream is capturing)"
    ]
    assert capture.made == 0
    assert model.config._attn_implementation == "sdpa"


def test_memory_that_is_not_there_is_named_and_asked_for_again(captured, monkeypatch):
    target, _ = captured(model_of("llama"))

    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "zeros", full)
        with pytest.raises(SpectraError) as error:
            answer(target, "autoregressive")
    assert error.value.field == "max_new_tokens"
    assert answer(target, "autoregressive") == plain(target.model, PROMPT, Sampling(), most=30)[0]
    assert not target.steps.broken


@pytest.mark.parametrize("capture", [record, launched])
def test_the_steps_of_a_model_do_not_keep_it_in_memory(capture):
    """They are remembered by model: one that they held would stay beside the next."""
    static_attention.register()
    target = target_of(make("llama"), ExecutionPlan(counts=BUCKETS))
    steps = StaticSteps("masked", capture)
    target.use(Execution(target.plan, steps=steps))
    tokens, model = answer(target, "spectra-paper-core", 4), weakref.ref(target.model)
    del target
    gc.collect()
    assert model() is None and len(tokens) == 4
    again = target_of(make("llama"), ExecutionPlan(counts=BUCKETS))
    again.use(Execution(again.plan, steps=steps))
    assert answer(again, "spectra-paper-core", 4) == tokens


class Growing:
    """Trees of as many rows as each bucket in turn, then of the last one's: the same counts whatever a model says."""

    def __init__(self):
        self.rows = list(BUCKETS)

    def begin(self, prompt):
        pass

    def grow(self, tree, tokens):
        for token in range(self.rows[0] - 1):
            tree.add(ROOT, token, Source.POOL)
        self.rows = self.rows[1:] or self.rows

    def observe(self, tokens, outcome):
        pass


def test_few_graphs_are_kept(captured):
    target, capture = captured(model_of("llama"), max_graphs=2)
    truth, _ = plain(target.model, PROMPT, Sampling(), most=20)
    for turn in (1, 2):
        assert answer(target, method_of([Growing()], BUCKETS[-1]), 20) == truth
        assert len(target.steps._graphs) == 2
        assert capture.made == turn * 2 * len(BUCKETS)  # once before the answer, again when a step needs one that went


def test_the_next_turn_starts_from_a_copy(captured):
    """The cache stays where it is; what a conversation keeps is its own, whoever decodes in between."""
    model = model_of("llama")
    target, _ = captured(model)
    prefix, prompt = Prefix(), list(PROMPT)
    for turn in range(2):
        tokens = answer(target, "spectra-paper-core", 12, prompt, prefix=prefix)
        assert tokens == plain(model, prompt, Sampling(), most=12)[0]
        assert prefix.reused == (0 if turn == 0 else len(prompt) - 5)
        prompt += [*tokens, *random.Random(turn).choices(range(VOCABULARY), k=4)]
        answer(target, "autoregressive", 3, [7] * 20)
