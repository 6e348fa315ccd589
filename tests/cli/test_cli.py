"""The command line: answers on stdout, the report on stderr, and one line naming the field for every bad input."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from programs import PARSERS
from tiny import make
from words import letters, save_model, tokenizer

from spectra.cli.main import exit_code, main
from spectra.io.version import VERSION
from spectra.methods.draft_models import DRAFT_MODELS
from spectra.methods.presets import METHODS
from spectra.trace import Trace

STORED = (
    "spectra-retrieval",
    "spectra-paper",
    "spectra-paper-retrieval",
    "spectra-paper-retrieval-no-ppl",
    "rest",
    "lookahead-rest",
)
ROOT = Path(__file__).parents[2]
PROMPT = "w5 w6 w7 w5 w6 w7"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved tiny Llama with a chat template and a short context."""
    place = tmp_path_factory.mktemp("models") / "tiny"
    save_model(place, longest=400)
    return str(place)


@pytest.fixture(scope="module")
def plain_folder(tmp_path_factory):
    """The same without a chat template."""
    place = tmp_path_factory.mktemp("models") / "plain"
    save_model(place, longest=400, chat=False)
    return str(place)


@pytest.fixture(scope="module")
def draft(tmp_path_factory):
    """A draft model's folder, without a tokenizer."""
    place = tmp_path_factory.mktemp("models") / "small"
    make("llama", 5, max_position_embeddings=400).save_pretrained(place)
    return str(place)


@pytest.fixture
def run(capsys):
    def call(*arguments):
        """(exit code, stdout, stderr)."""
        capsys.readouterr()
        try:
            code = main(list(arguments))
        except SystemExit as stop:
            code = stop.code
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def generate(run, folder):
    def call(*arguments, prompt=PROMPT, model=folder):
        return run("generate", prompt, "--model", model, "--dtype", "fp32", "--max-new-tokens", "24", *arguments)

    return call


def test_the_version_names_what_a_report_needs(run):
    code, out, err = run("--version")
    assert (code, err) == (0, "") and out.count("\n") == 1
    assert out.startswith(f"spectra-decoding {VERSION}, torch {torch.__version__.partition('+')[0]}")
    assert "transformers" in out and "Python 3" in out


def test_methods_are_listed_a_line_each(run):
    code, out, err = run("methods")
    assert (code, err) == (0, "")
    assert [line.split("  ", 1)[0] for line in out.splitlines()] == list(METHODS)
    assert all(line.split("  ", 1)[1].strip() for line in out.splitlines())


def test_an_answer_goes_to_stdout_and_the_report_to_stderr(generate):
    code, out, err = generate()
    assert code == 0
    assert len(out.split("w")) == 25
    assert out.endswith("\n")
    assert "tokens/s" in err
    assert "tau" in err
    assert "%" in err


@pytest.mark.parametrize("sampling", [(), ("--temperature", "0.9", "--top-k", "20", "--seed", "7")])
@pytest.mark.parametrize("method", ["spectra", "spectra-paper-core"])
def test_the_last_line_says_identical(generate, method, sampling):
    code, _, err = generate("--baseline", "--method", method, *sampling)
    assert code == 0
    assert err.splitlines()[-1] == "identical: yes"
    assert "speedup" in err


def test_every_method_gives_the_same_answer(generate, draft):
    answers = {generate("--method", method, "--draft", draft)[1] for method in METHODS if method not in STORED}
    assert len(answers) == 1


def test_a_method_that_draws_its_own_text_says_so(generate, draft, tmp_path):
    arguments = ("--method", "specinfer", "--draft", draft, "--draft", draft, "--baseline", "--seed", "7")
    code, out, err = generate(*arguments, "--temperature", "1.5", "--json", str(tmp_path / "report.json"))
    assert code == 0 and len(out.split("w")) > 20
    assert err.splitlines()[-1].startswith("identical: not to be expected")
    assert json.loads((tmp_path / "report.json").read_text())["identical"] is None
    assert "  draft: " in err
    assert generate(*arguments)[2].splitlines()[-1] == "identical: yes"


@pytest.mark.parametrize("method", DRAFT_MODELS)
def test_a_method_without_its_draft_model_says_so(generate, method):
    code, out, err = generate("--method", method)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == (
        "spectra: draft: no draft model fits tiny; "
        "name one that has its tokenizer: --draft PATH, in Python drafts=[PATH]"
    )


def test_a_draft_model_that_does_not_fit_is_named(generate, tmp_path):
    make("llama", vocab_size=99).save_pretrained(tmp_path / "large")
    one_line(generate("--draft", str(tmp_path / "large")), "draft")
    one_line(generate("--draft", str(tmp_path / "none")), "draft")
    make("llama").save_pretrained(tmp_path / "other")
    letters().save_pretrained(tmp_path / "other")
    outcome = generate("--draft", str(tmp_path / "other"))
    one_line(outcome, "draft")
    assert "another tokenizer" in outcome[2]


def test_what_does_not_go_with_the_tokenizer_is_named_before_the_model_is_loaded(generate, tmp_path, monkeypatch):
    monkeypatch.setattr("spectra.target.load.load_target", lambda **_: pytest.fail("it was loaded first"))
    make("llama").save_pretrained(tmp_path / "other")
    letters().save_pretrained(tmp_path / "other")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    make("llama").save_pretrained(tmp_path / "empty")
    (tmp_path / "empty" / "model.safetensors").unlink()
    wrong = (
        ("draft", tmp_path / "other", "another tokenizer"),
        ("draft", tmp_path / "empty", "has no weights: model.safetensors is missing"),
        ("draft", tmp_path / "broken", "cannot load"),
        ("datastore", ROOT / "datastores" / "code", "was built for the tokenizer of"),
    )
    for option, path, said in wrong:
        outcome = generate(f"--{option}", str(path))
        one_line(outcome, option)
        assert said in outcome[2]


@pytest.mark.parametrize("method", STORED)
def test_a_method_without_its_datastore_says_so(generate, method):
    code, out, err = generate("--method", method)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("spectra: datastore: ")


def test_raw_skips_the_template(generate, plain_folder):
    _, chat, _ = generate()
    _, raw, _ = generate("--raw")
    assert chat != raw
    assert generate("--raw", model=plain_folder)[1] == raw


def test_trace_and_report_files(generate, tmp_path):
    trace, report = tmp_path / "trace.json", tmp_path / "report.json"
    code, out, _ = generate("--trace", str(trace), "--json", str(report), "--baseline", "--nodes", "10")
    assert code == 0
    data = json.loads(trace.read_text())
    assert (data["format"], data["version"]) == ("spectra-trace", 1)
    read = Trace.from_json(trace.read_text())
    assert read.text == out[:-1]
    assert len(read.tokens) == 24
    assert read.settings["method"]["changed"] == {"nodes": 10} and read.settings["method"]["values"]["nodes"] == 10
    assert all(len(step.tree) <= 11 for step in read.steps)
    figures = json.loads(report.read_text())
    assert figures["identical"] is True
    assert figures["answer"]["tokens"] == figures["baseline"]["tokens"] == 24


def test_settings_of_a_method_change_its_steps_and_not_its_answer(generate, tmp_path):
    trace = tmp_path / "trace.json"
    plain = generate("--method", "autoregressive")[1]
    changes = ("--order", "3", "--rows", "2", "--guesses", "4", "--refine", "0.5", "--no-backward")
    code, out, _ = generate("--method", "spectra-paper-core", *changes, "--trace", str(trace))
    assert code == 0 and out == plain
    read = Trace.from_json(trace.read_text())
    changed = {"order": 3, "rows": 2, "guesses": 4, "refine": 0.5, "backward": False}
    assert read.settings["method"]["changed"] == changed
    assert changed.items() <= read.settings["method"]["values"].items()
    pools = [[node for node, may in enumerate(step.tree.eligible) if not may] for step in read.steps]
    assert all(len(pool) == 2 * 2 for pool in pools[:-3])  # W rows of N - 1 tokens, as long as they fit the answer
    assert not any("backward" in row for step in read.steps for row in step.tree.sources)


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("rows", ("--method", "lookahead", "--rows", "3")),
        ("refine", ("--method", "autoregressive", "--refine", "0.1")),
        ("successors", ("--method", "spectra-paper", "--successors", "4")),
        ("forward", ("--method", "rest", "--no-forward")),
    ],
)
def test_a_setting_that_a_method_has_not_is_refused(run, field, arguments):
    one_line(run("generate", PROMPT, "--model", "nobody/never-loaded", *arguments), field)


NO_WHOLE = ("nan", "inf", "-inf", "1.5", "x", "", "1e3", "9" * 400)
NUMBERS = {
    "max-new-tokens": ("0", "-1", "1000001", *NO_WHOLE),
    "nodes": ("0", "-1", "1025", *NO_WHOLE),
    "order": ("1", "17", *NO_WHOLE),
    "rows": ("-1", "129", *NO_WHOLE),
    "guesses": ("0", "129", *NO_WHOLE),
    "successors": ("-1", "65", *NO_WHOLE),
    "refine": ("-0.1", "1.1", "nan", "inf", "x", ""),
    "temperature": ("-0.1", "101", "nan", "inf", "-inf", "x", "", "1e999", "0x10"),
    "top-p": ("0", "-1", "1.1", "nan", "inf", "x", ""),
    "top-k": ("-1", "1000000001", *NO_WHOLE),
    "min-p": ("-0.1", "1.1", "nan", "inf", "x", ""),
    "repetition-penalty": ("0", "-1", "101", "nan", "inf", "x", ""),
    "seed": ("-1", str(2**63), *NO_WHOLE),
}


def one_line(outcome, field):
    code, out, err = outcome
    assert code == 2, outcome
    assert out == ""
    assert len(err.splitlines()) == 1, err
    assert err.endswith("\n")
    assert field in err.replace("_", "-")
    assert "usage" not in err
    assert "Traceback" not in err


@pytest.mark.parametrize(("option", "value"), [(o, v) for o, values in NUMBERS.items() for v in values])
def test_bad_numbers(run, option, value):
    one_line(run("generate", PROMPT, "--model", "nobody/never-loaded", f"--{option}={value}"), option)


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("prompt", ("generate", "")),
        ("prompt", ("generate", " \n\t ")),
        ("PROMPT", ("generate",)),
        ("method", ("generate", PROMPT, "--method", "magic")),
        ("method", ("generate", PROMPT, "--method", "")),
        ("dtype", ("generate", PROMPT, "--dtype", "fp8")),
        ("numerics", ("generate", PROMPT, "--numerics", "precise")),
        ("device", ("generate", PROMPT, "--device", "toaster")),
        ("device", ("generate", PROMPT, "--device", "cuda:77")),
        ("device", ("generate", PROMPT, "--device", "meta")),
        ("model", ("generate", PROMPT, "--model", "")),
        ("model", ("generate", PROMPT, "--model", "no such model!")),
        ("model", ("generate", PROMPT, "--model", "/no/such/folder")),
        ("model", ("generate", PROMPT, "--model", "x" * 400)),
        ("--trce", ("generate", PROMPT, "--trce", "a.json")),
        ("trace", ("generate", PROMPT, "--trace", "/no/such/folder/a.json")),
        ("trace", ("generate", PROMPT, "--trace", "/")),
        ("trace", ("generate", PROMPT, "--trace", "x" * 300)),
        ("json", ("generate", PROMPT, "--json", "/no/such/folder/a.json")),
        ("json", ("generate", PROMPT, "--json", "a.json", "--trace", "a.json")),
        ("{generate,race,methods}", ()),
        ("translate", ("translate", PROMPT)),
    ],
)
def test_bad_input(run, field, arguments):
    one_line(run(*arguments), field)


def test_a_folder_that_cannot_be_written(run, tmp_path, monkeypatch):
    def full(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    one_line(run("generate", PROMPT, "--trace", str(tmp_path / "a.json")), "trace")


def test_an_unknown_hub_id_fails_without_minutes_of_retries(run, monkeypatch):
    def unreachable(*_, **__):
        raise OSError("Name or service not known")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unreachable)
    one_line(run("generate", PROMPT, "--model", "nobody/nothing-of-this-name"), "model")


def test_a_prompt_longer_than_the_context(generate):
    one_line(generate(prompt="w5 " * 500), "prompt")
    one_line(generate("--max-new-tokens", "399"), "prompt")


def test_a_prompt_that_is_no_unicode(generate):
    one_line(generate(prompt="w5 \udcff"), "prompt")


def test_a_model_without_a_chat_template(generate, plain_folder):
    outcome = generate(model=plain_folder)
    one_line(outcome, "prompt")
    assert "--raw" in outcome[2]


def test_a_folder_that_holds_no_model(generate, tmp_path):
    one_line(generate(model=str(tmp_path)), "model")
    (tmp_path / "config.json").write_text("{")
    one_line(generate(model=str(tmp_path)), "model")


def test_damaged_weights(generate, folder, tmp_path):
    for file in Path(folder).iterdir():
        data = file.read_bytes()
        (tmp_path / file.name).write_bytes(data[: len(data) // 2] if file.suffix == ".safetensors" else data)
    one_line(generate(model=str(tmp_path)), "model")


def test_a_model_that_cannot_be_decoded(generate, tmp_path):
    from transformers import MambaConfig, MambaForCausalLM

    MambaForCausalLM(MambaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2)).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    one_line(generate(model=str(tmp_path)), "model")


def test_the_module_runs(folder):
    """The real `python -m spectra` in its own process: an answer and a mistake."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    command = [sys.executable, "-m", "spectra", "generate", PROMPT, "--model", folder, "--max-new-tokens", "9"]
    good = subprocess.run([*command, "--baseline"], capture_output=True, text=True, env=environment, check=False)
    assert good.returncode == 0, good.stderr
    assert good.stderr.splitlines()[-1] == "identical: yes"
    assert len(good.stdout.split("w")) == 10
    bad = subprocess.run([*command, "--top-p", "2"], capture_output=True, text=True, env=environment, check=False)
    one_line((bad.returncode, bad.stdout, bad.stderr), "top-p")


def test_output_that_nobody_reads_on_is_no_traceback(monkeypatch):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as nobody:
        monkeypatch.setattr(sys, "stdout", nobody)
        assert exit_code("spectra", lambda: print("a" * 9) or 0) == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("program", "option"), [("spectra", "--version"), *((program, "--help") for program in PARSERS)]
)
def test_a_version_or_help_that_cannot_be_written_is_one_line(program, option, unbuffered):
    command = [sys.executable, *([program] if program.endswith(".py") else ["-m", program]), option]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, cwd=ROOT, env=environment
        )
    assert (done.returncode, done.stderr) == (2, f"{program}: [Errno 28] No space left on device\n")
