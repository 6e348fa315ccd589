"""What the parts came to, as Markdown for docs/benchmarks: tables, what is open, failures with their tracebacks."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spectra.bench.gpu.parts import GENERATE, GpuPart
from spectra.io.files import write_text
from spectra.io.json_text import parse_json

STATES = ("done", "failed", "stopped", "open")
REPORT = "README.md"
SHOWN_LINES = 25
"""Of a failed part's log, the last ones."""


@dataclass(frozen=True, slots=True)
class PartOutcome:
    """state: one of STATES. why: for all but "done". printed: the end of what the part printed."""

    state: str
    seconds: float
    why: str
    printed: str


def read_outcomes(out: Path) -> dict[str, PartOutcome]:
    """By part; damaged ones are left out, so that they are run again."""
    found = {}
    for path in sorted(out.glob("*.outcome.json")):
        try:
            found[path.name.removesuffix(".outcome.json")] = PartOutcome(**parse_json(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            continue
    return found


def write_report(
    out: Path, parts: Sequence[GpuPart], known: Mapping[str, PartOutcome], machine: Mapping[str, object]
) -> None:
    """OUT/README.md, see REPORT."""
    head = ", ".join(f"{name} {value}" for name, value in machine.items())
    counts = {state: sum(outcome.state == state for outcome in known.values()) for state in STATES}
    waiting = sum(part.name not in known for part in parts)
    states = ", ".join(f"{count} {state}" for state, count in {**counts, "not tried": waiting}.items() if count)
    lines = ["# On a GPU", "", f"Measured on: {head}.", "", f"Parts: {states}.", ""]
    for about in dict.fromkeys(part.about for part in parts):
        own = [part for part in parts if part.about == about]
        lines += [f"## {about}", "", *(_starts(own, known) if own[0].module == GENERATE else _sections(own, known))]
    lines += _failures(parts, known)
    text = without_folder("\n".join(lines).rstrip(), out)
    write_text(out / REPORT, text + "\n", "out")


def without_folder(text: str, out: Path) -> str:
    """The text with OUT for the run's folder: as a whole path or the begin of one, not inside another word."""
    if not out.name:  # the root: any slash
        return text
    return re.sub(rf"(?<![\w./-]){re.escape(str(out))}(?![\w.-])", "OUT", text)


def _starts(parts: Sequence[GpuPart], known: Mapping[str, PartOutcome]) -> list[str]:
    """One table over the parts that answer a prompt, and the command of the first; others differ in the step."""
    lines = [
        "| | tokens/s, plain | tokens/s, SPECTRA | tau | speedup | identical | model, step, numerics |",
        "|---|---:|---:|---:|---:|---|---|",
    ]
    for part in parts:
        outcome = known.get(part.name)
        name = part.name.removeprefix("start-")
        if outcome is None or outcome.state != "done":
            lines.append(f"| {name} | | | | | {_state(outcome)} | |")
            continue
        lines.append(f"| {name} | {' | '.join(_cells(Path(part.result)))} |")
    return [*lines, "", f"`{_command(parts[0])}`", ""]


def _cells(result: Path) -> tuple[str, ...]:
    """A row of the table of starts; a file that is damaged costs its own row."""
    try:
        data = parse_json(result.read_text(encoding="utf-8"))
        facts = data["environment"]
        return (
            f"{data['baseline']['micro']:.1f}", f"{data['answer']['micro']:.1f}", f"{data['answer']['tau']:.2f}",
            f"{data['speedup']:.2f}", "yes" if data["identical"] else "no",
            f"{facts['model']}, {facts.get('step', 'eager')}, {facts['numerics']}",
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError) as error:
        return ("", "", "", "", f"{result.name} cannot be read ({type(error).__name__})", "")


def _sections(parts: Sequence[GpuPart], known: Mapping[str, PartOutcome]) -> list[str]:
    lines = []
    for part in parts:
        outcome = known.get(part.name)
        if len(parts) > 1:
            lines += [f"### {part.name.split('-', 1)[-1]}", ""]
        if outcome is None or outcome.state != "done":
            lines += [f"{_state(outcome)[0].upper()}{_state(outcome)[1:]}.", ""]
            continue
        file = Path(part.result) if part.result else None
        if file and file.is_file():
            lines.append(_lowered(file.read_text(encoding="utf-8", errors="replace").strip()))
        else:
            lines += _block(_results(outcome.printed))
        lines += ["", f"`{_command(part)}`", ""]
    return lines


def _results(printed: str) -> str:
    """Without the line that counts prompts."""
    return "\n".join(line for line in printed.splitlines() if not re.fullmatch(r"\d+/\d+ prompts *", line))


def _command(part: GpuPart) -> str:
    return f"python -m {part.module} {shlex.join(part.arguments)}"


def _lowered(text: str) -> str:
    """Headings two levels deeper, to stand inside the report."""
    return "\n".join(f"###{line}" if line.startswith("#") else line for line in text.splitlines())


def _state(outcome: PartOutcome | None) -> str:
    if outcome is None:
        return "open: not tried yet"
    return f"{outcome.state}: {outcome.why}"


def _failures(parts: Sequence[GpuPart], known: Mapping[str, PartOutcome]) -> list[str]:
    failed = [part for part in parts if part.name in known and known[part.name].state in ("failed", "stopped")]
    if not failed:
        return []
    lines = ["## Failures", ""]
    for part in failed:
        outcome = known[part.name]
        lines += [f"### {part.name}: {outcome.why}", "", f"`{_command(part)}`", "", *_block(outcome.printed), ""]
    return lines


def _block(printed: str) -> list[str]:
    """The last lines of it as they are, whatever they hold: an answer has fences of its own."""
    shown = printed.strip().splitlines()[-SHOWN_LINES:]
    if not shown:
        return ["It printed nothing."]
    fence = "`" * (1 + max(map(len, re.findall("`{2,}", printed)), default=2))
    return [f"{fence}text", *shown, fence]
