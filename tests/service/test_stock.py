"""Stock `generate` as an answer: the tokens that transformers writes, a step each, and then a model that is free."""

import json
import threading
import weakref
from contextlib import suppress
from types import SimpleNamespace

import pytest
import torch
from asking import asked
from uncollected import Held, uncollected
from words import save_model

from spectra.errors import SpectraError, TargetBusyError
from spectra.service.engine import Engine
from spectra.service.loading import ModelOptions
from spectra.target.choices import STOCK
from spectra.target.placement import Placement

PROMPT = "w5 w6 w7 w5 w6 w7"


def write(answer):
    list(answer)
    return answer.trace


def generated(engine, trace, **arguments):
    ids = torch.tensor([list(trace.prompt_tokens)])
    mask, pad = torch.ones_like(ids), min(engine.target.eos, default=0)
    new = engine.target.model.generate(ids, attention_mask=mask, max_new_tokens=12, pad_token_id=pad, **arguments)
    return new[0, ids.shape[1] :].tolist()


def test_it_writes_what_generate_writes_a_token_a_step(engine):
    trace = write(engine.answer(asked(PROMPT, STOCK, max_new_tokens=12)))
    assert list(trace.tokens) == generated(engine, trace, do_sample=False)
    assert len(trace.steps) == len(trace.tokens) and all(step.seconds > 0 for step in trace.steps)
    assert trace.finish in ("eos", "length") and not trace.settings["drawn"]
    assert "numerics" not in trace.environment and trace.environment["model"] == engine.model


def test_its_draws_are_those_of_torch(engine):
    trace = write(engine.answer(asked(PROMPT, STOCK, max_new_tokens=12, temperature=0.9, seed=3)))
    torch.manual_seed(3)
    assert list(trace.tokens) == generated(engine, trace, do_sample=True, temperature=0.9, top_k=0)
    assert trace.settings["drawn"]


def test_a_tokens_time_is_that_of_generate_and_not_of_who_takes_it(engine, monkeypatch):
    clock, over, generate = [0.0], threading.Event(), engine.target.model.generate

    def ending(*arguments, **named):
        generate(*arguments, **named)
        over.set()

    monkeypatch.setattr(engine.target.model, "generate", ending)
    monkeypatch.setattr("spectra.target.stock.time", SimpleNamespace(perf_counter=lambda: clock[0]))
    answer = engine.answer(asked(PROMPT, STOCK, max_new_tokens=4))
    steps = iter(answer)
    next(steps)
    over.wait()
    clock[0] = 100.0  # whoever takes the tokens was busy with something else
    assert len(list(steps)) == 3 and sum(step.seconds for step in answer.trace.steps) == 0


def test_it_ends_where_it_is_closed_and_the_model_is_free(engine):
    answer = engine.answer(asked(PROMPT, STOCK, max_new_tokens=200))
    steps = iter(answer)
    next(steps)
    with pytest.raises(TargetBusyError):
        write(engine.answer(asked(PROMPT, STOCK, max_new_tokens=4)))
    answer.close()
    assert write(engine.answer(asked(PROMPT, "spectra", max_new_tokens=4))).finish
    assert len(answer.trace.steps) == 1


def test_what_fails_is_told_and_the_model_is_free(engine, monkeypatch):
    with pytest.raises(SpectraError, match="prompt: "):
        write(engine.answer(asked(PROMPT, STOCK, max_new_tokens=4096)))
    monkeypatch.setattr(engine.target.model, "generate", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write(engine.answer(asked(PROMPT, STOCK, max_new_tokens=4)))
    assert write(engine.answer(asked(PROMPT, "spectra", max_new_tokens=4))).finish


def test_what_failed_does_not_stay_in_memory_with_its_error(engine, monkeypatch):
    held = []

    def generate(*_, **__):
        cache = Held()
        held.append(weakref.ref(cache))
        raise LookupError

    monkeypatch.setattr(engine.target.model, "generate", generate)
    with uncollected():
        with suppress(LookupError):
            write(engine.answer(asked(PROMPT, STOCK, max_new_tokens=4)))
        assert held[0]() is None


def test_it_is_offered_beside_a_device_map_that_offloads(tmp_path):
    save_model(tmp_path / "tiny", longest=400)
    names = ("model.embed_tokens", "model.layers.0", "model.norm", "model.rotary_emb", "lm_head")
    (tmp_path / "map.json").write_text(json.dumps(dict.fromkeys(names, "cpu") | {"model.layers.1": "disk"}))
    placement = Placement(str(tmp_path / "map.json"), offload_folder=tmp_path / "offload")
    texts = []
    for placed in (Placement(), placement):
        engine = Engine.load(str(tmp_path / "tiny"), options=ModelOptions(dtype="fp32", placement=placed))
        texts.append(write(engine.answer(asked(PROMPT, STOCK, max_new_tokens=12))).tokens)
    assert engine.target.spread and texts[0] == texts[1] and len(texts[0]) == 12


def test_a_model_without_numbers_is_not_offered(engine, monkeypatch):
    assert STOCK in engine.references and STOCK not in engine.methods
    monkeypatch.setattr("spectra.target.stock.StockModel.possible", False)
    engine._adopt(engine.target, engine.resources)
    assert not engine.references
