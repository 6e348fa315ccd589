"""What a user changes about a preset: it reaches drafters and pool, is told as it came out, and never the answer."""

import pytest
from drafting import TextStore, decode_by
from tables import TableDraft, Tables
from tiny import model_of, target_of

from spectra import Limits, Sampling
from spectra.drafters.core import CoreSettings, SpectraCore
from spectra.drafters.recycling import Recycling
from spectra.drafters.retrieval import FilledCore, Retrieval
from spectra.errors import SpectraError
from spectra.methods.presets import METHODS, check_method, make_method
from spectra.methods.resources import Resources
from spectra.settings import MethodSettings

RESOURCES = Resources([TextStore(range(64)), TextStore(range(64), refined=False)])
PAPER = {"order": 5, "rows": 15, "guesses": 15, "refine": 0.1, "nodes": 120, "forward": True, "backward": True}


@pytest.fixture(scope="module")
def target():
    return target_of(model_of("llama"))


def made(target, name, **changes):
    return make_method(name, target, RESOURCES, settings=MethodSettings(**changes))


@pytest.mark.parametrize("name", METHODS)
def test_a_preset_says_whether_it_asks_a_draft_model(target, name):
    """RESOURCES has none."""
    if METHODS[name].asks:
        with pytest.raises(SpectraError, match="no draft model fits"):
            make_method(name, target, RESOURCES)
    else:
        make_method(name, target, RESOURCES)


class Watched(Resources):
    """Counts how often its stores are asked for."""

    asked = 0

    @property
    def stores(self):
        self.asked += 1
        return RESOURCES.stores

    @stores.setter
    def stores(self, stores):
        pass


@pytest.mark.parametrize("name", METHODS)
def test_a_preset_says_whether_it_guesses_from_datastores(target, name):
    watched = Watched(drafts=[TableDraft(Tables(0, 2, 1))] * 3)
    make_method(name, target, watched)
    assert bool(watched.asked) == METHODS[name].reads


def test_a_preset_tells_what_its_settings_are(target):
    paper = made(target, "spectra-paper").settings
    assert paper == {**PAPER, "subngrams": True, "pool": True, "retrieval": True}
    assert made(target, "spectra-paper-core").settings == {**paper, "retrieval": False}
    assert not made(target, "spectra-paper-core-no-subngram").settings["subngrams"]
    assert made(target, "spectra-paper-retrieval").settings == {"order": 5, "guesses": 15, "nodes": 60}
    ours = made(target, "spectra").settings
    assert ours["nodes"] == 64 and ours["guesses"] is None and ours["retrieval"] is True
    assert made(target, "spectra-core").settings["successors"] == 8
    for name, preset in METHODS.items():
        if not preset.asks and name != "autoregressive":
            assert set(made(target, name).settings) == set(preset.takes)
            assert made(target, name, nodes=7).settings["nodes"] == min(7, made(target, name).max_nodes)
    assert made(target, "autoregressive").settings == {}


def test_changes_reach_the_drafters(target):
    method = made(target, "spectra-paper", order=4, rows=3, guesses=20, refine=0.5, subngrams=False, retrieval=False)
    (core,) = method.drafters
    assert isinstance(core, SpectraCore)
    expected = CoreSettings(order=4, rows=3, guesses=20, capacity=20, refine=0.5, subngrams=False)
    assert core.settings == expected and (core.pool.size, core.pool.width) == (3, 3)
    assert method.max_nodes == (3 + 20) * 3 == method.settings["nodes"]
    assert isinstance(made(target, "spectra-paper-core", retrieval=True).drafters[0], FilledCore)
    assert made(target, "spectra-paper-core", pool=False).drafters[0].pool.size == 0
    ours = made(target, "spectra-core", rows=2, successors=3, nodes=20, retrieval=True)
    kinds = {type(drafter): drafter for drafter in ours.drafters}
    assert kinds[SpectraCore].pool.size == 2 and kinds[Recycling].top_k == 3 and Retrieval in kinds
    assert ours.budget.max_nodes == 20 and ours.settings["rows"] == 2
    assert not any(isinstance(each, Recycling) for each in made(target, "spectra-core", successors=0).drafters)


def test_pool_rows_that_no_step_has_room_for_are_not_told_as_used(target):
    for name in ("spectra-paper-core", "spectra-core"):
        for nodes, rows in ((10, 2), (4, 1), (3, 0)):
            method = made(target, name, order=5, rows=15, nodes=nodes)
            assert method.drafters[0].pool.size == method.settings["rows"] == rows
            assert method.settings["pool"] == (rows > 0) and method.settings["nodes"] == nodes


def test_what_cannot_be_is_refused_at_its_field(target):
    for name, changes, field in (
        ("spectra-paper-core", {"rows": 0, "pool": True}, "rows"),
        ("lookahead", {"order": 4}, "order"),
        ("spectra-paper", {"successors": 2}, "successors"),
        ("spectra-retrieval", {"forward": True}, "forward"),
    ):
        with pytest.raises(SpectraError) as error:
            made(target, name, **changes)
        assert error.value.field == field
    with pytest.raises(SpectraError, match="no datastore fits"):
        make_method("spectra-core", target, settings=MethodSettings(retrieval=True))
    check_method("lookahead", MethodSettings(nodes=9))
    assert MethodSettings(rows=0, forward=False).changed == {"rows": 0, "forward": False}


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("spectra-paper", {"order": 3, "rows": 4, "guesses": 6, "refine": 1.0}),
        ("spectra-paper", {"order": 7, "pool": False, "forward": False}),
        ("spectra", {"order": 3, "rows": 5, "successors": 2, "backward": False, "nodes": 24}),
        ("spectra-core", {"rows": 1, "guesses": 2, "retrieval": True, "refine": 0.7}),
    ],
)
def test_the_answer_is_plain_decodings(target, name, changes, temperature):
    prompt, limits = list(range(20)), Limits(48)
    sampling = Sampling(temperature, seed=3)
    plain = [t for s in decode_by(target, prompt, "autoregressive", sampling=sampling, limits=limits) for t in s.tokens]
    method = make_method(name, target, RESOURCES, sampling=sampling, settings=MethodSettings(**changes))
    steps = list(decode_by(target, prompt, method, sampling=sampling, limits=limits))
    assert [token for step in steps for token in step.tokens] == plain
    assert any(len(step.tree) > 1 for step in steps)
