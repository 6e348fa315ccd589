"""`weights`: perplexity by hand, own blocks at no loss, fewer bytes for fewer bits."""

import math

import pytest
import torch
from gguf_files import MIXED, tiny_model, write_gguf

from spectra.bench.weights import WeightFigures, WeightsOptions, codes_of, markdown, measure, run_weights
from spectra.cli.bench import main
from spectra.errors import SpectraError
from spectra.target.load import load_network

TEXT = "A tiny text that a tiny model has never seen, in one line." * 3


@pytest.fixture
def file(tmp_path):
    return str(write_gguf(tmp_path / "tiny.gguf", tiny_model(tied=True), MIXED))


def test_perplexity_is_the_mean_loss_of_what_can_be_predicted(file):
    network = load_network(file, device="cpu", dtype="fp32")[0]
    pieces = [[3, 1, 4, 1, 5], [9, 2]]
    logs = [network(torch.tensor([piece])).logits[0].detach().log_softmax(-1) for piece in pieces]
    losses = [
        -float(log[i, piece[i + 1]]) for log, piece in zip(logs, pieces, strict=True) for i in range(len(piece) - 1)
    ]
    figures = measure(network, {}, "bf16", pieces)
    assert figures.perplexity == pytest.approx(math.exp(sum(losses) / 5), rel=1e-5)
    assert figures.nbytes == 2 * figures.numbers


def test_a_models_own_blocks_lose_nothing_and_fewer_bits_are_fewer_bytes(file, tmp_path, capsys):
    text, out = tmp_path / "text.txt", tmp_path / "table.md"
    text.write_text(TEXT)
    command = ["weights", "--model", file, "--device", "cpu", "--text", str(text), "--window", "32", "--tokens", "100"]
    assert main([*command, "--out", str(out)]) == 0
    report = capsys.readouterr().out
    assert out.read_text() == report
    assert "100 tokens of text.txt, 32 a pass" in report
    rows = {cells[0]: cells[1:] for cells in (line.strip("| ").split(" | ") for line in report.splitlines()[4:])}
    assert list(rows) == ["bf16", "own blocks", "int8", "q4"]
    assert rows["own blocks"][2:] == [rows["bf16"][2], "1.0000"]
    bits = [float(rows[kind][1]) for kind in ("bf16", "int8", "q4")]
    assert bits[0] == 16
    assert bits[0] > bits[1] > bits[2] > 4
    assert rows["q4"][2] != rows["bf16"][2]


def test_a_model_that_comes_whole_has_no_blocks_of_its_own():
    assert codes_of(tiny_model(), "some/folder", "own blocks") is None
    assert len(markdown([WeightFigures("bf16", 200, 100, 5.0)]).splitlines()) == 3


def test_the_embedded_model_has_the_blocks_of_its_file_also_where_it_is_named(monkeypatch):
    blocks = {"weight": object()}
    monkeypatch.setattr("spectra.target.embedded.packaged_weights", lambda: blocks)
    assert codes_of(None, None, "own blocks") is codes_of(None, "embedded", "own blocks") is blocks


def test_bad_input_is_one_line(file, tmp_path):
    (tmp_path / "short.txt").write_text("A")
    with pytest.raises(SpectraError, match=r"^text: it has 1 tokens"):
        run_weights(WeightsOptions(model=file, device="cpu", text=tmp_path / "short.txt", window=64))
    with pytest.raises(SpectraError, match=r"^text: cannot read .*absent"):
        run_weights(WeightsOptions(model=file, text=tmp_path / "absent"))
    (tmp_path / "long.txt").write_text(TEXT)
    with pytest.raises(SpectraError, match=r"^window: 512 tokens do not fit the context of 128"):
        run_weights(WeightsOptions(model=file, device="cpu", text=tmp_path / "long.txt"))
    with pytest.raises(SpectraError, match="window"):
        WeightsOptions(window=1)
