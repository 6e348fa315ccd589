"""Get a target: the embedded model, a hub id or folder, or a model that is already in memory."""

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from transformers import AutoConfig, AutoTokenizer

from spectra.errors import SpectraError
from spectra.target import attention, embedded
from spectra.target.choices import (
    DTYPES,
    FLASH_STEPS,
    GPU_STEPS,
    NUMERICS,
    QUANTISED,
    STEPS,
    WEIGHTS,
    check_choice,
    check_choices,
    unless_embedded,
)
from spectra.target.cuda_graphs import static_attention
from spectra.target.device_map import (
    check_device_map,
    check_here,
    check_on_disk,
    device_name,
    empty_model,
    flat_map,
    places_of,
    try_device,
)
from spectra.target.facts import plan_path, recall_plan, remember_plan
from spectra.target.gguf_file import CodedNetwork, load_gguf_network, open_gguf
from spectra.target.gguf_header import is_gguf
from spectra.target.hooks import own_functions
from spectra.target.hub_cache import SHARED_OPTIONS, may_be_a_model, only_cached
from spectra.target.huggingface import Execution, HuggingFaceTarget
from spectra.target.known_models import KnownModel, learned_of
from spectra.target.native.codes import Codes
from spectra.target.native.library import native_library
from spectra.target.native.parameters import fill_parameters
from spectra.target.native.steps import native_steps
from spectra.target.parameter_state import without_numbers
from spectra.target.preflight import measure_execution, refresh_cost
from spectra.target.quantized import (
    OVERFLOW,
    OVERFLOWED,
    check_exact,
    check_quantised,
    loading_arguments,
    obstacle_to_exact,
)
from spectra.target.rope import ropes_are_fixed
from spectra.target.step_choice import check_step, choose_step, cuda_steps, wanted_step
from spectra.target.weights import OWN, choose_weights, quantise
from spectra.target.whole import load_whole

TORCH_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


log = logging.getLogger("spectra")
GROWING_ROPE = (
    "%s: its rotary embedding changes where a text outgrows a length; from there on guesses may change what is written"
)
NO_ROOM = "does not fit into the GPU's memory; give --weights int8 or q4, --device-map auto, or a smaller model"


class NetworkFiles(NamedTuple):
    """What to load, the name it goes by, and whether only files that are here may be used."""

    folder: str
    name: str
    cached: bool


class PlainNetwork(NamedTuple):
    """A model as transformers loads it, and its tokenizer."""

    model: Any
    tokenizer: Any
    name: str


def load_target(
    model: str | os.PathLike[str] | None = None,
    *,
    device: str | torch.device | None = None,
    dtype: str = "auto",
    weights: str = "auto",
    numerics: str = "auto",
    step: str = "auto",
    device_map: Any = None,
    **options: Any,
) -> HuggingFaceTarget:
    """Load a causal language model as a target.

    model: a hub id, a folder or a GGUF file; None or "embedded" is the embedded model. device: "cpu", "cuda",
    "cuda:1", ..., or torch's; default the first GPU, else the CPU. dtype: "auto" (bf16 where the device has kernels for
    it; else fp16 on a GPU, fp32 on a CPU), "bf16", "fp16", "fp32". weights: "bf16" (as they are loaded, in `dtype`),
    "int8" or "q4" (quantised: rounded to nearest for the native step on a CPU, see `spectra.target.quantized` for a
    GPU) or "auto" (the blocks of a GGUF file or the embedded model as they are where the native step is available, else
    bf16). numerics: "exact"
    (speculative output is token-identical to plain), "fast" (no such promise) or "auto" (exact in 16 bits where
    possible). step: "native" (the project's own library, on a CPU), "eager" (torch), "graphs" (a GPU replays captured
    steps), "flash-eager" (reads the context by a flash kernel; not exact), "flash" (both) or "auto" (the fastest that
    agrees). device_map, options: handed to `from_pretrained` (`device_map="auto"` spreads the layers with accelerate).
    It has `model`, `tokenizer`, `eos` and `cost`, its T(q). Raises SpectraError naming the argument that is wrong.
    """
    device = device_name(device)
    check_choices(device=device, dtype=dtype, weights=weights, numerics=numerics, step=step)
    if not isinstance(model, str | os.PathLike | None):
        fix = "spectra.target.load.wrap_model takes a model in memory"
        raise SpectraError("model", f"{type(model).__name__} is no name and no path; {fix}")
    place = check_device(device)
    check_step(step, place if device_map is None or step in GPU_STEPS else torch.device("cpu"))
    if place.type != "cpu":
        check_exact(weights, numerics)
    loaded = load_coded_network(
        model, device=device, dtype=dtype, weights=weights, step=step, device_map=device_map, **options
    )
    return wrap_model(
        loaded.model, loaded.tokenizer, numerics=numerics, step=step, name=loaded.name, codes=loaded.codes
    )


def load_coded_network(
    model: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    dtype: str = "auto",
    weights: str = "auto",
    step: str = "auto",
    device_map: Any = None,
    **options: Any,
) -> CodedNetwork:
    """`load_network` and the codes that the native step reads in the place of parameters. See `load_target`."""
    check_choice("dtype", dtype, DTYPES)
    check_choice("weights", weights, WEIGHTS)
    place = check_device(device) if device_map is None else torch.device("meta")
    if weights in QUANTISED and place.type != "cpu":
        loaded = load_network(model, device=device, dtype=dtype, weights=weights, device_map=device_map, **options)
        return CodedNetwork(*loaded, {})
    file = model if model is not None and is_gguf(model) else None
    packed = unless_embedded(model) is None or file is not None
    kind = choose_weights(weights, quantised=packed, device=place, dtype=dtype, step=step)
    if kind == OWN and file is not None:
        return _read_gguf(file, keep_codes=True, dtype=torch.bfloat16)
    dtype = dtype if kind == "bf16" else "bf16"
    network, tokenizer, name = load_network(model, device=device, dtype=dtype, device_map=device_map, **options)
    codes: Mapping[str, Codes] = {}
    if kind == OWN:
        codes = embedded.packaged_weights()
    elif kind != "bf16":
        codes = quantise(network, kind)
        fill_parameters(network, codes)
    return CodedNetwork(network, tokenizer, name, codes)


def load_network(
    model: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    dtype: str = "auto",
    weights: str = "auto",
    device_map: Any = None,
    **options: Any,
) -> PlainNetwork:
    """The model as transformers loads it, nothing measured. See `load_target` for the arguments."""
    check_choice("dtype", dtype, DTYPES)
    check_choice("weights", weights, WEIGHTS)
    place = check_device(device)
    check_quantised(weights, place, gguf=model is not None and is_gguf(model))
    if weights in QUANTISED:
        device_map = device_map or {"": str(place)}  # quantised as they arrive, and not moved afterwards
    kind = default_dtype(place) if dtype == "auto" else TORCH_DTYPES[dtype]
    if model is not None and is_gguf(model):
        if device_map is not None or options:
            given = ", ".join([*options, *(["device_map"] if device_map is not None else [])])
            raise SpectraError("model", f"a GGUF file is not loaded with {given}; leave it out")
        network, tokenizer, name, _ = _read_gguf(model, dtype=kind)
        with _named_failure(model):
            return PlainNetwork(network.to(place), tokenizer, name)
    check_here("device_map", places_of(device_map))
    check_here("max_memory", options.get("max_memory") or ())
    shared = {name: options[name] for name in SHARED_OPTIONS if name in options}
    with _named_failure(model, options) as (folder, name, cached):
        options.pop("local_files_only", None)
        quantised = weights in QUANTISED
        if quantised or isinstance(device_map, Mapping):
            empty = empty_model(AutoConfig.from_pretrained(folder, local_files_only=cached, **shared))
            check_device_map(empty, device_map)
            device_map = flat_map(empty, device_map) if isinstance(device_map, Mapping) else device_map
            options |= loading_arguments(weights, empty, device_map) if quantised else {}
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=cached, **shared)
        network = load_whole(folder, "model", dtype=kind, device_map=device_map, local_files_only=cached, **options)
        if device_map is None:
            network.to(place)
        check_on_disk(network, device_map, name)
    return PlainNetwork(network, tokenizer, name)


def load_tokenizer(model: str | os.PathLike[str] | None = None) -> tuple[Any, str]:
    """(tokenizer, name) of a model that is not loaded."""
    with _named_failure(model) as (folder, name, cached):
        if is_gguf(folder):
            return open_gguf(folder).tokenizer(), Path(folder).stem
        return AutoTokenizer.from_pretrained(folder, local_files_only=cached), name


def check_loading(
    model: str | os.PathLike[str] | None,
    *,
    device: str | None = None,
    dtype: str = "auto",
    weights: str = "auto",
    device_map: Any = None,
    max_memory: Mapping[Any, Any] | None = None,
    **options: Any,
) -> int:
    """Raise what `load_network` would of bad arguments, as far as the config shows it; returns the model's context."""
    check_choice("dtype", dtype, DTYPES)
    check_quantised(weights, check_device(device), gguf=model is not None and is_gguf(model))
    check_here("device_map", places_of(device_map))
    check_here("max_memory", max_memory or ())
    with _named_failure(model) as (folder, _, cached):
        if is_gguf(folder):
            return int(open_gguf(folder).config.max_position_embeddings)
        config = AutoConfig.from_pretrained(folder, local_files_only=cached).get_text_config(decoder=True)
    return int(getattr(config, "max_position_embeddings", None) or 2**31)


def _read_gguf(file: str | os.PathLike[str], *, keep_codes: bool = False, dtype: torch.dtype) -> CodedNetwork:
    with _named_failure(file) as (path, _, _):
        return load_gguf_network(path, keep_codes=keep_codes, dtype=dtype)


@contextmanager
def _named_failure(
    model: str | os.PathLike[str] | None, options: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[NetworkFiles]:
    """Where the model is; what fails inside names it. options: as `from_pretrained` takes them."""
    model = unless_embedded(model)
    offline, token, cache_dir = (options.get(name) for name in ("local_files_only", "token", "cache_dir"))
    folder = str(embedded.embedded_folder()) if model is None else os.fspath(model)
    if not folder.strip():
        raise SpectraError("model", "it is blank; give a hub id or a folder, or leave it out for the embedded model")
    if not (may_be_a_model(folder) or is_gguf(folder)):
        raise SpectraError("model", f"{folder!r} is not there, and no hub id; give a folder, a GGUF file or a hub id")
    local = os.path.exists(folder)  # noqa: PTH110 - Path.exists raises for a name that is too long
    try:
        name = embedded.NAME if model is None else Path(folder).name if local else folder
        yield NetworkFiles(folder, name, local or is_gguf(folder) or offline or only_cached(folder, token, cache_dir))
    except SpectraError:
        raise
    except torch.OutOfMemoryError as error:
        raise SpectraError("model", f"{folder!r} {NO_ROOM}") from error
    except Exception as error:  # hub, file, config and import errors differ by version; the cause is named
        first = str(error).strip().splitlines() or [type(error).__name__]
        if first[0].startswith(OVERFLOW):
            raise SpectraError("weights", OVERFLOWED) from error
        raise SpectraError(
            "model", f"cannot load {folder!r} ({first[0][:160]}); give a folder or a hub id that can be reached"
        ) from error


def wrap_model(
    model: Any,
    tokenizer: Any = None,
    *,
    numerics: str = "auto",
    step: str = "auto",
    name: str = "",
    codes: Mapping[str, Codes] | None = None,
) -> HuggingFaceTarget:
    """A target over a model in memory. What has to be measured is measured once and remembered on disk.

    Threads that ask for the same model wait for each other. Raises TargetBusyError where it has to be measured and
    decodes.

    numerics, step: see `load_target`. codes: quantised parameters by name; the native step
    reads them as they are, and without it the model gets their numbers. None: those that a model without numbers was
    wrapped with before.
    """
    check_choice("numerics", numerics, NUMERICS)
    check_choice("step", step, STEPS)
    if numerics == "exact" and (why := obstacle_to_exact(model)):
        raise SpectraError("numerics", f"exact is not possible: {why}; use auto or fast")
    numerics = "fast" if obstacle_to_exact(model) else numerics
    attention.register()
    static_attention.register()
    learned = learned_of(model)
    target = HuggingFaceTarget(model, tokenizer, name=name, lock=learned.decodes)
    try:
        with learned.turn:
            _prepare(target, learned, numerics, step, codes)
    except torch.OutOfMemoryError as error:
        raise SpectraError("model", f"{target.name}, with what a step takes, {NO_ROOM}") from error
    return target


def _prepare(
    target: HuggingFaceTarget, learned: KnownModel, numerics: str, step: str, codes: Mapping[str, Codes] | None
) -> None:
    """Give the target the execution for these settings, measured where it is not known."""
    model = target.model
    if codes is None and learned.native is not None and not learned.native.checkable:
        codes = learned.native.codes  # the model has no numbers beside them
    if not codes and (name := without_numbers(model)):
        raise SpectraError("model", f"{target.name}: {name} has no numbers (it is on the meta device); load it again")
    native = learned.native = native_steps(target, step, codes or {}, learned.native)
    target.use(Execution(target.plan, native))
    if codes and native is None:
        fill_parameters(model, codes)
    step = "native" if native is not None else wanted_step(target, step, numerics)
    path = plan_path(target, numerics, step)  # another one once the model was moved or converted
    if path not in learned.plans:
        own = own_functions(model)
        recalled = None if own else recall_plan(path)
        training, lasting = model.training, True
        model.eval()
        try:
            if recalled is None:
                with target.held():  # whoever decodes has the model's attention
                    pass
                lasting = measure(target, numerics, step)
            else:
                target.use(Execution(recalled, native if recalled.step == "native" else None))
                if recalled.step in GPU_STEPS:
                    target.use(Execution(recalled, steps=cuda_steps(target)))
                refresh_cost(target)
        finally:
            model.train(training)
        if target.plan != recalled and lasting and not own:
            remember_plan(path, target.plan)
        learned.plans[path], learned.steps[path] = target.plan, target.steps
        if target.plan.note:
            log.warning(target.plan.note)
        if not ropes_are_fixed(model):
            log.warning(GROWING_ROPE, target.name)
    plan = learned.plans[path]
    target.use(Execution(plan, native if plan.step == "native" else None, learned.steps[path]))


def measure(target: HuggingFaceTarget, numerics: str, step: str) -> bool:
    """Give the target the execution for these settings. Returns whether the next start would find the same."""
    measure_execution(target, "fast" if step in FLASH_STEPS else numerics)
    return step in ("eager", "native") or choose_step(target, step)


def default_dtype(device: torch.device) -> torch.dtype:
    """bf16 where the device has fast kernels for it, or our library computes; else fp16 on a GPU, fp32 on a CPU."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    if device.type == "cpu" and (torch.ops.mkldnn._is_mkldnn_bf16_supported() or native_library() is not None):
        return torch.bfloat16
    return torch.float32


def check_device(device: str | None) -> torch.device:
    """The device, tried by putting one number on it."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch has some to say about outdated names
            return try_device(device)
    except Exception as error:  # each kind of missing device fails in its own way
        raise SpectraError(
            "device", f"{device!r} is not available; use cpu, or cuda on a machine with a GPU"
        ) from error
