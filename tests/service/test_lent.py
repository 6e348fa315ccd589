"""An engine whose GPU is lent by the call: forks, pickled arguments and results, seconds by tokens, and refusals."""

import importlib
import os
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from asking import asked
from tiny import make
from words import save_model, tokenizer

from spectra.errors import SpectraError
from spectra.metrics import PlainRate
from spectra.service.engine import Engine
from spectra.service.lent import MAX_SECONDS, SPARE_SECONDS, Known, LentEngine, measured, pays
from spectra.service.loading import ModelOptions
from spectra.settings import MethodSettings

STAND_IN = Path(__file__).parents[1] / "support" / "space"
PROMPT = "w5 w6 w7 w5 w6 w7"
LANES = ("autoregressive", "spectra")
FAST = ModelOptions(dtype="fp32", numerics="fast")


@pytest.fixture
def spaces(monkeypatch):
    monkeypatch.syspath_prepend(str(STAND_IN))
    monkeypatch.delitem(sys.modules, "spaces", raising=False)
    found = importlib.import_module("spaces")
    show = found.hide_device()
    yield found
    found.end_workers()
    show()
    monkeypatch.delitem(sys.modules, "spaces")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two models, told apart by their seeds."""
    places = [tmp_path_factory.mktemp("models") / name for name in ("tiny", "other")]
    for seed, place in enumerate(places):
        make("llama", seed, max_position_embeddings=400).save_pretrained(place)
        tokenizer().save_pretrained(place)
    return [str(place) for place in places]


@pytest.fixture(scope="module")
def truth(folders):
    """What an ordinary engine answers, by model and method."""
    answers = {}
    for folder in folders:
        engine = Engine.load(folder, options=FAST)
        for method in LANES:
            answers[folder, method] = write(engine.answer(asked(PROMPT, method, max_new_tokens=24)))
    return answers


@pytest.fixture
def engine(spaces, folders, truth):
    return LentEngine.load_for(lambda work, seconds: spaces.GPU(work, duration=seconds), *folders, options=FAST)


def write(answer):
    for _ in answer:
        pass
    return answer.trace


def requests(tokens=24):
    return [asked(PROMPT, method, max_new_tokens=tokens) for method in LANES]


def race(engine, tokens=24):
    with closing(engine.in_turn(requests(tokens))) as answers:
        return [write(answer) for answer in answers]


def test_a_race_is_one_call_and_its_traces_are_those_of_an_ordinary_engine(engine, spaces, truth):
    assert engine.badges[0] == "a GPU lent by the call" and engine.cost == (), "nothing is measured outside of a call"
    for trace, method in zip(race(engine), LANES, strict=True):
        expected = truth[engine.chosen, method]
        assert trace.tokens == expected.tokens and trace.text == expected.text
        assert trace.finish == expected.finish and trace.pieces == expected.pieces
        assert {token for step in trace.steps for token in step.tree.tokens} <= trace.vocabulary.keys()
        values = {"method": {"changed": {}}}  # what a budget comes to depends on a time that was measured
        assert {**trace.settings, **values} == {**expected.settings, **values}
        assert trace.environment["device"] == "cpu"
    assert len(spaces.asked) == 1
    assert "step" in engine.badges[2] and engine.plain.tokens_per_second > 0 and engine.cost[0][0] == 1


def test_what_the_gpu_decides_is_left_open_and_changed_only_where_it_was_named(engine):
    """The page showed what a made-up T(q) comes to, as this device's, and who wrote such a number ran another one."""
    ours, paper = engine.settings["spectra"], engine.settings["spectra-paper-core"]
    assert (ours["rows"], ours["pool"], ours["successors"], ours["nodes"]) == (None, True, None, 64)
    assert paper["rows"] == 15
    request = asked(PROMPT, "spectra", max_new_tokens=8, settings=MethodSettings(rows=1))
    assert write(engine.answer(request)).values["rows"] == 1
    plainly = write(engine.answer(asked(PROMPT, "spectra", max_new_tokens=8))).values
    assert isinstance(plainly["rows"], int) and isinstance(plainly["successors"], int)


def test_nothing_that_a_call_learned_is_there_in_the_next(engine, spaces):
    spaces.keep_workers[0] = False
    talk = [{"role": "user", "content": PROMPT}]
    warm = {"visitor": "a", "warm": True}
    for _ in range(2):
        answer = engine.answer(asked(talk, "spectra", max_new_tokens=6, **warm))
        assert write(answer).kept == 0 and "warm" not in answer.trace.settings
    assert len({call["process"] for call in spaces.asked}) == 2
    assert not engine._inside


def test_seconds_go_by_what_is_asked_and_shrink_once_the_model_is_known(engine, spaces):
    race(engine)
    race(engine)
    first, second = (call["seconds"] for call in spaces.asked)
    assert second < first <= MAX_SECONDS
    few, many = (engine.seconds(engine.chosen, requests(tokens)) for tokens in (8, 100_000))
    assert few < many <= MAX_SECONDS


def test_a_long_race_asks_for_no_more_than_a_visitor_without_an_account_gets(engine):
    """Where the place lends fewer seconds than it is asked for, by its GPU."""
    assert all(len(trace.tokens) == 150 for trace in race(engine, 150))
    assert engine.seconds("unknown", requests(2048)) == MAX_SECONDS


def test_another_model_is_used_by_workers_that_do_not_know_it(engine, spaces, folders, truth):
    race(engine)
    engine.choose(folders[1])
    assert race(engine)[0].tokens == truth[folders[1], "autoregressive"].tokens
    assert len({call["process"] for call in spaces.asked}) == 1  # forked before the other model was chosen
    engine.choose(folders[0])
    assert race(engine)[0].tokens == truth[folders[0], "autoregressive"].tokens
    with pytest.raises(SpectraError, match="model: 'x' is not offered"):
        engine.choose("x")


def test_another_model_is_loaded_beside_any_options_and_in_the_first_ones_precision(spaces, folders):
    """Outside of a call it goes to the CPU, which says nothing about the steps and the precision on the GPU."""
    options = ModelOptions(dtype="fp16", numerics="fast", step="graphs")
    engine = LentEngine.load_for(lambda work, seconds: work, *folders, options=options)
    engine._options = replace(options, dtype="auto")
    engine.choose(folders[1])
    assert str(engine.target.dtype) == "torch.float16" and engine.chosen == folders[1]


@pytest.mark.parametrize("chosen", [0, 1])
def test_a_draft_model_is_loaded_in_the_call_alone(spaces, folders, tmp_path, chosen):
    """Loading one measures it, which takes the GPU; its methods were missing on the page, or nothing started."""
    draft = save_model(tmp_path / "draft", seed=5)
    options = replace(FAST, drafts=(draft,))
    engine = LentEngine.load_for(lambda work, seconds: spaces.GPU(work, duration=seconds), *folders, options=options)
    engine.choose(folders[chosen])
    assert {"draft-model", "spectra-draft"} <= engine.methods.keys()
    asked_for = [asked(PROMPT, method, max_new_tokens=24) for method in ("autoregressive", "draft-model")]
    with closing(engine.in_turn(asked_for)) as answers:
        plain, drafted = [write(answer) for answer in answers]
    assert plain.tokens == drafted.tokens
    engine.choose(folders[0])
    assert "draft-model" in engine.methods


@pytest.mark.parametrize("weights", ["int8", "q4"])
def test_another_model_in_fewer_bits_is_loaded_in_the_call_and_the_first_is_kept(engine, folders, monkeypatch, weights):
    """Outside there is no GPU to quantise on, and none here: what the call would load is told as an error."""
    first = engine.target
    engine._options = replace(FAST, dtype="auto", weights=weights)
    engine.choose(folders[1])
    assert engine.chosen == folders[1] and engine.target is not first

    def told(options):
        raise SpectraError("model", f"{options.weights} of {Path(options.model).name}")

    monkeypatch.setattr(ModelOptions, "load", told)
    with pytest.raises(SpectraError, match=f"^model: {weights} of other$"):
        race(engine)
    engine.choose(folders[0])
    assert engine.target is first


@pytest.mark.parametrize(("weights", "expected"), [("auto", 1), ("bf16", 1), ("int8", 0), ("q4", 0)])
def test_a_model_that_was_loaded_outside_is_moved_to_the_gpu_unless_it_is_quantised(monkeypatch, weights, expected):
    moved = []
    target = SimpleNamespace(
        model=SimpleNamespace(to=moved.append), tokenizer=None, name="m", device=torch.device("cpu")
    )
    monkeypatch.setattr("spectra.target.load.wrap_model", lambda *_, **__: target)
    monkeypatch.setattr(ModelOptions, "equipped", lambda options, wrapped: wrapped)
    measured(target, ModelOptions(weights=weights))
    assert len(moved) == expected


def test_a_fork_ends_by_the_seconds_that_were_asked_for(engine, monkeypatch):
    """It is older than what its parent knows, and would go by the seconds of an unknown model."""
    race(engine)
    monkeypatch.setattr(LentEngine, "seconds", lambda *_: 1)
    with pytest.raises(SpectraError, match=r"^max_new_tokens: the GPU's time is over"):
        race(engine)


def test_a_call_asks_for_the_start_of_a_fork_that_knows_nothing(engine):
    """The next one may not have this model on its GPU, and would be taken away each time."""
    for start, fresh, expected in ((40.0, True, 40.0), (0.1, False, 40.0), (9.0, True, 9.0)):
        engine._learn(Known(engine.chosen, [], ((1, 0.01),), PlainRate(100.0, 8), start, fresh))
        assert engine.seconds(engine.chosen, ()) == SPARE_SECONDS + expected


def test_no_gpu_is_one_line_that_says_what_there_is_instead(engine, spaces):
    spaces.refusal.append("You have exceeded your ZeroGPU quota")
    with pytest.raises(SpectraError, match=r"go: no GPU is lent now .*quota.*Replay tab"):
        race(engine)
    assert len(race(engine)) == 2


def test_an_error_inside_names_its_field(engine):
    with pytest.raises(SpectraError, match=r"^prompt: .* do not fit the context"):
        race(engine, 4000)
    with pytest.raises(SpectraError, match=r"^file: the GPU here is lent"):
        engine.build_store("a", Path("a.txt"), 9, lambda *_: None)


def test_a_fork_that_dies_is_one_line(engine, monkeypatch):
    monkeypatch.setattr("spectra.service.lent.answered", dies)
    with pytest.raises(SpectraError, match=r"ended early .ZeroDivisionError."):
        race(engine)


def dies(engine, request):
    yield 1 / 0


@pytest.mark.parametrize("how", ["killed", "silent", "at start"])
def test_a_call_that_had_a_gpu_and_lost_it_says_so_and_the_next_one_gets_another(engine, spaces, monkeypatch, how):
    """By the system, or after its seconds in the middle of a step: there was a GPU, so it is not said that none is."""

    def lost(engine, request):
        if how == "silent":
            time.sleep(60)
        os._exit(9)
        yield

    with monkeypatch.context() as patched:
        if how == "at start":
            patched.setattr(LentEngine, "_engine", lambda *_: os._exit(9))
        else:
            patched.setattr("spectra.service.lent.answered", lost)
        patched.setattr(LentEngine, "seconds", lambda *_: 6)
        began = time.monotonic()
        with pytest.raises(SpectraError, match=r"^go: the call on the GPU was ended early .GPU task aborted.; try"):
            race(engine)
        assert time.monotonic() - began < 20
    assert len(race(engine)[0].tokens) == 24
    assert len({call["process"] for call in spaces.asked}) == 2


def test_a_stopped_run_gives_the_gpu_back(engine, spaces):
    race(engine)
    began = time.monotonic()
    with closing(engine.in_turn(requests(300))) as answers:
        answer = next(answers)
        next(iter(answer))
        answer.close()
    assert time.monotonic() - began < 20
    assert len(answer.trace.steps) == 1
    assert race(engine)[0].tokens


def test_plain_decoding_is_measured_in_a_call(engine, spaces):
    rate, context = engine.measure(40)
    assert rate > 0 and context == 40 and engine.plain == (rate, 40) and len(spaces.asked) == 1


def test_the_visitor_of_a_run_is_known_to_the_place_that_lends(engine, spaces):
    from gradio.context import LocalContext

    from visual.run.admission import AdmissionQueue
    from visual.run.run import Run, stream

    token = LocalContext.request.set(object())
    try:
        messages = list(stream(engine, Run.against_plain(requests(8)[1]), AdmissionQueue()))
    finally:
        LocalContext.request.reset(token)
    assert messages[-1]["state"] == "done" and spaces.asked[0]["visitor"]


def test_models_that_cannot_be_reached_are_named(spaces):
    with pytest.raises(SpectraError, match="is not there"):
        LentEngine.load_for(lambda work, seconds: work, "/nowhere/at-all", options=ModelOptions())


def test_graphs_pay_only_where_an_answer_is_long():
    eager, graphs = (((1, t), (8, 1.2 * t), (32, 2 * t)) for t in (0.025, 0.010))
    assert not pays(eager, graphs, 32)
    assert pays(eager, graphs, 512)
    assert not pays(graphs, eager, 10_000)
