"""The engine behind the page on a tiny model: conversations, models to choose from, its seam, and recorded races."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from asking import asked
from words import save_model

from spectra.cli.main import main
from spectra.datastore.text_index import SEPARATOR
from spectra.errors import SpectraError
from spectra.service.engine import Engine, of_first
from spectra.service.loading import ModelOptions
from spectra.settings import MethodSettings
from visual.run.race_file import RaceFile

PROMPT = "w5 w6 w7 w5 w6 w7"
MISSING = "/nowhere/at-all"


@pytest.fixture
def engine(folder):
    return Engine.load(folder)


def write(answer):
    for _ in answer:
        pass
    return answer.trace


def test_a_conversation_goes_through_the_chat_template_whole(engine):
    first = write(engine.answer(asked(PROMPT, "spectra", max_new_tokens=12)))
    messages = [
        {"role": "user", "content": PROMPT},
        {"role": "assistant", "content": "w1 w2"},
        {"role": "user", "content": "w9"},
    ]
    second = write(engine.answer(asked(messages, "spectra", max_new_tokens=12)))
    plain = write(engine.answer(asked(messages, "autoregressive", max_new_tokens=12)))
    expected = engine.target.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
    assert list(second.prompt_tokens) == list(expected["input_ids"]) and second.prompt == "w9"
    assert len(second.prompt_tokens) > len(first.prompt_tokens)
    assert second.tokens == plain.tokens
    with pytest.raises(SpectraError, match="blank"):
        engine.answer(asked([*messages[:2], {"role": "user", "content": " "}], "spectra"))


def test_plain_decoding_is_measured_at_the_start_and_again_when_asked(engine):
    assert engine.plain.tokens_per_second > 0 and engine.plain[1] == 256
    rate, context = engine.measure(40)
    assert rate > 0 and context == 40 and engine.plain == (rate, context)
    assert engine.cost[0][0] == 1 and all(seconds > 0 for _, seconds in engine.cost)
    engine.target.config.max_position_embeddings = 100  # the page of such a model did not start
    assert engine.measure(256).context == 84


def test_the_first_model_that_can_be_reached_is_used_and_another_can_be_chosen(folder):
    engine = Engine.load(MISSING, folder)
    assert engine.chosen == folder and "is not there" in engine.problems[0]
    before = engine.target
    for name in (MISSING, "not-on-the-list"):
        with pytest.raises(SpectraError, match="model: "):
            engine.choose(name)
    assert engine.target is before
    engine.choose(folder)
    assert engine.target is before
    with pytest.raises(SpectraError, match="is not there"):
        Engine.load(MISSING)


def test_a_reason_that_no_model_can_be_loaded_for_is_said_once():
    """On a Space without torchao, with its three models and SPECTRA_WEIGHTS=int8, it stood there three times."""

    def make(_):
        raise SpectraError("weights", "quantising takes torchao or bitsandbytes; pip install torchao")

    with pytest.raises(SpectraError) as told:
        of_first(("one", "two", "three"), ModelOptions(), make)
    assert str(told.value) == "weights: quantising takes torchao or bitsandbytes; pip install torchao"


def test_models_that_cannot_be_loaded_for_several_reasons_are_told_with_each():
    def make(options):
        raise SpectraError({"one": "model", "two": "step"}[options.model], f"{options.model} is wrong; give another")

    with pytest.raises(SpectraError) as told:
        of_first(("one", "two"), ModelOptions(), make)
    assert str(told.value) == "model: one is wrong; give another; step: two is wrong; give another"


def test_an_option_that_the_first_model_is_refused_for_is_all_that_is_said():
    """The page without --model and with too little --max-memory told of the hub too, for the model that comes next."""

    def make(options):
        if options.model == "one":
            raise SpectraError("max_memory", "no part of the model fits into it; give more")
        raise SpectraError("model", "cannot load 'two' (no network); give a folder or a hub id that can be reached")

    with pytest.raises(SpectraError) as told:
        of_first(("one", "two"), ModelOptions(), make)
    assert str(told.value) == "max_memory: no part of the model fits into it; give more"


@pytest.mark.parametrize("model", [None, 7, "x" * 100_000])
def test_a_model_that_a_call_by_hand_names_is_refused_in_a_line(engine, model):
    """No name at all ended in a TypeError."""
    with pytest.raises(SpectraError, match=r"model: '.{1,80}' is not offered"):
        engine.choose(model)


def test_presets_that_lack_a_refined_datastore_are_not_offered(engine):
    assert {"autoregressive", "spectra", "spectra-paper-core", "rest"} <= set(engine.methods)
    assert "spectra-retrieval" not in engine.methods


def test_a_store_that_is_not_there_is_refused(engine):
    with pytest.raises(SpectraError, match="store: "):
        engine.query("none", "w1")


def test_only_an_answer_that_was_asked_for_is_remembered(folder, tmp_path):
    """Not the first steps that a model takes to be ready, and not the runs of a race, which are the same each time."""
    memory, out = tmp_path / "memory", tmp_path / "race.json"
    options = ["w5 w6 w7 w5 w6", "--model", folder, "--max-new-tokens", "40", "--remember", str(memory)]
    assert main(["race", *options, "--out", str(out)]) == 0
    Engine.load(folder, options=ModelOptions(remember=memory)).resources.memory.flush()
    assert list(memory.rglob("*.npy")) == []
    assert main(["generate", *options]) == 0
    until = time.monotonic() + 20
    while not (files := list(memory.rglob("*.npy"))) and time.monotonic() < until:
        time.sleep(0.05)
    tokens = np.load(files[0])
    assert (tokens == SEPARATOR).sum() == 1 and len(tokens) == 41


def test_a_race_is_recorded_and_recorded_again(folder, tmp_path, capsys):
    path = tmp_path / "race.json"
    settings = ["--max-new-tokens", "16", "--seed", "3", "--title", "A tiny race", "--model", folder, "--dtype", "fp32"]
    settings += ["--rows", "1"]  # else T(q) says how many, which is measured anew for each race
    assert main(["race", PROMPT, "--out", str(path), *settings]) == 0
    first = RaceFile.read(path)
    assert first.title == "A tiny race" and first.plain.tokens == first.method.tokens
    assert (first.plain.method, first.method.method) == ("autoregressive", "spectra")
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "recorded": "2001-01-01"}))
    assert main(["race", "--again", str(path), "--model", folder, "--dtype", "fp32"]) == 0
    second = RaceFile.read(path)
    assert second.recorded != "2001-01-01" and second.title == first.title
    assert second.method.tokens == first.method.tokens and second.method.settings == first.method.settings
    assert "identical" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([" ", "--out", "x.json"], "prompt: "),
        (["hi"], "out: it is missing"),
        (["hi", "--out", "/nowhere/x.json"], "out: cannot write"),
        (["hi", "--out", "x.json", "--method", "none"], "method: 'none' is unknown"),
        (["--again", "/nowhere/x.json"], "again: "),
    ],
)
def test_bad_input_to_race_is_one_line_before_a_model_is_loaded(arguments, text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["race", *arguments, "--model", "nobody/nothing"]) == 2
    assert text in capsys.readouterr().err


def said(*contents):
    """A conversation whose last message is the user's."""
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]


def test_a_conversation_keeps_its_cache_from_turn_to_turn(engine):
    plain, ours = [], []
    for lane, method in ((plain, "autoregressive"), (ours, "spectra")):
        contents = [PROMPT]
        for _ in range(3):
            trace = write(engine.answer(asked(said(*contents), method, max_new_tokens=10, visitor=method)))
            lane.append(trace)
            contents += [trace.text, "w9 w8"]
    assert [trace.tokens for trace in ours] == [trace.tokens for trace in plain]
    assert [trace.kept for trace in ours] == [trace.kept for trace in plain]
    assert ours[0].kept == 0 and ours[1].kept >= len(ours[0].prompt_tokens) - 1 and ours[2].kept > ours[1].kept


def test_a_kept_cache_is_copied_dropped_and_never_another_visitors(engine):
    first = write(engine.answer(asked(said(PROMPT), "spectra", max_new_tokens=10, visitor="a")))
    talk = said(PROMPT, first.text, "w9")
    assert write(engine.answer(asked(talk, "spectra", max_new_tokens=4, visitor="b"))).kept == 0
    assert write(engine.answer(asked(talk, "spectra", max_new_tokens=4, visitor=""))).kept == 0
    copies = [
        write(engine.answer(asked(talk, method, max_new_tokens=8, visitor="a", copied_tokens=5)))
        for method in ("autoregressive", "spectra")
    ]
    assert [copy.kept for copy in copies] == [5, 5] and copies[0].tokens == copies[1].tokens
    kept = write(engine.answer(asked(talk, "spectra", max_new_tokens=4, visitor="a"))).kept
    assert kept > 5
    engine.start_over("a")
    assert write(engine.answer(asked(talk, "spectra", max_new_tokens=4, visitor="a"))).kept == 0
    engine.forget("a")
    assert write(engine.answer(asked(talk, "spectra", max_new_tokens=4, visitor="a"))).kept == 0


def test_a_warm_answer_says_what_it_learned_from_and_reads_the_same(engine):
    def turn(visitor, **more):
        return write(engine.answer(asked(said(PROMPT), "spectra", max_new_tokens=20, visitor=visitor, **more)))

    cold = turn("")
    assert "warm" not in cold.settings
    first, second = turn("a", warm=True), turn("a", warm=True)
    assert [trace.settings["warm"] for trace in (first, second)] == [0, 1]
    assert turn("b", warm=True).settings["warm"] == 0
    assert second.tokens == first.tokens == cold.tokens
    assert len(second.steps) < len(first.steps) == len(cold.steps)
    engine.forget("a")
    assert turn("a", warm=True).settings["warm"] == 0


def test_a_node_budget_that_follows_from_other_settings_is_left_open(engine):
    assert engine.settings["spectra-paper-core"]["nodes"] is None and engine.settings["spectra"]["nodes"] == 64
    answer = engine.answer(asked(PROMPT, "spectra-paper-core", max_new_tokens=4, settings=MethodSettings(rows=4)))
    assert answer.trace.settings["method"]["values"]["nodes"] == (4 + 15) * 4
    answer.close()


def test_another_model_starts_from_nothing(folder, tmp_path):
    other = tmp_path / "other"
    save_model(other, 1, longest=400)
    engine = Engine.load(folder)
    engine.models = [folder, str(other)]
    assert write(engine.answer(asked(said(PROMPT), "spectra", max_new_tokens=4, visitor="a"))).kept == 0
    engine.choose(str(other))
    assert [
        write(engine.answer(asked(said(PROMPT), "spectra", max_new_tokens=4, visitor="a"))).kept > 0 for _ in "ab"
    ] == [
        False,
        True,
    ]


def test_visitors_talk_at_once_each_from_a_cache_of_its_own(engine):
    def talk(visitor):
        contents, traces = [f"{PROMPT} w{20 + int(visitor)}"], []
        for _ in range(3):
            request = asked(said(*contents), "spectra", max_new_tokens=30, visitor=visitor, warm=True)
            traces.append(write(engine.answer(request)))
            contents += [traces[-1].text, f"w9 w{visitor}"]
        return traces

    visitors = list("345678")
    alone = [talk(visitor) for visitor in visitors]
    for visitor in visitors:
        engine.forget(visitor)
    with ThreadPoolExecutor(len(visitors)) as pool:
        together = list(pool.map(talk, visitors))
    for one, same in zip(alone, together, strict=True):
        assert [trace.tokens for trace in same] == [trace.tokens for trace in one]
        assert [trace.kept for trace in same] == [trace.kept for trace in one]
        assert [trace.settings["warm"] for trace in same] == [0, 1, 2]
    assert not any("shared" in trace.settings for traces in alone for trace in traces)
    assert any(trace.settings.get("shared", 0) > 1 for traces in together for trace in traces)
    assert engine.measure(8).tokens_per_second > 0  # the target is free
