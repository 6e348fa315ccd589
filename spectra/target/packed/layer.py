"""A Llama-shaped layer as some twenty kernel calls, in place of some sixty.

A one-token step of a small model spends as long on handing work to kernels as on the work. `FusedLayer` computes what
the stock layer does, from packed copies of the same parameters: queries, keys and values in one product, activation
and residuals inside the products they follow, rotated keys written straight into the cache. It rounds less often, so
its numbers are the stock ones up to rounding. bf16 on a CPU only; `Packing` swaps it in.
"""

from typing import Any

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, eager_attention_forward
from transformers.models.mistral.modeling_mistral import MistralDecoderLayer
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer

from spectra.target.attention import wide
from spectra.target.attention_metadata import StepPlan
from spectra.target.cache import SlabCache
from spectra.target.packed.matrix import PackedMatrix, parameter_state

LLAMA_SHAPED = (LlamaDecoderLayer, MistralDecoderLayer, Qwen2DecoderLayer)


class Rotation:
    """The rotary embedding of one forward pass as complex numbers, made for its first layer and kept for the others."""

    def __init__(self, scaling: float) -> None:
        self._scaling = scaling
        self._cos: torch.Tensor | None = None
        self._turns = torch.empty(0), torch.empty(0)

    def turns(self, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """cos, sin [1, rows, dim], as transformers makes them -> [rows, 1, dim / 2] complex64 for keys, and for queries
        with the scaling of the scores."""
        if self._cos is not cos:
            half = cos.shape[-1] // 2
            turns = torch.complex(cos[0, :, None, :half].float(), sin[0, :, None, :half].float())
            self._turns, self._cos = (turns, turns * self._scaling), cos
        return self._turns


class FusedLayer(torch.nn.Module):
    """Stands in for the layer `stock` while a session is open. Called as transformers calls a decoder layer."""

    def __init__(self, stock: Any, rotation: Rotation) -> None:
        super().__init__()
        self.stock, self.rotation = stock, rotation
        attention = stock.self_attn
        config = attention.config
        self.index = int(attention.layer_idx)
        self.dim = int(attention.head_dim)
        self.heads, self.kv_heads = int(config.num_attention_heads), int(config.num_key_value_heads)
        self.window: int | None = getattr(attention, "sliding_window", None)
        if isinstance(stock, MistralDecoderLayer):
            self.window = getattr(config, "sliding_window", None)
        self.pack()

    def pack(self) -> None:
        """Copy the parameters as they are now."""
        attention, mlp = self.stock.self_attn, self.stock.mlp
        turned, value = (attention.q_proj, attention.k_proj), attention.v_proj
        weights = [in_pairs(part.weight, self.dim) for part in turned]
        biases = [in_pairs(part.bias, self.dim) for part in turned if part.bias is not None]
        bias = torch.cat([*biases, value.bias.detach()]) if biases else None
        self.qkv = PackedMatrix(torch.cat([*weights, value.weight.detach()]), bias)
        self.out, self.gate, self.up, self.down = (
            PackedMatrix(part.weight, part.bias)
            for part in (attention.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj)
        )
        self.before, self.after = Norm(self.stock.input_layernorm), Norm(self.stock.post_attention_layernorm)
        self._seen = parameter_state(self.stock.parameters())

    @property
    def stale(self) -> bool:
        """The parameters were changed after packing."""
        return self._seen != parameter_state(self.stock.parameters())

    def stands_for(self, module: torch.nn.Module) -> bool:
        return self.stock is module

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_embeddings: tuple[torch.Tensor, torch.Tensor] | None = None,
        past_key_values: Any = None,
        spectra_plan: StepPlan | None = None,
        **settings: Any,
    ) -> torch.Tensor:
        """hidden_states [1, rows, hidden] -> [1, rows, hidden]."""
        assert position_embeddings is not None
        x = hidden_states[0]
        split = (self.heads + self.kv_heads) * self.dim
        mixed = self.qkv(self.before(x))
        pairs = torch.view_as_complex(mixed[:, :split].float().view(len(x), -1, self.dim // 2, 2))
        value = mixed[:, split:].view(len(x), self.kv_heads, self.dim).transpose(0, 1)
        key_turns, query_turns = self.rotation.turns(*position_embeddings)
        if spectra_plan is not None and spectra_plan.wide and not spectra_plan.prefill:
            mixed = self._attend(pairs, key_turns, query_turns, value, past_key_values, spectra_plan)
        else:
            settings |= {"spectra_plan": spectra_plan} if spectra_plan is not None else {}
            mixed = self._attend_stock(pairs * key_turns, value, past_key_values, attention_mask, settings)
        x = self.out.plus(mixed, x)
        y = self.after(x)
        return self.down.plus(self.up.times(y, self.gate.silu(y)), x)[None]

    def _attend(
        self,
        pairs: torch.Tensor,
        key_turns: torch.Tensor,
        query_turns: torch.Tensor,
        value: torch.Tensor,
        cache: SlabCache,
        plan: StepPlan,
    ) -> torch.Tensor:
        """pairs [rows, heads + kv_heads, dim / 2], not turned; value [kv_heads, rows, dim] -> [rows, heads * dim]."""
        plan.calls += 1
        rows, group = len(pairs), self.heads // self.kv_heads
        keys, values, start = cache.layers[self.index].reach(rows, self.kv_heads, self.dim, value)
        torch.mul(pairs[:, self.heads :], key_turns, out=_complex(keys[:, start : start + rows]).transpose(0, 1))
        values[:, start : start + rows] = value
        query = keys.new_empty(self.heads, rows, self.dim)
        torch.mul(pairs[:, : self.heads], query_turns, out=_complex(query).transpose(0, 1))
        bias = plan.bias(self.window, keys.device, keys.shape[1], keys.dtype, group)
        mixed = wide(query.view(self.kv_heads, group * rows, self.dim), keys, values, bias, plan.sums)
        out = value.new_empty(rows, self.heads, self.dim)
        out.transpose(0, 1).copy_(mixed.view(self.heads, rows, self.dim))
        return out.view(rows, -1)

    def _attend_stock(
        self,
        turned: torch.Tensor,
        value: torch.Tensor,
        cache: Any,
        mask: torch.Tensor | None,
        settings: dict[str, Any],
    ) -> torch.Tensor:
        """As `_attend`, by the attention function the model is set to; turned [rows, heads + kv_heads, dim / 2]."""
        attention = self.stock.self_attn
        both = torch.view_as_real(turned).flatten(2).to(value.dtype).transpose(0, 1)[None]
        query, key = both.split((self.heads, self.kv_heads), 1)
        value = value[None]
        if cache is not None:
            key, value = cache.update(key, value, self.index)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(attention.config._attn_implementation, eager_attention_forward)
        if self.window is not None:
            settings = settings | {"sliding_window": self.window}
        out, _ = attend(attention, query, key, value, mask, dropout=0.0, scaling=attention.scaling, **settings)
        rows: torch.Tensor = out.reshape(len(turned), -1)
        return rows


def fusible(module: torch.nn.Module) -> bool:
    """Whether `FusedLayer` computes what this module does: a class it knows, plain parts, nothing hooked in."""
    if type(module) not in LLAMA_SHAPED:
        return False
    layer: Any = module
    linear = [p for p in (*layer.self_attn.children(), *layer.mlp.children()) if type(p) is torch.nn.Linear]
    return bool(
        len(linear) == 7
        and len({part.bias is None for part in linear[:3]}) == 1
        and layer.self_attn.config.hidden_act in ("silu", "swish")
        and layer.self_attn.head_dim % 2 == 0
        and not any(hooked(part) for part in layer.modules())
        and all(p.device.type == "cpu" and p.dtype == torch.bfloat16 for p in layer.parameters())
    )


def hooked(module: torch.nn.Module) -> bool:
    """Somebody wants to see, or to change, what goes through this module."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or hasattr(module, "_hf_hook") or "forward" in vars(module)


class Norm:
    """An RMS norm as six kernel calls in place of a dozen: x over its length.

    x / sqrt(mean(x^2) + epsilon) * weight is x / hypot(|x|, sqrt(n epsilon)) * sqrt(n) weight.
    """

    def __init__(self, layer: Any) -> None:
        width = layer.weight.numel()
        self._weight = layer.weight.detach().float() * width**0.5
        self._least = torch.tensor((width * layer.variance_epsilon) ** 0.5)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """x [rows, width] in bf16 -> the same shape and dtype, computed in float32."""
        wide = x.float()
        length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
        return wide.div_(torch.hypot(length, self._least, out=length)).mul_(self._weight).to(x.dtype)


def in_pairs(parameter: torch.Tensor, dim: int) -> torch.Tensor:
    """The rows of each head [heads * dim, ...] in the order 0, dim/2, 1, dim/2 + 1, ...

    The two numbers that the rotary embedding turns together then stand together, as a complex number; products of
    queries and keys do not see the order.
    """
    halves: torch.Tensor = parameter.detach().unflatten(0, (-1, 2, dim // 2))  # type: ignore[no-untyped-call]
    return halves.transpose(1, 2).reshape(parameter.shape)


def _complex(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))
