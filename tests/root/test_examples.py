"""Every command line of README and docs that this machine can run is run, on small numbers, in a copy of the
repository. Commands follow each other in the order of their pages, as a reader types them."""

import gzip
import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from examples import REDIRECTED, ROOT, commands

from spectra.bench.gpu.parts import write_prompts
from spectra.target.embedded import packaged_file

pytestmark = [pytest.mark.real, pytest.mark.all_cases]

SMALLER = {
    "--limit": "2", "--max-new-tokens": "6", "--contexts": "128", "--queries": "1,4", "--pairs": "2", "--steps": "2",
    "--requests": "2", "--visitors": "2", "--seconds": "8", "--tokens": "16", "--rounds": "2", "--keep": "2000",
    "--keep-tokens": "3000", "--score-tokens": "2000", "--teacher-tokens": "64", "--nodes": "8", "--batch": "1,2",
    "--shape": "llama-tiny", "--minutes": "3", "--texts": "50", "--group": "2",
}  # fmt: skip
"""Flags whose numbers in the text take minutes to hours."""

LIMITED = {
    "batch": "--limit", "figure4": "--limit", "--limit": "--max-new-tokens", "selftext": "--max-new-tokens",
    "spectra.train": "--steps", "tests/tools/page_cost.py": "--tokens", "tests/tools/build_cost.py": "--texts",
}  # fmt: skip
"""What has a flag of its own for how long it takes, where the text leaves that out."""

ASKED = "Explain in four short sentences why the sky is blue."

PLACES = {
    "PLACEHOLDER": "embedded", "FILES": "selftext.jsonl.xz", "FILE": "prompts.jsonl", "PROMPT": ASKED,
    "COST": "flat.json", "NAME": "name", "MODEL": "embedded", "RECORDING": "greedy.jsonl",
    ".venv/lib/python3.11/site-packages/transformers": "spectra/io",
}  # fmt: skip
"""What a reader puts in the place of a word in capitals."""

ELSEWHERE = {
    "installs": re.compile(r"^pip |^make |^sh |get_chromium|gpu_carry"),
    "needs the hub": re.compile(r"\bhub\b|hf:|recipe|meta-llama|vicuna"),
    "needs a GPU": re.compile(r"graphs|--step flash|--device-map|tests/target/cuda_graphs|gpu --minutes"),
    "needs vLLM": re.compile(r"spectra\.serving|bench (serve|soak)"),
    "serves until it is stopped": re.compile(r"app\.py|^spectra-demo"),
    "needs the package installed": re.compile(r"^spectra "),
    "is a run of tests": re.compile(r"-m pytest"),
    "stands in a report of the run that gave it": re.compile(r"OUT/"),
    "needs the history of the repository": re.compile(r"a0d9959"),
}
"""Why a command is not run here."""


def here(command):
    return not any(pattern.search(" ".join(command.words)) for pattern in ELSEWHERE.values())


RUN = list({command.line: command for command in commands() if here(command)}.values())


def row(**fields):
    return json.dumps(fields) + "\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A copy of the repository with the files that a reader is asked to have."""
    home = tmp_path_factory.mktemp("examples") / "spectra"
    left_out = shutil.ignore_patterns(".git", ".venv*", "node_modules", "out", "site", "__pycache__", "*_cache", "runs")
    shutil.copytree(ROOT, home, ignore=left_out)
    data = write_prompts(home / "DIR")
    question = "A farmer has 12 hens. Each lays 5 eggs a week. How many eggs are that?"
    (data / "gsm8k_test.jsonl").write_text(row(question=question, answer="60"))
    (data / "mbpp_test.jsonl").write_text(row(text="Write a Python function that adds two numbers.", code=""))
    (data / "cnndm_1.jsonl").write_text(row(article="A ship ran aground. Nobody was hurt.", highlights="A ship."))
    with gzip.open(data / "HumanEval.jsonl.gz", "wt") as file:
        file.write(row(task_id="HumanEval/0", prompt='def add(a, b):\n    """The sum."""\n'))
    text = "River {0} rises in the hills and meets the sea after {0} miles. Many towns lie on it; boats go up and down."
    answers = "".join(
        row(source=("chat", "gsm8k", "mbpp")[at % 3], user=f"What is river {at}?", assistant=text.format(at))
        for at in range(60)
    )
    (home / "answers.jsonl").write_text(answers)
    for name in ("selftext", "instruct"):
        with lzma.open(home / f"{name}.jsonl.xz", "wt") as file:
            file.write(answers)
    prompts = (f"Name three rivers of country {at}." for at in range(40))  # enough to hold some back from training
    (home / "prompts.jsonl").write_text("".join(row(prompt=prompt) for prompt in prompts))
    (home / "notes").mkdir()
    (home / "notes" / "one.txt").write_text("A note about rivers, their sources and the seas that they reach. " * 4)
    (home / "FILE.gguf").symlink_to(packaged_file())
    shutil.copy(home / "spectra/bench/paper/figures.json", home / "figures.json")
    shutil.copytree(home / "datastores" / "math", home / "STORE")
    (home / "runs").mkdir()
    typed("python -m spectra.datastore build --corpus answers.jsonl --no-refine --out datastores/chat-unrefined", home)
    for name in ("math", "code"):
        shutil.copytree(home / "datastores" / "chat-unrefined", home / "datastores" / f"{name}-unrefined")
    for out in ("greedy.jsonl", "hot.jsonl", "runs/recorded.jsonl"):
        typed(f"python -m spectra.bench record --data DIR --limit 2 --max-new-tokens 32 --out {out}", home)
    return home


def typed(line, home):
    """Run a command line in the folder. What it makes must not be there yet."""
    words = shlex.split(line)
    if "--out" in words:
        out = home / words[words.index("--out") + 1]
        shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        line, shell=True, cwd=home, env={**os.environ, "PATH": path, "HF_HUB_OFFLINE": "1"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}"


def small(command):
    """The line with small numbers and with names for the words in capitals; without peers that are not installed."""
    words = [PLACES.get(word, word).replace("/NAME", "/name") for word in command.words]
    for at, word in enumerate(words[1:], start=1):
        if "divergence" not in words:  # two texts differ after as many tokens as the page says
            words[at] = SMALLER.get(words[at - 1], word)
        if word == "DIR" and words[at - 1] != "--data":
            words[at] = "runs/own"
        if words[at - 1] == "--methods" and find_spec("llama_cpp") is None:
            words[at] = ",".join(name for name in word.split(",") if not name.startswith("llama-cpp"))
    for asked, flag in LIMITED.items():
        if asked in words and flag not in words:
            words += [flag, SMALLER[flag]]
    plain = [word if word in REDIRECTED or "*" in word else shlex.quote(word) for word in words]
    return " ".join([*command.variables, *plain])


@pytest.mark.parametrize("command", RUN, ids=str)
def test_a_command_ends_well(command, home):
    typed(small(command), home)
