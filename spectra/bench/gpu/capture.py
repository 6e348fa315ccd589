"""`python -m spectra.bench capture`: what capturing the steps of a session as CUDA graphs takes."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from spectra.bench.run.answers import facts_line
from spectra.errors import SpectraError
from spectra.io.files import check_writable, write_text
from spectra.service.loading import ModelOptions

CONTEXTS = (128, 600, 1200)
"""Tokens in the cache: three spans."""


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """out: a file for the table."""

    model: ModelOptions
    out: Path | None = None

    def __post_init__(self) -> None:
        if self.model.step not in ("auto", "graphs", "flash"):
            raise SpectraError("step", f"{self.model.step} captures nothing; use graphs or flash, or leave it out")
        if self.model.placement.several:
            raise SpectraError("device_map", "what is captured is on one GPU; leave the map out")

    @property
    def captured(self) -> ModelOptions:
        """The model's, with steps that are captured."""
        return replace(self.model, step="graphs") if self.model.step == "auto" else self.model


def run_capture(options: CaptureOptions) -> int:
    """The subcommand `capture`: seconds and memory of a session that captures, and of the next one that replays."""
    if options.out is not None:
        check_writable(options.out, "out")
    import torch

    from spectra.settings import Sampling
    from spectra.target.load import check_device
    from spectra.target.preflight import probe_tokens
    from spectra.target.step_choice import COUNTS

    device = check_device(options.model.device)
    if device.type != "cuda":
        raise SpectraError(
            "device", f"capturing takes a CUDA GPU, and the device is {device}; run it where there is one"
        )
    target = options.captured.load().target
    lines = ["| context | seconds, first session | seconds, second session | GPU memory more, MiB |", "|---:" * 4 + "|"]
    for context in CONTEXTS:
        prompt = probe_tokens(target, min(context, target.context - 2))
        before = torch.cuda.memory_reserved(target.device)
        seconds = []
        for _ in range(2):
            began = time.perf_counter()
            target.start(prompt, 1, COUNTS[-1], Sampling()).close()
            seconds.append(time.perf_counter() - began)
        more = (torch.cuda.memory_reserved(target.device) - before) / 2**20
        lines.append(f"| {len(prompt)} | {seconds[0]:.2f} | {seconds[1]:.2f} | {more:.0f} |")
    text = "\n".join([facts_line(target), "", *lines])
    print(text)
    if options.out is not None:
        write_text(options.out, text + "\n", "out")
    return 0
