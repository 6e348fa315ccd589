"""Models of known shapes with random weights, to time: the time of a pass does not depend on what the weights say."""

from typing import TYPE_CHECKING

from spectra.target.choices import DTYPES, check_choice

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget

CONTEXT = 16384


SHAPES: dict[str, dict[str, int]] = {
    "llama-tiny": {
        "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 512,
    },
    "llama-135m": {
        "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "vocab_size": 49152,
    },
    "llama-1b": {
        "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 128256,
    },
    "llama-7b": {
        "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 32, "vocab_size": 32000,
    },
    "llama-8b": {
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 128256,
    },
    "llama-70b-tenth": {  # 8 of 80 layers
        "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 8, "num_attention_heads": 64,
        "num_key_value_heads": 8, "vocab_size": 32000,
    },
}  # fmt: skip


def shaped_target(
    shape: str,
    *,
    device: str | None = None,
    dtype: str = "auto",
    weights: str = "auto",
    numerics: str = "auto",
    step: str = "auto",
) -> "HuggingFaceTarget":
    """A target without a tokenizer; arguments as in `load_target`. Raises SpectraError for an unknown shape."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from spectra.target.load import TORCH_DTYPES, check_device, default_dtype, wrap_model
    from spectra.target.quantized import check_in_memory, quantize
    from spectra.target.step_choice import check_step
    from spectra.target.weights import choose_weights, quantise

    check_choice("shape", shape, tuple(SHAPES))
    check_choice("dtype", dtype, DTYPES)
    place = check_device(device)
    check_step(step, place)
    on_cpu = place.type == "cpu"
    if not on_cpu:
        check_in_memory(weights)
    held = choose_weights(weights, quantised=False, device=place, dtype=dtype, step=step) if on_cpu else "bf16"
    kind = default_dtype(place) if dtype == "auto" else TORCH_DTYPES[dtype]
    config = LlamaConfig(**SHAPES[shape], max_position_embeddings=CONTEXT, tie_word_embeddings=True)
    before = torch.get_default_dtype()
    torch.set_default_dtype(kind)
    try:
        with place:
            model = LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    if not on_cpu:
        quantize(model, weights)
    codes = {} if held == "bf16" else quantise(model, held)
    return wrap_model(model.eval(), numerics=numerics, step=step, name=f"{shape} (random weights)", codes=codes)
