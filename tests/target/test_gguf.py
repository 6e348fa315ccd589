"""GGUF files: every block type, names and rows as transformers has them, one line for what cannot be read."""

import math
import struct
from functools import partial

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from gguf_files import MIXED, WORDS, random_blocks, said, tiny_model, write_gguf

from spectra.errors import SpectraError
from spectra.target.gguf_blocks import BLOCK_TYPES, read_codes
from spectra.target.gguf_file import GgufFile, load_gguf_network, open_gguf
from spectra.target.gguf_header import GgufHeader, is_gguf, read_header
from spectra.target.load import load_target
from spectra.target.native.codes import Codes
from spectra.target.native.parameters import fill_parameters


@pytest.fixture
def tiny(tmp_path):
    return write_gguf(tmp_path / "tiny.gguf", tiny_model(), MIXED)


@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_blocks_stand_for_what_the_gguf_package_reads(name):
    kind = Kind[name]
    data = random_blocks(kind, 5, 512)
    codes = read_codes(torch.from_numpy(data), BLOCK_TYPES[name])
    expected = torch.from_numpy(gguf.dequantize(data, kind)).bfloat16()
    assert codes.shape == (5, 512)
    assert codes.codes.dtype == (torch.uint8 if codes.bits == 4 else torch.int8)
    assert codes.group == (16 if name == "Q6_K" else 32)
    if name == "Q4_0":  # its scales may be negative, and 0 times one is -0, which is the same number
        assert torch.equal(codes.dense(), expected)
    else:
        assert torch.equal(codes.dense().view(torch.int16), expected.view(torch.int16))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_a_file_is_the_model_that_transformers_reads(kind, tied, tmp_path):
    from transformers import AutoConfig, AutoModelForCausalLM, GgufConfig

    path = write_gguf(tmp_path / "tiny.gguf", tiny_model(kind, tied=tied), MIXED)
    stock = AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file=path.name, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    ours = load_gguf_network(path)
    assert not ours.codes
    own, theirs = ours.model.state_dict(), stock.state_dict()
    assert own.keys() == theirs.keys()
    for name, value in theirs.items():
        assert torch.equal(own[name], value), name
    ids = torch.arange(12)[None]
    assert torch.equal(ours.model(ids).logits, stock(ids).logits)
    config = AutoConfig.from_pretrained(tmp_path, gguf_file=path.name).to_dict()
    mine = open_gguf(path).config.to_dict()
    skipped = {"_name_or_path", "_model_name_or_path", "unk_token_id", "head_dim"}
    assert {key: mine[key] for key in config.keys() - skipped} == {key: config[key] for key in config.keys() - skipped}
    assert ours.tokenizer("A B").input_ids
    assert ours.name == "tiny"


def test_qwen3_has_heads_of_the_width_that_the_file_says(tmp_path):
    model = tiny_model("qwen3").bfloat16()
    path = write_gguf(tmp_path / "tiny.gguf", model, {})
    ours = load_gguf_network(path).model
    assert ours.config.head_dim == 32
    assert all(torch.equal(value, ours.state_dict()[name]) for name, value in model.state_dict().items())


def test_codes_stay_where_they_are_asked_for(tiny):
    whole = load_gguf_network(tiny).model
    kept = load_gguf_network(tiny, keep_codes=True)
    for name, parameter in kept.model.named_parameters():
        assert (parameter.device.type == "meta") == (name in kept.codes), name
    assert {"model.embed_tokens.weight", "lm_head.weight"} < set(kept.codes)
    assert "model.layers.0.mlp.gate_proj.weight" not in kept.codes
    assert kept.codes["model.layers.1.self_attn.q_proj.weight"].bits == 4
    fill_parameters(kept.model, kept.codes)
    assert all(torch.equal(value, kept.model.state_dict()[name]) for name, value in whole.state_dict().items())


def test_no_weight_is_read_to_know_whether_it_is_there(tiny, monkeypatch):
    weights = open_gguf(tiny).weights
    monkeypatch.setattr(GgufFile, "read", pytest.fail)
    name, norm = "model.layers.0.self_attn.q_proj.weight", "model.norm.weight"
    assert name in weights and norm in weights and "lm_head.bias" not in weights
    assert name in weights.quantised and norm not in weights.quantised


def test_k_quants_and_frequency_factors(tmp_path):
    model = tiny_model("llama", hidden=256)
    factors = np.linspace(1, 8, 16)
    kinds = {"ffn_up": Kind.Q4_K, "attn_q": Kind.Q6_K}
    path = write_gguf(tmp_path / "tiny.gguf", model, kinds, extra={"rope_freqs.weight": factors})
    ours = load_gguf_network(path)
    expected = model.model.rotary_emb.inv_freq / torch.tensor(factors, dtype=torch.float32)
    assert torch.allclose(ours.model.model.rotary_emb.inv_freq, expected)
    weights = open_gguf(path).weights
    query = weights["model.layers.0.self_attn.q_proj.weight"]
    assert isinstance(query, Codes)
    assert query.group == 16
    stored = torch.from_numpy(gguf.dequantize(random_blocks(Kind.Q6_K, 128, 256), Kind.Q6_K)).bfloat16()
    assert torch.equal(query.dense(), stored.view(4, 16, 2, 256).transpose(1, 2).reshape(128, 256))


def test_a_file_that_is_cut_is_named(tiny):
    data = tiny.read_bytes()
    for length in [0, 3, 20, 300, 3000, len(data) // 2, len(data) - 100]:
        tiny.write_bytes(data[:length])
        with pytest.raises(SpectraError, match=r"tiny\.gguf") as error:
            open_gguf(tiny)
        assert error.value.field == "model"
    assert "blk.1" in str(error.value) or "output" in str(error.value)


def test_a_file_that_is_gone_when_its_weights_are_asked_for_is_named(tiny):
    codes = load_gguf_network(tiny, keep_codes=True).codes
    tiny.unlink()
    with pytest.raises(SpectraError, match=r"^model: cannot read .*tiny\.gguf \(No such file or directory\); put it"):
        codes["lm_head.weight"]


def test_what_is_not_read_is_named(tmp_path):
    path = tmp_path / "tiny.gguf"
    write_gguf(path, tiny_model(), {"ffn_up": Kind.Q5_1})
    with pytest.raises(SpectraError, match=r"blk\.0\.ffn_up\.weight has the block type Q5_1"):
        open_gguf(path)
    write_gguf(path, tiny_model(), {}, architecture="gemma")
    with pytest.raises(SpectraError, match=r"architecture 'gemma'.*llama"):
        open_gguf(path)
    write_gguf(path, tiny_model(), {}, extra={"blk.0.ffn_gate_exps.weight": np.zeros((2, 2))})
    with pytest.raises(SpectraError, match="ffn_gate_exps"):
        open_gguf(path)
    path.write_bytes(b"PK" * 100)
    with pytest.raises(SpectraError, match="no GGUF file"):
        open_gguf(path)
    with pytest.raises(SpectraError, match="cannot read"):
        open_gguf(tmp_path / "absent.gguf")


@pytest.mark.parametrize(
    "tensor", ["blk.2.attn_norm.weight", "blk.1.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_q_norm.weight"]
)
def test_a_tensor_that_the_model_has_no_place_for_is_named(tmp_path, tensor):
    path = write_gguf(tmp_path / "tiny.gguf", tiny_model(), {}, extra={tensor: np.ones(64)})
    with pytest.raises(SpectraError, match=rf"a llama model of 2 layers has no {tensor}"):
        load_gguf_network(path)


def test_a_file_that_says_fewer_layers_than_it_holds_is_refused(tiny):
    tiny.write_bytes(said(tiny.read_bytes(), "llama.block_count", 1))
    with pytest.raises(SpectraError, match=r"a llama model of 1 layers has no blk\.1\."):
        load_gguf_network(tiny)


def test_a_tensor_that_comes_twice_is_named(tiny):
    tiny.write_bytes(tiny.read_bytes().replace(b"blk.1.attn_norm.weight", b"blk.0.attn_norm.weight"))
    with pytest.raises(SpectraError, match=r"holds blk\.0\.attn_norm\.weight twice"):
        open_gguf(tiny)


@pytest.mark.parametrize("move", [1, 32, -32, -(2**40)])
def test_data_that_lies_elsewhere_is_not_read_as_weights(tiny, move):
    """The numbers of a neighbour, or between two, would be decoded without a word."""
    data = bytearray(tiny.read_bytes())
    name = b"blk.0.attn_k.weight"
    at = data.index(name) + len(name) + 4 + 2 * 8 + 4  # behind the number of dimensions, both of them and the type
    (offset,) = struct.unpack_from("<Q", data, at)
    struct.pack_into("<Q", data, at, (offset + move) % 2**64)
    tiny.write_bytes(data)
    with pytest.raises(SpectraError, match=r"tiny\.gguf: the data of blk\.0\.attn_k\.weight is not where"):
        open_gguf(tiny)


@pytest.mark.parametrize("kind", [Kind.F32, Kind.Q8_0])
def test_a_tensor_without_numbers_is_named(tmp_path, kind):
    model = tiny_model(tied=True)
    model.lm_head.weight = model.model.embed_tokens.weight = torch.nn.Parameter(torch.zeros(0, 64))
    path = write_gguf(tmp_path / "tiny.gguf", model, {"token_embd": kind})
    with pytest.raises(SpectraError, match=r"^model: tiny\.gguf: token_embd\.weight has the shape \(0, 64\); fetch"):
        load_gguf_network(path)


@pytest.mark.parametrize("factors", [np.ones(5), np.zeros(16), -np.ones(16), np.ones((16, 1))])
def test_frequency_factors_that_are_none_are_refused(tmp_path, factors):
    path = write_gguf(tmp_path / "tiny.gguf", tiny_model(), {}, extra={"rope_freqs.weight": factors})
    with pytest.raises(SpectraError, match=r"rope_freqs\.weight is not a positive number a pair"):
        load_gguf_network(path)


@pytest.mark.parametrize("number", [np.nan, -np.inf])
@pytest.mark.parametrize("name", ["token_embd", "blk.0.attn_q", "blk.0.attn_k", "blk.1.ffn_gate", "blk.1.attn_norm"])
def test_a_tensor_that_holds_no_numbers_is_named(tiny, name, number):
    place = open_gguf(tiny).header.tensors[f"{name}.weight"]
    data = tiny.read_bytes()
    bits = np.array(number, np.float32 if place.kind == "F32" else np.float16).tobytes()
    tiny.write_bytes(data[: place.start] + bits + data[place.start + len(bits) :])
    for load in (load_gguf_network, load_target, partial(load_target, numerics="exact")):
        with pytest.raises(SpectraError, match=rf"^model: tiny\.gguf: {name}\.weight holds NaN or infinity; fetch"):
            load(tiny)


def test_frequency_factors_that_are_no_numbers_are_named(tmp_path):
    path = write_gguf(tmp_path / "tiny.gguf", tiny_model(), {}, extra={"rope_freqs.weight": np.full(16, np.nan)})
    with pytest.raises(SpectraError, match=r"rope_freqs\.weight holds NaN or infinity"):
        load_gguf_network(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.0, "abc", True, [1, 2]])
@pytest.mark.parametrize("key", ["attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.scaling.factor"])
def test_a_number_that_is_none_is_named(tiny, key, value):
    header = read_header(tiny)
    metadata = {**header.metadata, "llama.rope.scaling.type": "linear", f"llama.{key}": value}
    file = GgufFile(tiny, GgufHeader(metadata, header.tensors))
    with pytest.raises(SpectraError, match=rf"llama\.{key} is "):
        file.config  # noqa: B018 - made when it is asked for


@pytest.mark.parametrize("key", ["rope.scaling.factor", "rope.scale_linear"])
def test_a_stretched_rotary_embedding_of_no_type_is_linear(tiny, key):
    """llama.cpp reads it so; files of 2023 have the old name and no type."""
    header = read_header(tiny)
    rope = GgufFile(tiny, GgufHeader({**header.metadata, f"llama.{key}": 4.0}, header.tensors)).config.rope_parameters
    assert (rope["rope_type"], rope["factor"]) == ("linear", 4.0)


def test_an_array_is_no_number(tmp_path):
    """A count that is an array, one entry a layer, is of another kind of model."""
    path, writer = tmp_path / "arrays.gguf", gguf.GGUFWriter(tmp_path / "arrays.gguf", "llama")
    writer.add_array("llama.attention.head_count", [4, 4])
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    assert "llama.attention.head_count" not in read_header(path).metadata
    assert "llama.attention.head_count" in read_header(path).arrays


@pytest.mark.parametrize("key", ["rope.freq_base", "rope.scaling.factor", "attention.head_count_kv", "block_count"])
def test_an_array_where_a_number_is_read_is_named(tiny, key):
    """It is not taken for a number that is missing, which would be another model's default."""
    header = read_header(tiny)
    numbers = {name: value for name, value in header.metadata.items() if name != f"llama.{key}"}
    with pytest.raises(SpectraError, match=rf"^model: tiny\.gguf: llama\.{key} is an array, which is not read"):
        _ = GgufFile(tiny, GgufHeader(numbers, header.tensors, {f"llama.{key}"})).config


def test_a_tensor_of_more_dimensions_than_there_are_is_refused_at_once(tiny, tmp_path):
    """The product of a million of them is a number that takes hours."""
    data = tiny.read_bytes()
    at = data.index(b"blk.0.attn_q.weight") + len("blk.0.attn_q.weight")
    path = tmp_path / "deep.gguf"
    path.write_bytes(data[:at] + struct.pack("<I", 500_000) + b"\xff" * 4_000_000 + data[at + 20 :])
    with pytest.raises(SpectraError, match=r"^model: deep\.gguf: blk\.0\.attn_q\.weight has 500000 dimensions; fetch"):
        open_gguf(path)


@pytest.mark.parametrize("value", [math.inf, math.nan, "abc", 0, 32.5])
def test_an_alignment_that_is_none_is_named(tmp_path, value):
    path, writer = tmp_path / "odd.gguf", gguf.GGUFWriter(tmp_path / "odd.gguf", "llama")
    kind = {str: "string", int: "uint32", float: "float32"}[type(value)]
    getattr(writer, f"add_{kind}")("general.alignment", value)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file):
        write()
    writer.close()
    with pytest.raises(SpectraError, match=r"^model: odd\.gguf names an alignment of .*; fetch it again$"):
        read_header(path)


@pytest.mark.parametrize("tokens", [WORDS[:50], [*WORDS[:9], *WORDS[:-9]]])
def test_a_vocabulary_that_is_damaged_is_named(tmp_path, tokens):
    """Where the merges name other tokens, tokenizers' Rust panics, which is no Exception."""
    path = write_gguf(tmp_path / "tiny.gguf", tiny_model(), MIXED, tokens=tokens)
    with pytest.raises(SpectraError, match=r"^model: tiny\.gguf: its tokenizer cannot be read \("):
        load_gguf_network(path)


def test_a_gguf_file_is_known_by_name_or_by_content(tiny, tmp_path):
    other = tmp_path / "weights.bin"
    other.write_bytes(tiny.read_bytes())
    assert is_gguf(tiny)
    assert is_gguf(other)
    assert is_gguf("absent.gguf")
    assert not is_gguf(tmp_path)
    assert not is_gguf("some/model")


@pytest.mark.real
def test_the_embedded_models_file_holds_the_numbers_of_its_folder():
    from safetensors import safe_open

    from spectra.target import embedded

    weights = open_gguf(embedded.packaged_file()).weights
    with safe_open(embedded.embedded_folder() / "model.safetensors", "pt") as folder:
        assert set(folder.keys()) == set(weights)
        for name in (name for name in weights if ".layers." not in name or ".29." in name):
            weight = weights[name]
            dense = weight.dense() if isinstance(weight, Codes) else weight.bfloat16()
            assert torch.equal(dense, folder.get_tensor(name)), name


def test_a_tokenizer_that_cannot_be_read_is_said_in_one_line(tiny):
    data = tiny.read_bytes()
    for whole, damaged in ((b"tokenizer.ggml.model", b"tokenizer.ggml.m\xffdel"), (b"gpt2", b"gpt9")):
        tiny.write_bytes(data.replace(whole, damaged))
        with pytest.raises(SpectraError, match=r"^model: tiny\.gguf: its tokenizer cannot be read .*convert") as error:
            load_gguf_network(tiny)
        assert "\n" not in str(error.value)


def test_a_name_that_is_no_line_is_refused(tiny):
    tiny.write_bytes(tiny.read_bytes().replace(b"blk.1.attn_norm.weight", b"blk.1.attn\nnorm\x1b[2J.wt"))
    with pytest.raises(SpectraError, match=r"names a tensor 'blk\.1\.attn\\nnorm\\x1b"):
        open_gguf(tiny)
