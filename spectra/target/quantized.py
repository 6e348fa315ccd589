"""8 and 4 bits where torch computes the steps: weights of torchao or bitsandbytes, by transformers' own configs.

`weights` "int8": 8 bits, a scale an output. "q4": 4 bits, a scale for 128, 64 or 32 inputs
(torchao) or NF4 (bitsandbytes).
torchao is taken where it is installed, else bitsandbytes.

Whether a row's numbers depend on the rows beside it decides about exact numerics. Weights that are turned back into
16 bits and multiplied, or multiplied by a kernel for a fixed number of rows, do as well as 16-bit ones: torchao's and
NF4. LLM.int8() (bitsandbytes, 8 bits) does not: it computes the columns in 16 bits that hold a large number in any row
of the step (Dettmers et al. 2022, section 3.2), so a tree changes its own context's numbers.
"""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import torch

from spectra.errors import SpectraError
from spectra.target.choices import QUANTISED

LIBRARIES = ("torchao", "bitsandbytes")
GROUPS = (128, 64, 32)
"""Inputs that may share a scale in torchao's 4 bits, by its kernel for GPUs."""


BESIDE = "LLM.int8() treats a row by what the rows beside it hold; install torchao for exact 8 bits"
"""Why bitsandbytes in 8 bits is not exact."""
OVERFLOW = "Some modules are dispatched on the CPU or the disk"
"""So transformers begins where it computed a device map, and bitsandbytes does not take what came of it."""
OVERFLOWED = (
    "bitsandbytes takes GPUs alone, and by the computed device map not all of the model fits them; leave them more "
    "memory, take fewer bits or a smaller model, or pip install torchao"
)


def library() -> str:
    """The package that quantises. Raises SpectraError where there is none."""
    found = next((name for name in LIBRARIES if find_spec(name)), None)
    if found is None:
        raise SpectraError("weights", "quantising takes torchao or bitsandbytes; pip install torchao")
    return found


def loading_arguments(weights: str, model: torch.nn.Module, device_map: Any = None) -> dict[str, Any]:
    """What `from_pretrained` takes to quantise this model while it loads. Raises SpectraError."""
    import transformers

    if library() == "torchao":
        return {"quantization_config": transformers.TorchAoConfig(torchao_config(weights, model))}
    places = {str(place) for place in device_map.values()} if isinstance(device_map, Mapping) else set()
    if places != {"cpu"} and (others := sorted(places & {"cpu", "disk"})):
        raise SpectraError(
            "weights",
            f"bitsandbytes takes maps of GPUs alone, and the device map names {others[0]} too; give such a map, or "
            "pip install torchao",
        )
    if weights == "int8":
        return {"quantization_config": transformers.BitsAndBytesConfig(load_in_8bit=True)}
    half = torch.bfloat16
    four = transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=half, bnb_4bit_use_double_quant=True
    )
    return {"quantization_config": four}


def torchao_config(weights: str, model: torch.nn.Module) -> Any:
    """Weights alone are quantised; activations stay as they are. Raises SpectraError."""
    from torchao.quantization import Int4WeightOnlyConfig, Int8WeightOnlyConfig

    if weights == "int8":
        return Int8WeightOnlyConfig()
    return Int4WeightOnlyConfig(group_size=group_size(model), int4_packing_format="tile_packed_to_4d")


def group_size(model: torch.nn.Module) -> int:
    """The largest of GROUPS that divides the inputs of all its layers: torchao leaves the others in 16 bits, unsaid.

    Raises SpectraError where there is none.
    """
    widths = {module.in_features for module in model.modules() if isinstance(module, torch.nn.Linear)}
    found = next((size for size in GROUPS if all(width % size == 0 for width in widths)), None)
    if found is None:
        raise SpectraError("weights", f"q4 takes layers of multiples of {GROUPS[-1]} inputs; use int8 or bf16")
    return found


def quantize(model: torch.nn.Module, weights: str) -> None:
    """The same for a model in memory, in place; by torchao alone. Raises SpectraError."""
    check_in_memory(weights)
    if weights not in QUANTISED:
        return
    from torchao.quantization import quantize_

    quantize_(model, torchao_config(weights, model))


def check_in_memory(weights: str) -> None:
    """Raise SpectraError, before the model is made, where `quantize` is not possible here."""
    if weights in QUANTISED and library() != "torchao":
        raise SpectraError("weights", "a model in memory is quantised by torchao; pip install torchao")


def quantized_by(model: Any) -> str:
    """ "int8, torchao 0.18.0" for example, from the model itself; "" for weights that are not quantised."""
    for module in model.modules():
        weight = getattr(module, "weight", None)
        kind = type(weight).__name__
        if kind in ("Int8Params", "Params4bit"):
            return f"{'int8' if kind == 'Int8Params' else 'q4'}, bitsandbytes {version_of('bitsandbytes')}"
        if type(weight).__module__.startswith("torchao."):
            return f"{'q4' if 'Int4' in kind else 'int8'}, torchao {version_of('torchao')}"
    return ""


def obstacle_to_exact(model: Any) -> str:
    """Why exact numerics are not possible with these weights, or ""."""
    for module in model.modules():
        if type(getattr(module, "weight", None)).__name__ == "Int8Params":
            return BESIDE
    return ""


def check_quantised(weights: str, place: torch.device, *, gguf: bool) -> None:
    """Raise SpectraError for quantised weights that torch does not compute with here.

    place: of the model. gguf: it is a GGUF file.
    """
    if weights not in QUANTISED:
        return
    if place.type == "cpu":
        raise SpectraError("weights", f"{weights} takes a GPU here, and the device is {place}; leave it out")
    if gguf:
        raise SpectraError("weights", "a GGUF file on a GPU is read in 16 bits; leave it out")
    library()


def check_exact(weights: str, numerics: str) -> None:
    """Raise SpectraError, before a model is loaded, where what quantises here rules exact numerics out."""
    if (weights, numerics) == ("int8", "exact") and library() == "bitsandbytes":
        raise SpectraError("numerics", f"exact is not possible: {BESIDE}; use auto or fast")


def version_of(package: str) -> str:
    """Of an installed package, else ""."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
