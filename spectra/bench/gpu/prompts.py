"""Prompts of this project's own, for a machine that nothing else was carried to; in MT-Bench's format."""

import json
from pathlib import Path

from spectra.io.files import write_text

PROMPTS = (
    "Write a Python class for a queue with methods to add, remove and count its elements.",
    "A train leaves at 9:40 and arrives at 13:05. How long is the journey? Explain each step.",
    "Summarise in one sentence: A lighthouse warns ships of rocks. Its lamp turns, so that sailors see it flash.",
    "List ten animals and say in one sentence each where they live.",
    "Rewrite this with a list comprehension:\n\nout = []\nfor i in range(n):\n    out.append(i * i)",
    "Explain to a child why the sky is blue.",
    "Write a letter to a neighbour who plays music too loudly at night.",
    "Tom has 24 apples. He gives a third of them away and eats two. How many are left? Explain each step.",
)
FILE = "mt_bench_question.jsonl"
"""The name that `spectra.bench.formats` looks for."""


def write_prompts(folder: Path) -> Path:
    """Put them into the folder, which is made; returns it as `--data` takes it."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps({"question_id": i, "category": "own", "turns": [text]}) for i, text in enumerate(PROMPTS)]
    write_text(folder / FILE, "\n".join(rows) + "\n", "out")
    return folder
