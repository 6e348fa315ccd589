"""Time and peak memory of a datastore's build, as its corpus grows.

Run it as `PYTHONPATH=.:tests/support python tests/tools/build_cost.py`

Not a test, though it ends with exit code 1 when the build of 16 times the corpus takes more memory than it may: at a
fixed --keep 1.25 times that of the smallest corpus, plus 100 bytes a text. Made-up texts of chat length, a tiny random
model, the command in a process of its own.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tiny import VOCABULARY
from words import save_model

TIMES = (1, 4, 16)
WORDS = [f"w{i}" for i in range(3, VOCABULARY)]
MEDIAN, SPREAD, LONGEST = 170, 0.7, 1500
"""Words of a text: a log-normal length, as answers of chat models have."""
WINDOW = 1024


def write_corpus(file: Path, texts: int) -> None:
    draw = random.Random(0)
    with file.open("w") as rows:
        for number in range(texts):
            length = min(LONGEST, 20 + int(MEDIAN * draw.lognormvariate(0, SPREAD)))
            text = " ".join(draw.choices(WORDS, k=length))
            rows.write(json.dumps({"user": f"Prompt {number}", "assistant": text}) + "\n")


def build(corpus: Path, out: Path, model: Path, keep: int) -> dict[str, Any]:
    """Texts and tokens seen, texts kept, seconds and peak bytes of the command, start of Python included."""
    options = ("--model", model, "--device", "cpu", "--dtype", "fp32", "--keep", keep, "--window", WINDOW)
    command = [sys.executable, "-m", "spectra.datastore", "build", "--corpus", corpus, "--out", out, *options]
    begun = time.monotonic()
    with subprocess.Popen([str(one) for one in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
        complaint = running.stderr.read() if running.stderr else b""
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        sys.exit(complaint.decode())
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert usage.ru_maxrss > own, "a process starts with the peak of the one that starts it"
    card = json.loads((out / "card.json").read_text())
    seconds = round(time.monotonic() - begun, 1)
    return {**card["seen"], "kept": card["kept"]["texts"], "seconds": seconds, "peak": usage.ru_maxrss * 1024}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=2500, help="of the smallest corpus")
    parser.add_argument("--keep", type=int, default=1000)
    chosen = parser.parse_args()
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = save_model(folder / "tiny", longest=2 * WINDOW)
        for times in TIMES:
            corpus = folder / f"{times}.jsonl"
            write_corpus(corpus, times * chosen.texts)
            one = build(corpus, folder / f"store-{times}", model, chosen.keep)
            found.append({"times": times, **one})
            print("{times:2}x: {texts:,} texts, {tokens:,} tokens, {seconds:.0f} s".format(**found[-1]), end="")
            print(f", peak {one['peak'] / 1e6:.1f} MB", flush=True)
    first, last = found[0], found[-1]
    allowed = 1.25 * first["peak"] + 100 * last["texts"]
    growth = (last["peak"] - first["peak"]) / (last["texts"] - first["texts"])
    print(f"{allowed / 1e6:.1f} MB are allowed at {last['times']}x; each further text took {growth:.0f} bytes")
    print(json.dumps(found))
    return int(last["peak"] > allowed)


if __name__ == "__main__":
    sys.exit(main())
