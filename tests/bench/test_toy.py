"""`python -m spectra.bench toy`: the table of rules on made-up distributions, its figures, and bad input."""

import sys

import numpy as np
import pytest
from distributions import distinct, output_distribution

from spectra.bench.acceptance.toy import RULES, SHARES, TEMPERATURES, markdown, measure, pairs
from spectra.cli.bench import main
from spectra.verify.rules.multistep import WithoutReplacement


def test_the_pairs_are_as_described():
    p, q = pairs(3, 5, 0.5, 0.7)
    own, noise = np.random.default_rng(5).standard_normal((2, 3, 50))
    mixed = np.exp((0.7 * own + 0.3 * noise) / 0.5)
    assert np.allclose(p, np.exp(own / 0.5) / np.exp(own / 0.5).sum(1, keepdims=True))
    assert np.allclose(q, mixed / mixed.sum(1, keepdims=True))
    assert np.allclose(np.log(pairs(3, 5, 0.25, 0.7)[0][0]).argsort(), np.log(p[0]).argsort())  # the same scores


def test_figures_are_the_rules_own():
    table = measure(2, 1)
    assert set(table) == set(RULES)
    p, q = pairs(2, 1, 0.25, 0.5)
    _, accepted = output_distribution(WithoutReplacement(), p[1], [q[1], q[1]], distinct(q[1], 2))
    assert table["RRSw"][0.25, 0.5][1] == pytest.approx(accepted.sum())
    for cell in table["RRS"]:
        for name, bound in (("RRS", "OTM"), ("RRSw", "OTMw"), ("OTM", "OTMw")):
            assert all(low <= high + 1e-8 for low, high in zip(table[name][cell], table[bound][cell], strict=True))


def test_the_table_has_every_cell_and_the_order_is_counted():
    cells = [(t, share) for t in TEMPERATURES for share in SHARES]
    low, high = (dict.fromkeys(cells, values) for values in ([0.5, 0.7], [0.6, 0.8]))
    text = markdown({"RRS": low, "RRSw": high, "SpecHub": low | {cells[0]: [0.9, 0.9]}}, 2, 0)
    assert "| RRS | " + " | ".join(["60.0 ± 10.0"] * 6) + " |" in text
    assert "above RRS in 1 of 6 cells" in text and "above RRSw in 1 of 6 cells (not at T=0.1, λ=0.5; T=0.25" in text


def test_the_command_writes_what_it_prints(tmp_path, capsys):
    assert main(["toy", "--pairs", "2", "--seed", "3", "--out", str(tmp_path / "new" / "docs")]) == 0
    out = capsys.readouterr().out
    assert (tmp_path / "new" / "docs" / "toy.md").read_text(encoding="utf-8") == out
    assert "python -m spectra.bench toy --pairs 2 --seed 3" in out
    assert [line.split(" |")[0] for line in out.splitlines() if line.startswith("| ")][1:] == [f"| {n}" for n in RULES]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--pairs", "1"], "pairs: 1 is out of range"),
        (["--seed", "-1"], "seed: -1 is below 0; give 0 or more"),
        (["--out", "FILE/under"], "out: cannot make"),
    ],
)
def test_bad_input_is_one_line(tmp_path, capsys, arguments, said):
    (tmp_path / "file").touch()
    assert main(["toy", *[a.replace("FILE", str(tmp_path / "file")) for a in arguments]]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"spectra.bench: {said}") and err.count("\n") == 1


def test_without_scipy_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    assert main(["toy", "--pairs", "2"]) == 2
    assert capsys.readouterr().err == (
        "spectra.bench: scipy: optimal transport needs it and it is not installed; pip install scipy\n"
    )
