"""Which way steps go on this device: eager, captured ("graphs"), by a flash kernel ("flash-eager"), or both ("flash").

Tried on the model itself, against its ordinary steps. "auto" takes the fastest that agrees.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch

from spectra.errors import SpectraError
from spectra.target.choices import FLASH_STEPS, GPU_STEPS
from spectra.target.cuda_graphs.capture import Capture, CudaCapture, launched
from spectra.target.cuda_graphs.steps import SPANS, StaticSteps
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.hooks import any_hooked
from spectra.target.huggingface import Execution, HuggingFaceTarget
from spectra.target.native.library import native_reason
from spectra.target.preflight import PARENTS, Probe, measure_cost, probe_tokens, rows_agree
from spectra.target.session import HuggingFaceSession

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Row counts that are captured in fast numerics: a step is filled up to one."""
LENGTHS = (12, 150, 2500)  # a number that a graph took from the first would be wrong at the second
TYPICAL = 8  # query tokens of the step that "auto" goes by

Make = Callable[[HuggingFaceTarget], StaticSteps]


def check_step(step: str, device: torch.device) -> None:
    """Raise SpectraError for a step that the device does not take, before a model is loaded."""
    if step in GPU_STEPS and device.type != "cuda":
        raise SpectraError("step", f"{step} takes a CUDA GPU, and the device is {device}; use auto or eager")
    if step == "native" and device.type != "cpu":
        raise SpectraError("step", f"native steps run on a CPU, and the device is {device}; use auto or eager")
    if step == "native" and (why := native_reason()):
        raise SpectraError("step", f"native is not possible: {why}; use auto or eager")


def wanted_step(target: HuggingFaceTarget, step: str, numerics: str) -> str:
    """`step`, or "eager" for an "auto" where no other is possible. Raises SpectraError for one named in vain."""
    why = obstacle(target)
    if step in GPU_STEPS and why:
        raise SpectraError("step", f"{step} is not possible: {why}; use auto or eager")
    if step in FLASH_STEPS and numerics == "exact":
        raise SpectraError("step", "flash attention is not exact; use graphs, or numerics fast")
    return "eager" if why else step


def obstacle(target: HuggingFaceTarget) -> str:
    """Why steps of this model cannot be captured, as far as it can be seen without trying; or ""."""
    if target.device.type != "cuda":
        return f"it takes a CUDA GPU, and the model is on {target.device}"
    if target.spread:
        return "the model is spread over several devices"
    return "hooks sit on the model" if any_hooked(target.model) else ""


def captured_steps(plan: ExecutionPlan, capture: Capture) -> StaticSteps:
    """What takes steps under a plan whose step is one of GPU_STEPS."""
    attend = "flash" if plan.step in FLASH_STEPS else "exact" if plan.exact else "masked"
    return StaticSteps(attend, capture)


def cuda_steps(target: HuggingFaceTarget) -> StaticSteps:
    """What takes the steps of the target's plan on its GPU: CUDA graphs, or a flash kernel launched by itself."""
    return captured_steps(target.plan, launched if target.plan.step == "flash-eager" else CudaCapture(target.device))


def choose_step(target: HuggingFaceTarget, step: str, make: Make = cuda_steps) -> bool:
    """Give the target, which has a plan for eager steps, the plan and the steps for "auto" or one of GPU_STEPS.

    Returns whether the next start would find the same: not where memory was short.
    Raises SpectraError, naming the reason, for a step that is not possible. "auto" launches a flash kernel by itself
    only where nothing can be captured.
    """
    eager = target.plan
    best, reasons, short = Execution(eager), [], False
    for kind in GPU_STEPS if step == "auto" else (step,):
        captured = best.steps is not None
        if (kind in FLASH_STEPS and eager.exact) or (step == "auto" and kind == "flash-eager" and captured):
            continue
        plan = captured_plan(eager, kind)
        with target.using(Execution(plan)):
            steps = make(target)
        with target.using(Execution(plan, steps=steps)):
            if why := objection(target):
                reasons.append(f"{kind} is not possible: {why}")
                short |= steps.short
                continue
            plan = dataclasses.replace(plan, cost=measure_cost(target))
        if step != "auto" or plan.cost.seconds(TYPICAL) < best.plan.cost.seconds(TYPICAL):
            best = Execution(plan, steps=steps)
    if best.steps is None and step != "auto":
        raise SpectraError("step", f"{reasons[0]}; use auto or eager")
    if best.steps is None and reasons:
        note = f"step: eager, because {reasons[0]}"
        best = Execution(dataclasses.replace(eager, note="; ".join(filter(None, (eager.note, note)))))
    target.use(best)
    return not short


def captured_plan(eager: ExecutionPlan, kind: str) -> ExecutionPlan:
    """The plan for captured steps: exact ones in passes of one row count, as eager ones; others filled up to a few."""
    return dataclasses.replace(eager, step=kind, counts=(eager.chunk,) if eager.exact else COUNTS)


def objection(target: HuggingFaceTarget) -> str:
    """ "" where captured steps give what ordinary ones do, else what is wrong with them."""
    if not target.trees:
        return f"{target.name} places tokens by cache slot"
    with torch.inference_mode():
        for length in LENGTHS:
            if why := disagreement(target, probe_tokens(target, min(length, target.context // 2))):
                return why
    if not target.plan.exact:
        return ""
    chunk = target.plan.chunk  # the step's first pass reads the shortest span, the second one the next
    same = rows_agree(target, context=SPANS[0] - chunk + 1, rows=chunk + 8)
    if target.steps is not None and target.steps.broken:
        return target.steps.broken  # by a longer span, or a memory that was short
    return "" if same else "its rows depend on their neighbours"


def disagreement(target: HuggingFaceTarget, prompt: list[int]) -> str:
    """What differs between a tree's logits by a captured step and by an ordinary one, after `prompt`."""
    chains: list[list[int]] = []
    for node, parent in enumerate(PARENTS):
        chains.append([*(chains[parent] if parent >= 0 else []), node])
    flat = [list(range(node + 1)) for node in range(len(PARENTS))]
    nodes = [prompt[-1], *probe_tokens(target, len(PARENTS) - 1)]
    with Probe(target, prompt, len(PARENTS)) as session:
        steps = target.steps
        assert steps is not None
        got, wrong = (run(target, session, nodes, each) for each in (chains, flat))
        if steps.broken or session.cache is not steps.cache:
            return steps.broken or "the model's memory is in use"
        if target.plan.step in FLASH_STEPS and not steps.flashed:
            return "no flash kernel takes this model's attention on this device"
        with target.using(dataclasses.replace(target.execution, steps=None)):
            usual = run(target, session, nodes, chains)
    scale = float(usual.std()) or 1.0
    off, far = (float((x - usual).abs().max()) / scale for x in (got, wrong))
    half = target.dtype.itemsize < 4
    close = off <= (max(0.05, 0.2 * far) if half else 1e-3)
    return "" if close else f"its logits differ from those of ordinary steps by {off:.2g} standard deviations"


def run(
    target: HuggingFaceTarget, session: HuggingFaceSession, tokens: list[int], chains: Sequence[Sequence[int]]
) -> torch.Tensor:
    """Logits [len(tokens), vocabulary] of one step, all rows, in fp32 or wider."""
    logits = target.forward(session.cache, tokens, chains, range(len(tokens)))
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
