"""Tiny GGUF files: a transformers model written as llama.cpp's converter would, each tensor in a type of its own."""

import struct

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind

from spectra.target.gguf_file import IN_LAYER, WHOLE

WORDS = [*(chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))), "!!"]
"""The 256 letters of byte-level BPE and what its one merge makes."""

MIXED = {
    "token_embd": Kind.Q8_0, "attn_q": Kind.Q4_0, "attn_k": Kind.Q4_1, "attn_v": Kind.Q5_0,
    "ffn_up": Kind.Q4_1, "ffn_gate": Kind.F16, "ffn_down": Kind.BF16, "output": Kind.Q8_0,
}  # fmt: skip


def random_blocks(kind, rows, columns, seed=0):
    """Blocks of random codes with scales that are small numbers: every value that a type can hold may come up."""
    weights, size = gguf.GGML_QUANT_SIZES[kind]
    generator = np.random.default_rng(seed)
    blocks = generator.integers(0, 256, (rows * columns // weights, size), dtype=np.uint8)
    halves = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q8_0": [0], "Q4_K": [0, 2], "Q6_K": [208]}[kind.name]
    for at in halves:
        numbers = generator.normal(0, 0.01, len(blocks)).astype(np.float16)
        blocks[:, at : at + 2] = numbers.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(rows, -1)


def write_gguf(path, model, kinds, *, architecture=None, extra=None, tokens=WORDS):
    """kinds: block type by the last part of a tensor's GGUF name; F32 for others. extra: more tensors, float32."""
    config = model.config
    architecture = architecture or config.model_type
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    if getattr(config, "head_dim", None):
        writer.add_key_length(config.head_dim)
        writer.add_rope_dimension_count(config.head_dim)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * len(tokens))
    writer.add_token_merges(["! !", "! !"])  # twice: transformers 5.17 takes a list of one for its element
    writer.add_eos_token_id(0)
    writer.add_bos_token_id(1)
    for name, weight in _tensors(model).items():
        numbers = weight.detach().float().numpy()
        kind = kinds.get(name.split(".")[-2], Kind.F32)
        if name.endswith(".bias") or numbers.ndim == 1 or kind == Kind.F32:
            writer.add_tensor(name, numbers)
        elif kind.name in ("Q4_K", "Q6_K"):
            blocks = random_blocks(kind, *numbers.shape)
            writer.add_tensor(name, blocks, raw_dtype=kind)
        else:
            writer.add_tensor(name, gguf.quantize(numbers, kind), raw_dtype=kind)
    for name, numbers in (extra or {}).items():
        writer.add_tensor(name, np.asarray(numbers, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors(model):
    """GGUF name -> weight, q and k of Llama with pairs beside each other."""
    named, config = {}, model.config
    for name, weight in model.named_parameters():
        stem, _, suffix = name.rpartition(".")
        parts = stem.split(".")
        if parts[:2] == ["model", "layers"]:
            short = next(short for short, long in IN_LAYER.items() if long == ".".join(parts[3:]))
            if config.model_type == "llama" and short in ("attn_q", "attn_k"):
                heads = config.num_attention_heads if short == "attn_q" else config.num_key_value_heads
                weight = weight.reshape(heads, 2, -1, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)
            named[f"blk.{parts[2]}.{short}.{suffix}"] = weight
        else:
            named[f"{next(short for short, long in WHOLE.items() if long == stem)}.{suffix}"] = weight
    return named


def tiny_model(kind="llama", *, tied=False, hidden=64):
    """A random model of the type with sizes that are multiples of blocks."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(
        kind, vocab_size=len(WORDS), hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=tied,
        initializer_range=0.2, bos_token_id=1, eos_token_id=0, pad_token_id=None,
        **({} if kind == "qwen2" else {"head_dim": 32}),
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data += 0.1 * torch.randn_like(parameter)
    return model.eval()


def said(data: bytes, key: str, number: int) -> bytes:
    """A file that has another number of four bytes there."""
    at = data.index(key.encode()) + len(key) + 4
    return data[:at] + struct.pack("<I", number) + data[at + 4 :]
