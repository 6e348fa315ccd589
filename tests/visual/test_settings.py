"""A method's settings on the page: what a form and a link change, what they refuse, and the lanes of a sweep."""

import json
from dataclasses import replace

import gradio as gr
import pytest
from asking import asked
from fakes_engine import SETTINGS, FakeEngine, recorded_race
from starlette.datastructures import QueryParams

from spectra.drafters.core import IMPROVED, CoreSettings
from spectra.errors import SpectraError
from spectra.methods.core_settings import changed_core
from spectra.settings import METHOD_NUMBERS, MethodSettings
from visual.method_settings import FIELDS, NUMBERS, form_of, in_words, link_of, settings_of
from visual.names import named
from visual.page import build_page
from visual.permalink import read_link
from visual.run.race_file import RaceFile
from visual.run.sweep import lanes_of, read_sweep
from visual.settings_panel import ELSE
from visual.wire.events import encode

CHANGES = {"order": 3, "rows": 0, "guesses": 7, "refine": 0.5, "nodes": 40, "forward": False, "retrieval": False}


def test_every_setting_has_a_field() -> None:
    assert tuple(FIELDS) == MethodSettings.__slots__ and set(NUMBERS) == set(METHOD_NUMBERS)


def test_a_form_changes_what_differs_from_the_preset() -> None:
    as_it_is = {**SETTINGS, "order": 5.0, "successors": 3}
    assert settings_of(as_it_is, SETTINGS) == settings_of({}, SETTINGS) == MethodSettings()
    assert settings_of({"guesses": None}, {"guesses": None}) == MethodSettings()
    no_pool = {**SETTINGS, "rows": 0, "pool": False}
    changed = settings_of({**SETTINGS, **CHANGES, "rows": 0.0, "pool": False}, SETTINGS)
    assert changed.changed == {**CHANGES, "pool": False} and isinstance(changed.rows, int)
    for form, preset in (({**SETTINGS, "rows": 0}, SETTINGS), ({**no_pool, "pool": True}, no_pool)):
        with pytest.raises(SpectraError, match="rows: it is 0, so there is no pool"):
            settings_of(form, preset)
    assert settings_of({"guesses": 9.0}, {"guesses": None}).changed == {"guesses": 9}
    assert settings_of({**no_pool, "rows": 3}, no_pool).changed == {"rows": 3, "pool": False}
    assert settings_of({**no_pool, "rows": 3, "pool": True}, no_pool).changed == {"rows": 3, "pool": True}
    for changed, shown in (({"rows": 3}, True), ({"rows": 3, "pool": False}, False), ({"rows": 0}, False), ({}, True)):
        assert form_of(SETTINGS, changed) == {**SETTINGS, **changed, "pool": shown}
    assert form_of(no_pool, {"rows": 3})["pool"] is True and form_of({"order": 4}, {"rows": 3}).get("pool") is None
    assert in_words(CHANGES) == "N 3, W 0, G 7, refine 0.5, budget 40, no forward dictionary, no retrieval"
    assert named("spectra-paper", {}) == "Paper: SPECTRA" and named("spectra", {"pool": True}) == "SPECTRA (with pool)"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("order", 1), ("order", 2.5), ("rows", -1), ("guesses", "many"), ("refine", 1.2), ("nodes", 0),
        ("order", None), ("rows", ""), ("guesses", None),
    ],
)  # fmt: skip
def test_a_form_is_checked_as_the_command_line_is(field: str, value: object) -> None:
    with pytest.raises(SpectraError) as error:
        settings_of({field: value}, SETTINGS)
    assert error.value.field == field and "; give" in str(error.value)


def test_a_link_and_a_recording_hold_what_was_changed() -> None:
    request = asked("hello", "spectra-paper", seed=4, settings=MethodSettings(**CHANGES))
    link = {name: str(value) for name, value in link_of(request).items()}
    filled = read_link(link, FakeEngine(), "spectra")
    assert (filled.form, filled.method) == (["hello", "spectra-paper", 256, 0, 4, 1], "spectra-paper")
    assert filled.changed == CHANGES and not filled.left
    race = recorded_race()
    race["method"]["settings"]["method"] = {"changed": {"rows": 3, "pool": True}}
    begin = RaceFile.from_json(encode(race)).snapshot()["begin"]
    assert begin["names"]["method"] == "SPECTRA (W 3, with pool)" and begin["names"]["plain"] == "Plain decoding"
    assert (begin["link"]["rows"], begin["link"]["pool"], begin["link"]["seed"]) == (3, "on", 7)
    for damaged in ("x", {"rows": "<b>"}, {"rows": 999}, ["rows"]):
        race["method"]["settings"]["method"] = {"changed": damaged}
        assert RaceFile.from_json(encode(race)).snapshot()["begin"]["names"]["method"] == "SPECTRA"


def test_a_link_fills_what_it_can_and_says_what_it_left() -> None:
    query = {"prompt": "<b>hi</b>", "method": "spectra-paper", "seed": "12", "temperature": "99", "max_new_tokens": "x"}
    query |= {"rows": "7", "pool": "perhaps", "refine": "2", "successors": "3"}
    filled = read_link(query, FakeEngine(), "spectra")
    prompt, method, tokens, temperature, seed, top_p = filled.form
    assert (prompt, method, seed, filled.changed) == ("<b>hi</b>", "spectra-paper", 12, {"rows": 7})
    assert all(isinstance(skipped, dict) for skipped in (tokens, temperature, top_p))
    fields = [line.split(":")[0] for line in filled.left]
    assert fields == ["max_new_tokens", "temperature", "refine", "successors", "pool"]
    nothing = read_link({"method": "autoregressive"}, FakeEngine(), "spectra")
    assert all(isinstance(field, dict) for field in nothing.form) and nothing.left[0].startswith("method: ")
    many = read_link({f"x{number}": "1" for number in range(9)}, FakeEngine(), "spectra").left
    assert len(many) == 6 and many[-1] == "4 more names that are no setting"
    one = read_link({f"x{number}": "1" for number in range(6)}, FakeEngine(), "spectra").left
    assert one[-1] == "1 more name that is no setting"
    odd = read_link({"prompt": "x" * 20_001, "max_tokens": "5", "__theme": "dark"}, FakeEngine(), "spectra")
    assert odd.form[0] == "x" * 20_000
    assert odd.left == [
        "prompt: what follows its first 20000 characters",
        "'max_tokens': there is no such setting",
    ]
    assert read_link({"rows": " "}, FakeEngine(), "spectra").left == ["rows: it is blank"]
    twice = read_link(QueryParams("rows=3&prompt=a&rows=5&x=1&x=2"), FakeEngine(), "spectra")
    assert (twice.form[0], twice.changed) == ("a", {"rows": 5})
    assert twice.left == ["rows: it is there 2 times, and the last one counts", "'x': there is no such setting"]
    blank = read_link({"prompt": "\n", "method": ""}, FakeEngine(), "spectra")
    assert all(isinstance(field, dict) for field in blank.form)
    assert blank.left == ["prompt: it is blank", "method: '' is not offered here"]


@pytest.mark.parametrize("figures", ["1_0", "0_1", "１２", "١"])
@pytest.mark.parametrize("field", ["seed", "max_new_tokens", "temperature", "rows"])
def test_a_number_that_nobody_writes_so_is_left_out(field: str, figures: str) -> None:
    """Python reads all of these: `temperature=0_1` filled in 1."""
    filled = read_link({field: figures}, FakeEngine(), "spectra")
    assert not filled.changed and all(isinstance(each, dict) for each in filled.form)
    assert [line.split(":")[0] for line in filled.left] == [field]


@pytest.mark.parametrize("figures", ["9007199254740993", "-9007199254740993", "99999999999999999999999", "9" * 60])
def test_a_number_that_is_too_large_is_quoted_as_the_link_has_it(figures: str) -> None:
    """The seed 9007199254740993 was said to be 9007199254740992."""
    for field in ("seed", "nodes"):
        (left,) = read_link({field: figures}, FakeEngine(), "spectra").left
        assert left.startswith(f"{field}: {figures} is out of range; give ")
    assert read_link({"seed": "1e30"}, FakeEngine(), "spectra").left[0].startswith(f"seed: 1{'0' * 30} is out of range")
    assert read_link({"seed": " +0012 "}, FakeEngine(), "spectra").form[4] == 12


@pytest.mark.parametrize(("retrieval", "ranks"), [(True, 0), (False, 8)])
def test_the_top_k_of_the_form_runs_beside_another_retrieval(retrieval: bool, ranks: int) -> None:
    """The presets' own top-k depends on it: "SPECTRA" without retrieval ran with 8 where the box said 0."""
    preset = {**SETTINGS, "successors": ranks, "retrieval": retrieval}
    changed = settings_of({**form_of(preset, {}), "retrieval": not retrieval}, preset).changed
    assert changed == {"retrieval": not retrieval, "successors": ranks}
    assert not settings_of(form_of(preset, {}), preset).changed


@pytest.mark.parametrize(("rows", "pool"), [(2, True), (0, False), (2, False)])
def test_the_rows_of_the_form_run_beside_another_n_or_node_budget(rows: int, pool: bool) -> None:
    """With W 0 and the pool's box off another N ran with 3 rows, and a sweep over N with other rows for each."""
    preset = {**SETTINGS, "successors": 8, "rows": rows, "pool": rows > 0}
    form = {**form_of(preset, {}), "pool": pool}
    beside = {"rows": rows} if pool else {"pool": False}
    for name, value in (("order", 3), ("nodes", 20)):
        assert settings_of({**form, name: value}, preset).changed == {name: value, **beside}
        assert settings_of(form, preset, varied=name).changed == beside
    assert settings_of({**form, "refine": 0.2}, preset).changed.keys() - {"pool"} == {"refine"}
    fixed = settings_of({**SETTINGS, "nodes": 40}, {**SETTINGS, "nodes": None})
    assert fixed.changed == {"rows": 15, "nodes": 40}  # cut to 10, which is told
    assert settings_of({**SETTINGS, "order": 3}, SETTINGS).changed == {"order": 3}  # 15 at any N


def test_what_a_preset_leaves_open_is_changed_only_where_it_was_named() -> None:
    preset = {**SETTINGS, "rows": None, "successors": None}
    assert not settings_of(form_of(preset, {}), preset).changed
    for changes in ({"rows": 1}, {"retrieval": False}, {"pool": False}, {"rows": 0, "pool": False}, {"successors": 8}):
        assert settings_of(form_of(preset, changes), preset).changed == changes


def test_a_link_to_a_pool_without_rows_leaves_the_pool_out() -> None:
    link = QueryParams("pool=on&rows=0&order=4")
    filled = read_link(link, FakeEngine(), "spectra-paper")
    assert (filled.changed, filled.left) == ({"order": 4, "rows": 0}, ["pool: with 0 rows there is none"])
    form = form_of(SETTINGS, filled.changed)
    assert form["pool"] is False and settings_of(form, SETTINGS).changed == {"order": 4, "rows": 0, "pool": False}
    engine = FakeEngine()
    engine.settings = {**engine.settings, "spectra": {**SETTINGS, "rows": 0, "pool": False}}
    alone = read_link(QueryParams("pool=on"), engine, "spectra")
    assert (alone.changed, alone.left) == ({}, ["pool: with 0 rows there is none"])
    assert read_link(QueryParams("pool=on&rows=2"), engine, "spectra").changed == {"rows": 2, "pool": True}


def test_a_sweep_has_a_lane_for_every_value() -> None:
    own = asked("hello", "spectra-paper", settings=MethodSettings(order=4))
    sweep = read_sweep("rows", "0, 3,3, 15")
    assert sweep is not None and sweep.values == (0, 3, 15)
    lanes = lanes_of(own, ["spectra"], own, sweep)
    assert list(lanes) == ["autoregressive", "spectra", *(f"spectra-paper W={value}" for value in (0, 3, 15))]
    assert [each.settings.changed for each in lanes.values()] == [
        {},
        {},
        *({"order": 4, "rows": w} for w in (0, 3, 15)),
    ]
    assert sweep.facts(own)["values"] == {"spectra-paper W=0": 0, "spectra-paper W=3": 3, "spectra-paper W=15": 15}
    assert list(lanes_of(own, [], own, None)) == ["autoregressive", "spectra-paper own"]
    assert read_sweep("", "1, 2") is None
    alike = read_sweep("refine", "0.1234567, 0.5, 0.12345671")
    assert alike is not None and alike.values == (0.1234567, 0.5) and len(alike.facts(own)["values"]) == 2
    with pytest.raises(SpectraError, match="tick at least one"):
        lanes_of(own, [], replace(own, settings=MethodSettings()), None)
    for name, text in (
        ("rows", ""),
        ("rows", "1, x"),
        ("rows", "999"),
        ("refine", "2"),
        ("order", ",".join("23456789") + ",9"),
    ):
        with pytest.raises(SpectraError) as error:
            read_sweep(name, text)
        assert error.value.field == "values"


def test_a_sweep_of_rows_takes_none_where_the_pool_was_switched_on() -> None:
    """The whole comparison was refused, at the field of another number."""
    sweep = read_sweep("rows", "0, 3")
    assert sweep is not None
    for pool in (True, False):
        own = asked("hello", "spectra", settings=MethodSettings(rows=5, pool=pool))
        none, some = (each.settings.changed for each in sweep.lanes(own).values())
        assert none == ({"rows": 0} if pool else {"rows": 0, "pool": False}) and some == {"rows": 3, "pool": pool}
        for settings in (none, some):
            changed_core(IMPROVED, MethodSettings(**settings))


def test_the_panel_says_what_else_this_device_has() -> None:
    paper, ours = CoreSettings(), IMPROVED
    said = {
        "also learn from the text": (paper.text, ours.text),
        "from rejected guesses": (paper.harvest, ours.harvest),
        "the backward one guesses longer runs": (bool(paper.chain), (ours.chain or 0) > ours.order - 1),
    }
    assert all(words in ELSE and has == (False, True) for words, has in said.items()) and "copied" not in ELSE


def test_the_panel_hides_what_a_preset_has_not(tmp_path) -> None:
    engine = FakeEngine()
    page = build_page(engine, races=tmp_path)
    fields = {block.elem_id: block for block in page.blocks.values() if str(block.elem_id or "").startswith("field-")}
    assert fields["field-rows"].value == 2 and fields["field-guesses"].value is None
    assert fields["field-successors"].visible and not fields["field-compare-successors"].visible
    assert isinstance(fields["field-pool"], gr.Checkbox) and fields["field-compare-rows"].value == 15
    json.dumps(engine.settings)
