"""The parts of a day with a GPU: each alone, in order, resumed, and reported with what failed and what is open."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch
from gpu_carry import ROOT, WHEELS
from gradio_client.exceptions import AppError
from packaging.requirements import Requirement
from words import save_model

from spectra.bench.figure4 import figure4
from spectra.bench.gpu import report
from spectra.bench.gpu import run as runner
from spectra.bench.gpu.page import race, served
from spectra.bench.gpu.parts import PROMPTS, GpuPart, parts_of, write_prompts
from spectra.bench.gpu.report import PartOutcome, read_outcomes, write_report
from spectra.bench.gpu.run import (
    GpuOptions,
    as_shown,
    end_group,
    ended_by_signal,
    held,
    in_order,
    obstacle,
    run_gpu,
    run_part,
)
from spectra.bench.tasks import PromptOptions
from spectra.budget.weights import BUILT_IN
from spectra.cli.bench import build_parser
from spectra.errors import SpectraError
from spectra.service.loading import ModelOptions
from spectra.target import embedded
from spectra.target.placement import Placement

SCRIPT = """import os, sys, time
what = sys.argv[1]
print("began", what)
if what == "fails": raise RuntimeError("the kernel is not there")
if what == "hangs": time.sleep(60)
if what.isdigit(): os.kill(os.getpid(), int(what))
if len(sys.argv) > 2: open(sys.argv[2], "w").write("# Table\\n\\n| a |")
"""


@pytest.fixture
def scripted(tmp_path, monkeypatch):
    """Parts that a script of a line each stands for: name -> part."""
    (tmp_path / "scripted_part.py").write_text(SCRIPT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    result = str(tmp_path / "out" / "works.md")
    minutes = {"works": 1.0, "fails": 1.0, "hangs": 1.0 / 60, "gpu": 1.0}
    parts = {
        name: GpuPart(name, f"About {name}", limit, "scripted_part", (name, *([result] if name == "works" else [])),
                   result if name == "works" else "", gpu=name == "gpu")
        for name, limit in minutes.items()
    }  # fmt: skip
    monkeypatch.setattr(runner, "parts_of", lambda *_, **__: list(parts.values()))
    monkeypatch.setattr(runner, "LEAST_SECONDS", 0.5)
    monkeypatch.setattr(runner, "has_gpu", lambda device: False)
    monkeypatch.setattr(runner, "check_parts_can_load", lambda model, parts: None)
    return parts


def ends(process, seconds=20):
    """Whether a process of this number is gone within the seconds, or waits only to be asked how it ended."""
    over = time.monotonic() + seconds
    while time.monotonic() < over:
        try:
            if psutil.Process(process).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def states(out):
    return {name: outcome.state for name, outcome in read_outcomes(out).items()}


def test_a_failure_costs_only_itself_and_the_report_has_its_traceback(scripted, tmp_path, capsys):
    out = tmp_path / "out"
    assert run_gpu(GpuOptions(ModelOptions(), out)) == 1
    assert states(out) == {"works": "done", "fails": "failed", "hangs": "stopped", "gpu": "open"}
    text = (out / "README.md").read_text()
    assert "RuntimeError: the kernel is not there" in text and "Traceback" in text
    assert (
        "####Table" not in text and "\n#### Table" in text and "Open: it takes a CUDA GPU, and there is none." in text
    )
    assert "torch" in text and str(out) not in text
    assert "Parts: 1 done, 1 failed, 1 stopped, 1 open." in text


@pytest.mark.parametrize(
    ("number", "why"),
    [(signal.SIGKILL, "it was killed (SIGKILL), as"), (signal.SIGSEGV, "it was ended by signal 11 (Segmentation")],
)
def test_a_part_that_a_signal_ended_says_which(scripted, tmp_path, number, why):
    """It printed no traceback, so that a bare number would be all that is known of it."""
    part = replace(scripted["fails"], arguments=(str(int(number)),))
    outcome = run_part(part, tmp_path, 60)
    assert outcome.state == "failed" and outcome.why.startswith(why)


def test_the_same_command_goes_on_and_failed_parts_wait_to_be_asked_for(scripted, tmp_path, monkeypatch):
    out = tmp_path / "out"
    options = GpuOptions(ModelOptions(), out, parts=("works", "fails"))
    run_gpu(options)
    ran = []
    monkeypatch.setattr(runner, "run_part", lambda part, *_: ran.append(part.name) or PartOutcome("done", 1.0, "", ""))
    monkeypatch.setattr(runner, "has_gpu", lambda device: True)
    run_gpu(GpuOptions(ModelOptions(), out))
    assert ran == ["hangs", "gpu"]
    run_gpu(GpuOptions(ModelOptions(), out, again=True))
    assert ran == ["hangs", "gpu", "fails"]
    (out / "works.outcome.json").write_text("{")
    run_gpu(GpuOptions(ModelOptions(), out))
    assert ran[-1] == "works"


def test_no_part_begins_when_the_time_is_over(scripted, tmp_path):
    out = tmp_path / "out"
    assert run_gpu(GpuOptions(ModelOptions(), out, minutes=0.001, parts=("works",))) == 0
    assert states(out) == {} and "1 not tried" not in (out / "works.log").name
    assert "4 not tried" in (out / "README.md").read_text()


def test_parts_that_the_minutes_do_not_reach_are_counted(scripted, tmp_path, capsys):
    run_gpu(GpuOptions(ModelOptions(), tmp_path / "out", minutes=0.001))
    said = capsys.readouterr().err
    assert said == "the minutes are over; parts left for the same command, given again: 3\n"


def test_a_name_of_no_part_leaves_no_folder(scripted, tmp_path):
    with pytest.raises(SpectraError, match=r"^parts: none begins so"):
        run_gpu(GpuOptions(ModelOptions(), tmp_path / "out", parts=("none",)))
    assert not (tmp_path / "out").exists()


def test_a_part_that_the_runs_minutes_end_is_begun_again_by_the_same_command(scripted, tmp_path):
    """Only one that had the whole of its own time waits to be asked for."""
    out = tmp_path / "out"
    scripted["hangs"] = replace(scripted["hangs"], minutes=1.0)
    assert run_gpu(GpuOptions(ModelOptions(), out, minutes=0.05, parts=("hangs",))) == 0
    assert states(out) == {"hangs": "open"} and "Open: the minutes of the whole run" in (out / "README.md").read_text()
    scripted["hangs"] = replace(scripted["hangs"], minutes=1.0 / 60)
    assert run_gpu(GpuOptions(ModelOptions(), out, parts=("hangs",))) == 1
    assert states(out) == {"hangs": "stopped"}


def test_a_part_that_took_too_long_gets_twice_as_long_again(scripted, tmp_path, monkeypatch):
    """Else one that is too slow for its limit here would never be done."""
    out, given = tmp_path / "out", []
    run_gpu(GpuOptions(ModelOptions(), out, parts=("hangs", "fails")))
    took = read_outcomes(out)["hangs"].seconds
    monkeypatch.setattr(
        runner, "run_part", lambda part, _, seconds, __: given.append(seconds) or PartOutcome("done", 1.0, "", "")
    )
    run_gpu(GpuOptions(ModelOptions(), out, parts=("hangs", "fails"), again=True))
    assert given == [60, 2 * took]


def test_a_run_that_is_ended_ends_its_part_and_the_same_command_goes_on(scripted, tmp_path, monkeypatch):
    """SIGTERM, as a machine that is taken back sends it: what was done stays, the part in hand is as if never begun."""
    out = tmp_path / "out"
    started, before = [], signal.getsignal(signal.SIGTERM)

    def begun(*arguments, **options):
        process = popen(*arguments, **options)
        started.append(process)
        if "hangs" in arguments[0]:
            threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
        return process

    popen = subprocess.Popen
    scripted["hangs"] = replace(scripted["hangs"], minutes=1.0)
    monkeypatch.setattr(subprocess, "Popen", begun)
    with pytest.raises(KeyboardInterrupt):
        run_gpu(GpuOptions(ModelOptions(), out))
    assert all(process.poll() is not None for process in started), "a part goes on alone"
    assert states(out) == {"works": "done", "fails": "failed"}
    assert signal.getsignal(signal.SIGTERM) is before
    monkeypatch.setattr(subprocess, "Popen", popen)
    scripted["hangs"] = replace(scripted["hangs"], minutes=1.0 / 60)
    run_gpu(GpuOptions(ModelOptions(), out))
    assert states(out)["hangs"] == "stopped"


def test_a_part_that_outlived_a_killed_run_keeps_others_out(scripted, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    with held(out) as lock:
        part = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(lock,))
    with pytest.raises(SpectraError, match=r"^out: a run is at work"):
        run_gpu(GpuOptions(ModelOptions(), out))
    part.communicate(b"\n")
    run_gpu(GpuOptions(ModelOptions(), out, parts=("works",)))


def test_a_folder_holds_parts_of_one_model_and_no_rehearsal(scripted, tmp_path):
    out = tmp_path / "out"
    run_gpu(GpuOptions(ModelOptions(), out, parts=("works",), tiny=True))
    for other in (GpuOptions(ModelOptions(), out), GpuOptions(ModelOptions("m"), out, tiny=True)):
        with pytest.raises(SpectraError, match=r"^out: .* other options"):
            run_gpu(other)
    run_gpu(GpuOptions(ModelOptions(), out, parts=("fails",), tiny=True))
    assert states(out) == {"works": "done", "fails": "failed"}


def test_a_device_that_is_not_here_is_refused_before_anything_is_written(tmp_path):
    out, places = tmp_path / "out", tmp_path / "map.json"
    places.write_text('{"": "cuda:99"}')
    placed = ModelOptions("m", placement=Placement(str(places)))
    roomy = ModelOptions("m", placement=Placement("auto", ("99=20GiB",)))
    for field, model, named in (
        ("device", ModelOptions(device="cuda:99"), "'cuda:99'"), ("device_map", placed, "'cuda:99'"),
        ("max_memory", roomy, "99"),
    ):  # fmt: skip
        with pytest.raises(SpectraError, match=rf"^{field}: .*{named} is not available"):
            run_gpu(GpuOptions(model, out, parts=("start",)))
    assert not out.exists()


def test_what_no_part_could_load_is_refused_before_anything_is_written(tmp_path):
    """Each part would fail alone, and the minutes of a loan be over."""
    (tmp_path / "config.json").write_text('{"model_type": "none"}')
    tiny, draft = (save_model(tmp_path / name) for name in ("tiny", "draft"))
    (draft / "model.safetensors").unlink()
    named = ModelOptions(str(tiny), drafts=(draft,))
    for field, model in (("model", ModelOptions(str(tmp_path))), ("draft", named)):
        with pytest.raises(SpectraError, match=f"^{field}: "):
            run_gpu(GpuOptions(model, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_folder_holds_parts_of_one_machine(scripted, tmp_path, monkeypatch):
    """Else figures of a CPU would stand under the name of a GPU."""
    out = tmp_path / "out"
    run_gpu(GpuOptions(ModelOptions(), out, parts=("works",)))
    assert "Measured on: GPU none, processor " in (out / "README.md").read_text()
    monkeypatch.setattr(runner, "machine", lambda device: {"GPU": "H100", "cores": 8})
    with pytest.raises(SpectraError, match=r"^out: .* another machine"):
        run_gpu(GpuOptions(ModelOptions(), out))


@pytest.mark.parametrize("name", ["README.md", "prompts/mt_bench_question.jsonl"])
def test_what_no_run_wrote_is_never_replaced(scripted, tmp_path, name):
    """docs/benchmarks, for which the report is meant, and a checkout have a README.md of their own."""
    own = tmp_path / "docs" / name
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    with pytest.raises(SpectraError, match=rf"^out: .* holds a {name.partition('/')[0]} that no run wrote"):
        run_gpu(GpuOptions(ModelOptions(), tmp_path / "docs", parts=("works",)))
    assert own.read_text() == "mine" and list((tmp_path / "docs").rglob("*.*")) == [own]


def test_a_folder_that_was_moved_goes_on(scripted, tmp_path):
    run_gpu(GpuOptions(ModelOptions(), tmp_path / "out", parts=("works",)))
    (tmp_path / "out").rename(tmp_path / "moved")
    run_gpu(GpuOptions(ModelOptions(), tmp_path / "moved", parts=("fails",)))
    assert states(tmp_path / "moved") == {"works": "done", "fails": "failed"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_lost_connection_ends_a_run_like_a_machine_that_is_taken_back(number):
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt), ended_by_signal():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_under_nohup_a_lost_connection_ends_nothing():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signal():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_cpu_is_not_asked_for_large_shapes_and_a_device_is_every_parts_own(tmp_path):
    parts = parts_of(("--model", "m", "--device", "cuda:1"), tmp_path, tmp_path)
    assert all(part.gpu for part in parts if part.name.startswith("latency"))
    assert all(part.arguments[part.arguments.index("--device") + 1] == "cuda:1" for part in parts)
    assert {part.name for part in parts if part.needs == ("torchao",)} == {
        "start-eager-exact-int8", *(part.name for part in parts if "70b" in part.name)
    }  # fmt: skip


def test_a_part_is_open_without_the_packages_of_which_it_takes_one(tmp_path, monkeypatch):
    part = next(part for part in parts_of((), tmp_path, tmp_path) if part.name == "start-eager-exact-q4")
    there = set()
    monkeypatch.setattr(runner, "find_spec", lambda name: name if name in there else None)
    assert obstacle(part, gpu=True) == "it takes the package torchao or bitsandbytes, which is not installed"
    there.add("bitsandbytes")
    assert obstacle(part, gpu=True) == ""
    assert obstacle(part, gpu=False) == "it takes a CUDA GPU, and there is none"
    assert obstacle(part, gpu=False, device="cpu") == "it takes a CUDA GPU, and the device is cpu"


@pytest.mark.parametrize(
    ("out", "shown"),
    [("/s", "`python --out OUT/a.md` tokens/s 'OUT/b c' OUT"), ("/", "`python --out /a.md` tokens/s '/b c' /")],
)
def test_the_folder_of_a_run_is_taken_out_of_paths_alone(out, shown):
    """With the folder /s the report had "tokensOUT" for tokens/s."""
    folder = Path(out)
    text = f"`python --out {folder / 'a.md'}` tokens/s '{folder / 'b c'}' {folder}"
    assert report.without_folder(text, folder) == shown


def test_a_machine_with_torch_and_transformers_is_carried_the_rest_of_what_the_project_takes():
    """Without accelerate transformers reads neither the embedded model's file nor a quantised model."""

    def taken(*names):
        found = set()
        for text in (text for name in names for text in metadata.requires(name) or []):
            required = Requirement(text)
            if required.marker is None or required.marker.evaluate({"extra": ""}):
                found.add(required.name.lower().replace("_", "-"))
        return found

    own = {line.split("==")[0] for line in (ROOT / "requirements.txt").read_text().split()}
    page = {"gradio", "httpx", "plotly"}
    there = {"torch", "transformers"} | taken("torch", "transformers")
    assert (own | taken("accelerate")) - page - there <= set(WHEELS)


def test_a_full_disk_costs_what_could_not_be_written(scripted, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    write = runner.write_text

    def full(path, *rest):
        if path.name == "works.outcome.json":
            raise SpectraError("out", f"cannot write {path} (No space left on device); give a writable file path")
        write(path, *rest)

    monkeypatch.setattr(runner, "write_text", full)
    assert run_gpu(GpuOptions(ModelOptions(), out, parts=("works", "fails"))) == 1
    assert states(out) == {"fails": "failed"} and "No space left" in capsys.readouterr().err


def test_a_report_that_cannot_be_written_is_no_success(scripted, tmp_path, monkeypatch):
    def full(path, *rest):
        raise SpectraError("out", f"cannot write {path} (No space left on device); give a writable file path")

    monkeypatch.setattr(report, "write_text", full)
    with pytest.raises(SpectraError, match=r"cannot write .*README\.md"):
        run_gpu(GpuOptions(ModelOptions(), tmp_path / "out", parts=("works",)))


@pytest.mark.parametrize(
    ("told", "said"),
    [("max_new_tokens: 5000 is out of range; give 2048", None), ("Error raised.", "method: Error raised.")],
)
def test_what_the_page_refuses_is_one_line_of_its_own(monkeypatch, told, said):
    """It was a traceback of gradio's client."""

    def refuse():
        raise AppError(told)

    job = SimpleNamespace(result=refuse)
    monkeypatch.setattr("gradio_client.Client", lambda *_, **__: SimpleNamespace(submit=lambda *_, **__: job))
    with pytest.raises(SpectraError) as refused:
        race("http://127.0.0.1:9", "spectra", 5000)
    assert str(refused.value) == (said or told)


def test_a_page_ends_with_the_part_that_serves_it(tmp_path):
    """It is a group of its own, which a signal to the part's group does not reach."""
    page = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    script = (
        "import sys; from spectra.bench.gpu.page import *; from pathlib import Path\n"
        f"with ended_by_signal(): served([sys.executable, '-c', {page!r}], 1, None)"
    )
    part = subprocess.Popen([sys.executable, "-c", script], start_new_session=True, stderr=subprocess.DEVNULL)
    over = time.monotonic() + 60
    while time.monotonic() < over and not ((tmp_path / "pid").is_file() and (tmp_path / "pid").read_text()):
        time.sleep(0.05)
    end_group(part)
    assert ends(int((tmp_path / "pid").read_text())), "the page goes on alone"


@pytest.mark.parametrize("starts", ["run_part", "served"])
def test_what_a_part_is_given_goes_before_what_variables_say(tmp_path, monkeypatch, starts):
    """Options at their defaults are not on its command line."""
    (tmp_path / "said.py").write_text(
        "import os, pathlib\n"
        f"pathlib.Path({str(tmp_path / 'said')!r}).write_text(' '.join(n for n in os.environ if 'SPECTRA' in n))"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for name in ("SPECTRA_DTYPE", "SPECTRA_DEVICE_MAP", "SPECTRA_ENDPOINT", "SPECTRA_NATIVE"):
        monkeypatch.setenv(name, "1")
    if starts == "run_part":
        assert run_part(GpuPart("said", "", 1.0, "said", (), ""), tmp_path, 60).state == "done"
    else:
        with pytest.raises(SpectraError, match=r"^model: the page ended"):
            served([sys.executable, "-m", "said"], 1, None)
    assert (tmp_path / "said").read_text() == "SPECTRA_NATIVE"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a process is tied to its parent by Linux's prctl")
def test_a_part_ends_with_a_run_that_is_killed(scripted, tmp_path):
    script = (
        "from pathlib import Path\n"
        "from spectra.bench.gpu.parts import GpuPart\n"
        "from spectra.bench.gpu.run import run_part\n"
        f"run_part(GpuPart('hangs', '', 1.0, 'scripted_part', ('hangs',), ''), Path({str(tmp_path)!r}), 60)"
    )
    run = subprocess.Popen([sys.executable, "-c", script])
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    log, over = tmp_path / "hangs.log", time.monotonic() + 60
    while time.monotonic() < over and not (log.is_file() and "began" in log.read_text()):
        time.sleep(0.05)
    (part,) = map(int, children.read_text().split())
    run.kill()
    run.wait()
    assert ends(part), "the part goes on alone"


@pytest.mark.parametrize(
    ("device", "asked"), [(None, "0"), ("cuda", "0"), ("cuda:1", "1"), ("cpu", "0"), ("cuda:9", "0")]
)
def test_the_head_of_the_report_describes_the_gpu_of_the_models(monkeypatch, device, asked):
    def properties(place):
        return SimpleNamespace(name=str(place), total_memory=2**30, major=9, minor=0)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    assert runner.machine(device)["GPU"] == asked


def test_a_damaged_result_costs_its_own_row(tmp_path):
    part = GpuPart("start-eager-fast", "Does it start", 1.0, "spectra", ("generate",), str(tmp_path / "one.json"))
    for text in (None, "{", "[]", '{"environment": {}}'):
        if text is not None:
            (tmp_path / "one.json").write_text(text)
        write_report(tmp_path, [part], {part.name: PartOutcome("done", 3.0, "", "")}, {"GPU": "none"})
        assert "| eager-fast | | | | | one.json cannot be read (" in (tmp_path / "README.md").read_text().replace(
            "  ", " "
        )


def test_parts_never_tried_come_first():
    parts = [GpuPart(name, "", 1.0, "", (), "") for name in "abcd"]
    known = {name: PartOutcome(state, 0, "", "") for name, state in (("a", "failed"), ("b", "done"), ("c", "open"))}
    assert [part.name for part in in_order(parts, known, again=True)] == ["d", "c", "a"]
    assert [part.name for part in in_order(parts, known, again=False)] == ["d", "c"]


@pytest.mark.parametrize("tiny", [False, True])
def test_every_part_is_a_command_that_its_parser_takes(tmp_path, tiny):
    from spectra.cli.main import build_parser as main_parser

    write_prompts(tmp_path / "prompts")
    parts = parts_of(("--device", "cpu"), tmp_path / "prompts", tmp_path, tiny=tiny)
    assert len({part.name for part in parts}) == len(parts)
    assert sum(part.minutes for part in parts) < 75
    for part in parts:
        parser = build_parser() if part.module == "spectra.bench" else main_parser()
        assert parser.parse_args(part.arguments).command == part.arguments[0]


def test_the_model_is_named_to_every_part(tmp_path):
    options = GpuOptions(ModelOptions("m", "cuda:1", datastores=()), tmp_path)
    assert options.model_arguments == ("--model", "m", "--device", "cuda:1")
    file = tmp_path / "estimates.json"
    BUILT_IN.write(file, {})
    options = ModelOptions(dtype="bf16", remember=tmp_path, estimates=file, placement=Placement("auto"))
    given = GpuOptions(options, tmp_path).model_arguments
    folder = str(tmp_path)
    assert given == ("--dtype", "bf16", "--device-map", "auto", "--remember", folder, "--estimates", str(file))
    for wrong in ({"numerics": "fast"}, {"step": "graphs"}, {"weights": "int8"}):
        with pytest.raises(SpectraError, match=rf"^{next(iter(wrong))}: "):
            GpuOptions(ModelOptions(**wrong), tmp_path)
    with pytest.raises(SpectraError, match=r"^minutes: "):
        GpuOptions(ModelOptions(), tmp_path, minutes=0)
    with pytest.raises(SpectraError, match=r"^data: "):
        GpuOptions(ModelOptions(), tmp_path, data=tmp_path / "none")


def test_own_prompts_are_read_like_published_ones(tmp_path):
    prompts = PromptOptions(write_prompts(tmp_path / "p")).load()
    assert [prompt.text for prompt in prompts] == list(PROMPTS)


def test_starts_stand_in_one_table(tmp_path):
    part = GpuPart("start-eager-fast", "Does it start", 1.0, "spectra", ("generate",), str(tmp_path / "one.json"))
    other = GpuPart("start-graphs-fast", "Does it start", 1.0, "spectra", ("generate",), str(tmp_path / "two.json"))
    figures = {"micro": 50.0, "tau": 2.5}
    facts = {"model": "tiny-llama", "numerics": "fast", "step": "graphs"}
    data = {"baseline": figures, "answer": figures | {"micro": 110.0}, "speedup": 2.2, "identical": True}
    (tmp_path / "one.json").write_text(json.dumps(data | {"environment": facts}))
    known = {
        part.name: PartOutcome("done", 3.0, "", ""),
        other.name: PartOutcome("failed", 3.0, "exit code 1", "Traceback"),
    }
    write_report(tmp_path, [part, other], known, {"GPU": "none"})
    text = (tmp_path / "README.md").read_text()
    assert "| eager-fast | 50.0 | 110.0 | 2.50 | 2.20 | yes | tiny-llama, graphs, fast |" in text
    assert "| graphs-fast | | | | | failed: exit code 1 | |" in text
    assert "|\n\n`python -m spectra generate`\n" in text


def test_of_a_line_that_was_written_over_the_last_is_reported():
    assert as_shown("1/2 prompts\r2/2 prompts\nall identical\r\n\nend") == "2/2 prompts\nall identical\n\nend"


def test_what_a_part_printed_is_reported_without_its_count_of_prompts(tmp_path):
    part = next(part for part in parts_of((), tmp_path, tmp_path, tiny=True) if part.name == "exactness")
    write_report(tmp_path, [part], {"exactness": PartOutcome("done", 3.0, "", "2/2 prompts   \n2 of 2 identical")}, {})
    text = (tmp_path / "README.md").read_text()
    assert "2 of 2 identical" in text and "2/2" not in text


def test_what_a_failed_part_printed_stands_in_the_report_as_it_is(tmp_path):
    """An answer has fences of its own."""
    parts = [GpuPart(name, f"About {name}", 1.0, "bench", ("one",), "") for name in ("answered", "silent")]
    known = {
        "answered": PartOutcome("failed", 3.0, "exit code 1", "```python\n# A class\nRuntimeError: gone"),
        "silent": PartOutcome("stopped", 3.0, "it took longer than 3 s", "\n"),
    }
    write_report(tmp_path, parts, known, {})
    text = (tmp_path / "README.md").read_text()
    assert "\n````text\n```python\n# A class\nRuntimeError: gone\n````\n" in text
    assert text.endswith("### silent: it took longer than 3 s\n\n`python -m bench one`\n\nIt printed nothing.\n")


@pytest.mark.all_cases
def test_a_real_part_on_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    parts = parts_of(("--device", "cpu"), tmp_path, tmp_path, tiny=True)
    part = next(part for part in parts if part.name == "latency-llama-tiny-eager-fast")
    outcome = run_part(part, tmp_path, 200)
    assert outcome.state == "done", outcome.printed
    write_report(tmp_path, [part], {part.name: outcome}, {"python": sys.version.split()[0]})
    assert "| context | q=1 | q=2 | q=4 |" in (tmp_path / "README.md").read_text()
    assert asdict(outcome)["why"] == ""


def test_figure4_compares_with_plain_decoding_of_the_first_way():
    def row(method, tokens, seconds):
        return {"method": method, "new_tokens": tokens, "seconds": seconds}

    plain = [row("autoregressive", 100, 2.0), row("autoregressive", 100, 2.0)]
    rows = {"eager": [*plain, row("spectra", 100, 0.5)], "flash": [row("autoregressive", 100, 1.0)]}
    text = figure4(rows)
    assert "| autoregressive | 50.0 (1.00) | 100.0 (2.00) |" in text
    assert "| spectra | 200.0 (4.00) |  |" in text


def test_figure4_names_what_cannot_be_had(models, tmp_path, capsys):
    from benched import loaded

    from spectra.cli.bench import main

    write_prompts(tmp_path / "p")
    models[ModelOptions(step="eager", numerics="fast")] = loaded()
    line = f"figure4 --data {tmp_path / 'p'} --limit 1 --max-new-tokens 4 --methods anpd,rest --out {tmp_path / 'o'}"
    assert main([*line.split(), "--steps", "eager,flash"]) == 0
    out = capsys.readouterr().out
    assert "| anpd |" in out and "- flash: flash takes a CUDA GPU" in out and "- eager, rest: " in out
    assert (Path(tmp_path) / "o" / "details.md").is_file()


def test_without_the_embedded_model_only_parts_of_shapes_are_begun(tmp_path, monkeypatch):
    def missing():
        raise SpectraError("model", "the embedded model is not installed")

    monkeypatch.setattr(embedded, "packaged_file", missing)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(runner, "run_part", lambda *_: PartOutcome("done", 1.0, "", ""))
    with pytest.raises(SpectraError, match="not installed"):
        run_gpu(GpuOptions(ModelOptions(), tmp_path / "all", tiny=True))
    assert not (tmp_path / "all").exists()
    assert run_gpu(GpuOptions(ModelOptions(), tmp_path / "shapes", tiny=True, parts=("latency",))) == 0
    converted = embedded.cache_home() / embedded.NAME  # which outlives the package
    converted.mkdir(parents=True)
    (converted / embedded.MARK).write_text(json.dumps({"model": [0, hashlib.sha256().hexdigest()]}))
    (converted / "model").touch()
    assert run_gpu(GpuOptions(ModelOptions(), tmp_path / "all", tiny=True)) == 0
