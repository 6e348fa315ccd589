"""Where and on what something was measured, and the file that remembers a plan for it."""

import hashlib
import inspect
import json
import platform
from pathlib import Path
from typing import Any

import torch
import transformers

from spectra.io.cache_home import cache_home
from spectra.io.files import write_text
from spectra.io.hashes import json_sha256
from spectra.io.json_text import parse_json
from spectra.io.version import VERSION
from spectra.target.choices import FLASH_STEPS
from spectra.target.cuda_graphs.flash import flash_library
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.fixed_order.by_position import triton_version
from spectra.target.hooks import own_functions
from spectra.target.quantized import quantized_by


def processor_name() -> str:
    """The CPU's own name where the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def environment(target: Any) -> dict[str, object]:
    """Model, device and versions, as a trace or a benchmark row records them."""
    device = target.device
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    weights = quantized_by(target.model)
    return {
        "model": target.name,
        "dtype": str(target.dtype).removeprefix("torch."),
        **({"weights": weights} if weights else {}),
        "device": str(device),
        "processor": gpu or processor_name(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }


def attention_name(target: Any) -> str:
    """What computes the attention of a step."""
    if target.plan.exact:
        return "exact"
    if target.plan.step in FLASH_STEPS:
        return "flash-attn" if flash_library().startswith("flash-attn") else "torch flash"
    return str(target.config._attn_implementation)


def step_facts(target: Any) -> dict[str, object]:
    """How steps are computed."""
    plan = target.plan
    facts: dict[str, object] = {"numerics": plan.numerics, "step": plan.step, "trees": plan.trees}
    if plan.chunk:
        facts["chunk"] = plan.chunk
    if target.native is not None:
        facts |= target.native.facts
    return facts | {"flash": flash_library()} if plan.step in FLASH_STEPS else facts


CHECKS = 2
"""Raised where a model is checked for more than before, so that what was remembered is measured again."""


def plan_path(target: Any, numerics: str, step: str = "eager") -> Path:
    """One file for each model shape, attention, device, thread counts, dtype, numerics, step and version of what
    computes, for whether positions can be given (without them guesses go in chains), and for its own functions."""
    config = target.model.config.to_dict()
    config.pop("_name_or_path", None)
    key = environment(target) | {"spectra": VERSION, "checks": CHECKS, "numerics": numerics, "config": config}
    if target.native is not None:
        library = target.native.library
        key["native"] = target.native.facts | {"file": library.file.name, "threads": library.threads}
    key["attention"] = target.config._attn_implementation
    key["positions"] = "position_ids" in inspect.signature(target.model.forward).parameters
    if own := own_functions(target.model):
        key["own"] = own
    if target.device.type == "cuda":
        key["triton"] = triton_version()
    if step != "eager":
        key |= {"step": step, "flash": flash_library()}
    key["map"] = {k: str(v) for k, v in (getattr(target.model, "hf_device_map", None) or {}).items()}
    digest = hashlib.sha256(json.dumps(key, sort_keys=True, default=str).encode()).hexdigest()
    return cache_home() / "plans" / f"{digest[:24]}.json"


def recall_plan(path: Path) -> ExecutionPlan | None:
    """The remembered plan; None when there is none or it is damaged (it is measured again then)."""
    try:
        kept = parse_json(path.read_text(encoding="utf-8"))
        return ExecutionPlan.from_dict(kept["plan"]) if kept["sha256"] == json_sha256(kept["plan"]) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember_plan(path: Path, plan: ExecutionPlan) -> None:
    """Keep the plan for the next start; a cache folder that cannot be written is no error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = {"plan": plan.to_dict(), "sha256": json_sha256(plan.to_dict())}
        write_text(path, json.dumps(kept, indent=1) + "\n")
    except (OSError, ValueError):
        pass
