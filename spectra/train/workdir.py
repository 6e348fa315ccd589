"""The folder that a training run works in, beside the draft model to be, and the state in it that a stopped run goes on
from: weights, optimizers' state, step. One run at a time.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor

from spectra.errors import SpectraError
from spectra.io.files import cure
from spectra.io.hashes import canonical
from spectra.io.workdir import held, replaced, tidy, workdir_of

SUM = "sha256"
"""What the checksum of a file is called in its metadata."""


@contextmanager
def hold_workdir(out: Path, recipe: Mapping[str, Any]) -> Iterator[Path]:
    """The folder for the run that `recipe` describes.

    Raises SpectraError when another run's work is in it, and where the disk refuses in the middle, which loses no work.
    """
    folder = workdir_of(out)

    def keep_other_work() -> None:
        raise SpectraError(
            "out", f"{folder} holds unfinished work with other settings; repeat those, remove it or name another out"
        )

    with ExitStack() as stack:
        try:
            stack.enter_context(held(folder, recipe, busy=_busy(out), on_other=keep_other_work))
        except OSError as error:
            fix = cure(error, "name another folder")
            raise SpectraError("out", f"cannot write {folder} ({error.strerror}); {fix}") from error
        try:
            yield folder
        except (OSError, SafetensorError) as error:  # the second is what safetensors makes of a full disk
            raise SpectraError(
                "out", f"the work stopped ({error}) and is kept in {folder}; mend that, and the same command goes on"
            ) from error


def tidy_workdir(out: Path, card: Path) -> None:
    """Remove what a run left that was killed when its model, which has this card, had the place."""
    try:
        tidy(workdir_of(out), card, busy=_busy(out))
    except OSError as error:
        raise SpectraError("out", f"cannot remove {workdir_of(out)} ({error.strerror}); make it writable") from error


def _busy(out: Path) -> str:
    return f"{out} is being trained by another process; wait for it"


def save_tensors(file: Path, tensors: Mapping[str, Tensor], facts: dict[str, str] | None = None) -> None:
    """Write a safetensors file whole or not at all, with a checksum. facts: its metadata."""
    whole = {name: one.contiguous() for name, one in tensors.items()}
    facts = facts or {}
    with replaced(file) as fresh:
        safetensors.torch.save_file(whole, fresh, {**facts, SUM: _sum(whole, facts)})


def load_tensors(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """What `save_tensors` wrote: (tensors, facts). Raises SpectraError where the file is not as it was written."""
    try:
        with safe_open(file, "pt") as opened:
            facts = dict(opened.metadata() or {})
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - it is no mapping
        whole = facts.pop(SUM, None) == _sum(tensors, facts)
    except (SafetensorError, ValueError, RuntimeError):
        whole = False
    if not whole:
        raise SpectraError("out", f"{file} is damaged; remove it, and the same command makes it anew")
    return tensors, facts


def _sum(tensors: Mapping[str, Tensor], facts: Mapping[str, str]) -> str:
    found = hashlib.sha256(canonical(dict(facts)))
    for name, one in sorted(tensors.items()):
        found.update(canonical([name, str(one.dtype), list(one.shape)]))
        found.update(one.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def save_arrays(file: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """`save_tensors` of arrays."""
    save_tensors(file, {name: torch.from_numpy(one) for name, one in arrays.items()})


def load_arrays(file: Path) -> dict[str, NDArray[Any]]:
    """What `save_arrays` wrote. Raises SpectraError as `load_tensors` does."""
    return {name: one.numpy() for name, one in load_tensors(file)[0].items()}


def save_state(file: Path, model: Any, optimizers: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """facts: what else is to be known, as JSON."""
    tensors: dict[str, Tensor] = {f"model.{name}": one.detach() for name, one in model.named_parameters()}
    for name, optimizer in optimizers.items():
        for number, slots in optimizer.state_dict()["state"].items():
            tensors |= {f"{name}.{number}.{slot}": value for slot, value in slots.items()}
    save_tensors(file, tensors, {"facts": json.dumps(dict(facts))})


def load_state(file: Path, model: Any, optimizers: Mapping[str, Any]) -> dict[str, Any]:
    """Put everything back where it was; returns the facts. Raises SpectraError as `load_tensors` does."""
    tensors, metadata = load_tensors(file)
    facts = json.loads(metadata["facts"])
    for name, one in model.named_parameters():
        one.data.copy_(tensors[f"model.{name}"])
    for name, optimizer in optimizers.items():
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            if key.startswith(f"{name}."):
                _, number, slot = key.split(".")
                state.setdefault(int(number), {})[slot] = value
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    return dict(facts)
