"""What every command line keeps to: help for each option, bad input before torch, one line when it is interrupted."""

import argparse
import errno
import os
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from programs import PARSERS

import app
from spectra.cli import bench, datastore, main, train
from spectra.cli.arguments import MODEL_HELP, Network, Parser, add_options, path_of
from spectra.errors import SpectraError
from spectra.service.loading import ModelOptions
from spectra.train.files import check_teacher

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


@pytest.mark.parametrize("program", PARSERS)
def test_help_says_every_default_and_what_the_command_does(program, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    for parser in parsers_of(PARSERS[program]()):
        said = re.sub(r"\n {20,}", " ", parser.format_help())
        assert parser.description and parser.description[:40] in said
        for action in parser._actions:
            options = action.option_strings
            if options and isinstance(action.default, int | float | str) and not isinstance(action.default, bool):
                shown = f"{action.default:g}" if isinstance(action.default, float) else str(action.default)
                if action.help != argparse.SUPPRESS and shown not in ("", argparse.SUPPRESS):
                    assert re.search(rf"^ +{options[0]} .*default: {re.escape(shown)}", said, re.MULTILINE), options


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
        ("--model", " , ", "model: ' , ' is not there, and no hub id"),
        ("--model", "a/../../b", "model: 'a/../../b' is not there, and no hub id"),
        ("--model", "no.gguf", "model: 'no.gguf' is not there, and no hub id"),
        ("--model", "x" * 5000, f"model: '{'x' * 80}' is not there, and no hub id"),
        *(
            ("--model", name, f"model: '{name}' is not there, and no hub id")
            for name in ("-1", "a--b", "x.git", "a./b")
        ),
        ("--model", "a\0b", "model: 'a\\x00b' is not there, and no hub id"),
        ("--model", "/dev/zero", "model: /dev/zero is no GGUF file; give one, a folder or a hub id"),
        ("--model", __file__, f"model: {__file__} is no GGUF file; give one, a folder or a hub id"),
        (
            "--model",
            str(ROOT / "docs"),
            f"model: {ROOT / 'docs'} holds no model: config.json is missing; give a model's",
        ),
        ("--datastore", "/no/such/store", "datastore: /no/such/store is not there"),
        ("--datastore", __file__, f"datastore: {__file__}/card.json cannot be read (Not a directory); name the folder"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_refused_at_once(monkeypatch, capsys, command, option, value, said):
    monkeypatch.setattr(ModelOptions, "load", lambda options: pytest.fail("it was loaded first"))
    program, *arguments = command
    commands = {"spectra": main.main, "spectra.bench": bench.main}
    assert commands[program]([*arguments, option, value]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"{program}: {said}") and err.count("\n") == 1


def test_a_build_refuses_its_files_before_torch_is_loaded(tmp_path):
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was loaded')")
    new, corpus = str(tmp_path / "new"), str(ROOT / "requirements.txt")
    cases = {
        "corpus": ["build", "--corpus", "nothere.txt", "--out", new],
        "exclude": ["build", "--corpus", corpus, "--out", new, "--exclude", "nothere"],
        "out": ["build", "--corpus", corpus, "--out", str(ROOT / "datastores" / "chat")],
    }
    for field, arguments in cases.items():
        ended = run("spectra.datastore", *arguments, fake=tmp_path)
        assert (ended.returncode, ended.stdout) == (2, "") and ended.stderr.startswith(f"spectra.datastore: {field}: ")


def test_training_and_selftext_refuse_their_files_before_torch_is_loaded(tmp_path):
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was loaded')")
    new, corpus, answers = str(tmp_path / "new"), str(ROOT / "requirements.txt"), tmp_path / "answers.jsonl"
    answers.write_text('{"user": "a", "assistant": "b"}\n')
    training = ["spectra.train", "--out", new, "--data"]
    cases = {
        "data": [*training, "nothere.jsonl"],
        "general_data": [*training, str(answers), "--general-data", corpus],
        "boost": [*training, str(answers), "--boost", "nothere"],
        "teacher": [*training, str(answers), "--teacher", new],
        "exclude": [*training, str(answers), "--exclude", "nothere"],
        "prompts": ["spectra.datastore", "selftext", "--out", new, "--prompts", "nothere.jsonl"],
        "out": ["spectra.datastore", "selftext", "--out", str(tmp_path)],
    }
    for field, (program, *arguments) in cases.items():
        ended = run(program, *arguments, fake=tmp_path)
        assert (ended.returncode, ended.stdout) == (2, "") and ended.stderr.startswith(f"{program}: {field}: ")
    ended = run(*training, str(tmp_path), fake=tmp_path)
    assert ended.stderr == f"spectra.train: data: {tmp_path} is a folder; give jsonl files\n"


def test_what_is_refused_at_once_does_not_load_torch(tmp_path):
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was loaded')")
    wrong = ("--dtype", "fp8"), ("--device", "toaster"), ("--datastore", "/no/such/store"), ("--model", __file__)
    for arguments in wrong:
        ended = run("spectra", "generate", "hello", *arguments, fake=tmp_path)
        assert (ended.returncode, ended.stdout) == (2, "") and ended.stderr.startswith(f"spectra: {arguments[0][2:]}: ")
    ended = run("spectra.bench", "paper", "--data", "hub", "--out", "new", "--model", "llama-9", fake=tmp_path)
    assert ended.returncode == 2 and ended.stderr.startswith("spectra.bench: model: 'llama-9' is unknown; choose from ")


ON = {
    "generate": ("spectra", main.main, ["generate", "hello"]),
    "latency": ("spectra.bench", bench.main, ["latency"]),
    "page": ("app.py", app.main, ["--port", "7999"]),
    "build": ("spectra.datastore", datastore.main, ["build", "--corpus", "stdlib", "--out", "new"]),
    "train": ("spectra.train", train.main, ["--data", "answers.jsonl", "--out", "new"]),
}
EVERYWHERE = [
    ("--model /no/such/model", "model"),
    ("--device toaster", "device"),
    ("--dtype fp8", "dtype"),
    ("--weights int3", "weights"),
    ("--weights int8 --dtype fp32", "weights"),
    ("--weights q4 --dtype fp16", "weights"),
    ("--device-map sideways", "device_map"),
    ("--device-map auto --device cpu", "device"),
    ("--device-map auto --model FILE", "device_map"),
    ("--device-map ODD", "device_map"),
    ("--max-memory 0=20GiB", "max_memory"),
    ("--max-memory 0=1GiB,0=2GiB --device-map auto", "max_memory"),
    ("--max-memory cpu=1GiB --device-map CPU", "max_memory"),
    ("--offload-folder .", "offload_folder"),
    ("--offload-folder FILE/x --device-map auto", "offload_folder"),
]
DECODING = [
    ("--numerics precise", "numerics"),
    ("--step jit", "step"),
    ("--step flash --numerics exact", "step"),
    ("--step flash-eager --numerics exact", "step"),
    ("--step graphs --device cpu", "step"),
    ("--step graphs --device-map TWO", "step"),
    ("--step graphs --device-map CPU", "step"),
    ("--step native --device cuda", "step"),
    ("--step native --device-map ONE", "step"),
    ("--step native --device-map SPLIT --offload-folder off", "step"),
    ("--step native --dtype fp16", "step"),
    ("--weights int8 --step eager --device cpu", "weights"),
    ("--weights int8 --dtype fp16 --device cpu", "weights"),
    ("--datastore /no/such/store", "datastore"),
    ("--estimates FILE", "estimates"),
    ("--remember FILE", "remember"),
    ("--draft /no/such/model", "draft"),
    ("--draft ./none", "draft"),
    ("--draft none/", "draft"),
    ("--draft ../none", "draft"),
    ("--draft ~/none", "draft"),
    ("--draft a/b/c", "draft"),
    ("--draft .\\none", "draft"),
    ("--draft FILE", "draft"),
    ("--draft EMPTY", "draft"),
]


@pytest.mark.parametrize("command", ON)
def test_every_model_option_refuses_what_cannot_be_in_one_line_that_names_it(tmp_path, monkeypatch, capsys, command):
    for loading in (ModelOptions, Network):
        monkeypatch.setattr(loading, "load", lambda options: pytest.fail("it was loaded first"))
    texts = {"FILE": "x", "ODD": '{"": "toaster"}', "TWO": '{"a": 0, "b": 1}', "ONE": '{"": 0}', "CPU": '{"": "cpu"}'}
    texts["SPLIT"] = '{"": "cpu", "lm_head": "disk"}'
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "EMPTY").mkdir()
    monkeypatch.chdir(tmp_path)
    program, run_it, arguments = ON[command]
    wrong = EVERYWHERE if command in ("build", "train") else EVERYWHERE + DECODING
    for line, field in wrong:
        assert run_it([*arguments, *line.split()]) == 2, line
        err = capsys.readouterr().err
        assert err.startswith(f"{program}: {field}: ") and err.count("\n") == 1, line
    options = {action.option_strings[-1] for action in model_options()._actions if action.dest != "help"}
    assert options == {line.split()[0] for line, _ in EVERYWHERE + DECODING}, "an option without a case here"


def model_options():
    parser = Parser(prog="program")
    add_options(parser, ModelOptions, MODEL_HELP)
    return parser


def test_the_page_refuses_before_gradio_is_loaded(tmp_path):
    """It takes seconds."""
    for module in ("gradio", "torch"):
        (tmp_path / f"{module}.py").write_text(f"raise SystemExit('{module} was loaded')")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    cases = (
        ("DTYPE", "fp8", "dtype: "),
        ("MCP", "maybe", "argument --mcp: 'maybe' is neither"),
        ("MODEL", "/no", "model: "),
        ("ENDPOINT", "http://127.0.0.1:9", "endpoint: "),
    )
    for name, value, said in cases:
        ended = subprocess.run(
            [sys.executable, "app.py", "--port", "7999"], cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, f"SPECTRA_{name}": value},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (ended.returncode, ended.stdout) == (2, "") and ended.stderr.startswith(f"app.py: {said}")
        assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("module", ["torch", "marisa_trie"])
def test_an_interrupt_while_modules_are_imported_is_one_line(tmp_path, module):
    """torch is loaded by a command, marisa_trie with the command line itself."""
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt")
    ended = run("spectra.bench", "latency", fake=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "\nspectra.bench: stopped\n")


@pytest.mark.parametrize("module", ["torch", "marisa_trie"])
def test_an_interrupt_while_the_modules_of_the_demo_are_imported_is_one_line(tmp_path, module):
    """The first two seconds of `python app.py` ended in a traceback."""
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt")
    ended = run("app", "--port", "7999", fake=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "\napp.py: stopped\n")


@pytest.mark.parametrize("command", ["-m spectra generate hello", "-m spectra.datastore verify x", f"{ROOT}/app.py"])
def test_a_working_folder_that_was_deleted_is_refused(tmp_path, command):
    """It was a fatal error of torch's libraries, or of what came first."""
    here = tmp_path / "here"
    here.mkdir()
    line = f"cd {shlex.quote(str(here))} && rmdir {shlex.quote(str(here))} && {shlex.quote(sys.executable)} {command}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1, ended.stderr
    assert ended.stderr.endswith(": working folder: it was deleted; change to another one (cd) first\n")


@pytest.mark.parametrize("program", PARSERS)
def test_two_dashes_are_no_value_of_any_option(program, capsys):
    """argparse of Python 3.11 takes `--option=--` for an empty list."""
    for parser in parsers_of(PARSERS[program]()):
        for action in parser._actions:
            if action.option_strings and action.nargs in (None, "+"):
                with pytest.raises(SystemExit) as stop:
                    parser.parse_args([f"{action.option_strings[0]}=--"])
                said = capsys.readouterr().err
                assert stop.value.code == 2 and said.count("\n") == 1 and action.option_strings[0] in said


def test_two_dashes_behind_two_dashes_are_no_text(capsys):
    with suppress(SystemExit):  # a text of two dashes from Python 3.13 on
        assert datastore.main(["query", "--", "none", "--"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("program", PARSERS)
def test_every_option_of_a_number_refuses_what_is_none(program, capsys):
    for parser in parsers_of(PARSERS[program]()):
        for action in parser._actions:
            if getattr(action.type, "__qualname__", "").startswith("number."):
                for value in ("", "x", "nan", "inf", "1" + "0" * 5000):
                    with pytest.raises(SystemExit) as stop:
                        parser.parse_args([f"{action.option_strings[0]}={value}"])
                    said = capsys.readouterr().err
                    assert stop.value.code == 2 and said.count("\n") == 1 and action.option_strings[0] in said


@pytest.mark.parametrize("program", PARSERS)
def test_a_blank_path_is_refused_and_never_this_folder(program, capsys):
    for parser in parsers_of(PARSERS[program]()):
        for action in parser._actions:
            if action.option_strings and action.type in (Path, path_of):
                for blank in ("", " "):
                    with pytest.raises(SystemExit) as stop:
                        parser.parse_args([f"{action.option_strings[0]}={blank}"])
                    said = capsys.readouterr().err
                    assert stop.value.code == 2 and f"{action.option_strings[0]}: it is blank" in said


def test_a_refusal_of_the_parser_is_short_and_printable(capsys):
    for value in ("x" * 5000, "\x1b[31m", "\udcff"):
        with pytest.raises(SystemExit):
            main.build_parser().parse_args(["generate", "hello", f"--seed={value}"])
        said = capsys.readouterr().err
        assert len(said) < 500 and said.count("\n") == 1 and said.rstrip("\n").isprintable() and "--seed" in said


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        (">&-", 0, ""),
        (">&- 2>&-", 0, ""),
        ("<&- >&- 2>&-", 0, ""),
        (">/dev/full", 2, "spectra: [Errno 28] No space left on device\n"),
    ],
)
def test_a_closed_or_full_stdout_is_no_crash(redirection, code, said):
    command = f"{shlex.quote(sys.executable)} -m spectra methods {redirection}"
    ran = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, "", said)


def test_output_that_the_terminal_cannot_show_is_escaped(tmp_path):
    """A name of no Unicode, and a terminal of no Unicode, both after the work is done."""
    store = tmp_path / "\udcff\N{SNOWMAN}"
    store.symlink_to(ROOT / "datastores" / "code")
    for encoding, shown in (("ascii", r"\udcff\u2603"), ("utf-8", "\\udcff\N{SNOWMAN}")):
        environment = {**os.environ, "PYTHONIOENCODING": f"{encoding}:strict", "PYTHONUTF8": "1"}
        code = "from pathlib import Path; import sys; print(Path(sys.argv[1]))"
        code = f"from spectra.io.streams import open_streams; open_streams(); {code}"
        ran = subprocess.run(
            [sys.executable, "-c", code, str(store)], cwd=ROOT, env=environment, capture_output=True, check=False
        )
        assert ran.stdout.decode().endswith(f"{shown}\n"), ran.stderr


@pytest.mark.parametrize("arguments", [["generate", "\udcff"], ["race", "\udcff"], ["race", "a", "--title", "\udcff"]])
def test_text_that_is_no_unicode_is_told_before_a_model_is_loaded(arguments, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(ModelOptions, "load", lambda self: pytest.fail("loaded"))
    out = ["--out", str(tmp_path / "race.json")] if arguments[0] == "race" else []
    assert main.main([*arguments, *out]) == 2
    assert "it is not valid Unicode; give it as UTF-8" in capsys.readouterr().err


LONG = "x" * 300
REFUSED = [
    ("sweep --data d --out o --vary N --values nan", "values: 'nan' is not a number"),
    ("sweep --data d --out o --vary N --values 4,inf", "values: 'inf' is not a number"),
    (f"run --data {LONG} --out o", "data: 'xxx"),
    (f"report {LONG}", "folders: 'xxx"),
    ("run --data d --out o --assistant /no/such/model", "assistant: '/no/such/model' is not there, and no hub id"),
    ("run --data d --out o --assistant=", "assistant: it is blank"),
    ("run --data d --out o --assistant ./none", "assistant: './none' is not there, and no hub id"),
    ("run --data d --out o --assistant a/b", "assistant: only hf-assisted drafts with it; add that to --methods"),
    ("replay r --draft ./none", "draft: '/"),
    ("gpu --out o --data .", "data: no task's file in ."),
    ("gpu --out o --parts none", "parts: none begins so; choose from start-eager-fast, "),
    ("gpu --out o --numerics exact", "numerics: this command goes through steps, numerics and weights itself"),
    ("gpu --out o --weights int8", "weights: this command goes through"),
    ("gpu --out /proc --tiny", "out: cannot write into /proc"),
    ("serve --data d --out o --k 0", "k: 0 is out of range"),
    ("serve --data d --out o --max-new-tokens 0", "max_new_tokens: 0 is out of range"),
    ("serve --data d --out o --methods ngram:0", "methods: 0 is out of range"),
    (f"serve --data d --out o --methods ngram:{'9' * 5000}", "methods: 'ngram:999"),
    ("serve --data d --out o --datastore none", "datastore: none is not there"),
    ("serve --data d --out o --model /no/such/model", "model: '/no/such/model' is not there"),
    ("soak --data d --out o --flags '", 'flags: "\'" cannot be read (No closing quotation)'),
    ("soak --data d --out o --max-new-tokens -1", "max_new_tokens: -1 is out of range"),
    (f"fit r --out o --datastore {LONG}", "datastore"),
    ("latency --shape large", "shape: 'large' is unknown; choose one of llama-tiny"),
    ("latency --shape llama-tiny --device-map auto", "device_map: a shape goes to one device"),
    ("latency --shape llama-tiny --model m", "shape: llama-tiny stands in the place of a model"),
    ("exactness --data d --out o --plain-weights q4 --dtype fp32", "plain-weights: q4 stands for numbers of 16 bits"),
    ("figure4 --data d --out o --step eager", "step: this command takes fast numerics and the steps of --steps"),
    ("figure4 --data d --out o --numerics exact", "numerics: this command takes fast numerics"),
    ("capture --step eager", "step: eager captures nothing; use graphs or flash"),
    ("capture --step flash-eager", "step: flash-eager captures nothing; use graphs or flash"),
    ("capture --device cpu", "device: capturing takes a CUDA GPU, and the device is cpu"),
]


@pytest.mark.parametrize(
    "line",
    ["run", "batch", "sweep --vary nodes --values 4", "exactness", "half-precision", "rouge", "acceptance"],
    ids=lambda line: line.split()[0],
)
def test_rows_that_cannot_be_kept_are_told_before_a_model_is_loaded(line, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ModelOptions, "load", lambda self: pytest.fail("loaded"))
    (tmp_path / "file").touch()
    assert bench.main([*line.split(), "--data", str(tmp_path), "--out", str(tmp_path / "file" / "rows")]) == 2
    assert capsys.readouterr().err.startswith("spectra.bench: out: ")


@pytest.mark.parametrize(("line", "said"), REFUSED, ids=[line.split()[0] for line, _ in REFUSED])
def test_what_a_benchmark_cannot_use_is_one_line_that_names_it(line, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert bench.main(line.split()) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"spectra.bench: {said}") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("hello", "prompt"),
        ("--method rest", "method"),
        ("--order 4", "order"),
        ("--out x", "out"),
        ("--seed 1", "seed"),
    ],
)
def test_what_a_race_recorded_anew_would_pass_over_is_refused(line, field, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ModelOptions, "load", lambda self: pytest.fail("loaded"))
    assert main.main(["race", *line.split(), "--again", str(tmp_path / "race.json")]) == 2
    assert capsys.readouterr().err == f"spectra: {field}: the files of --again say it; leave one of them out\n"


def test_a_race_that_is_not_there_is_told_by_the_reason(tmp_path, capsys):
    assert main.main(["race", "--again", str(tmp_path / "nothere.json")]) == 2
    reason = f"cannot read {tmp_path / 'nothere.json'} (No such file or directory)"
    assert capsys.readouterr().err == f"spectra: again: {reason}; give files of --out\n"


def test_a_race_that_cannot_be_written_again_is_told_before_a_model_is_loaded(tmp_path, monkeypatch, capsys):
    """It was told after the recording."""
    monkeypatch.setattr(ModelOptions, "load", lambda self: pytest.fail("loaded"))

    def closed(path, field):
        raise SpectraError(field, f"cannot write {path} (Permission denied); give a writable file path")

    monkeypatch.setattr("spectra.cli.race.check_writable", closed)
    race = ROOT / "assets/races/proofread.json"
    assert main.main(["race", "--again", str(race)]) == 2
    assert capsys.readouterr().err.startswith(f"spectra: again: cannot write {race} ")


@pytest.mark.parametrize("link", [False, True])
def test_one_file_for_trace_and_report_is_refused_however_it_is_written(link, tmp_path, monkeypatch, capsys):
    """The report replaced the trace without a word."""
    monkeypatch.setattr(ModelOptions, "load", lambda self: pytest.fail("loaded"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").symlink_to(tmp_path)
    other = "here/a.json" if link else str(tmp_path / "a.json")
    assert main.main(["generate", "hello", "--trace", other, "--json", "a.json"]) == 2
    assert capsys.readouterr().err == "spectra: json: a.json is where the trace goes; name another file\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--step graphs", "step: graphs takes a CUDA GPU, and the device is cpu"),
        ("--weights q4 --step eager", "weights: q4 cannot be read here (step eager does not read them)"),
    ],
)
def test_a_shape_is_not_made_for_what_the_device_found_here_cannot_do(options, said, monkeypatch, capsys):
    """Its random weights take minutes."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("transformers.LlamaForCausalLM.__init__", lambda *_: pytest.fail("it was made first"))
    assert bench.main(["latency", "--shape", "llama-8b", *options.split()]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"spectra.bench: {said}") and err.count("\n") == 1


@pytest.mark.parametrize("installed", [(), ("bitsandbytes",)])
def test_a_shape_is_not_made_in_fewer_bits_that_no_package_here_makes(installed, monkeypatch, capsys):
    monkeypatch.setattr("spectra.target.load.try_device", torch.device)
    monkeypatch.setattr("spectra.target.quantized.find_spec", lambda name: name in installed)
    monkeypatch.setattr("transformers.LlamaForCausalLM.__init__", lambda *_: pytest.fail("it was made first"))
    line = "latency --shape llama-70b-tenth --device cuda --weights int8 --dtype bf16"
    assert bench.main(line.split()) == 2
    err = capsys.readouterr().err
    assert err.startswith("spectra.bench: weights: ") and "pip install torchao" in err and err.count("\n") == 1


def test_a_teacher_that_cannot_be_written_is_refused_before_the_work(tmp_path, capsys, monkeypatch):
    """A folder that is there as well; one that holds answers may be all that is needed."""

    def closed(**_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("spectra.io.files.tempfile.TemporaryFile", closed)
    (tmp_path / "own.jsonl").touch()
    teacher = tmp_path / "teacher"
    teacher.mkdir()
    command = ["--data", str(tmp_path / "own.jsonl"), "--out", str(tmp_path / "out"), "--teacher", str(teacher)]
    assert train.main(command) == 2
    said = capsys.readouterr().err
    assert said == f"spectra.train: teacher: cannot write into {teacher} (Permission denied); give a writable folder\n"
    (teacher / "part-00000.safetensors").touch()
    check_teacher(teacher, tmp_path / "out")


def test_a_training_names_the_option_whose_file_is_missing(tmp_path, capsys):
    (tmp_path / "own.jsonl").touch()
    (tmp_path / "file").touch()
    own, out, file = (str(tmp_path / name) for name in ("own.jsonl", "out", "file"))
    inside = f"{out}/../out/teacher"
    wrong = (
        *[("general_data", "none"), ("general_data", file), ("boost", LONG), ("teacher", file)],
        *[("teacher", out), ("teacher", inside)],
    )
    for field, value in wrong:
        more = [f"--{field.replace('_', '-')}", value]
        assert train.main(["--data", own, "--out", out, *more]) == 2
        assert capsys.readouterr().err.startswith(f"spectra.train: {field}: ")


@pytest.mark.parametrize(
    ("field", "command", "arguments"),
    [
        ("model", main, ("generate", "w5", "--model", "FOLDER")),
        ("draft", main, ("generate", "w5", "--draft", "FOLDER")),
        ("boost", train, ("--data", "DATA", "--out", "OUT", "--boost", "FOLDER")),
        ("out", datastore, ("build", "--corpus", "DATA", "--licence", "x", "--out", "FOLDER", "--force")),
    ],
)
def test_a_folder_that_may_not_be_looked_into_is_named(field, command, arguments, tmp_path, monkeypatch, capsys):
    """It was an error without a field or a fix."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "data.jsonl").write_text('{"user": "w3", "assistant": "w4"}\n')
    stat = Path.stat

    def refused(path, **options):
        if path.parent == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refused)  # as of a folder of another user: root may look into all
    names = {"FOLDER": folder, "DATA": tmp_path / "data.jsonl", "OUT": tmp_path / "out"}
    assert command.main([str(names.get(one, one)) for one in arguments]) == 2
    said = f"{field}: {folder} cannot be looked into (Permission denied); make it readable or give another"
    assert [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()] == [said]
