"""A training run from files to a finished folder, in stages that a stopped run does not repeat.

In its work folder lie the tokenized data, the target's probabilities and the last checkpoint.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from spectra.datastore.sources import list_sha256
from spectra.errors import SpectraError
from spectra.io.hashes import canonical, file_sha256, tokenizer_sha256
from spectra.io.progress import bar
from spectra.io.workdir import note_placed, remove
from spectra.target.device_map import input_device
from spectra.target.facts import processor_name
from spectra.target.load import PlainNetwork, load_tokenizer
from spectra.target.parameter_state import odd_numbers
from spectra.target.whole import load_whole
from spectra.train.conversations import Conversations, read_conversations
from spectra.train.files import check_boost, check_teacher, facts_of
from spectra.train.model import CARD, factorised, new_model, parameters, publish, write_card, write_model
from spectra.train.scoring import agreement, sample
from spectra.train.settings import MAY_CHANGE, TrainSettings
from spectra.train.teacher import Teacher, ask_teacher
from spectra.train.trainer import Trainer
from spectra.train.workdir import hold_workdir, load_arrays, save_arrays, tidy_workdir

STATE, TEACHER = "state.safetensors", "teacher"
"""Where the work of a run lies in its folder: the last checkpoint and what the target was asked."""


@dataclass
class TrainingRun:
    """data: files the target wrote; general: other files. first: folder of a draft model whose misses are to be
    learned. load: gives (model, tokenizer, name) of the target; model: what it is loaded from. teacher: folder of the
    target's probabilities, if it is not in the run's own. exclude: hashes of prompts whose answers are left out.
    evaluate: held-back answer tokens to measure on."""

    out: Path
    data: Sequence[Path]
    general: Sequence[Path]
    settings: TrainSettings
    load: Callable[[], PlainNetwork]
    command: str
    model: str | None = None
    first: Path | None = None
    teacher: Path | None = None
    exclude: frozenset[bytes] = frozenset()
    evaluate: int = 24_000

    def __call__(self) -> dict[str, Any]:
        """Train and write the folder; returns its card."""
        tidy_workdir(self.out, self.out / CARD)
        self._check_out()
        if self.first is not None:
            check_boost(self.first)
        if self.teacher is not None:
            check_teacher(self.teacher, self.out)
        self.files = {"data": facts_of("data", self.data), "general": facts_of("general_data", self.general)}
        tokenizer, name = load_tokenizer(self.model)
        recipe = {
            "model": name,
            "tokenizer_sha256": tokenizer_sha256(tokenizer),
            "files": self.files,
            "settings": {key: value for key, value in self.settings.to_dict().items() if key not in MAY_CHANGE},
            "first": file_sha256(self.first / "model.safetensors") if self.first else None,
            "exclude": list_sha256(self.exclude),
        }
        with hold_workdir(self.out, recipe) as folder:
            try:
                self._check_out()  # another process may have finished by now
                card = self._train(folder)
            except SpectraError:
                if not any((folder / name).exists() for name in (STATE, TEACHER)):
                    remove(folder)  # it holds no work, and what mends the error makes another recipe
                raise
            remove(folder)
        return card

    def _check_out(self) -> None:
        if self.out.exists():
            raise SpectraError("out", f"{self.out} is there already; name another folder or remove it")

    @cached_property
    def _target(self) -> PlainNetwork:
        """The model that the draft model is distilled from."""
        target = self.load()
        target.model.eval()
        if name := odd_numbers(target.model):
            raise SpectraError("model", f"{target.name} holds NaN or infinity in {name}; give another model or --dtype")
        return target

    def _train(self, folder: Path) -> dict[str, Any]:
        data = self._conversations(folder, "data", self.data)
        general = self._conversations(folder, "general", self.general) if self.general else None
        rows = data.rows(self.settings.length, held=False)
        held = data.rows(self.settings.length, held=True)
        if not len(rows) or not len(held):
            raise SpectraError("data", "there is too little to hold some back; give more rows or another --held")
        first = None if self.first is None else self._load_first(self.first)
        state = folder / STATE
        trainer = Trainer(
            self._new_model(data, rows, first, resumed=state.exists()),
            self.settings,
            data,
            general,
            lambda: self._ask(folder, data, rows),
            first,
            state,
        )
        trainer.run()
        trainer.rest()
        finished = folder / "model"
        if finished.exists():  # a stopped run left it half written
            shutil.rmtree(finished)
        write_model(trainer.model, finished)
        drafts = [] if self.first is None else [self._load_first(self.first)]
        drafts.append(self._load_draft(finished))
        seen = sample(data, held, self.settings.length, self.evaluate)
        card = self._card(trainer, agreement(drafts, self._target.model, data, seen, self.settings))
        note_placed(folder, write_card(finished, card))
        publish(finished, self.out)
        return card

    def _new_model(self, data: Conversations, rows: NDArray[Any], first: Any | None, *, resumed: bool) -> Any:
        """Boost-tuning goes on from the first model's weights."""
        network = self._target.model
        model = new_model(network, self.settings)
        if first is not None:
            ours = [one.shape for one in model.parameters()]
            if ours != [one.shape for one in first.parameters()]:
                raise SpectraError("boost", "its shape differs; repeat its --layers, --hidden, --heads, --intermediate")
            model.load_state_dict(first.state_dict())
        elif not resumed:
            model.get_input_embeddings().weight.data.copy_(factorised(network, data, rows, self.settings))
        return model.to(input_device(network))

    def _load_first(self, folder: Path) -> Any:
        try:
            return self._load_draft(folder)
        except SpectraError:
            raise
        except Exception as error:  # a damaged file fails in many ways; the cause is named
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise SpectraError("boost", f"cannot load {folder} ({first[:160]}); give a draft model's folder") from error

    def _load_draft(self, folder: Path) -> Any:
        draft = load_whole(folder, "boost", dtype=torch.float32)
        return draft.to(input_device(self._target.model)).eval()

    def _ask(self, folder: Path, data: Conversations, rows: NDArray[Any]) -> Teacher:
        total = min(self.settings.teacher_tokens, data.answer_tokens(rows, self.settings.length))
        meaning = canonical([self.files["data"], list_sha256(self.exclude), self.settings.held, self._target.name])
        with bar("asking the target", total, " tokens") as shown:
            return ask_teacher(
                self.teacher or folder / TEACHER,
                lambda: self._target.model,
                data,
                rows,
                length=self.settings.length,
                tokens=total,
                top=self.settings.top,
                data=meaning.decode(),
                progress=shown.update,
            )

    def _conversations(self, folder: Path, name: str, files: Sequence[Path]) -> Conversations:
        """Tokenized once."""
        file = folder / f"{name}.safetensors"
        if not file.exists():
            found = read_conversations(files, self._target.tokenizer, self.settings.held, self.exclude)
            names = ("tokens", "starts", "answers", "held")
            save_arrays(file, {name: getattr(found, name) for name in names})
        return Conversations(**load_arrays(file))

    def _card(self, trainer: Trainer, seen: dict[str, Any]) -> dict[str, Any]:
        facts = trainer.facts
        return {
            "format": "spectra-draft",
            "target": self._target.name,
            "tokenizer_sha256": tokenizer_sha256(self._target.tokenizer),
            "command": self.command,
            "settings": self.settings.to_dict(),
            "boosts": self.first.name if self.first else None,
            "data": self.files["data"],
            "general": self.files["general"],
            "exclude": list_sha256(self.exclude),
            "parameters": parameters(trainer.model),
            "trained": {
                "answer_tokens": facts["tokens"],
                "teacher_tokens": trainer.teacher.tokens if self.settings.teacher_tokens else 0,
                "batches_own": facts["own"],
                "batches_general": facts["general"],
                "batches_taught": facts["taught"],
                "processor": processor_name(),
            },
            "held_back": seen,
            "plans": facts["plans"],
            "looks": facts["looks"],
        }


def describe(card: dict[str, Any]) -> str:
    """The measured facts in one line."""
    return json.dumps(card["held_back"])
