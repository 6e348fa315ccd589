"""The Hugging Face target: what it refuses, how it is shared, which models get trees, and models spread over a disk."""

import gc
import json
import re
import shutil

import numpy as np
import pytest
import torch
from compiled import needs_native
from drafting import Scripted, decode_by, method_of
from reference import plain
from tiny import FAMILIES, VOCABULARY, make, model_of, target_of
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    BloomForCausalLM,
    FalconConfig,
    FalconForCausalLM,
    GPTJConfig,
    GPTJForCausalLM,
    Llama4ForCausalLM,
    Llama4TextConfig,
    MambaConfig,
    MambaForCausalLM,
    MptConfig,
    MptForCausalLM,
)

from spectra import (
    AdaptiveBudget,
    FixedBudget,
    Guess,
    Limits,
    Method,
    Sampling,
    Source,
    StepTrace,
    TargetBusyError,
    decode,
    load_target,
)
from spectra.budget.step_cost import StepCost
from spectra.errors import SpectraError
from spectra.target import load
from spectra.target.draft_model import load_draft
from spectra.target.huggingface import HuggingFaceTarget
from spectra.target.load import load_network, wrap_model
from spectra.target.weights import quantise

CHEAP = StepCost(((1, 1.0), (9, 1.0)))
"""A step in which every row pays."""
NO_IDS = {"bos_token_id": None, "eos_token_id": None, "initializer_range": 0.3}


def answer(target, prompt, method="spectra", count=20, sampling=None):
    steps = decode_by(target, prompt, method, sampling=sampling, limits=Limits(count))
    return [token for step in steps for token in step.tokens]


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ([], "no token"),
        ([1] * 500, "context of 512"),
        ([1, VOCABULARY], "ids outside"),
        ([-1], "ids outside"),
        ("Name three rivers", "no list of token ids; give `tokenizer"),
        (torch.tensor([[1, 2]]), "no list"),
        (np.array([1, 2]), "no list"),
        ([[1, 2]], "no list"),
        ([1.0, 2.0], "no list"),
        ({"input_ids": [1, 2]}, "no list"),
    ],
)
def test_prompts_that_cannot_be_answered(prompt, words):
    target = target_of(model_of("llama"))
    with pytest.raises(SpectraError, match=words) as error:
        answer(target, prompt)
    assert error.value.field == "prompt"
    assert answer(target, [1])  # and it is free again


class Always:
    """A drafter that offers the same tokens at every step, one beside the other."""

    def __init__(self, tokens):
        self.tokens = tokens

    def begin(self, prompt):
        pass

    def grow(self, tree, tokens):
        for token in self.tokens:
            tree.insert(Guess((token,), Source("always")))

    def observe(self, tokens, outcome):
        pass

    def held(self):
        return {Source("always"): np.int64(len(self.tokens))}


def test_a_budget_that_chooses_more_nodes_than_the_method_has_is_named():
    target, many = target_of(model_of("llama")), Always(range(40))
    with pytest.raises(SpectraError, match="max_nodes: the budget chose 30 nodes where the method has 8; give"):
        next(decode(target, [1], Method("many", [many], FixedBudget(30), 8)))
    assert len(list(decode(target, [1], Method("many", [many], FixedBudget(30), 30), limits=Limits(4)))) > 0


@pytest.mark.parametrize("token", [-1, VOCABULARY, 2**40])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("adaptive", [False, True])
def test_a_guess_that_is_no_token_is_named_before_the_model_reads_it(token, temperature, adaptive):
    """It ended in an error of the embedding, which on a GPU no later call survives."""
    target = target_of(model_of("llama"))
    budget = AdaptiveBudget(CHEAP, 8, temperature=temperature) if adaptive else FixedBudget(8)
    said = rf"^drafter: always guessed token {token}, outside 0\.\.{VOCABULARY - 1}; guess"
    with pytest.raises(SpectraError, match=said):
        next(decode(target, [1], Method("wrong", [Always([3, token])], budget, 8), sampling=Sampling(temperature)))
    assert answer(target, [1])  # and it is free again


def test_guesses_that_are_numbers_of_numpy_give_a_trace_like_others():
    target = target_of(model_of("llama"))
    method = Method("numpy", [Always(np.arange(8))], FixedBudget(8), 8)
    step = next(decode(target, [1], method, limits=Limits(4)))
    assert step.held == {"always": 8} and {type(token) for token in step.tree.tokens} == {int}
    assert StepTrace.from_dict(json.loads(json.dumps(step.to_dict()))) == step


def test_layers_that_read_chunk_by_chunk_are_served_for_one_chunk():
    shape = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 32, "intermediate_size_mlp": 32}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16}
    small = {"num_local_experts": 2, "attention_chunk_size": 24, "max_position_embeddings": 512, "pad_token_id": None}
    config = Llama4TextConfig(**shape, **heads, **small, **NO_IDS)
    target = target_of(Llama4ForCausalLM(config).eval())
    assert target.context == 24
    with pytest.raises(SpectraError, match=r"^prompt: .* do not fit the context of 24"):
        answer(target, [1, 2, 3], count=22)
    sampling = Sampling()
    assert answer(target, [1, 2, 3], count=20) == plain(target.model, [1, 2, 3], sampling, most=20)[0]


def test_a_target_serves_one_sequence():
    target = target_of(model_of("llama"))
    first = decode_by(target, [1, 2], limits=Limits(9))
    next(first)
    with pytest.raises(TargetBusyError):
        next(decode_by(target, [3], limits=Limits(9)))
    assert len([t for step in first for t in step.tokens]) > 0  # the first one goes on
    assert answer(target, [3])


def test_a_model_whose_weights_changed_is_not_measured_while_it_decodes():
    """What was said is that its attention is called without metadata, whatever the numerics."""
    model = make("llama").bfloat16()
    steps = decode_by(wrap_model(model, numerics="exact"), [1, 2], limits=Limits(9))
    next(steps)
    with torch.no_grad():
        next(model.parameters()).mul_(2)
    with pytest.raises(TargetBusyError):
        wrap_model(model)
    steps.close()
    wrap_model(model)


def test_a_target_is_free_again_however_decoding_ends():
    target = target_of(model_of("llama"))
    steps = decode_by(target, [1, 2], limits=Limits(9))
    next(steps)
    steps.close()
    assert answer(target, [3])

    def fails(tokens):
        raise RuntimeError("criteria")

    with pytest.raises(RuntimeError, match="criteria"):
        list(decode_by(target, [1], limits=Limits(9, criteria=fails)))
    assert answer(target, [3])
    abandoned = decode_by(target, [1, 2], limits=Limits(9))
    next(abandoned)
    del abandoned
    gc.collect()
    assert answer(target, [3])
    session = target.start([1, 2], 5, 5, Sampling())
    session.close()
    session.close()
    with pytest.raises(TargetBusyError):
        held = target.start([1, 2], 5, 5, Sampling())
        target.start([1, 2], 5, 5, Sampling())
    held.close()


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_an_answer_may_use_the_context_to_its_last_position(family):
    """A guess past the end would be looked up in a position table that has no such row."""
    changes = {"n_positions": 40} if family == "gpt2" else {"max_position_embeddings": 40}
    model = make(family, **changes).double()
    prompt = list(range(10))
    truth, _ = plain(model, prompt, Sampling(), most=30)
    for kind in ("deep", "wrong", "chaos"):
        drafter = Scripted(kind, truth, 10, vocabulary=VOCABULARY)
        assert answer(target_of(model), prompt, method_of([drafter], 128), 30) == truth
    assert answer(target_of(model), prompt, "spectra-paper-core", 30) == truth


def falcon():
    return FalconForCausalLM(
        FalconConfig(vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=2, num_attention_heads=3, **NO_IDS)
    )


def gptj():
    return GPTJForCausalLM(
        GPTJConfig(vocab_size=VOCABULARY, n_positions=256, n_embd=48, n_layer=2, n_head=3, rotary_dim=8, **NO_IDS)
    )


def bloom():
    return BloomForCausalLM(BloomConfig(vocab_size=VOCABULARY, hidden_size=48, n_layer=2, n_head=3, **NO_IDS))


def mpt():
    none = {k: NO_IDS[k] for k in NO_IDS if k != "bos_token_id"}
    return MptForCausalLM(MptConfig(vocab_size=VOCABULARY, d_model=48, n_layers=2, n_heads=3, max_seq_len=256, **none))


@pytest.mark.parametrize("changes", [{"n_positions": 16}, {"n_positions": 3}, {"max_position_embeddings": 3}])
def test_a_context_too_short_to_be_compared_is_named(changes):
    """A model that looks its positions up ended with an error of torch's."""
    with pytest.raises(SpectraError, match=r"^model: its context is \d+ tokens; give one of at least 26$"):
        wrap_model(make("gpt2" if "n_positions" in changes else "llama", **changes))


@pytest.mark.parametrize(("build", "trees"), [(falcon, True), (gptj, True), (bloom, False), (mpt, False)])
def test_models_that_place_tokens_by_slot_get_chains(build, trees):
    torch.manual_seed(1)
    model = build().double().eval()
    target = wrap_model(model, numerics="fast")
    assert target.trees == trees
    prompt = [5, 6, 7, 5, 6, 7, 5]
    truth, _ = plain(model, prompt, Sampling(), most=30)
    for kind in ("right", "branches", "chaos"):
        drafter = Scripted(kind, truth, len(prompt), vocabulary=VOCABULARY)
        assert answer(target, prompt, method_of([drafter], 64), 30) == truth
    for method in ("spectra", "spectra-paper-core"):
        steps = list(decode_by(target, prompt, method, limits=Limits(30)))
        assert [token for step in steps for token in step.tokens] == truth
        if not trees:
            assert all(step.tree.parents == tuple(range(-1, len(step.tree) - 1)) for step in steps)


def test_a_model_without_a_key_value_cache_is_refused():
    model = MambaForCausalLM(MambaConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=8))
    with pytest.raises(SpectraError) as error:
        wrap_model(model.eval())
    assert error.value.field == "model"
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("weights", ["bf16", "q4"])
def test_the_cost_of_a_native_step_is_measured_where_products_go_another_way(weights):
    needs_native()
    model = make("llama").bfloat16()
    target = wrap_model(model, step="native", codes=quantise(model, weights) if weights == "q4" else None)
    assert target.native is not None
    block, few = target.native.library.row_block, target.native.library.few_rows
    measured = {rows for rows, _ in target.cost.table}
    assert {block, block + 1, 3 * block, 3 * block + 1} <= measured
    if few:
        assert (few + 1 in measured) == (weights == "q4")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_the_preflight_trusts_these_families_with_trees(family, implementation):
    model = make(family)
    model.set_attn_implementation(implementation)
    target = wrap_model(model)
    assert target.trees
    assert target.cost.table[0][0] == 1
    truth, _ = plain(model, [1, 2, 3], Sampling(), most=12)
    drafter = Scripted("branches", truth, 3, vocabulary=VOCABULARY)
    assert answer(target, [1, 2, 3], method_of([drafter], 64), 12) == truth


@pytest.fixture
def folder(tmp_path):
    """A saved tiny Llama with a tokenizer."""
    from words import tokenizer

    make("llama").save_pretrained(tmp_path / "tiny")
    tokenizer().save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


@pytest.mark.parametrize(
    "others",
    [
        dict.fromkeys(("model.embed_tokens", "model.norm", "model.rotary_emb", "model.layers.0", "lm_head"), "cpu"),
        pytest.param({"": "cpu"}, marks=pytest.mark.all_cases),
        pytest.param({"model": "cpu", "lm_head": "cpu"}, marks=pytest.mark.all_cases),
        {"": "disk", "model.layers": "cpu"},
    ],
)
def test_half_of_the_layers_on_disk_gives_the_same_tokens(folder, tmp_path, others):
    whole = load_target(folder, dtype="fp32", device="cpu")
    device_map = others | {"model.layers.1": "disk"}
    spread = load_target(folder, dtype="fp32", device_map=device_map, offload_folder=tmp_path / "offload")
    assert spread.spread
    assert any(p.device.type == "meta" for p in spread.model.parameters())
    prompt = [5, 6, 7, 5, 6, 7, 5]
    for sampling in (Sampling(), Sampling(0.9, seed=2)):
        truth = answer(whole, prompt, "autoregressive", 24, sampling)
        assert len(truth) == 24
        assert answer(spread, prompt, "autoregressive", 24, sampling) == truth
        assert answer(spread, prompt, "spectra-paper-core", 24, sampling) == truth


def test_a_computed_map_of_no_room_is_refused_and_what_is_read_from_disk_is_told(folder, caplog):
    with pytest.raises(SpectraError, match=r"^max_memory: no part of the model fits into it beside the largest"):
        load_target(folder, dtype="fp32", device_map="auto", max_memory={"cpu": "1KB"})
    spread = load_target(folder, dtype="fp32", device_map="auto", max_memory={"cpu": "180KB"})
    assert spread.spread and set(spread.model.hf_device_map.values()) == {"cpu", "disk"}
    (said,) = (one.getMessage() for one in caplog.records if "from disk" in one.getMessage())
    assert said == "tiny: 0.00 GB of it are read from disk at every pass"
    assert "tiny: it is measured now, by about a hundred such passes" in caplog.messages
    caplog.clear()
    load_network(folder, dtype="fp32", device_map="auto", max_memory={"cpu": "180KB"})
    own = [one.getMessage() for one in caplog.records if one.name == "spectra"]
    assert own == [said], "nothing is measured"
    whole = load_target(folder, dtype="fp32", device="cpu")
    truth = answer(whole, [5, 6, 7, 5, 6], "autoregressive", 24)
    assert answer(spread, [5, 6, 7, 5, 6], "spectra-paper-core", 24) == truth


@pytest.mark.all_cases
def test_in_16_bits_half_of_the_layers_on_disk_gives_the_tokens_of_eager_steps(folder, tmp_path):
    whole = load_target(folder, dtype="bf16", device="cpu", step="eager")
    device_map = {"": "cpu", "model.layers.1": "disk"}
    spread = load_target(folder, dtype="bf16", device_map=device_map, offload_folder=tmp_path / "offload")
    prompt = [5, 6, 7, 5, 6, 7, 9, 12]
    for sampling in (Sampling(), Sampling(0.9, seed=2)):
        truth = answer(whole, prompt, "autoregressive", 24, sampling)
        assert answer(spread, prompt, "autoregressive", 24, sampling) == truth
        assert answer(spread, prompt, "spectra-paper-core", 24, sampling) == truth


def test_a_model_that_a_gpu_has_no_room_for_is_told_in_one_line(folder, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8.00 GiB.")

    places = (torch.nn.Module, "to"), (HuggingFaceTarget, "call"), (AutoModelForCausalLM, "from_pretrained")
    for place, name in (*places, (load, "measure")):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, full)
            patch.setattr(load, "recall_plan", lambda path: None)
            with pytest.raises(SpectraError, match=r"^model: .*does not fit into the GPU's memory; give ") as error:
                load_target(folder, device="cpu", dtype="fp32", weights="bf16")
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("device_map", "said"),
    [
        ({"model": "cuda:9", "lm_head": "cpu"}, "device 'cuda:9' is not available"),
        ({"": 7}, "device 7 is not available"),
        ({"": "cpu", "model.layers.9": "disk"}, "the model has no 'model.layers.9'"),
        ({"model.layers": "cpu", "lm_head": "cpu"}, "model.embed_tokens.weight has no place"),
        ({"model.layers.1": "cpu"}, "model.embed_tokens.weight has no place"),
    ],
)
def test_a_device_map_that_does_not_fit_is_told_before_weights_are_read(folder, monkeypatch, device_map, said):
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *_, **__: pytest.fail("weights were read"))
    with pytest.raises(SpectraError, match=f"^device_map: {said}"):
        load_target(folder, device_map=device_map)
    with pytest.raises(SpectraError, match=r"^max_memory: device 7 is not available"):
        load_target(folder, device_map="auto", max_memory={7: "1GiB", "cpu": "9GiB"})


@pytest.mark.parametrize("place", [{"device": "cpu"}, {"device_map": {"": "cpu"}}])
def test_a_model_whose_files_lack_weights_is_refused(folder, tmp_path, place):
    """transformers fills them up with random numbers, and every run wrote another text."""
    lacking = shutil.copytree(folder, tmp_path / "lacking")
    content = (lacking / "model.safetensors").read_bytes()
    (lacking / "model.safetensors").write_bytes(content.replace(b"1.self_attn.k_proj", b"1.self_attn.j_proj", 1))
    missing = "model.layers.1.self_attn.k_proj.weight"
    with pytest.raises(SpectraError, match=rf"^model: the files of \S*lacking' lack {missing}; give a whole model$"):
        load_target(lacking, **place)
    with pytest.raises(SpectraError, match=rf"^draft: the files of \S*lacking' lack {missing}; give a whole model$"):
        load_draft(lacking, load_target(folder, device="cpu"))


@pytest.mark.parametrize("shared", [{"lm_head": "disk"}, {"transformer.wte": "disk"}])
def test_a_device_map_that_puts_one_of_two_tied_modules_on_disk_is_told(tmp_path, monkeypatch, shared):
    """accelerate keeps their numbers once, and finds none for the other."""
    make("gpt2").save_pretrained(tmp_path / "tied")
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *_, **__: pytest.fail("weights were read"))
    with pytest.raises(SpectraError, match=r"^device_map: transformer.wte.weight and lm_head.weight are the same"):
        load_target(tmp_path / "tied", device_map={"": "cpu", **shared}, offload_folder=tmp_path / "offload")


def test_tied_modules_on_disk_give_the_same_tokens(tmp_path):
    from words import tokenizer

    make("gpt2").save_pretrained(tmp_path / "tied")
    tokenizer().save_pretrained(tmp_path / "tied")
    device_map = dict.fromkeys(("transformer.wpe", "transformer.ln_f", "transformer.h.0", "transformer.h.1"), "cpu")
    device_map |= {"transformer.wte": "disk", "lm_head": "disk"}
    whole = load_target(tmp_path / "tied", dtype="fp32", device="cpu")
    spread = load_target(tmp_path / "tied", dtype="fp32", device_map=device_map, offload_folder=tmp_path / "offload")
    assert answer(spread, [5, 6, 7, 5, 6], "spectra-paper-core", 24) == answer(
        whole, [5, 6, 7, 5, 6], "autoregressive", 24
    )


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("dtype", {"dtype": "int8"}),
        ("numerics", {"numerics": "precise"}),
        ("device", {"device": "cuda:99"}),
        ("device", {"device": "meta"}),
        ("device", {"device": "toaster"}),
        ("device", {"device": 0}),
        ("device", {"device": torch.device("cuda:99")}),
        ("device_map", {"device_map": "sideways"}),
        ("device_map", {"device_map": 7}),
        ("device_map", {"device_map": torch.device("cuda:99")}),
        ("model", {"model": ""}),
        ("model", {"model": "x" * 300}),
        ("model", {"model": "no such name!"}),
        ("model", {"model": torch.nn.Linear(1, 1)}),
        ("model", {"model": b"anything"}),
    ],
)
def test_bad_arguments_are_named(field, options):
    with pytest.raises(SpectraError) as error:
        load_target(**{"model": "anything", **options})
    assert error.value.field == field
    assert "\n" not in str(error.value)


def test_a_device_of_torch_and_one_for_all_of_the_model_are_taken(folder):
    for given in ({"device": torch.device("cpu")}, {"device_map": "cpu"}, {"device_map": torch.device("cpu")}):
        assert load_target(folder, dtype="fp32", **given).device == torch.device("cpu")


def test_a_model_is_not_put_on_disk_as_a_whole(folder, monkeypatch):
    """accelerate refuses that with advice for another library."""
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *_, **__: pytest.fail("weights were read"))
    with pytest.raises(SpectraError, match=r"^device_map: it puts all of the model on disk; "):
        load_target(folder, device_map={"": "disk"}, offload_folder=folder)


def test_the_tokenizer_is_of_the_same_revision_and_reached_in_the_same_way(folder, monkeypatch):
    asked = {}
    hub = {"revision": "v2", "token": "t", "cache_dir": "c"}
    monkeypatch.setattr(load, "only_cached", lambda *given: asked.update(hub=given) or False)
    for kind in (load.AutoTokenizer, AutoModelForCausalLM):

        def remember(name, kind=kind, **given):
            asked[kind] = given
            if kind is AutoModelForCausalLM:
                raise OSError("seen")

        monkeypatch.setattr(kind, "from_pretrained", remember)
    with pytest.raises(SpectraError, match="seen"):
        load_target("an/id", device="cpu", weights="bf16", attn_implementation="eager", **hub)
    assert asked["hub"] == ("an/id", "t", "c")
    assert asked[load.AutoTokenizer] == {**hub, "local_files_only": False}
    assert asked[AutoModelForCausalLM].items() >= {**hub, "attn_implementation": "eager"}.items()
    asked.clear()
    with pytest.raises(SpectraError, match="seen"):
        load_target("an/id", device="cpu", weights="bf16", local_files_only=True)
    assert "hub" not in asked and asked[AutoModelForCausalLM]["local_files_only"]


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(SpectraError) as error:
        load_target(tmp_path)
    assert error.value.field == "model"


@pytest.mark.parametrize("numerics", ["auto", "exact"])
@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight", "lm_head.weight"])
def test_a_parameter_that_holds_nan_is_named(name, numerics, caplog, monkeypatch):
    monkeypatch.setattr(load, "recall_plan", lambda path: None)  # such a model is measured here
    model = make("llama")
    model.get_parameter(name).data[:, 0] = float("nan")
    with pytest.raises(SpectraError, match=rf"holds NaN or infinity in {re.escape(name)};"):
        wrap_model(model, numerics=numerics)
    assert "neighbours" not in caplog.text


def test_greedy_copies_to_the_host_once_a_step(monkeypatch):
    target = target_of(model_of("llama"))
    copies = []
    for name in ("tolist", "item", "__int__", "__float__", "__bool__", "numpy"):
        original = getattr(torch.Tensor, name)

        def counted(self, *args, original=original, **kwargs):
            copies.append(original)
            return original(self, *args, **kwargs)

        monkeypatch.setattr(torch.Tensor, name, counted)
    steps = 0
    for _ in decode_by(target, list(range(20)), "spectra-paper-core", limits=Limits(30)):
        steps += 1
    assert len(copies) == steps


def test_a_row_that_attends_to_nothing_is_refused():
    """Its scores were no numbers, or another error was raised."""
    target = target_of(model_of("llama"))
    with pytest.raises(SpectraError, match=r"^chains: a row has an empty one; give "):
        target.forward(target.new_cache(8), [1, 2], [[], [1]], [0, 1])
