"""A whole step in one call: the bits of plain decoding for every tree, and logits near the model's own."""

import random

import pytest
import torch
from native_paths import every_path, library
from native_steps import KINDS, Decoding, model_of_kind, random_tree_around, side_by_side
from tiny import make

from spectra.target.native.attention import Shared, Slots
from spectra.target.native.codes import four_bits, int8
from spectra.target.native.llama import LlamaStep, Rope, StepSequence
from spectra.verify.picks import likeliest

PROMPT = [3, 7, 1, 12, 5, 9, 22, 4, 17, 30, 2, 6]


def plainly(step, config, prompt, count):
    """(tokens, logits of each): greedy, one row a step."""
    one = Decoding(step, config)
    logits = [one.step(prompt)[-1]]
    one.keep(range(len(prompt)))
    for _ in range(count - 1):
        logits.append(one.step([int(logits[-1].argmax())])[0])
        one.keep([0])
    return [int(x.argmax()) for x in logits], logits


@every_path
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_trees_have_the_bits_of_plain_decoding(path, dtype, kind):
    model = model_of_kind(kind, dtype)
    step = LlamaStep.of(library(path), model)
    answer, logits = plainly(step, model.config, PROMPT, 40)
    rng, at = random.Random(kind), 0
    one = Decoding(LlamaStep.of(library(path, rng.choice([1, 3])), model), model.config)
    one.step(PROMPT)
    one.keep(range(len(PROMPT)))
    while at < len(answer) - 1:
        run = answer[at : at + rng.randint(1, 6)][: len(answer) - 1 - at]
        tokens, parents, rows = random_tree_around(run, rng, 60, rng.choice([1, 7, 16, 17, 33, 70]))
        got = one.step(tokens, parents)
        for i, row in enumerate(rows):
            assert torch.equal(got[row], logits[at + i + 1])
        one.keep(rows)
        at += len(run)


@every_path
@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_the_models_own(path, kind):
    model = model_of_kind(kind, torch.float32)
    one = Decoding(LlamaStep.of(library(path), model), model.config)
    prompt = random.Random(0).choices(range(60), k=90)
    with torch.inference_mode():
        want = model(torch.tensor([prompt])).logits[0]
    torch.testing.assert_close(one.step(prompt), want, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_bf16_logits_are_as_near_to_the_numbers_of_fp32_as_the_models_own(kind):
    model = model_of_kind(kind)
    prompt = random.Random(0).choices(range(60), k=60)
    got = Decoding(LlamaStep.of(library(), model), model.config).step(prompt)
    with torch.inference_mode():
        own = model(torch.tensor([prompt])).logits[0].float()
        want = model.float()(torch.tensor([prompt])).logits[0]
    assert float((got - want).abs().mean()) < 1.2 * float((own - want).abs().mean())


@every_path
@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_sequences_side_by_side_have_the_bits_of_each_alone(path, kind):
    model = model_of_kind(kind)
    step = LlamaStep.of(library(path), model)
    rng = random.Random(0)
    prompts = [PROMPT, PROMPT[:1], [rng.randrange(60) for _ in range(80)]]
    trees = [random_tree_around([8, 9], rng, 60, rows) for rows in (5, 20, 1)]
    alone, several = ([Decoding(step, model.config) for _ in prompts] for _ in range(2))
    want = []
    for one, prompt, (tokens, parents, _) in zip(alone, prompts, trees, strict=True):
        want.append(one.step(prompt))
        one.keep(range(len(prompt)))
        want.append(one.step(tokens, parents))
    first = side_by_side(step, [one.asks(prompt) for one, prompt in zip(several, prompts, strict=True)])
    for one, prompt in zip(several, prompts, strict=True):
        one.keep(range(len(prompt)))
    second = side_by_side(
        step, [one.asks(tokens, parents) for one, (tokens, parents, _) in zip(several, trees, strict=True)]
    )
    assert torch.equal(first, torch.cat(want[::2]))
    assert torch.equal(second, torch.cat(want[1::2]))
    assert all(
        torch.equal(a.keys, b.keys) and torch.equal(a.values, b.values) for a, b in zip(alone, several, strict=True)
    )


@every_path
@pytest.mark.parametrize("shared", [64, 128])
@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen3"])
def test_positions_in_another_cache_have_the_bits_of_ones_own(path, kind, shared):
    model = model_of_kind(kind)
    step, rng = LlamaStep.of(library(path), model), random.Random(shared)
    prompt = rng.choices(range(60), k=150)
    whole = Decoding(step, model.config)
    whole.step(prompt)
    whole.keep(range(len(prompt)))
    others = Slots(whole.keys.clone(), whole.values.clone())
    for x in (others.keys, others.values):
        x[:, :, shared:] = torch.nan  # nobody reads them
    own = Slots(*(x[:, :, shared:190].clone() for x in (whole.keys, whole.values)))
    for rows in (1, 3, 40):
        tokens, parents, _ = random_tree_around([8, 9][:rows], rng, 60, rows)
        asked = whole.asks(tokens, parents)
        want = side_by_side(step, [asked])
        asked.sequence = StepSequence(own, len(prompt), len(tokens), Shared(others, shared))
        assert torch.equal(side_by_side(step, [asked, asked])[len(tokens) :], want)
        end = len(prompt) + len(tokens)
        assert torch.equal(own.keys[:, :, : end - shared], whole.keys[:, :, shared:end])
        assert torch.equal(own.values[:, :, : end - shared], whole.values[:, :, shared:end])


def test_what_cannot_be_shared_is_refused():
    model = model_of_kind("llama")
    step = LlamaStep.of(library(), model)
    one, other = (Decoding(step, model.config, capacity=128) for _ in range(2))
    slots = Slots(one.keys, one.values)
    asked = other.asks([1])
    for theirs, shared, length in ((slots, 63, 100), (slots, 128, 100), (slots, 192, 200)):
        asked.sequence = StepSequence(Slots(other.keys, other.values), length, 1, Shared(theirs, shared))
        with pytest.raises(ValueError, match="whole blocks"):
            side_by_side(step, [asked])
    asked.sequence = StepSequence(
        Slots(other.keys, other.values), 100, 1, Shared(Slots(one.keys[:1], one.values[:1]), 64)
    )
    with pytest.raises(ValueError, match="same model"):
        side_by_side(step, [asked])


@every_path
@pytest.mark.parametrize("quantise", [int8, four_bits])
def test_quantised_weights_give_the_bits_of_their_dense_model(path, quantise):
    model = make("llama", hidden_size=96, intermediate_size=160, tie_word_embeddings=True).bfloat16()
    weights = {name: quantise(parameter) for name, parameter in model.named_parameters() if parameter.dim() == 2}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in weights:
                parameter.copy_(weights[name].dense())
    packed, dense = LlamaStep.of(library(path), model, weights), LlamaStep.of(library(path), model)
    read, whole = (sum(matrix.nbytes for matrix in step.matrices) for step in (packed, dense))
    assert read < 0.7 * whole
    for tokens in (PROMPT, PROMPT[:1]):
        a, b = (Decoding(step, model.config).step(tokens) for step in (packed, dense))
        assert torch.equal(a, b)


def test_only_the_rows_asked_for_have_logits():
    model = model_of_kind("llama")
    one = Decoding(LlamaStep.of(library(), model), model.config)
    whole, asked = one.step(PROMPT), one.asks(PROMPT)
    for rows in ([11], [], [3, 3, 0]):
        got = one.one.step([asked.sequence], PROMPT, asked.chains, rows)[0]
        assert torch.equal(got, whole[rows])


def test_long_texts_go_in_runs():
    model = model_of_kind("llama")
    step = LlamaStep.of(library(), model)
    prompt = random.Random(1).choices(range(60), k=1100)
    whole, runs = Decoding(step, model.config, 1200), Decoding(step, model.config, 1200)
    want, got = whole.step(prompt), []
    for at in range(0, len(prompt), 300):
        got.append(runs.step(prompt[at : at + 300]))
        runs.keep(range(len(prompt[at : at + 300])))
    assert torch.equal(torch.cat(got), want)


@every_path
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_step_of_nan_spoils_no_later_one(path, dtype):
    """The sizes are no multiples of a register: what fills rows up is kept between steps."""
    model = make("llama", hidden_size=36, intermediate_size=50).to(dtype)
    with torch.no_grad():
        model.model.embed_tokens.weight[9] = float("inf")
    step = LlamaStep.of(library(path), model)
    want = Decoding(step, model.config).step([1, 2, 3, 4])
    assert Decoding(step, model.config).step([9, 9, 9, 9]).isnan().any()
    assert torch.equal(Decoding(step, model.config).step([1, 2, 3, 4]), want)


@every_path
@pytest.mark.parametrize("threads", [1, 4])
def test_the_greedy_pick_is_the_lowest_of_the_highest(path, threads):
    """Over 70 words, which fill no whole register. Of rows with a NaN there is none, see `side_by_side`."""
    model = make("llama", vocab_size=70, tie_word_embeddings=False)
    head = model.lm_head.weight

    def picks():
        one = Decoding(LlamaStep.of(library(path, threads), model), model.config)
        return likeliest(one.step(list(range(20))))

    with torch.no_grad():
        for twins in ((3, 68), (17, 40), (66, 69)):
            head[list(twins)] = 9 * head[twins[0]]
            assert twins[0] in picks()
            assert twins[1] not in picks()
        for word in (69, 20):
            before = head[word].clone()
            head[word] = float("nan")
            assert picks() == [-1] * 20
            head[word] = before
        head[:] = 0
        assert picks() == [0] * 20


@every_path
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_a_weight_that_is_no_number_is_seen_in_the_logits(path, name):
    model = model_of_kind("llama")
    with torch.no_grad():
        model.get_parameter(f"model.layers.0.self_attn.{name}_proj.weight")[0, 0] = float("nan")
    assert Decoding(LlamaStep.of(library(path), model), model.config).step(PROMPT).isnan().all(1).all()


def test_threads_that_grow_the_cosines_at_once_find_them_whole(monkeypatch):
    rope, alone = (Rope(make("llama").model.rotary_emb) for _ in range(2))
    whole, join = alone.tables(2000), torch.cat

    def joined(parts):
        monkeypatch.setattr(torch, "cat", join)
        rope.tables(10)  # what another thread does meanwhile
        return join(parts)

    monkeypatch.setattr(torch, "cat", joined)
    for positions in (10, 2000):
        assert all(
            torch.equal(part, all_of[: len(part)]) for part, all_of in zip(rope.tables(positions), whole, strict=True)
        )
        assert len({len(part) for part in rope.tables(positions)}) == 1


def test_other_models_are_left_alone():
    dynamic = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    for model in (make("gpt2"), make("gemma3"), make("llama").double(), make("llama", rope_parameters=dynamic)):
        assert LlamaStep.of(library(), model) is None
    half = make("llama")
    half.model.layers[1].mlp.up_proj.to(torch.bfloat16)
    assert LlamaStep.of(library(), half) is None
    assert LlamaStep.of(library(), make("llama", hidden_act="gelu")) is None


@pytest.mark.parametrize("change", ["norm_in", "norm", "scaling"])
def test_a_layer_of_its_own_kind_is_left_to_the_model(change):
    model = make("llama")
    layer = model.model.layers[1]
    if change == "scaling":
        layer.self_attn.scaling *= 2
    else:
        norm = model.model.norm if change == "norm" else layer.input_layernorm
        norm.variance_epsilon = 1e-3
    assert LlamaStep.of(library(), model) is None


def test_what_does_not_fit_is_refused():
    model = model_of_kind("llama")
    step = LlamaStep.of(library(), model)
    one = Decoding(step, model.config, capacity=10)
    with pytest.raises(ValueError, match="slots"):
        one.step(PROMPT)
    wrong = StepSequence(Slots(one.keys.float(), one.values.float()), 0, 1)
    with pytest.raises(ValueError, match="cache"):
        step.step([wrong], [1], [[0]], [0])
    right = one.asks([1, 2])
    with pytest.raises(ValueError, match="asked"):
        step.step([right.sequence], [1, 2], right.chains, [2])
    for rows in ([0, 1, 0], [0] * 40):
        with pytest.raises(ValueError, match="asked"):
            step.step([right.sequence], [1, 2], right.chains, rows)
    with pytest.raises(ValueError, match="token"):
        step.step([right.sequence], [1, 70], right.chains, [1])


@pytest.mark.real
def test_the_embedded_model_decodes_trees_with_the_bits_of_plain_decoding():
    from transformers import AutoModelForCausalLM

    from spectra.target.embedded import embedded_folder

    model = AutoModelForCausalLM.from_pretrained(embedded_folder(), dtype=torch.bfloat16).eval()
    step = LlamaStep.of(library(), model)
    prompt = random.Random(2).choices(range(1000, 40000), k=70)
    answer, logits = plainly(step, model.config, prompt, 12)
    with torch.inference_mode():
        own = model(torch.tensor([prompt])).logits[0, -1].float()
    assert float((own - logits[0]).abs().max()) < 1.5
    one, rng = Decoding(LlamaStep.of(library(threads=1), model), model.config), random.Random(0)
    one.step(prompt)
    one.keep(range(len(prompt)))
    tokens, parents, rows = random_tree_around(answer[:-1], rng, 40000, 60)
    got = one.step(tokens, parents)
    assert all(torch.equal(got[row], logits[i + 1]) for i, row in enumerate(rows))
