"""Acceptance tables: masses against sums over all drafts, expected passes against real ones, the command."""

import json

import numpy as np
import pytest
from distributions import distinct, hubbed, independent, random_pairs
from drafting import decode_by
from naive import Naive
from tables import TableDraft, Tables, TableTarget
from tiny import make
from words import tokenizer

from spectra import Limits, Sampling, decode
from spectra.bench.acceptance.observer import (
    Observer,
    look,
    multistep,
    naive,
    spechub,
    transport,
    without_replacement,
)
from spectra.bench.acceptance.summary import expected_passes, summarise
from spectra.cli.bench import main
from spectra.drafters.tree_shapes import levels, unbalanced
from spectra.methods.draft_models import binary, chain, specinfer
from spectra.methods.preset import Setup
from spectra.methods.resources import Resources
from spectra.verify.rules.multistep import MultiStep, WithoutReplacement
from spectra.verify.rules.spechub import SpecHub

MASSES = {
    "rrs": (MultiStep(), lambda p, q: multistep(p, [q, q]), lambda q: independent(q, q)),
    "rrsw": (WithoutReplacement(), without_replacement, lambda q: distinct(q, 2)),
    "spechub": (SpecHub(), spechub, hubbed),
    "naive": (Naive(), lambda p, q: naive(p, [q, q]), lambda q: independent(q, q)),
}


@pytest.mark.parametrize("name", MASSES)
def test_masses_are_the_sum_over_all_drafts(name):
    rule, masses, drafts = MASSES[name]
    for p, q in random_pairs(60, 5, seed=3):
        expected = np.zeros((2, 5))
        for tokens, chance in drafts(q).items():
            if chance > 0:
                for index, taken in enumerate(rule.verdict(p, [q, q], tokens).chances):
                    expected[index, tokens[index]] += chance * taken
        np.testing.assert_allclose(masses(p, q), expected, atol=1e-12)
        assert masses(p, q).sum() == pytest.approx(rule.acceptance(p, q, 2), abs=1e-12)


def test_masses_of_drafts_of_several_models():
    (p, q), (r, _) = random_pairs(2, 6, seed=8)
    expected = np.zeros(3)
    for tokens, chance in independent(q, q, r).items():
        expected += chance * np.array(MultiStep().verdict(p, [q, q, r], tokens).chances)
    np.testing.assert_allclose(multistep(p, [q, q, r]).sum(1), expected, atol=1e-12)


def test_bounds_of_few_tokens_only():
    p, q = next(random_pairs(1, 6))
    wide = np.zeros(200)
    wide[[3, 50, 51, 99, 120, 199]] = p
    wide_q = np.zeros(200)
    wide_q[[3, 50, 51, 99, 120, 199]] = q
    assert transport(wide, wide_q) == pytest.approx(transport(p, q), abs=1e-9)
    otm, otmw = transport(p, q)
    assert otm >= MultiStep().acceptance(p, q, 2) - 1e-9
    assert otmw >= WithoutReplacement().acceptance(p, q, 2) - 1e-9
    assert transport(np.full(60, 1 / 60), np.full(60, 1 / 60)) is None


TARGET = Tables(1, 3, 4)
NEAR = Tables(2, 3, 4, TARGET)


def chances_of(out, rule):
    """What `expected_passes` asks of one answer, for one and two drafts."""
    found = []
    for t, token in enumerate(out):
        p, q = TARGET.rows[out[:t]], NEAR.rows[out[:t]]
        one, two = (rule(p, [q] * k)[:, token] / p[token] for k in (1, 2))
        found.append([one, two])
    return found


@pytest.mark.parametrize(
    ("build", "shape", "rule"),
    [
        (chain(2), levels((1, 1), 9), lambda p, qs: multistep(p, qs)),
        (binary(MultiStep(), 2), levels((2, 2), 9), lambda p, qs: multistep(p, qs)),
        (binary(WithoutReplacement(), 2), levels((2, 2), 9), lambda p, qs: without_replacement(p, qs[0])),
        (binary(SpecHub(), 2, (0.8, 0.1)), unbalanced((0.8, 0.1), 6), lambda p, qs: spechub(p, qs[0])),
        (specinfer((1, 2)), levels((1, 2), 9), lambda p, qs: multistep(p, qs)),
    ],
    ids=["chain", "rrs", "rrsw", "spechub, unbalanced", "specinfer"],
)
def test_expected_passes_are_the_mean_of_real_ones(build, shape, rule):
    passes = np.array([expected_passes(chances_of(out, rule), shape) for out in TARGET.outputs])
    expected = float(passes @ TARGET.distribution())
    near = Resources(drafts=[TableDraft(NEAR)])
    target, runs = TableTarget(TARGET), []
    for seed in range(600):
        sampling = Sampling(1.0, seed=seed)
        made = build(Setup("test", target, near, sampling=sampling))
        runs.append(len(list(decode(target, [0], made, sampling=sampling, limits=Limits(4)))))
    assert 1.1 < expected < 3.0
    assert abs(np.mean(runs) - expected) < 4 * np.std(runs) / len(runs) ** 0.5


def test_expected_passes_of_what_is_certain():
    sure, never = [[(1.0,), (1.0, 0.0)]] * 12, [[(0.0,), (0.0, 0.0)]] * 12
    assert expected_passes(sure, levels((1, 1, 1), 9)) == 3
    assert expected_passes(never, levels((2, 2), 9)) == expected_passes(sure, {}) == 12
    assert expected_passes([[(), (0.0, 1.0)]] * 12, {(): 2, (1,): 2}) == 4  # along the second drafts
    assert expected_passes([[(), (0.0, 1.0)]] * 12, {(): 2, (0,): 2}) == 6


def test_an_observer_writes_what_plain_decoding_writes_and_sees_every_token():
    target, drafts = TableTarget(TARGET), [TableDraft(NEAR), TableDraft(TARGET)]
    sampling = Sampling(1.0, seed=3)
    observer = Observer(drafts, sampling)
    out = [t for s in decode(target, [0], observer.method, sampling=sampling, limits=Limits(4)) for t in s.tokens]
    assert out == [
        t for s in decode_by(target, [0], "autoregressive", sampling=sampling, limits=Limits(4)) for t in s.tokens
    ]
    for t, seen in enumerate(observer.positions):
        p, q = TARGET.rows[tuple(out[:t])], NEAR.rows[tuple(out[:t])]
        assert seen["ranks"] == [list(np.argsort(-distribution)).index(out[t]) for distribution in (q, p)]
        assert seen["mss"][0] == pytest.approx([np.minimum(p, q).sum(), min(1, q[out[t]] / p[out[t]])], abs=1e-5)
        assert seen["both"][0][1] == pytest.approx(1 - p @ ((1 - q) * (1 - p)), abs=1e-5)
        assert seen["both"][0][0] > seen["mss"][0][0]


def test_figures_by_temperature():
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.7, 0.1])
    cold = [{"ranks": [0]}, {"ranks": [1]}, {"ranks": [4]}, {"ranks": [0]}]
    found = summarise(
        [
            {"temperature": 0.5, "positions": [look(p, [q, p], 0), look(p, [q, p], 1)]},
            {"temperature": 0, "positions": cold},
        ]
    )
    assert list(found) == ["0", "0.5"]
    assert found["0"]["hits"] == {"first": [0.5, 0.75, 0.75, 0.75, 1.0]}
    assert found["0"]["acceptance"] == {"top 2": [0.5, 0.25]}
    assert found["0"]["binary"]["top 2"][:2] == [4 / 3, 4 / 2]
    assert found["0.5"]["hits"]["either"] == [1.0] * 5
    assert found["0.5"]["widths"]["mss"][0] == pytest.approx(0.6)
    assert found["0.5"]["widths"]["mss, both"][0] == pytest.approx(0.6 + 0.4 * (0.5 + 0.2))
    bounds = found["0.5"]["transport"]
    assert bounds["positions"] == 2
    assert bounds["otm"] >= bounds["rrs"] - 1e-6 and bounds["otmw"] >= bounds["rrsw"] - 1e-6


class TestCommand:
    @pytest.fixture(scope="class")
    def place(self, tmp_path_factory):
        place = tmp_path_factory.mktemp("models")
        for name, seed in (("tiny", 0), ("small", 4), ("smaller", 5)):
            make("llama", seed, max_position_embeddings=200).save_pretrained(place / name)
        tokenizer().save_pretrained(place / "tiny")
        (place / "gsm8k_test.jsonl").write_text('{"question": "w5 w6 w5"}\n{"question": "w9"}\n')
        return place

    @pytest.fixture
    def arguments(self, place, tmp_path):
        return [
            "acceptance", "--model", str(place / "tiny"), "--data", str(place), "--dtype", "fp32", "--device", "cpu",
            "--max-new-tokens", "6", "--out", str(tmp_path), "--draft", str(place / "small"),
        ]  # fmt: skip

    def test_tables_of_two_draft_models(self, arguments, place, tmp_path, capsys):
        more = ["--draft", str(place / "smaller"), "--temperatures", "0,0.8", "--top-k", "12"]
        assert main([*arguments, *more]) == 0
        text = capsys.readouterr().out
        assert (tmp_path / "acceptance.md").read_text() == text
        for line in ("| 0.8 | RRSw |", "| 0 | top 2 |", "| 0.8 | multi-step, both models |", "| 0 | either |"):
            assert line in text
        assert "None here" not in text
        found = json.loads((tmp_path / "acceptance.json").read_text())
        assert found["0.8"]["positions"] == 12 == found["0.8"]["transport"]["positions"]
        rows = (tmp_path / "acceptance.jsonl").read_text()
        assert main([*arguments, *more]) == 0  # nothing is run again
        assert (tmp_path / "acceptance.jsonl").read_text() == rows
        assert main([*arguments, *more, "--top-k", "3"]) == 2
        assert "spectra.bench: out: " in capsys.readouterr().err

    def test_one_draft_model_over_the_whole_vocabulary(self, arguments, tmp_path, capsys):
        assert main([*arguments, "--temperatures", "1", "--limit", "1"]) == 0
        text = capsys.readouterr().out
        assert "both models |" not in text and "| 1 | second |" not in text
        assert "None here" in text  # no linear program over 64 tokens

    def test_bad_input_is_one_line(self, arguments, tmp_path, capsys):
        for more, said in (
            (["--temperatures", "hot"], "temperatures: 'hot'"),
            (["--top-p", "0"], "top_p: 0.0"),
            (["--draft", str(tmp_path / "none")], f"draft: {str(tmp_path / 'none')!r} is not there"),
        ):
            assert main([*arguments, *more]) == 2
            assert capsys.readouterr().err.splitlines()[-1].startswith(f"spectra.bench: {said}")
