"""What every command line keeps to: help for each option, bad input before torch, one line when it is interrupted."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest
from programs import PARSERS

from spectra.cli import bench, main
from spectra.service.loading import ModelOptions

ROOT = Path(__file__).parents[2]


def parsers_of(parser):
    """The parser and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from parsers_of(one)


@pytest.mark.parametrize("program", PARSERS)
def test_every_option_says_what_it_does(program):
    found = list(parsers_of(PARSERS[program]()))
    silent = [
        (one.prog, action.dest)
        for one in found
        for action in one._actions
        if not action.help and not isinstance(action, argparse._SubParsersAction)
    ]
    assert not silent


def run(program, *arguments, fake=None):
    """`python -m program`; fake: a folder whose modules come first."""
    path = os.pathsep.join([str(fake), str(ROOT)] if fake else [str(ROOT)])
    return subprocess.run(
        [sys.executable, "-m", program, *arguments],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("command", [["spectra", "generate", "hello"], ["spectra.bench", "latency"]])
@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--dtype", "fp8", "dtype: 'fp8' is unknown; choose one of auto, bf16, fp16, fp32"),
        ("--numerics", "precise", "numerics: 'precise' is unknown"),
        ("--step", "jit", "step: 'jit' is unknown"),
        ("--device", "toaster", "device: 'toaster' is not available"),
        ("--device", "cuda:one", "device: 'cuda:one' is not available"),
        ("--model", " ", "model: it is blank"),
        ("--model", "/no/such/model", "model: '/no/such/model' is not there, and no hub id"),
        ("--model", "a/../../b", "model: 'a/../../b' is not there, and no hub id"),
        ("--model", "no.gguf", "model: 'no.gguf' is not there, and no hub id"),
        ("--model", "x" * 5000, f"model: '{'x' * 80}' is not there, and no hub id"),
        ("--model", "a\0b", "model: 'a\\x00b' is not there, and no hub id"),
        ("--datastore", "/no/such/store", "datastore: /no/such/store is not there"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_refused_at_once(monkeypatch, capsys, command, option, value, said):
    monkeypatch.setattr(ModelOptions, "load", lambda options: pytest.fail("it was loaded first"))
    program, *arguments = command
    commands = {"spectra": main.main, "spectra.bench": bench.main}
    assert commands[program]([*arguments, option, value]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"{program}: {said}") and err.count("\n") == 1


def test_what_is_refused_at_once_does_not_load_torch(tmp_path):
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was loaded')")
    for arguments in (("--dtype", "fp8"), ("--device", "toaster"), ("--datastore", "/no/such/store")):
        ended = run("spectra", "generate", "hello", *arguments, fake=tmp_path)
        assert (ended.returncode, ended.stdout) == (2, "") and ended.stderr.startswith(f"spectra: {arguments[0][2:]}: ")


@pytest.mark.parametrize("module", ["torch", "marisa_trie"])
def test_an_interrupt_while_modules_are_imported_is_one_line(tmp_path, module):
    """torch is loaded by a command, marisa_trie with the command line itself."""
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt")
    ended = run("spectra.bench", "latency", fake=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "\nspectra.bench: stopped\n")
