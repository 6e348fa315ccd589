"""Exact numerics end to end: in 16 bits a token's logits have the same bits however it was reached."""

from functools import partial

import pytest
import torch
from compiled import needs_native
from drafting import Scripted, decode_by, method_of
from tiny import COST, FAMILIES, VOCABULARY, make, target_of
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaForCausalLM,
    MiniCPM3Config,
    MiniCPM3ForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
)

from spectra import Limits, Sampling
from spectra.errors import SpectraError
from spectra.target import attention, facts, load, preflight
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.facts import plan_path
from spectra.target.huggingface import HuggingFaceTarget
from spectra.target.load import wrap_model
from spectra.target.preflight import choose_chunk, path_agrees
from spectra.verify.picks import Chooser

PROMPT = [5, 9, 33, 2, 17, 40, 21]
TOKENS = 90  # crosses a boundary of 64
KINDS = ("right", "branches", "almost", "duplicates", "chaos", "deep")


@pytest.fixture
def logits_seen(monkeypatch):
    """Every (tree, row of each node, logits) that the engine picks from."""
    seen = []
    choose = Chooser.choose

    def spy(self, scores, row_of, tree, tokens):
        seen.append((row_of, scores.logits.clone()))
        return choose(self, scores, row_of, tree, tokens)

    monkeypatch.setattr(Chooser, "choose", spy)
    return seen


def run(target, method, seen, sampling):
    """(tokens, the logits row each was picked from)."""
    seen.clear()
    steps = list(decode_by(target, PROMPT, method, sampling=sampling, limits=Limits(TOKENS)))
    tokens = [token for step in steps for token in step.tokens]
    rows = [
        logits[row_of[node]]
        for step, (row_of, logits) in zip(steps, seen, strict=True)
        for node in [0, *step.path][: len(step.tokens)]
    ]
    return tokens, torch.stack(rows), len(steps)


@pytest.fixture(scope="module")
def exact_targets():
    return {}


def exact_target(family, dtype, step, targets):
    key = (family, dtype, step)
    if key not in targets:
        targets[key] = wrap_model(make(family).to(dtype), numerics="exact", step=step)
    return targets[key]


SOME = {("llama-g3", "bf16"), ("gpt2", "bf16"), ("gemma3", "fp32")}
"""What `make test` tries by torch; every case is in `make test-all`."""
CASES = [
    pytest.param(
        family,
        getattr(torch, {"bf16": "bfloat16", "fp32": "float32"}[width]),
        step,
        id=f"{family}-{width}-{step}",
        marks=() if step == "native" or (family, width) in SOME else pytest.mark.all_cases,
    )
    for step in ("native", "eager")
    for width in ("bf16", "fp32")
    for family in FAMILIES
]


@pytest.mark.parametrize(("family", "dtype", "step"), CASES)
def test_same_tokens_and_same_bits(family, dtype, step, logits_seen, exact_targets, cases):
    if step == "native":
        needs_native()
    target = exact_target(family, dtype, step, exact_targets)
    assert (target.plan.step, target.plan.numerics) == (step, "exact")
    some = KINDS if step == "native" else KINDS[: cases(1, len(KINDS))]
    for sampling, kinds in ((Sampling(), some), (Sampling(temperature=0.8, top_p=0.95, seed=3), KINDS[: cases(1, 2)])):
        truth, plain, _ = run(target, "autoregressive", logits_seen, sampling)
        assert len(set(truth)) > 5
        for seed, kind in enumerate(kinds):
            drafter = Scripted(kind, truth, len(PROMPT), vocabulary=VOCABULARY, seed=seed)
            tokens, rows, passes = run(target, method_of([drafter], most=40), logits_seen, sampling)
            assert tokens == truth, kind
            assert torch.equal(rows, plain), f"{kind}: first at {(rows != plain).any(1).nonzero()[0].item()}"
            assert passes < TOKENS
    tokens, rows, _ = run(target, "spectra-paper-core", logits_seen, sampling)
    assert tokens == truth
    assert torch.equal(rows, plain)


def test_fast_numerics_do_not_hold_these_bits(logits_seen):
    """The test above can fail: stock kernels do differ between a plain step and a tree step."""
    target = target_of(make("llama").to(torch.bfloat16))
    truth, plain, _ = run(target, "autoregressive", logits_seen, Sampling())
    drafter = Scripted("branches", truth, len(PROMPT), vocabulary=VOCABULARY, seed=1)
    _, rows, _ = run(target, method_of([drafter], most=40), logits_seen, Sampling())
    assert not torch.equal(rows, plain)


class Aloof(LlamaForCausalLM):
    """Calls stock attention whatever it is told to use."""

    def __init__(self, config):
        super().__init__(config)
        for layer in self.model.layers:
            layer.self_attn.forward = partial(_aloof_forward, layer.self_attn)


def _aloof_forward(layer, hidden_states, **kwargs):
    kwargs.pop("spectra_metadata", None)
    before, layer.config._attn_implementation = layer.config._attn_implementation, "sdpa"
    try:
        return type(layer).forward(layer, hidden_states, **kwargs)
    finally:
        layer.config._attn_implementation = before


@pytest.mark.parametrize(("kind", "lines"), [("dynamic", 1), ("linear", 0)])
def test_a_rotary_embedding_that_changes_with_the_length_is_named(kind, lines, caplog):
    rope = {"rope_type": kind, "rope_theta": 10000.0, "factor": 2.0}
    wrap_model(make("llama", rope_parameters=rope), numerics="exact")
    said = [line for line in caplog.messages if "rotary embedding changes" in line]
    assert len(said) == lines and all("\n" not in line for line in said)


def test_exact_is_refused_where_the_model_does_not_call_it(caplog):
    model = Aloof(make("llama").config).eval().bfloat16()
    with pytest.raises(SpectraError) as error:
        wrap_model(model, numerics="exact")
    assert error.value.field == "numerics"
    target = wrap_model(model, numerics="auto", step="eager")
    assert target.plan.numerics == "fast"
    assert len(caplog.messages) == 1
    assert "\n" not in caplog.text.strip()
    assert "numerics: fast" in caplog.text
    assert model.config._attn_implementation == "sdpa"


def test_mixture_of_experts_is_not_exact():
    shape = {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16, "num_key_value_heads": 3}
    config = MixtralConfig(**({**make("llama").config.to_dict(), "model_type": "mixtral"} | shape))
    with pytest.raises(SpectraError, match="mixture"):
        wrap_model(MixtralForCausalLM(config).eval().bfloat16(), numerics="exact")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_that_caps_its_scores_is_decoded_and_said_not_to_be_exact(dtype):
    shape = make("llama").config.to_dict() | {"attn_logit_softcapping": 5.0, "sliding_window": 7}
    model = Gemma2ForCausalLM(Gemma2Config(**(shape | {"model_type": "gemma2"}))).eval().to(dtype)
    target = wrap_model(model)
    assert (target.plan.step, target.plan.numerics) == ("eager", "fast")
    assert "does not know this model's 'softcap'" in target.plan.note or dtype == torch.float32
    steps = decode_by(target, PROMPT, "spectra", limits=Limits(20))
    tokens = [token for step in steps for token in step.tokens]
    if dtype == torch.float32:
        ids = torch.tensor([PROMPT])
        assert tokens == model.generate(ids, max_new_tokens=20, do_sample=False)[0, len(PROMPT) :].tolist()
    with pytest.raises(SpectraError, match=r"^numerics: exact is not possible: exact attention .*softcap.*; use auto"):
        wrap_model(model, numerics="exact")


def test_auto_means_exact_in_16_bits_and_fast_in_32():
    model = make("gpt2")
    assert wrap_model(model, step="eager").plan.numerics == "fast"
    assert wrap_model(model.bfloat16(), step="eager").plan.numerics == "exact"


def test_the_model_is_given_back_as_it_was(exact_targets):
    target = exact_target("llama", torch.bfloat16, "eager", exact_targets)
    model = target.model
    model.train()
    steps = decode_by(target, PROMPT, "spectra", limits=Limits(20))
    next(steps)
    assert model.config._attn_implementation == attention.NAME
    assert not model.training
    steps.close()
    assert model.config._attn_implementation == "sdpa"
    assert model.training

    def fails(tokens):
        raise RuntimeError("criteria")

    with pytest.raises(RuntimeError, match="criteria"):
        list(decode_by(target, PROMPT, "spectra", limits=Limits(20, criteria=fails)))
    assert model.config._attn_implementation == "sdpa"
    assert model.training
    model.eval()


def test_a_plan_is_measured_once_and_remembered(monkeypatch):
    model = make("llama-mha").bfloat16()
    first = wrap_model(model, numerics="exact").plan
    assert ExecutionPlan.from_dict(first.to_dict()) == first
    monkeypatch.setattr(load, "measure_execution", None)
    again = wrap_model(make("llama-mha").bfloat16(), numerics="exact").plan
    assert again.step == first.step


def test_a_plan_by_other_threads_is_another_one():
    needs_native()
    target = wrap_model(make("llama"), step="native")
    before = plan_path(target, "auto", "native")
    target.native.library = target.native.library.with_threads(target.native.library.threads + 1)
    assert plan_path(target, "auto", "native") != before


def test_a_plan_is_not_that_of_a_forward_which_hides_its_arguments():
    """What stands in a forward's place may name no `position_ids`: then guesses go in chains, whatever was measured."""
    assert wrap_model(make("llama").double()).plan.trees
    model = make("llama").double()
    whole = model.forward
    model.forward = lambda *args, **options: whole(*args, **options)
    target = wrap_model(model)
    plain, guessed = (
        [t for s in decode_by(target, PROMPT, name, limits=Limits(50)) for t in s.tokens]
        for name in ("autoregressive", "spectra")
    )
    assert guessed == plain
    assert not target.plan.trees


def test_a_wide_step_goes_in_passes_of_one_row_count(monkeypatch):
    target = target_of(make("llama").bfloat16(), ExecutionPlan("exact", chunk=8))
    passes, whole = [], target.call
    monkeypatch.setattr(target, "call", lambda ids, *a: passes.append(ids.shape[1]) or whole(ids, *a))
    truth = [t for s in decode_by(target, PROMPT, "autoregressive", limits=Limits(20)) for t in s.tokens]
    assert passes == [len(PROMPT) - 1, *[8] * 20]
    passes.clear()
    drafter = Scripted("branches", truth, len(PROMPT), vocabulary=VOCABULARY)
    steps = list(decode_by(target, PROMPT, method_of([drafter], most=30), limits=Limits(20)))
    assert passes == [len(PROMPT) - 1, *[8] * sum(-(-len(step.tree) // 8) for step in steps)]
    assert max(len(step.tree) for step in steps) > 8
    assert [token for step in steps for token in step.tokens] == truth


def test_rows_of_a_step_are_filled_up():
    assert [ExecutionPlan("exact", chunk=8).fit(rows) for rows in (1, 8, 9, 1025)] == [8, 8, 16, 1032]
    assert [ExecutionPlan(counts=(4, 6)).fit(rows) for rows in (1, 4, 5, 7, 400)] == [4, 4, 6, 7, 400]
    assert ExecutionPlan().fit(3) == 3


def test_a_plan_by_another_triton_is_another_one(monkeypatch):
    """Whether there are exact steps on a GPU, and their speed, are that package's."""
    target = target_of(make("llama"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    before = plan_path(target, "auto")
    monkeypatch.setattr(facts, "triton_version", lambda: "another")
    assert plan_path(target, "auto") == before
    monkeypatch.setattr(HuggingFaceTarget, "device", torch.device("cuda"))
    another = plan_path(target, "auto")
    monkeypatch.setattr(facts, "triton_version", lambda: "")
    assert plan_path(target, "auto") != another


@pytest.mark.parametrize("chunk", [4, 64])
def test_the_check_of_a_path_has_room_for_its_last_pass(chunk):
    target = target_of(make("llama").bfloat16(), ExecutionPlan("exact", chunk=chunk, cost=COST))
    assert path_agrees(target)


def test_a_row_count_is_taken_only_where_its_rows_agree(monkeypatch):
    """Kernels are chosen by the count: what holds for passes of 4 rows need not hold for 64."""
    monkeypatch.setattr(preflight, "time_step", lambda target, plan, size: 1.0)
    monkeypatch.setattr(preflight, "rows_agree", lambda target, **options: target.plan.chunk in (4, 16))
    target = target_of(make("llama").bfloat16())
    assert choose_chunk(target) == ""
    assert target.plan.chunk == 16
    monkeypatch.setattr(preflight, "rows_agree", lambda target, **options: True)
    assert choose_chunk(target) == ""
    assert target.plan.chunk == 64


def test_keys_that_are_made_from_the_cache_are_not_exact():
    """By a product over as many rows as the cache is read: its kernel depends on the length of the text."""
    small = {"q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 12}
    small |= {"vocab_size": VOCABULARY, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2}
    small |= {"num_attention_heads": 4, "num_key_value_heads": 4, "bos_token_id": None, "eos_token_id": None}
    config = MiniCPM3Config(**small, pad_token_id=None, max_position_embeddings=512)
    model = MiniCPM3ForCausalLM(config).eval()
    with pytest.raises(SpectraError, match="its keys are made from its cache by a product"):
        wrap_model(model, numerics="exact", step="eager")
