"""Models in GGUF files, read without unpacking what is quantised.

Names and values are those that `AutoModelForCausalLM.from_pretrained(gguf_file=...)` gives, but quantised matrices stay
`Codes`. The architectures are llama (Mistral's files too), qwen2 and qwen3.
"""

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from spectra.errors import SpectraError
from spectra.target.gguf_blocks import BLOCK_TYPES, PLAIN_TYPES, read_codes
from spectra.target.gguf_header import GgufHeader, TensorPlace, read_header
from spectra.target.native.codes import Codes

ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
"""Of a file -> transformers' model type."""
WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
IN_LAYER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOKENIZERS = ("gpt2", "llama")
"""Kinds of tokenizer that these architectures have: byte-level BPE and SentencePiece."""
ROPE_FACTORS = "rope_freqs.weight"
"""Divisors of the rotary embedding's frequencies, as Llama 3 stretches them."""


class CodedNetwork(NamedTuple):
    """codes: the quantised parameters by name, for the CPU step. Those of a GGUF file are read when they are asked for,
    and have no numbers in the model."""

    model: Any
    tokenizer: Any
    name: str
    codes: Mapping[str, Codes]


@dataclass(frozen=True)
class GgufFile:
    """One file. config: transformers' of its model. weights: by parameter name, read when asked for."""

    path: Path
    header: GgufHeader

    @cached_property
    def config(self) -> Any:
        return _config(self)

    @cached_property
    def weights(self) -> "GgufWeights":
        return GgufWeights(self)

    @property
    def architecture(self) -> str:
        return str(self.header.metadata.get("general.architecture", ""))

    def setting(self, key: str) -> Any:
        """A number of the architecture's, None where the file has none. Raises SpectraError for an array."""
        key = f"{self.architecture}.{key}"
        if key in self.header.arrays:
            raise SpectraError("model", f"{self.path.name}: {key} is an array, which is not read; give another model")
        return self.header.metadata.get(key)

    def count(self, key: str, default: int | None = None) -> int:
        """A number of the architecture's that is whole and above zero. default: where the file has none."""
        return int(self._number(key, default, int))

    def size(self, key: str, default: float | None = None) -> float:
        """A number of the architecture's that is finite and above zero. default: where the file has none."""
        return float(self._number(key, default, int | float))

    def _number(self, key: str, default: float | None, kind: Any) -> Any:
        value = self.setting(key)
        if value is None and default is None:
            raise SpectraError("model", f"{self.path.name} lacks {self.architecture}.{key}; convert the model again")
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, kind) or not 0 < value < math.inf:
            raise SpectraError("model", f"{self.path.name}: {self.architecture}.{key} is {value!r}; fetch it again")
        return value

    def special(self, name: str) -> int | None:
        """The id of a special token: "bos", "eos", "eot", ..."""
        value = self.header.metadata.get(f"tokenizer.ggml.{name}_token_id")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def tokenizer(self) -> Any:
        """As transformers reads it from the file. Raises SpectraError where it cannot.

        Of an unknown kind 5.17 takes what it knows by the architecture, and then writes other text.
        """
        from transformers import AutoTokenizer

        kind = self.header.metadata.get("tokenizer.ggml.model")
        try:
            if kind not in TOKENIZERS:
                raise ValueError(f"its kind is {kind!r}, none of {', '.join(TOKENIZERS)}")
            return AutoTokenizer.from_pretrained(self.path.parent, gguf_file=self.path.name, local_files_only=True)
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of tokenizers' Rust
                raise
            why = " ".join(str(error).split())[:200]
            raise SpectraError(
                "model", f"{self.path.name}: its tokenizer cannot be read ({why}); convert the model again"
            ) from error

    def read(self, place: TensorPlace) -> Codes | torch.Tensor:
        """A tensor as it is in the file. Raises SpectraError for one that holds NaN or infinity."""
        try:
            data = np.fromfile(self.path, np.uint8, place.end - place.start, offset=place.start)
        except OSError as error:  # it was there when it was opened
            raise SpectraError("model", f"cannot read {self.path} ({error.strerror}); put it back") from error
        if len(data) != place.end - place.start:
            raise SpectraError(
                "model", f"{self.path.name} is cut: the data of {place.name} ends after the file; fetch it again"
            )
        raw = torch.from_numpy(data)
        weight: Codes | torch.Tensor
        if place.kind in PLAIN_TYPES:
            weight = raw.view(PLAIN_TYPES[place.kind]).view(place.shape)
        else:
            weight = read_codes(raw.view(place.shape[0], -1), BLOCK_TYPES[place.kind])
        numbers = weight.numbers if isinstance(weight, Codes) else [weight]
        if not all(bool(one.isfinite().all()) for one in numbers):
            raise SpectraError("model", f"{self.path.name}: {place.name} holds NaN or infinity; fetch it again")
        return weight


class GgufWeights(Mapping[str, Codes | torch.Tensor]):
    """Parameters by transformers' names, with the rows in transformers' order."""

    def __init__(self, file: GgufFile) -> None:
        self.file = file
        places = (place for name, place in file.header.tensors.items() if name != ROPE_FACTORS)
        self.places = {_parameter(place.name, file.path.name): place for place in places}

    def __getitem__(self, name: str) -> Codes | torch.Tensor:
        weight = self.file.read(self.places[name])
        heads = self._paired_heads(name)
        if heads is None:
            return weight
        # llama.cpp keeps the pairs that a rotary embedding turns beside each other, transformers half a head apart
        order = torch.arange(weight.shape[0]).view(heads, -1, 2).transpose(1, 2).reshape(-1)
        return weight.rows(order) if isinstance(weight, Codes) else weight[order]

    def __contains__(self, name: object) -> bool:
        return name in self.places  # Mapping's own reads the weight

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def quantised(self) -> "QuantisedWeights":
        return QuantisedWeights(self)

    def _paired_heads(self, name: str) -> int | None:
        """How many heads the rows of a permuted matrix make."""
        if ARCHITECTURES[self.file.architecture] != "llama":
            return None
        if ".q_proj." in name:
            return int(self.file.config.num_attention_heads)
        return int(self.file.config.num_key_value_heads) if ".k_proj." in name else None


class QuantisedWeights(Mapping[str, Codes]):
    """Those of a file's weights that are no plain numbers."""

    def __init__(self, weights: GgufWeights) -> None:
        self.weights = weights
        self.names = {name: None for name, place in weights.places.items() if place.kind in BLOCK_TYPES}

    def __getitem__(self, name: str) -> Codes:
        codes = self.weights[name] if name in self.names else None
        if not isinstance(codes, Codes):
            raise KeyError(name)
        return codes

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def open_gguf(path: str | os.PathLike[str]) -> GgufFile:
    """Raises SpectraError in one line for a file that is none, is cut, or holds what is not read."""
    path = Path(path)
    file = GgufFile(path, read_header(path))
    if file.architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise SpectraError(
            "model",
            f"{path.name} is of the architecture {file.architecture[:40]!r}, which is not read; give one of {known}",
        )
    file.weights  # noqa: B018 - names the tensor that no such model has
    return file


def load_gguf_network(
    path: str | os.PathLike[str], *, keep_codes: bool = False, dtype: torch.dtype = torch.bfloat16
) -> CodedNetwork:
    """The model of a file, on the CPU.

    keep_codes: quantised parameters stay on the meta device, for who reads the codes; otherwise they are filled with
    the bf16 numbers that the codes stand for, and `codes` is empty. dtype: of the other parameters, and of all of them
    without codes. Raises SpectraError naming a tensor that is missing or has another shape.
    """
    from accelerate import init_empty_weights
    from transformers import AutoModelForCausalLM

    file = open_gguf(path)
    with init_empty_weights(include_buffers=False):
        model = AutoModelForCausalLM.from_config(file.config, dtype=dtype)
    model.tie_weights()
    codes = file.weights.quantised
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    _check_tensors(file, shapes)
    state = {name: _numbers(file.weights[name]).to(dtype) for name in shapes if not keep_codes or name not in codes}
    model.load_state_dict(state, strict=False, assign=True)
    model.tie_weights()
    _stretch(model.model.rotary_emb, file)
    ends = sorted({end for end in (file.special("eos"), file.special("eot")) if end is not None})
    model.generation_config.eos_token_id = ends or None
    return CodedNetwork(model.eval(), file.tokenizer(), file.path.stem, codes if keep_codes else {})


def _check_tensors(file: GgufFile, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """The file holds these parameters and no others."""
    for name, shape in shapes.items():
        place = file.weights.places.get(name)
        if place is None or place.shape != shape:
            found = "is missing" if place is None else f"is {place.name} {list(place.shape)}, not {list(shape)}"
            raise SpectraError("model", f"{file.path.name}: {name} {found}; convert the model again")
    for name, place in file.weights.places.items():
        if name not in shapes:
            kind = f"a {file.architecture} model of {file.config.num_hidden_layers} layers"
            raise SpectraError("model", f"{file.path.name}: {kind} has no {place.name}; convert the model again")


def _stretch(rotary: Any, file: GgufFile) -> None:
    """Divide the frequencies of a rotary embedding by the file's factors, if it has some."""
    place = file.header.tensors.get(ROPE_FACTORS)
    if place is None:
        return
    factors = _numbers(file.read(place))
    if factors.shape != rotary.inv_freq.shape or not bool((factors > 0).all()):
        raise SpectraError("model", f"{file.path.name}: {ROPE_FACTORS} is not a positive number a pair; fetch it again")
    rotary.inv_freq /= factors


def _numbers(weight: Codes | torch.Tensor) -> torch.Tensor:
    return weight.dense() if isinstance(weight, Codes) else weight


def _parameter(tensor: str, file: str) -> str:
    """The parameter's name; SpectraError where no Llama-shaped model has such a tensor."""
    stem, _, suffix = tensor.rpartition(".")
    layer = stem.split(".")
    if suffix in ("weight", "bias"):
        if stem in WHOLE:
            return f"{WHOLE[stem]}.{suffix}"
        if len(layer) == 3 and layer[0] == "blk" and layer[1].isdecimal() and layer[2] in IN_LAYER:
            return f"model.layers.{layer[1]}.{IN_LAYER[layer[2]]}.{suffix}"
    raise SpectraError("model", f"{file}: {tensor} is no tensor of a Llama-shaped model; give another model")


def _config(file: GgufFile) -> Any:
    """The config of transformers. Its own reader of GGUF configs parses the whole vocabulary for it, for seconds."""
    from transformers import AutoConfig

    tensors = file.header.tensors
    kind = ARCHITECTURES[file.architecture]
    heads, width = file.count("attention.head_count"), file.count("embedding_length")
    key_value_heads = file.count("attention.head_count_kv", heads)
    head = file.count("attention.key_length", file.count("rope.dimension_count", width // heads))
    layers, inner = file.count("block_count"), file.count("feed_forward_length")
    for key, size, tensor, axis in (
        ("embedding_length", width, "token_embd", 1),
        ("attention.head_count", heads * head, "blk.0.attn_q", 0),
        ("attention.head_count_kv", key_value_heads * head, "blk.0.attn_k", 0),
        ("feed_forward_length", inner, "blk.0.ffn_up", 0),
    ):
        place = tensors.get(f"{tensor}.weight")
        if place is None or len(place.shape) != 2:
            raise SpectraError("model", f"{file.path.name}: {tensor}.weight is missing; convert the model again")
        if place.shape[axis] != size:
            raise SpectraError("model", f"{file.path.name}: {key} does not fit {tensor}.weight; fetch it again")
    if layers > len(tensors):
        raise SpectraError("model", f"{file.path.name}: it has fewer tensors than layers ({layers}); fetch it again")
    values: dict[str, Any] = {
        "max_position_embeddings": file.count("context_length"),
        "num_hidden_layers": layers,
        "intermediate_size": inner,
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": key_value_heads,
        "rms_norm_eps": file.size("attention.layer_norm_rms_epsilon"),
        "rope_parameters": _rope(file, head),
        "vocab_size": tensors["token_embd.weight"].shape[0],
        "tie_word_embeddings": "output.weight" not in tensors,
        "bos_token_id": file.special("bos"),
        "eos_token_id": file.special("eos"),
        "pad_token_id": file.special("padding"),
        "name_or_path": str(file.header.metadata.get("general.name") or file.path.stem),
    }
    if kind != "qwen2":
        values["head_dim"] = head
    if kind == "llama":
        values["attention_bias"] = "blk.0.attn_q.bias" in tensors
        values["mlp_bias"] = "blk.0.ffn_up.bias" in tensors
    return AutoConfig.for_model(kind, **values)


def _rope(file: GgufFile, head: int) -> dict[str, Any]:
    rotated = file.count("rope.dimension_count", head)
    factors = ("rope.scaling.factor", "rope.scale_linear")  # files of 2023 have the second, and no type
    factor = next((key for key in factors if file.setting(key) is not None), None)
    scaling = str(file.setting("rope.scaling.type") or ("linear" if factor else "none"))
    if rotated != head or scaling not in ("none", "linear"):
        what = f"scaling {scaling}" if rotated == head else f"rotating {rotated} of {head} numbers"
        raise SpectraError("model", f"{file.path.name}: a rotary embedding {what} is not read; give another model")
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": file.size("rope.freq_base", 10000.0)}
    if scaling == "linear":
        rope |= {"rope_type": "linear", "factor": file.size(factor or factors[0])}
    return rope
