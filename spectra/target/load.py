"""Get a target: the embedded model, a hub id or folder, or a model that is already in memory."""

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from spectra.errors import SpectraError
from spectra.target import attention, embedded
from spectra.target.choices import DTYPES, NUMERICS, STEPS, check_choice
from spectra.target.cuda_graphs import static_attention
from spectra.target.cuda_graphs.choice import choose_step, cuda_steps, wanted_step
from spectra.target.cuda_graphs.steps import StaticSteps
from spectra.target.execution_plan import Plan
from spectra.target.facts import plan_path, recall_plan, remember_plan
from spectra.target.huggingface import HuggingFaceTarget
from spectra.target.packed.packing import Packing, pays
from spectra.target.preflight import measure_plan, refresh_cost

TORCH_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


@dataclass(slots=True)
class Learned:
    """What is known of a model handed to `wrap_model`, so that the drop-in measures, packs and loads once."""

    plans: dict[Path, Plan] = field(default_factory=dict)
    steps: dict[Path, StaticSteps | None] = field(default_factory=dict)
    packing: Packing | None = None
    drafts: dict[tuple[str, ...], Any] = field(default_factory=dict)
    stores: dict[tuple[str, ...], tuple[Any, Sequence[Any]]] = field(default_factory=dict)


_learned: WeakKeyDictionary[Any, Learned] = WeakKeyDictionary()

log = logging.getLogger("spectra")


def load_target(
    model: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    dtype: str = "auto",
    numerics: str = "auto",
    step: str = "auto",
    device_map: Any = None,
    **options: Any,
) -> HuggingFaceTarget:
    """Load a causal language model as a target.

    model: a hub id or a folder; None is the embedded SmolLM2-135M-Instruct. device: "cpu", "cuda", "cuda:1", ...;
    default the first GPU, else the CPU. dtype: "auto" (bf16 where the device has kernels for it, else fp32), "bf16",
    "fp16" or "fp32". numerics: "exact" (speculative output is token-identical to plain), "fast" (no such promise) or
    "auto" (exact in 16 bits where it can be had). step: "eager", "graphs" (a GPU replays recorded steps), "flash" (and
    reads the context by a flash kernel; not exact) or "auto" (the fastest that agrees). device_map, options: handed to
    `from_pretrained` (`device_map="auto"` spreads the layers with accelerate). Raises SpectraError naming the argument
    that is wrong.
    """
    check_choice("numerics", numerics, NUMERICS)
    check_choice("step", step, STEPS)
    if step in ("graphs", "flash") and device_map is None and (place := check_device(device)).type != "cuda":
        raise SpectraError("step", f"{step} takes a CUDA GPU, and the device is {place}; use auto or eager")
    network, tokenizer, name = load_network(model, device=device, dtype=dtype, device_map=device_map, **options)
    return wrap_model(network, tokenizer, numerics=numerics, step=step, name=name)


def load_network(
    model: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    dtype: str = "auto",
    device_map: Any = None,
    **options: Any,
) -> tuple[Any, Any, str]:
    """(model, tokenizer, name) as transformers loads them, nothing measured. See `load_target` for the arguments."""
    check_choice("dtype", dtype, DTYPES)
    place = check_device(device)
    kind = default_dtype(place) if dtype == "auto" else TORCH_DTYPES[dtype]
    with _named_failure(model) as (folder, name, cached):
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=cached)
        network = AutoModelForCausalLM.from_pretrained(
            folder, dtype=kind, device_map=device_map, local_files_only=cached, **options
        )
    if device_map is None:
        network.to(place)
    return network, tokenizer, name


def load_tokenizer(model: str | os.PathLike[str] | None = None) -> tuple[Any, str]:
    """(tokenizer, name) of a model that is not loaded."""
    with _named_failure(model) as (folder, name, cached):
        return AutoTokenizer.from_pretrained(folder, local_files_only=cached), name


def check_loading(model: str | os.PathLike[str] | None, *, device: str | None = None, dtype: str = "auto") -> int:
    """Raise what `load_network` would of bad arguments, as far as the config shows it; returns the model's context."""
    check_choice("dtype", dtype, DTYPES)
    check_device(device)
    with _named_failure(model) as (folder, _, cached):
        config = AutoConfig.from_pretrained(folder, local_files_only=cached).get_text_config(decoder=True)
    return int(getattr(config, "max_position_embeddings", None) or 2**31)


@contextmanager
def _named_failure(model: str | os.PathLike[str] | None) -> Iterator[tuple[str, str, bool]]:
    """(what to load, its name, whether only files that are here may be used); what fails inside names the model."""
    folder = str(embedded.embedded_folder()) if model is None else os.fspath(model)
    if not folder.strip():
        raise SpectraError("model", "it is blank; give a hub id or a folder, or leave it out for the embedded model")
    local = os.path.exists(folder)  # noqa: PTH110 - Path.exists raises for a name that is too long
    try:
        name = embedded.NAME if model is None else Path(folder).name if local else folder
        yield folder, name, local or only_cached(folder)
    except Exception as error:  # hub, file, config and import errors differ by version; the cause is named
        first = str(error).strip().splitlines() or [type(error).__name__]
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
) -> HuggingFaceTarget:
    """A target over a model in memory. What has to be measured is measured once and remembered on disk.

    numerics, step: see `load_target`.
    """
    check_choice("numerics", numerics, NUMERICS)
    check_choice("step", step, STEPS)
    attention.register()
    static_attention.register()
    target = HuggingFaceTarget(model, tokenizer, name=name)
    step = wanted_step(target, step, numerics)
    learned = learned_of(model)
    if not pays(model):
        learned.packing = None
    elif learned.packing is None:
        learned.packing = Packing(model)
    target.packing, known = learned.packing, learned.plans
    path = plan_path(target, numerics, step)  # another one once the model was moved or converted
    if path not in known:
        recalled = recall_plan(path)
        if recalled is not None:
            target.plan = recalled
            target.steps = None if recalled.step == "eager" else cuda_steps(target)
        training = model.training
        model.eval()
        try:
            fresh = measure(target, numerics, step) if recalled is None else refresh_cost(target)
        finally:
            model.train(training)
        if fresh is not None:
            target.plan = fresh
            remember_plan(path, fresh)
        known[path], learned.steps[path] = target.plan, target.steps
        if target.plan.note:
            log.warning(target.plan.note)
    target.plan, target.steps = known[path], learned.steps[path]
    return target


def learned_of(model: Any) -> Learned:
    return _learned.setdefault(model, Learned())


def measure(target: HuggingFaceTarget, numerics: str, step: str) -> Plan:
    """The plan for these settings; the target gets the steps that go with it."""
    target.plan = measure_plan(target, "fast" if step == "flash" else numerics)
    if step != "eager":
        choose_step(target, step)
    return target.plan


def only_cached(name: str) -> bool:
    """Whether the hub's local cache is all there is of this id. Asks the hub once: its client retries for a minute."""
    from huggingface_hub import HfApi, try_to_load_from_cache

    try:
        HfApi().model_info(name, timeout=10)
        return False
    except Exception:
        if isinstance(try_to_load_from_cache(name, "config.json"), str):
            return True
        raise


def default_dtype(device: torch.device) -> torch.dtype:
    """bf16 where the device has fast kernels for it, else fp32."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    if device.type == "cpu" and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return torch.bfloat16
    return torch.float32


def check_device(device: str | None) -> torch.device:
    """The device, tried by putting one number on it."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch has some to say about outdated names
            place = torch.device(device)
            float(torch.zeros(1, device=place))
        return place
    except Exception as error:  # each kind of missing device fails in its own way
        raise SpectraError(
            "device", f"{device!r} is not available; use cpu, or cuda on a machine with a GPU"
        ) from error
