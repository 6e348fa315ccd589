"""The draft models that come with the project: stock folders for the embedded model, small, as their cards say."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaForCausalLM

ASSETS = Path(__file__).parents[2] / "assets" / "models"
NAMES = sorted(folder.name for folder in ASSETS.glob("spectra-nano*"))
MOST = 16_000_000
"""Bytes of all together."""
VOCABULARY = 49_152


def card_of(name):
    return json.loads((ASSETS / name / "card.json").read_text(encoding="utf-8"))


def test_all_together_are_small():
    assert "spectra-nano" in NAMES
    assert sum(file.stat().st_size for name in NAMES for file in (ASSETS / name).rglob("*")) <= MOST


@pytest.mark.parametrize("name", NAMES)
def test_it_loads_as_a_stock_model_of_the_embedded_models_vocabulary(name):
    model = AutoModelForCausalLM.from_pretrained(ASSETS / name, dtype=torch.bfloat16)
    assert type(model) is LlamaForCausalLM
    table = model.get_input_embeddings().weight
    assert len(table) == model.config.vocab_size == VOCABULARY
    assert table.data_ptr() == model.get_output_embeddings().weight.data_ptr()
    assert torch.equal(table.to(torch.float8_e4m3fn).to(table.dtype), table)
    assert {one.dtype for one in model.parameters()} == {torch.bfloat16}
    logits = model(torch.arange(40).view(2, 20)).logits
    assert logits.isfinite().all()
    assert logits.float().std() > 0.5


@pytest.mark.parametrize("name", NAMES)
def test_its_files_are_those_on_the_card(name):
    card = card_of(name)
    found = {file.name for file in (ASSETS / name).iterdir()} - {"card.json"}
    assert found == set(card["files"])
    for file, facts in card["files"].items():
        assert hashlib.sha256((ASSETS / name / file).read_bytes()).hexdigest() == facts["sha256"]
    assert card["held_back"]["tokens"] >= 20_000


@pytest.mark.parametrize("name", NAMES)
def test_it_agrees_with_the_target_and_a_second_one_adds_to_the_first(name):
    card, first = card_of(name), card_of(NAMES[0])
    assert card["tokenizer_sha256"] == first["tokenizer_sha256"]
    if card["boosts"] is None:
        assert card["held_back"]["top1"] >= 0.45
    else:
        assert card["boosts"] == NAMES[0]
        assert card["held_back"]["any_top1"] > first["held_back"]["top1"]
