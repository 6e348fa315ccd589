"""A model that gives no numbers, a full disk, a process killed while it writes, a clock that jumps."""

import ast
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny import make, target_of

from spectra import Limits, Sampling, decode, make_method
from spectra.errors import SpectraError
from spectra.methods.draft_models import DRAFT_MODELS
from spectra.methods.resources import Resources
from spectra.target.draft_model import DraftModel

ROOT = Path(__file__).parents[2]


SAMPLINGS = (Sampling(), Sampling(0.8), Sampling(0.8, top_p=0.9), Sampling(repetition_penalty=1.2))


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("method", ["autoregressive", "spectra", "lookahead", "rrsw"])
def test_a_model_that_gives_no_numbers_is_named(sampling, method):
    model = make("llama").double()
    model.lm_head.weight.data[7] = float("nan")
    target = target_of(model)
    try:
        made = make_method(method, target, sampling=sampling)
    except SpectraError as error:
        assert error.field == "draft"  # the one that needs a draft model
        return
    with pytest.raises(SpectraError, match=r"model: its logits are no numbers \(NaN\); load it in fp32"):
        list(decode(target, [5, 6, 7], made, sampling=sampling, limits=Limits(8)))
    with target.held():
        pass  # the lock is free again


@pytest.mark.parametrize("method", ["autoregressive", "spectra", "lookahead", "rrsw", "draft-model"])
def test_a_temperature_that_takes_scores_beyond_all_numbers_is_named(method):
    target = target_of(make("llama").double())
    resources = Resources(drafts=[DraftModel(target_of(make("llama", 1).double()))])
    sampling = Sampling(1e-40)
    made = make_method(method, target, resources, sampling=sampling)
    with pytest.raises(SpectraError, match=r"^temperature: after it the scores are no numbers"):
        list(decode(target, [5, 6, 7], made, sampling=sampling, limits=Limits(8)))


@pytest.mark.parametrize("field", ["model", "draft"])
@pytest.mark.parametrize("method", [*DRAFT_MODELS, "spectra-draft"])
def test_a_model_that_gives_no_numbers_is_named_where_draws_are_tested_too(method, field):
    """A draft was accepted by a probability that was none, and the next token was one that no vocabulary has."""
    models = {"model": make("llama").double(), "draft": make("llama", 1).double()}
    models[field].lm_head.weight.data[7] = float("nan")
    target = target_of(models["model"])
    resources = Resources(drafts=[DraftModel(target_of(models["draft"]))])
    sampling = Sampling(0.8, seed=3)
    made = make_method(method, target, resources, sampling=sampling)
    with pytest.raises(SpectraError, match=rf"{field}: its logits are no numbers \(NaN\); load it in fp32"):
        list(decode(target, [5, 6, 7], made, sampling=sampling, limits=Limits(8)))
    with target.held():
        pass


def python(code, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


FULL = """
import resource, signal, sys
from pathlib import Path
from spectra.errors import SpectraError
from spectra.io.files import write_text
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    write_text(Path(sys.argv[1]), "x" * 200_000, "out")
except SpectraError as error:
    print(error)
"""


def test_a_full_disk_leaves_the_old_file_and_no_rest(tmp_path):
    file = tmp_path / "answer.json"
    file.write_text("old")
    out, problem = python(FULL, file).communicate(timeout=60)
    assert out.startswith("out: cannot write ") and "give a writable file path" in out, problem
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


SHORT = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from spectra.io.arrays import save_array
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for size in (20, 1000, 100_000):
    try:
        save_array(Path(sys.argv[1]), np.arange(size))
        print("whole")
    except OSError as error:
        print(error.strerror)
"""


def test_an_array_that_a_full_disk_cuts_short_is_told(tmp_path):
    out, problem = python(SHORT, tmp_path / "array.npy").communicate(timeout=60)
    assert out.splitlines() == ["whole", "File too large", "File too large"], problem


def test_arrays_are_written_so_that_a_full_disk_is_told():
    for file in (ROOT / "spectra").rglob("*.py"):
        if file.name != "arrays.py":
            assert not re.search(r"\bnp\.save|\.tofile\(", file.read_text()), file


KILLED = """
import sys
from pathlib import Path
from spectra.io.files import write_text
print("ready", flush=True)
for letter in "abcdefghij" * 10_000:
    write_text(Path(sys.argv[1]), '"' + letter * 300_000 + '"')
"""


def test_a_process_killed_while_it_writes_leaves_a_whole_file(tmp_path):
    file = tmp_path / "answer.json"
    for pause in (0.01, 0.03, 0.07):
        process = python(KILLED, file)
        process.stdout.readline()
        time.sleep(pause)
        process.kill()
        process.communicate()
        if file.exists():
            assert len(set(json.loads(file.read_text()))) == 1
    assert file.exists()


@pytest.mark.parametrize("place", ["spectra", "visual", "app.py"])
def test_nothing_is_timed_by_the_clock_on_the_wall(place):
    """It can be set back or jump; `time.monotonic` and `time.perf_counter` do not."""
    files = [ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py")
    for file in files:
        calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
        assert not {"time.time", "datetime.now"} & {ast.unparse(call.func) for call in calls}, file
