"""A whole step of a Llama-shaped model in one call of the CPU library, for one sequence or several side by side."""

import ctypes
import weakref
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.activations import SiLUActivation

from spectra.target.native.attention import Chains, SequenceView, Shared, Slots
from spectra.target.native.codes import Codes
from spectra.target.native.library import Library
from spectra.target.native.matrix import OUTPUTS, Matrix, MatrixView, fill
from spectra.target.rope import FIXED_ROPES

FAMILIES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
SILU = (torch.nn.SiLU, SiLUActivation)
PARTS = (torch.nn.Linear, torch.nn.Embedding, torch.nn.ModuleList, *SILU)
"""What such a model has beside the classes of its own file."""
ROPE_RUN = 1024  # positions whose cosines are computed together: always so many, so that bits do not depend on the rest


class LayerView(ctypes.Structure):
    """`Layer` of csrc/step.h."""

    _fields_ = (
        *((name, MatrixView) for name in ("query", "key", "value", "output", "gate", "up", "down")),
        *((name, ctypes.c_void_p) for name in ("norm_in", "norm_after", "query_norm", "key_norm")),
        ("window", ctypes.c_int64),
    )


class ModelView(ctypes.Structure):
    """`Model` of csrc/step.h."""

    _fields_ = (
        ("layers", ctypes.POINTER(LayerView)),
        ("head", MatrixView),
        ("norm", ctypes.c_void_p),
        *((n, ctypes.c_int32) for n in ("layer_count", "hidden", "heads", "kv_heads", "dim", "intermediate", "wide")),
        ("eps", ctypes.c_float),
        ("scaling", ctypes.c_float),
    )


class RowsView(ctypes.Structure):
    """`Rows` of csrc/step.h."""

    _fields_ = (
        *((n, ctypes.c_void_p) for n in ("embedded", "cosine", "sine", "offsets", "chains")),
        ("sequences", ctypes.POINTER(SequenceView)),
        ("asked", ctypes.c_void_p),
        *((n, ctypes.c_int64) for n in ("rows", "sequence_count", "asked_count")),
        ("logits", ctypes.c_void_p),
        ("picks", ctypes.c_void_p),
    )


@dataclass(frozen=True, slots=True)
class StepSequence:
    """One sequence of a step. slots: of its positions that are not shared, in the model's dtype, strides allowed.

    length: committed positions. rows: how many rows of the step are its own; they are written to the slots behind.
    """

    slots: Slots
    length: int
    rows: int
    shared: Shared | None = None


class LlamaStep:
    """Packed weights of one model. `LlamaStep.of` makes it; `step` computes."""

    def __init__(self, library: Library, model: Any, weights: Mapping[str, Codes]) -> None:
        self.library = library
        config, core = model.config, model.model
        self.dtype: torch.dtype = core.norm.weight.dtype
        self._kept: list[object] = []
        matrices: list[Matrix] = []

        def matrix(module: Any, name: str) -> MatrixView:
            made = Matrix.of(library, weights.get(f"{name}.weight", module.weight), module.bias)
            matrices.append(made)
            return made.view

        layers = (LayerView * len(core.layers))()
        for i, (layer, view) in enumerate(zip(core.layers, layers, strict=True)):
            attention, mlp, prefix = layer.self_attn, layer.mlp, f"model.layers.{i}"
            for field, name in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o")):
                name = f"{name}_proj"
                setattr(view, field, matrix(getattr(attention, name), f"{prefix}.self_attn.{name}"))
            for field in ("gate", "up", "down"):
                setattr(view, field, matrix(getattr(mlp, f"{field}_proj"), f"{prefix}.mlp.{field}_proj"))
            view.norm_in = self._floats(layer.input_layernorm)
            view.norm_after = self._floats(layer.post_attention_layernorm)
            view.query_norm = self._floats(getattr(attention, "q_norm", None))
            view.key_norm = self._floats(getattr(attention, "k_norm", None))
            view.window = window_of(model, attention) or 0

        tied = model.lm_head.weight is core.embed_tokens.weight
        embedding = weights.get("model.embed_tokens.weight")
        head = weights.get("lm_head.weight", embedding if tied else None)
        head = model.lm_head.weight if head is None else head
        matrices.append(Matrix.of(library, head, model.lm_head.bias))
        self._embedding: Matrix | torch.Tensor = core.embed_tokens.weight.detach()
        if tied:
            self._embedding = matrices[-1]
        elif embedding is not None:
            self._embedding = Matrix.of(library, embedding)
        self._tokens: int = core.embed_tokens.num_embeddings
        first = core.layers[0].self_attn
        self._view = ModelView(
            layers=layers,
            head=matrices[-1].view,
            norm=self._floats(core.norm),
            layer_count=len(layers),
            hidden=config.hidden_size,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            dim=first.head_dim,
            intermediate=config.intermediate_size,
            wide=self.dtype == torch.float32,
            eps=config.rms_norm_eps,
            scaling=first.scaling,
        )
        self.matrices = tuple(matrices)
        """Every packed matrix that a step reads, in the order in which it is read."""
        self._rope = Rope(core.rotary_emb)
        self._buffers = ctypes.c_void_p(library.calls.spectra_buffers())
        self._kept.append(layers)
        freed = weakref.finalize(self, library.calls.spectra_free_buffers, self._buffers)
        freed.atexit = False  # a thread that the exit does not wait for may be in a step

    @classmethod
    def of(cls, library: Library, model: Any, weights: Mapping[str, Codes] | None = None) -> "LlamaStep | None":
        """None where the model is not Llama-shaped or not on the CPU in bf16 or fp32.

        weights: parameters that stay quantised, by their name in `model.named_parameters`.
        """
        weights = weights or {}
        return cls(library, model, weights) if is_llama_shaped(model, weights) else None

    @property
    def cache_shape(self) -> tuple[int, int]:
        """(key heads, their dimension)."""
        return self._view.kv_heads, self._view.dim

    def step(
        self,
        sequences: Sequence[StepSequence],
        tokens: Sequence[int],
        chains: Sequence[Sequence[int]] | Chains,
        rows: Sequence[int],
    ) -> tuple[torch.Tensor, list[int]]:
        """Keys and values of all rows are written to their slots; fp32 logits [len(rows), vocabulary] of `rows`, and
        what `likeliest` says of them.

        sequences: their rows stand one after the other. tokens: of all their rows. chains: per row its own ancestors,
        numbered inside its sequence, itself last. rows: whose logits are wanted.
        A row's bits depend on its own tokens alone: not on other rows, other sequences, slots or threads.
        """
        count = sum([one.rows for one in sequences])
        tree = self._chains(sequences, chains)
        if len(tokens) != count or len(tree) != count:
            raise ValueError(f"{len(tokens)} tokens and {len(tree)} chains for {count} rows")
        if count and not 0 <= min(tokens) <= max(tokens) < self._tokens:
            raise ValueError(f"token ids go from 0 to {self._tokens - 1}")
        if len(rows) > count or (len(rows) and not 0 <= min(rows) <= max(rows) < count):
            raise ValueError(f"rows of {count} are asked for, not {list(rows)}")
        logits = torch.empty(len(rows), self._view.head.outputs, dtype=torch.float32, device="cpu")
        picks = array("i", bytes(4 * len(rows)))
        if not count:
            return logits, []
        views = (SequenceView * len(sequences))()
        first = 0
        for i, one in enumerate(sequences):
            if one.slots.dtype != self.dtype:
                raise ValueError(f"the cache holds {one.slots.dtype}, the model {self.dtype}")
            views[i] = SequenceView.of(one.slots, one.length, one.rows, first_row=first, shared=one.shared)
            first += one.rows
        embedded, asked = self._embed(tokens), array("q", rows)
        cosine, sine = self._rope.tables(max([one.length + one.rows for one in sequences]))
        offsets, nodes = tree.places
        view = RowsView(
            embedded.data_ptr(), cosine.data_ptr(), sine.data_ptr(), offsets, nodes, views, asked.buffer_info()[0],
            count, len(sequences), len(rows), logits.data_ptr(), picks.buffer_info()[0],
        )  # fmt: skip
        self.library.calls.spectra_step(
            ctypes.byref(self._view), self._buffers, ctypes.byref(view), self.library.threads
        )
        return logits, picks.tolist()

    def _chains(self, sequences: Sequence[StepSequence], chains: Sequence[Sequence[int]] | Chains) -> Chains:
        if isinstance(chains, Chains):
            return chains
        parts, first = [], 0
        for one in sequences:
            parts.append(Chains.of(chains[first : first + one.rows]))
            first += one.rows
        return Chains.together(parts)

    def _embed(self, tokens: Sequence[int]) -> torch.Tensor:
        """fp32 [rows, hidden]."""
        if isinstance(self._embedding, Matrix):
            return self._embedding.rows(tokens)
        return self._embedding[torch.tensor(tokens, dtype=torch.long)].float()

    def _floats(self, norm: Any) -> int | None:
        """Where a norm's weight stands as floats, filled up to whole registers."""
        if norm is None:
            return None
        values = fill(norm.weight.detach().float(), OUTPUTS)
        self._kept.append(values)
        return values.data_ptr()


class Rope:
    """Cosines and sines of positions, fp32 [positions, dim / 2], as many as were needed so far."""

    def __init__(self, rotary: Any) -> None:
        self._frequencies = rotary.inv_freq.detach().float()
        self._scaling = float(rotary.attention_scaling)
        empty = torch.empty(0, len(self._frequencies), dtype=torch.float32, device="cpu")
        self._tables = (empty, empty)

    def tables(self, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
        cosine, sine = self._tables
        while (start := len(cosine)) < positions:
            angles = torch.arange(start, start + ROPE_RUN, device="cpu")[:, None].float() * self._frequencies
            cosine = torch.cat([cosine, angles.cos() * self._scaling])
            sine = torch.cat([sine, angles.sin() * self._scaling])
        self._tables = cosine, sine  # at once: other threads may ask, and find either pair whole
        return cosine, sine


def window_of(model: Any, attention: Any) -> int | None:
    """The sliding window of a layer, if it has one."""
    if type(model).__name__ == "LlamaForCausalLM":
        return None
    window = getattr(attention, "sliding_window", None)
    return model.config.sliding_window if type(model).__name__ == "MistralForCausalLM" else window


def values_read(model: Any) -> tuple[object, ...]:
    """What a step of a Llama-shaped model reads of its modules besides parameters and buffers."""
    layers = [(one.self_attn.scaling, window_of(model, one.self_attn), one.mlp.act_fn) for one in model.model.layers]
    return model.config.num_hidden_layers, model.model.rotary_emb.attention_scaling, *layers, *_epsilons(model)


def _epsilons(model: Any) -> list[float]:
    return [m.variance_epsilon for m in model.modules() if type(m).__name__.endswith("RMSNorm")]


def _of_file(kind: type, file: str) -> bool:
    """Whether a class and its forward are of this module: other programs put their own functions into classes."""
    return kind.__module__ == file == getattr(kind, "forward", kind).__module__


def _shapes_fit(config: Any, layer: Any, head_dim: int) -> bool:
    """Whether a layer is as wide as the config says; one that was pruned by hand is not."""
    attention, mlp, hidden = layer.self_attn, layer.mlp, config.hidden_size
    queries, keys = config.num_attention_heads * head_dim, config.num_key_value_heads * head_dim
    wanted = {
        attention.q_proj: (queries, hidden),
        attention.k_proj: (keys, hidden),
        attention.v_proj: (keys, hidden),
        attention.o_proj: (hidden, queries),
        mlp.gate_proj: (config.intermediate_size, hidden),
        mlp.up_proj: (config.intermediate_size, hidden),
        mlp.down_proj: (hidden, config.intermediate_size),
    }
    return all(tuple(linear.weight.shape) == shape for linear, shape in wanted.items())


def is_llama_shaped(model: Any, weights: Mapping[str, Codes]) -> bool:
    """Whether `LlamaStep` computes what the model's own forward does."""
    kind, config = type(model), model.config
    if kind.__name__ not in FAMILIES or not kind.__module__.startswith("transformers.models."):
        return False
    if any(type(m) not in PARTS and not _of_file(type(m), kind.__module__) for m in model.modules()):
        return False  # a part was replaced, or what it computes
    rotary = model.model.rotary_emb
    linear = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    dtype = model.model.norm.weight.dtype
    own = [p for name, p in model.named_parameters() if name not in weights]
    attentions = [layer.self_attn for layer in model.model.layers]
    head_dim = attentions[0].head_dim
    return (
        config.hidden_act == "silu"
        and all(isinstance(layer.mlp.act_fn, SILU) for layer in model.model.layers)
        and rotary.rope_type in FIXED_ROPES
        and 2 * rotary.inv_freq.numel() == head_dim
        and set(_epsilons(model)) == {config.rms_norm_eps}
        and {(one.scaling, one.head_dim) for one in attentions} == {(attentions[0].scaling, head_dim)}
        and len(linear) == 7 * len(model.model.layers) + 1
        and len(model.model.layers) <= config.num_hidden_layers  # the model's own forward runs no more
        and all(_shapes_fit(config, layer, head_dim) for layer in model.model.layers)
        and dtype in (torch.bfloat16, torch.float32)
        and not (weights and dtype == torch.float32)
        and all(p.device.type == "cpu" and p.dtype == dtype for p in own)
    )
