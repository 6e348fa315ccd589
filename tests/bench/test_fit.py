"""`fit`: known weights are found again, chances are compared with what happens, the command writes what is read."""

import json
import math
import random

import pytest
from benched import loaded

from spectra.bench.fit import Case, check, fitted
from spectra.budget.estimates import Properties
from spectra.budget.weights import BUILT_IN, FILE, Weights, read_weights
from spectra.cli.bench import main
from spectra.guess import Source
from spectra.service.loading import ModelOptions

ONE, OTHER, RARE = (Source.FORWARD, 0, False), ("and", Source.DRAFT), (Source.POOL, 0, True)


def cases_of(count, weights, *, off=0.0, seed=1):
    """Guesses that are right as often as these weights say. off: by how much their stated chances are too high."""
    dice, cases = random.Random(seed), []
    for _ in range(count):
        features = [ONE, OTHER] if dice.random() < 0.5 else [ONE]
        luck, flat = dice.gauss(0, 1), 0.8
        score = sum(weights.features[one] for one in features) + weights.drawn * flat + weights.luck * flat**2 * luck
        chance = 1 / (1 + math.exp(-score))
        cases.append(Case(Properties(features, luck), flat, min(0.999, chance + off), dice.random() < chance))
    return cases


def test_known_weights_are_found():
    true = Weights({ONE: 0.4, OTHER: 1.3}, -0.6, 0.9)
    start = Weights({ONE: -1.0, OTHER: 0.0, RARE: 0.7}, -0.6, 0.2)
    found = fitted(cases_of(20_000, true), start)
    assert found.luck == pytest.approx(0.9, abs=0.12)
    assert found.features[OTHER] == pytest.approx(1.3, abs=0.12)
    both = found.features[ONE] + 0.8 * found.drawn  # every case was drawn: only the sum is known
    assert both == pytest.approx(0.4 - 0.48, abs=0.1)
    assert found.features[RARE] == 0.7, "what no case had stays"


def test_few_cases_change_little():
    start = Weights({ONE: -1.0, OTHER: 0.0}, 0.0, 0.0)
    found = fitted(cases_of(3, Weights({ONE: 3.0, OTHER: 3.0}, 0.0, 0.0)), start)
    assert -1.0 < found.features[ONE] < 1.5


def test_the_check_tells_good_chances_from_bad_ones():
    weights = Weights({ONE: -0.4, OTHER: 1.3}, 0.0, 0.5)
    good, bad = (check(cases_of(20_000, weights, off=off)) for off in (0.0, 0.2))
    assert good.error < 0.02 < 0.15 < bad.error
    assert good.loss < bad.loss
    assert sum(one.cases for one in good.bins) == good.cases == 20_000


@pytest.fixture
def recording(tmp_path, monkeypatch):
    texts = ("w5 w6 w7 w5 w6", "w9 w8 w9 w8", "w1 w2", "w3 w3", "w4 w5", "w7 w1 w7")
    rows = [{"question": text, "answer": ""} for text in texts]
    (tmp_path / "gsm8k_test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setattr(ModelOptions, "load", lambda options: loaded())
    out = tmp_path / "recording.jsonl"
    options = ["--max-new-tokens", "24", "--temperature", "0.7", "--out", str(out)]
    assert main(["record", "--data", str(tmp_path), *options]) == 0
    return out


@pytest.mark.parametrize("together", [1, 4])
def test_the_command_writes_what_replays_read(recording, tmp_path, capsys, together):
    out = tmp_path / "fit"
    options = ["--method", "spectra-core", "--together", str(together), "--out", str(out)]
    assert main(["fit", str(recording), str(recording), *options]) == 0
    assert "| fitted |" in capsys.readouterr().out
    weights = read_weights(out / FILE)
    assert weights.features[ONE] != BUILT_IN.features[ONE]
    said = json.loads((out / FILE).read_text())
    assert said["method"] == "spectra-core" and said["cases"] > 50
    figure = json.loads((out / "reliability.json").read_text())
    assert [line["name"] for line in figure["data"]] == ["equal", "built in", "fitted"]
    report = (out / "report.md").read_text()
    assert report.count("| built in") == 2 and ("4 sequences share a pass" in report) == (together == 4)
    assert main(["replay", str(recording), "--methods", "spectra-core", "--estimates", str(out / FILE)]) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--method", "autoregressive"], "method"),
        (["--method", "anpd"], "method"),
        (["--method", "nothing"], "method"),
        (["--datastore", "nowhere"], "datastore"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_one_line(recording, tmp_path, capsys, options, said):
    assert main(["fit", str(recording), *options, "--out", str(tmp_path / "fit")]) == 2
    error = capsys.readouterr().err.strip()
    assert said in error and "\n" not in error


def test_few_answers_are_refused(recording, tmp_path, capsys):
    lines = recording.read_text().splitlines()[:4]
    recording.write_text("\n".join(lines))
    assert main(["fit", str(recording), "--out", str(tmp_path / "fit")]) == 2
    assert "fewer than 5 answers" in capsys.readouterr().err


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("together", ["1", "16"])
def test_answers_held_back_of_which_none_was_guessed_are_refused_in_one_line(recording, tmp_path, capsys, together):
    """Where rows are dear there are few guesses, and the report divided by none of them."""
    header, *lines = recording.read_text().splitlines()
    repeats = {"prompt": [5, 6, 7] * 4, "answer": [5, 6, 7] * 3}
    answers = [json.loads(lines[0]) | repeats for _ in range(4)]
    answers.append(json.loads(lines[0]) | {"prompt": [1], "answer": [2]})
    for answer in answers:
        answer["top"] = [[token, 0] for token in answer["answer"]]
    recording.write_text("\n".join([header, *map(json.dumps, answers)]))
    options = ["--together", together, "--out", str(tmp_path / "fit")]
    assert main(["fit", str(recording), *options]) == 2
    error = capsys.readouterr().err.strip()
    assert "held back" in error and "\n" not in error
