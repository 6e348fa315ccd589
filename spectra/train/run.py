"""A training run from files to a finished folder, in stages that a stopped run does not repeat.

Beside the folder to be lies `.NAME.work`: the tokenized data, the target's probabilities, the last checkpoint.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM

from spectra.datastore.card import canonical, file_sha256, tokenizer_sha256
from spectra.datastore.progress import bar
from spectra.datastore.sources import list_sha256
from spectra.errors import SpectraError
from spectra.target.facts import processor_name
from spectra.train.conversations import Conversations, read_conversations
from spectra.train.finish import clear, parameters, publish, write_model
from spectra.train.measure import agreement
from spectra.train.scoring import sample
from spectra.train.settings import MAY_CHANGE, TrainSettings
from spectra.train.start import factorised, new_model
from spectra.train.teacher import Teacher, ask_teacher
from spectra.train.trainer import Trainer
from spectra.train.workplace import workplace


@dataclass
class Run:
    """data: files the target wrote; general: other files. first: folder of a draft model whose misses are to be
    learned. load: gives (model, tokenizer, name) of the target. teacher: folder of the target's probabilities, if it is
    not in the run's own. exclude: hashes of prompts whose answers are left out. evaluate: held-back answer tokens to
    measure on."""

    out: Path
    data: Sequence[Path]
    general: Sequence[Path]
    settings: TrainSettings
    load: Callable[[], tuple[Any, Any, str]]
    command: str
    first: Path | None = None
    teacher: Path | None = None
    exclude: frozenset[bytes] = frozenset()
    evaluate: int = 24_000

    def __call__(self) -> dict[str, Any]:
        """Train and write the folder; returns its card."""
        if self.out.exists():
            raise SpectraError("out", f"{self.out} is there already; name another folder or remove it")
        if self.first is not None and not (self.first / "config.json").is_file():
            raise SpectraError("boost", f"{self.first} is no model folder; name the first draft model's")
        self.files = {"data": self._facts(self.data), "general": self._facts(self.general)}
        fixed = {key: value for key, value in self.settings.to_dict().items() if key not in MAY_CHANGE}
        first = file_sha256(self.first / "model.safetensors") if self.first else None
        with workplace(
            self.out, {"files": self.files, "settings": fixed, "first": first, "exclude": list_sha256(self.exclude)}
        ) as folder:
            card = self._train(folder)
            shutil.rmtree(folder)
        return card

    @property
    def target(self) -> Any:
        return self._target[0].eval()

    @cached_property
    def _target(self) -> tuple[Any, Any, str]:
        return self.load()

    def _train(self, folder: Path) -> dict[str, Any]:
        data = self._conversations(folder, "data", self.data)
        general = self._conversations(folder, "general", self.general) if self.general else None
        rows = data.rows(self.settings.length, held=False)
        held = data.rows(self.settings.length, held=True)
        if not len(rows) or not len(held):
            raise SpectraError("data", "there is too little to hold some back; give more rows or another --held")
        first = None if self.first is None else self._load_draft(self.first)
        model = self._new_model(data, rows, first, resumed=(folder / "state.safetensors").exists())
        trainer = Trainer(
            model,
            self.settings,
            data,
            general,
            lambda: self._ask(folder, data, rows),
            first,
            folder / "state.safetensors",
        )
        trainer.run()
        trainer.rest()
        clear(folder / "model")
        write_model(model, folder / "model")
        drafts = [self._load_draft(one) for one in (*([self.first] if self.first else []), folder / "model")]
        seen = sample(data, held, self.settings.length, self.evaluate)
        card = self._card(trainer, agreement(drafts, self.target, data, seen, self.settings))
        publish(folder / "model", self.out, card)
        return card

    def _new_model(self, data: Conversations, rows: Any, first: Any | None, *, resumed: bool) -> Any:
        """Boost-tuning goes on from the first model's weights."""
        model = new_model(self.target, self.settings)
        if first is not None:
            shapes = [[one.shape for one in either.parameters()] for either in (model, first)]
            if shapes[0] != shapes[1]:
                raise SpectraError("boost", "its shape differs; repeat its --layers, --hidden, --heads, --intermediate")
            model.load_state_dict(first.state_dict())
        elif not resumed:
            table = factorised(self.target, data, rows, self.settings)
            model.get_input_embeddings().weight.data.copy_(table)
        return model.to(self.target.device)

    def _load_draft(self, folder: Path) -> Any:
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(self.target.device).eval()

    def _ask(self, folder: Path, data: Conversations, rows: Any) -> Teacher:
        place = self.teacher or folder / "teacher"
        total = min(self.settings.teacher_tokens, data.answer_tokens(rows, self.settings.length))
        meaning = canonical([self.files["data"], list_sha256(self.exclude), self.settings.held, self._target[2]])
        with bar("asking the target", total, " tokens") as shown:
            return ask_teacher(
                place,
                lambda: self.target,
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
            found = read_conversations(files, self._target[1], self.settings.held, self.exclude)
            fresh = file.with_suffix(".new")
            fields = ("tokens", "starts", "answers", "held")
            save_file({field: getattr(found, field) for field in fields}, fresh)
            fresh.replace(file)
        return Conversations(**load_file(file))

    def _facts(self, files: Sequence[Path]) -> list[dict[str, Any]]:
        for file in files:
            if not file.is_file():
                raise SpectraError("data", f"{file} is not there; give jsonl files")
        return [{"name": file.name, "bytes": file.stat().st_size, "sha256": file_sha256(file)} for file in files]

    def _card(self, trainer: Trainer, seen: dict[str, Any]) -> dict[str, Any]:
        _, tokenizer, name = self._target
        facts = trainer.facts
        return {
            "format": "spectra-draft",
            "target": name,
            "tokenizer_sha256": tokenizer_sha256(tokenizer),
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
