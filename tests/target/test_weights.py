"""What weights are kept in: who gets codes, who is refused, and what rounding leaves as it is."""

import copy
import weakref

import pytest
import torch
from compiled import needs_native
from gguf_files import MIXED, tiny_model, write_gguf
from tiny import make

from spectra.errors import SpectraError
from spectra.service.loading import ModelOptions
from spectra.target import load, weights
from spectra.target.gguf_file import GgufFile
from spectra.target.native.codes import Codes
from spectra.target.native.matrix import BITS8
from spectra.target.native.parameters import fill_parameters
from spectra.target.preflight import Probe
from spectra.target.weights import OWN, choose_weights, quantise


def choose(wanted, *, quantised=True, device="cpu", dtype="auto", step="auto"):
    return choose_weights(wanted, quantised=quantised, device=torch.device(device), dtype=dtype, step=step)


@pytest.fixture
def library(monkeypatch):
    monkeypatch.setattr(weights, "native_reason", lambda: None)


@pytest.fixture
def no_library(monkeypatch):
    monkeypatch.setattr(weights, "native_reason", lambda: "there is no compiler")


@pytest.mark.usefixtures("library")
def test_with_the_cpu_step_everybody_gets_what_they_ask_for():
    assert choose("auto") == OWN
    assert choose("auto", quantised=False) == "bf16"
    assert [choose(kind, quantised=False) for kind in ("bf16", "int8", "q4")] == ["bf16", "int8", "q4"]
    assert [choose("auto", device="cuda"), choose("auto", dtype="fp32"), choose("auto", step="eager")] == ["bf16"] * 3


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"device": "cuda"}, "device is cuda"), ({"dtype": "fp32"}, "dtype is fp32"), ({"step": "eager"}, "step eager")],
)
@pytest.mark.usefixtures("library")
def test_codes_that_nobody_reads_are_refused(changes, why):
    with pytest.raises(SpectraError, match=rf"weights: q4 .*{why}.*give auto or bf16"):
        choose("q4", **changes)


@pytest.mark.usefixtures("no_library")
def test_without_the_library_auto_is_whole_and_codes_are_refused():
    assert choose("auto") == "bf16"
    with pytest.raises(SpectraError, match="there is no compiler"):
        choose("int8")


def test_a_choice_that_is_none_is_refused_before_anything_is_loaded():
    with pytest.raises(SpectraError, match=r"weights: 'q5' is unknown; choose one of auto, bf16, int8, q4"):
        ModelOptions(weights="q5")
    with pytest.raises(SpectraError, match="weights"):
        load.load_target("nowhere", weights="q5")


@pytest.mark.parametrize("tied", [False, True])
def test_every_linear_layer_is_rounded_and_a_tied_head_to_8_bits(tied):
    model = tiny_model(tied=tied)
    linear = {name for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name}
    head = "model.embed_tokens.weight" if tied else "lm_head.weight"
    four = quantise(model, "q4")
    assert set(four) == linear | {head}
    assert {name for name, codes in four.items() if codes.bits == 8} == ({head} if tied else set())
    assert all(codes.bits == 8 for codes in quantise(model, "int8").values())
    before = model.lm_head.weight.clone()
    fill_parameters(model, four)
    assert not torch.equal(before, model.lm_head.weight)
    assert torch.equal(model.get_parameter(head), four[head].dense().float())
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied


@pytest.mark.parametrize("kind", ["int8", "q4"])
def test_gpt2_whose_layers_keep_their_weights_turned_is_rounded_too(kind):
    needs_native()
    model = make("gpt2", n_embd=96).bfloat16()
    before = {name: p.clone() for name, p in model.named_parameters()}
    codes = quantise(model, kind)
    assert set(codes) == {name for name, p in before.items() if p.ndim == 2} - {"transformer.wpe.weight"}
    fill_parameters(model, codes)
    for name, p in model.named_parameters():
        off = (p - before[name]).detach().abs().max()
        assert 0 < off < 0.1 * before[name].abs().max() if name in codes else off == 0, name
    target = load.wrap_model(model, step="native", codes=codes)
    whole = load.wrap_model(copy.deepcopy(model), step="native")
    assert target.native.nbytes < 0.6 * whole.native.nbytes
    logits = []
    for one in (target, whole):
        with Probe(one, [5, 9, 33, 2], 3) as session, torch.inference_mode():
            logits.append(one.forward(session.cache, [7, 8, 9], [[0], [0, 1], [0, 2]], range(3)))
    assert torch.equal(*logits)


@pytest.mark.parametrize("family", ["gpt2", "gemma3"])
def test_a_head_that_is_the_embedding_too_is_read_as_codes_in_every_family(family):
    needs_native()
    model = make(family, tie_word_embeddings=True).bfloat16()
    codes = quantise(model, "int8")
    fill_parameters(model, codes)
    target = load.wrap_model(model, step="native", codes=codes)
    assert target.native is not None
    assert target.native.steps.matrices[-1].view.format == BITS8
    assert model.lm_head.weight is model.get_input_embeddings().weight
    logits = []
    for one in (target, load.wrap_model(copy.deepcopy(model), step="native")):
        with Probe(one, [5, 9, 33, 2], 1) as session, torch.inference_mode():
            logits.append(one.forward(session.cache, [7], [[0]], [0]))
    assert torch.equal(*logits)


@pytest.fixture
def file(tmp_path):
    return write_gguf(tmp_path / "tiny.gguf", tiny_model(), MIXED)


@pytest.mark.usefixtures("library")
def test_a_gguf_file_is_loaded_with_its_blocks_or_whole_or_rounded_anew(file):
    own = load.load_coded_network(file, device="cpu")
    assert own.name == "tiny"
    assert own.model.lm_head.weight.device.type == "meta"
    whole = load.load_coded_network(file, device="cpu", weights="bf16", dtype="fp32")
    assert not whole.codes
    assert whole.model.dtype == torch.float32
    assert torch.equal(whole.model.lm_head.weight, own.codes["lm_head.weight"].dense().float())
    rounded = load.load_coded_network(file, device="cpu", weights="q4")
    assert rounded.codes["lm_head.weight"].bits == 4
    assert torch.equal(rounded.model.lm_head.weight, rounded.codes["lm_head.weight"].dense())
    with pytest.raises(SpectraError, match="not loaded with attn_implementation"):
        load.load_network(file, attn_implementation="eager")


def test_a_gguf_file_is_decoded_from_its_blocks_with_the_bits_of_the_whole_model(file):
    needs_native()
    targets = [load.load_target(file, device="cpu", weights=kind) for kind in ("auto", "bf16")]
    assert ["bits" in str(target.facts["weights"]) for target in targets] == [True, False]
    assert targets[0].model.lm_head.weight.device.type == "meta"
    assert [target.facts["step"] for target in targets] == ["native", "native"]
    prompt, nodes, chains = [5, 9, 33, 2], [7, 8, 9], [[0], [0, 1], [0, 2]]
    logits = []
    for target in targets:
        with Probe(target, prompt, len(nodes)) as session, torch.inference_mode():
            logits.append(target.forward(session.cache, nodes, chains, range(3)))
    assert torch.equal(*logits)


def test_a_gguf_file_is_read_once_and_a_matrix_at_a_time(file, monkeypatch):
    needs_native()
    alive, read = [], []

    def counted(self, place, whole=GgufFile.read):
        assert sum(one() is not None for one in alive) <= 1  # an embedding, while the head is read
        weight = whole(self, place)
        alive.extend([weakref.ref(weight.codes)] if isinstance(weight, Codes) else [])
        read.append(place.name)
        return weight

    monkeypatch.setattr(GgufFile, "read", counted)
    target = load.load_target(file, device="cpu", numerics="fast")
    assert target.facts["step"] == "native"
    assert sorted(read) == sorted(set(read))


def test_a_model_without_numbers_keeps_its_codes_and_gets_numbers_where_torch_computes(file):
    needs_native()
    target = load.load_target(file, device="cpu")
    again = load.wrap_model(target.model)
    assert again.native is target.native is not None
    eager = load.wrap_model(target.model, step="eager")
    assert eager.native is None
    assert not any(parameter.is_meta for parameter in target.model.parameters())
    whole = load.load_target(file, device="cpu", weights="bf16")
    assert all(torch.equal(p, target.model.get_parameter(n)) for n, p in whole.model.named_parameters())
    assert load.wrap_model(target.model).native is not None


def test_a_model_whose_codes_are_elsewhere_is_named(file):
    needs_native()
    model = copy.deepcopy(load.load_target(file, device="cpu").model)
    for step in ("auto", "eager", "native"):
        with pytest.raises(SpectraError, match=r"^model: .*: model\.embed_tokens\.weight has no numbers .*; load it"):
            load.wrap_model(model, step=step)


@pytest.mark.usefixtures("no_library")
def test_every_loader_takes_a_gguf_file(file):
    assert load.check_loading(str(file), device="cpu") == 128
    assert load.load_tokenizer(file)[1] == "tiny"
    target = load.wrap_model(*load.load_network(file, device="cpu", dtype="fp32")[:2], numerics="fast", step="eager")
    assert target.context == 128
    assert target.eos == {0}
    with pytest.raises(SpectraError, match=r"^model: cannot read .*absent\.gguf"):
        load.load_target(file.parent / "absent.gguf")


def test_a_target_without_the_cpu_step_has_the_numbers_of_its_codes():
    model = tiny_model()
    codes = quantise(model, "int8")
    target = load.wrap_model(model, numerics="fast", step="eager", codes=codes)
    assert torch.equal(target.model.lm_head.weight, codes["lm_head.weight"].dense().float())
