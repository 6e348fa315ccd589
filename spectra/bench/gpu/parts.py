"""What a day with a GPU answers, in order of worth: each part is a command of this project and a limit of minutes."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spectra.bench.steps import PROMPT
from spectra.io.files import write_text

STARTS = (
    ("eager", "fast", "auto"),
    ("graphs", "fast", "auto"),
    ("eager", "exact", "auto"),
    ("graphs", "exact", "auto"),
    ("flash", "fast", "auto"),
    ("flash-eager", "fast", "auto"),
    ("auto", "auto", "auto"),
    ("eager", "exact", "int8"),
    ("eager", "exact", "q4"),
)
"""(step, numerics, weights)"""
LATENCIES = (
    ("llama-8b", "auto", "graphs", "fast"),
    ("llama-8b", "auto", "graphs", "exact"),
    ("llama-8b", "auto", "eager", "fast"),
    ("llama-8b", "auto", "flash", "fast"),
)
"""(shape, weights, step, numerics)"""
MORE_LATENCIES = (
    ("llama-7b", "auto", "graphs", "fast"),
    ("llama-7b", "auto", "graphs", "exact"),
    ("llama-70b-tenth", "int8", "eager", "fast"),
    ("llama-70b-tenth", "int8", "graphs", "fast"),
    ("llama-8b", "auto", "eager", "exact"),
    ("llama-8b", "auto", "flash-eager", "fast"),
    ("llama-7b", "auto", "eager", "fast"),
    ("llama-7b", "auto", "flash", "fast"),
    ("llama-70b-tenth", "int8", "eager", "exact"),
)
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
"""Of this project's own, for a machine that nothing else was carried to; in MT-Bench's format."""
PROMPTS_FILE = "mt_bench_question.jsonl"
"""The name that `spectra.bench.tasks` looks for."""
BENCH, GENERATE = "spectra.bench", "spectra"


@dataclass(frozen=True, slots=True)
class GpuPart:
    """module, arguments: what `python -m` runs, in `folder`. minutes: after which it is ended. gpu: it takes one.

    about: a heading; parts with the same one stand together in the report. result: the file that has its table or
    figures, else what it prints. needs: packages; without any of them it is left open.
    """

    name: str
    about: str
    minutes: float
    module: str
    arguments: tuple[str, ...]
    result: str
    gpu: bool = False
    needs: tuple[str, ...] = ()


def parts_of(model: Sequence[str], data: Path, out: Path, *, tiny: bool = False) -> list[GpuPart]:
    """Every part. model: options that name and place it. tiny: short answers and small shapes, to rehearse."""
    parts = [
        *_starts(model, out, tiny=tiny),
        _exactness(model, data, out, tiny=tiny),
        _capture(model, out),
        *_latencies(LATENCIES, model, out, tiny=tiny),
        _speed(model, data, out, tiny=tiny),
        _figure4(model, data, out, tiny=tiny),
        _page(model, out, tiny=tiny),
        *_latencies(MORE_LATENCIES, model, out, tiny=tiny),
    ]
    named: dict[str, GpuPart] = {}
    for part in parts:
        named.setdefault(part.name, part)  # tiny shapes are all one
    return list(named.values())


def _starts(model: Sequence[str], out: Path, *, tiny: bool) -> Iterator[GpuPart]:
    for step, numerics, weights in STARTS:
        name = "-".join(["start", step, numerics, *([weights] if weights != "auto" else [])])
        settings = ("--step", step, "--numerics", numerics, "--weights", weights)
        result = str(out / f"{name}.json")
        arguments = (
            "generate", PROMPT, *model, *settings,
            "--max-new-tokens", "12" if tiny else "128", "--baseline", "--json", result,
        )  # fmt: skip
        gpu = step not in ("auto", "eager") or weights != "auto"
        needs = {"int8": ("torchao",), "q4": ("torchao", "bitsandbytes")}.get(weights, ())
        yield GpuPart(name, "Does it start", 2.0, GENERATE, arguments, result, gpu=gpu, needs=needs)


def _exactness(model: Sequence[str], data: Path, out: Path, *, tiny: bool) -> GpuPart:
    folder = out / "exactness"
    arguments = (
        "exactness", *model, "--data", str(data), "--numerics", "exact", "--out", str(folder),
        "--methods", "spectra-core,lookahead", "--limit", "2" if tiny else "8",
        "--max-new-tokens", "12" if tiny else "192",
    )  # fmt: skip
    return GpuPart("exactness", "Identical to plain decoding", 4.0, BENCH, arguments, "")


def _capture(model: Sequence[str], out: Path) -> GpuPart:
    file = str(out / "capture.md")
    return GpuPart("capture", "Capturing CUDA graphs", 2.0, BENCH, ("capture", *model, "--out", file), file, gpu=True)


def _latencies(listed: Sequence[tuple[str, ...]], model: Sequence[str], out: Path, *, tiny: bool) -> Iterator[GpuPart]:
    """Shapes on the model's device. A CPU has neither the memory nor the time for large ones."""
    place = model[model.index("--device") :][:2] if "--device" in model else ()
    for shape, weights, step, numerics in listed:
        shape = "llama-tiny" if tiny else shape
        name = "-".join(["latency", shape, *([weights] if weights != "auto" else []), step, numerics])
        file = str(out / f"{name}.md")
        arguments = (
            "latency", *place, "--shape", shape, "--weights", weights, "--step", step, "--numerics", numerics,
            "--out", file,
            "--contexts", "8,16" if tiny else "256,1024,4096", "--queries", "1,2,4" if tiny else "1,2,4,8,16,32,64,128",
        )  # fmt: skip
        gpu = not tiny or step != "eager" or weights != "auto"
        needs = ("torchao",) if weights != "auto" else ()
        yield GpuPart(name, "T(q), the time of a forward pass", 2.5, BENCH, arguments, file, gpu=gpu, needs=needs)


def _speed(model: Sequence[str], data: Path, out: Path, *, tiny: bool) -> GpuPart:
    folder = out / "speed"
    methods = "spectra-core" if tiny else "spectra,spectra-core,lookahead,anpd,hf-generate,hf-prompt-lookup"
    arguments = (
        "run", *model, "--data", str(data), "--out", str(folder), "--methods", methods,
        "--limit", "1" if tiny else "8", "--max-new-tokens", "8" if tiny else "256",
    )  # fmt: skip
    return GpuPart("speed", "Speed", 6.0, BENCH, arguments, str(folder / "report.md"))


def _figure4(model: Sequence[str], data: Path, out: Path, *, tiny: bool) -> GpuPart:
    folder = out / "figure4"
    arguments = (
        "figure4", *model, "--data", str(data), "--out", str(folder),
        "--limit", "1" if tiny else "4", "--max-new-tokens", "8" if tiny else "192",
    )  # fmt: skip
    return GpuPart(
        "figure4", "With and without flash attention (Figure 4)", 6.0, BENCH, arguments, str(folder / "figure4.md")
    )


def _page(model: Sequence[str], out: Path, *, tiny: bool) -> GpuPart:
    file = str(out / "page.md")
    arguments = ("page", *model, "--max-new-tokens", "8" if tiny else "256", "--out", file)
    return GpuPart("page", "A race through the page", 3.0, BENCH, arguments, file, needs=("gradio",))


def write_prompts(folder: Path) -> Path:
    """Put them into the folder, which is made; returns it as `--data` takes it."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps({"question_id": i, "category": "own", "turns": [text]}) for i, text in enumerate(PROMPTS)]
    write_text(folder / PROMPTS_FILE, "\n".join(rows) + "\n", "out")
    return folder
