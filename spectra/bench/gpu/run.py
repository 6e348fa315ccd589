"""`python -m spectra.bench gpu`: everything that only a GPU can answer, in one command that fits a short loan.

Parts run in order of worth, each in its own process with its own limit of time, so that a failure costs only itself.
What a part came to is written before the next begins; the same command goes on where it was stopped, parts that were
never tried first. The report is written anew after every part.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from spectra.bench.gpu.parts import GpuPart, parts_of, write_prompts
from spectra.bench.gpu.report import REPORT, PartOutcome, read_outcomes, write_report
from spectra.bench.run.rows import make_folder
from spectra.bench.tasks import load_prompts
from spectra.errors import SpectraError
from spectra.io.command_line import options_of, without_options
from spectra.io.files import write_text
from spectra.io.json_text import parse_json
from spectra.io.locks import take_lock
from spectra.io.resources import python_path
from spectra.service.loading import ModelOptions
from spectra.settings import check_number
from spectra.target.choices import unless_embedded

LEAST_SECONDS = 20
"""Left at which no part is begun any more."""
HARDWARE = ("processor", "GPU", "CUDA", "torch", "transformers")
"""Of a machine's facts: those that all parts of one report have in common."""
PROMPTS_FOLDER, OPTIONS = "prompts", "options.json"
"""In the folder of a run: prompts of our own, and what all its parts have in common."""
DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of Linux's prctl: the signal that a process gets when the one that started it ends."""
KEPT_CHARACTERS = 6000
"""Of what a part printed, its end."""


@dataclass(frozen=True, slots=True)
class GpuOptions:
    """minutes: of all parts together. data: a folder with published task files; without it prompts of our own.

    tiny: short answers and small shapes. parts: only those whose names begin so. again: failed ones too.
    """

    model: ModelOptions
    out: Path
    minutes: float = 25.0
    data: Path | None = None
    parts: tuple[str, ...] = ()
    tiny: bool = False
    again: bool = False

    def __post_init__(self) -> None:
        check_number("minutes", self.minutes, 0, 100_000, open_low=True)
        if self.data is not None and not self.data.is_dir():
            raise SpectraError("data", f"{self.data} is no folder; give one with published task files, or leave it out")
        for field in ("step", "numerics", "weights"):
            if getattr(self.model, field) != "auto":
                raise SpectraError(field, "this command goes through steps, numerics and weights itself; leave it out")

    @property
    def model_arguments(self) -> tuple[str, ...]:
        """As the commands of the parts take them."""
        return tuple(options_of(self.model))


def run_gpu(options: GpuOptions) -> int:
    """The subcommand `gpu`. Returns 1 where a part failed."""
    if options.data is not None:
        load_prompts(None, options.data)  # refuses a folder that holds none
    out = options.out.resolve()
    data = options.data.resolve() if options.data else out / PROMPTS_FOLDER
    listed = parts_of(options.model_arguments, data, out, tiny=options.tiny)
    chosen = [part for part in listed if not options.parts or part.name.startswith(options.parts)]
    if not chosen:
        raise SpectraError("parts", f"none begins so; choose from {', '.join(part.name for part in listed)}")
    check_parts_can_load(options.model, chosen)
    make_folder(out)
    check_free(out, (REPORT,) if options.data else (REPORT, PROMPTS_FOLDER))
    with ended_by_signal(), held(out) as lock:
        facts = {name: value for name, value in machine(options.model.device).items() if name in HARDWARE}
        read = str(data) if options.data else PROMPTS_FOLDER  # the folder may be moved
        same = {"model": list(options.model_arguments), "data": read, "tiny": options.tiny, "machine": facts}
        check_same(out, same)
        if options.data is None:
            write_prompts(data)
        known = read_outcomes(out)
        _run(options, listed, in_order(chosen, known, again=options.again), known, out, lock)
        write_report(out, listed, known, machine(options.model.device))  # raises where it could not be written before
    print(out / REPORT)
    return int(any(known[part.name].state in ("failed", "stopped") for part in chosen if part.name in known))


def check_parts_can_load(model: ModelOptions, parts: Sequence[GpuPart]) -> None:
    """Raise SpectraError for a device, a model, a store or a draft model that no part could use: the report would only
    say so, and the minutes be over."""
    from spectra.target.embedded import check_embedded
    from spectra.target.load import check_loading

    model.check_here()
    if all("--shape" in part.arguments for part in parts):
        return
    if unless_embedded(model.model) is None:
        check_embedded()
    else:
        check_loading(**model.loading())
    model.check_tokenizers()


def _run(
    options: GpuOptions,
    listed: list[GpuPart],
    wanted: list[GpuPart],
    known: dict[str, PartOutcome],
    out: Path,
    lock: int,
) -> None:
    """Run these parts and add to what is known."""
    over = time.monotonic() + 60 * options.minutes
    there = has_gpu(options.model.device)
    keep(options, out, listed, known, "")
    late = 0
    for part in wanted:
        own, left = own_seconds(part, known.get(part.name)), over - time.monotonic()
        why = obstacle(part, gpu=there, device=options.model.device)
        if why:
            known[part.name] = PartOutcome("open", 0.0, why, "")
        elif min(own, left) < LEAST_SECONDS:
            late += 1
            continue
        else:
            print(f"{part.name} ...", end=" ", file=sys.stderr, flush=True)
            outcome = run_part(part, out, min(own, left), lock)
            if outcome.state == "stopped" and left < own:  # it had less than its own time, and gets it next time
                outcome = replace(outcome, state="open", why="the minutes of the whole run were over")
            known[part.name] = outcome
            print(f"{known[part.name].state}, {known[part.name].seconds:.0f} s", file=sys.stderr, flush=True)
        keep(options, out, listed, known, part.name)
    if late:
        print(f"the minutes are over; parts left for the same command, given again: {late}", file=sys.stderr)


def keep(options: GpuOptions, out: Path, listed: Sequence[GpuPart], known: dict[str, PartOutcome], name: str) -> None:
    """Write down what the part came to, and the report. On a full disk the parts go on, and are run again next time."""
    try:
        if name:
            write_text(out / f"{name}.outcome.json", json.dumps(asdict(known[name]), indent=1) + "\n", "out")
        write_report(out, listed, known, machine(options.model.device))
    except SpectraError as error:
        print(f"spectra.bench: {error}", file=sys.stderr)


@contextmanager
def held(out: Path) -> Iterator[int]:
    """Hold the folder; yields an open file that parts inherit, so that one which outlives this process holds it too."""
    with (out / ".lock").open("a") as lock:
        take_lock(lock, f"a run is at work in {out}, or a part of one that was killed; wait for it or end it")
        yield lock.fileno()


def check_free(out: Path, names: Sequence[str]) -> None:
    """Raise SpectraError where a run would replace one of these in the folder, and none wrote it."""
    if (out / OPTIONS).exists():
        return
    for name in names:
        if (out / name).exists():
            raise SpectraError("out", f"{out} holds a {name} that no run wrote; name a new folder")


def check_same(out: Path, options: dict[str, Any]) -> None:
    """Raise SpectraError where the folder holds parts of another model, machine or torch, or of a rehearsal."""
    file = out / OPTIONS
    try:
        there = parse_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        write_text(file, json.dumps(options) + "\n", "out")
        return
    if there != options:
        raise SpectraError(
            "out", f"{out} holds parts of other options or another machine, see {file.name}; name a new folder"
        )


@contextmanager
def ended_by_signal() -> Iterator[None]:
    """SIGTERM and a lost connection end this process as Ctrl-C does, so that it ends what it started. For the main
    thread. Under nohup a lost connection ends nothing."""

    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)}
    for one, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(one, stop)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def in_order(parts: Sequence[GpuPart], known: dict[str, PartOutcome], *, again: bool) -> list[GpuPart]:
    """What is to be run: parts never tried, then those that were open; with `again` those that failed too."""
    states = {"": 0, "open": 1, "stopped": 2, "failed": 2}
    state_of = {part.name: known[part.name].state if part.name in known else "" for part in parts}
    wanted = [part for part in parts if states.get(state_of[part.name], 3) <= (2 if again else 1)]
    return sorted(wanted, key=lambda part: states[state_of[part.name]])


def own_seconds(part: GpuPart, before: PartOutcome | None) -> float:
    """How long it may take: twice as long as the last time, where that was too short."""
    return 2 * before.seconds if before is not None and before.state == "stopped" else 60 * part.minutes


def obstacle(part: GpuPart, *, gpu: bool, device: str | None = None) -> str:
    """Why it cannot be run here, or "". device: the one that was named for the models."""
    if part.gpu and not gpu:
        return f"it takes a CUDA GPU, and {f'the device is {device}' if device else 'there is none'}"
    if part.needs and not any(map(find_spec, part.needs)):
        return f"it takes the package {' or '.join(part.needs)}, which is not installed"
    return ""


def run_part(part: GpuPart, out: Path, seconds: float, lock: int | None = None) -> PartOutcome:
    """Run it to its end or its limit, alone; what it printed is kept in NAME.log. lock: an open file it inherits."""
    environment = {**without_options(os.environ), "PYTHONPATH": python_path(), "PYTHONUNBUFFERED": "1"}
    log = out / f"{part.name}.log"
    began = time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", part.module, *part.arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            preexec_fn=ending_with_this(),
            pass_fds=() if lock is None else (lock,),
        )
        try:
            code: int | None = process.wait(seconds)
        except BaseException as error:
            end_group(process)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            code = None
    took = time.monotonic() - began
    printed = as_shown(log.read_bytes().decode(errors="replace"))[-KEPT_CHARACTERS:]
    if code is None:
        return PartOutcome("stopped", took, f"it took longer than {seconds:.0f} s", printed)
    return (
        PartOutcome("done", took, "", printed) if code == 0 else PartOutcome("failed", took, how_ended(code), printed)
    )


def how_ended(code: int) -> str:
    """Why a part failed, in words. code: of its process, below 0 where a signal ended it."""
    if code == -signal.SIGKILL:
        return "it was killed (SIGKILL), as a system does that runs out of memory"
    if code < 0:
        return f"it was ended by signal {-code} ({signal.strsignal(-code) or 'unknown'})"
    return f"exit code {code}"


def ending_with_this() -> Callable[[], None] | None:
    """What a new process does first, so that it gets SIGTERM when this thread's process ends, however that is killed.

    None where the system has no such thing.
    """
    if not sys.platform.startswith("linux"):
        return None
    call, parent = ctypes.CDLL(None).prctl, os.getpid()

    def tie() -> None:
        call(DEATH_SIGNAL, signal.SIGTERM)
        if os.getppid() != parent:  # it ended before
            os._exit(1)

    return tie


def as_shown(printed: str) -> str:
    """As a terminal shows it: of a line that was written over, the last."""
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in printed.split("\n"))


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """The process and those it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(10)
            return
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return


def has_gpu(device: str | None) -> bool:
    """Whether the models of this run are on a CUDA GPU."""
    import torch

    return torch.cuda.is_available() and (device is None or device.startswith("cuda"))


def machine(device: str | None = None) -> dict[str, object]:
    """Hardware and versions, as the report's head has them. device: the models', "cuda:1" for example."""
    import platform

    import torch
    import transformers

    from spectra.target.facts import processor_name
    from spectra.target.quantized import version_of

    facts: dict[str, object] = {"GPU": "none", "processor": processor_name(), "cores": os.cpu_count()}
    if torch.cuda.is_available():
        place, count = torch.device(device or "cuda"), torch.cuda.device_count()
        number = place.index or 0 if place.type == "cuda" else 0
        gpu = torch.cuda.get_device_properties(number if number < count else 0)  # parts say what is wrong with others
        facts |= {
            "GPU": gpu.name,
            "GPUs": count,
            "GPU memory": f"{gpu.total_memory / 2**30:.0f} GiB",
            "compute capability": f"{gpu.major}.{gpu.minor}",
            "CUDA": torch.version.cuda,
        }
    packages = {name: version_of(name) for name in ("flash-attn", "torchao", "bitsandbytes", "triton")}
    own = {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__}
    return facts | own | {name: version for name, version in packages.items() if version}
