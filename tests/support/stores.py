"""A tiny language for datastore tests: a saved model, texts of its words, and builds of them."""

import json
import random
from pathlib import Path

from tiny import VOCABULARY

from spectra.cli.datastore import main


def words(count: int, seed: int) -> str:
    draw = random.Random(seed)
    return " ".join(f"w{draw.randrange(3, VOCABULARY)}" for _ in range(count))


def rows(count: int, seed: int = 0) -> list[dict]:
    """Texts of many lengths that share nothing, each with a prompt and a source."""
    return [
        {"source": "ab"[i % 2], "user": f"Prompt {seed} {i}", "assistant": words(20 + 7 * i % 90, 1000 * seed + i)}
        for i in range(count)
    ]


def write_rows(file: Path, some: list[dict]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in some), encoding="utf-8")
    return file


def build(corpus: Path | list[str], out: Path, model: Path, *more: str) -> int:
    """Exit code of a build in this process."""
    places = [str(corpus)] if isinstance(corpus, Path) else corpus
    fixed = ("--model", str(model), "--dtype", "fp32", "--device", "cpu", "--window", "64", "--batch-tokens", "300")
    try:
        return main(["build", "--corpus", *places, "--out", str(out), *fixed, *more])
    except SystemExit as stop:
        return int(stop.code or 0)


def index_hashes(store: Path) -> dict[str, str]:
    """sha256 of every file but the card."""
    return {name: one["sha256"] for name, one in json.loads((store / "card.json").read_text())["files"].items()}
