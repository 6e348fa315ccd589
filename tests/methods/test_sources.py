"""What presets draft from: the stores that they are given, and the sources that cost no query token."""

import pytest
from drafting import TextStore, TopTextStore
from tiny import DEAR, FREE, make

from spectra.bench.replay import ReplayTarget
from spectra.budget.step_cost import StepCost
from spectra.drafters.retrieval import Retrieval
from spectra.errors import SpectraError
from spectra.methods.presets import make_method
from spectra.methods.resources import Resources
from spectra.target.load import wrap_model

STORE = TextStore([1, 2, 3])


class TestStores:
    def test_without_a_store_the_command_that_builds_one_is_named(self):
        target = ReplayTarget(FREE)
        for method in ("spectra-retrieval", "spectra-paper", "rest", "spectra-paper-retrieval-no-ppl"):
            with pytest.raises(SpectraError, match=r"spectra\.datastore build"):
                make_method(method, target)

    def test_spectra_without_a_store_is_core(self):
        kinds = [type(drafter) for drafter in make_method("spectra", ReplayTarget(FREE)).drafters]
        assert kinds == [type(drafter) for drafter in make_method("spectra-core", ReplayTarget(FREE)).drafters]

    def test_refined_and_unrefined_stores_are_told_apart(self):
        resources = Resources([STORE])
        assert make_method("spectra-retrieval", ReplayTarget(FREE), resources).drafters[0].stores == [STORE]
        with pytest.raises(SpectraError, match="no-refine"):
            make_method("rest", ReplayTarget(FREE), resources)

    def test_a_method_has_none_that_it_was_not_given(self):
        drafters = make_method("spectra", wrap_model(make("llama"))).drafters
        assert not any(isinstance(drafter, Retrieval) for drafter in drafters)


def sources_of(name, cost, stores):
    method = make_method(name, ReplayTarget(cost), Resources(stores))
    return [type(drafter).__name__ for drafter in method.drafters], method.top_k


class TestFreeSources:
    """What `spectra` adds to the dictionaries and the store, and its ablations."""

    STEEP = StepCost(((1, 1.0), (8, 1.2), (64, 4.0)))

    def test_successors_are_recycled_where_they_pay(self):
        assert sources_of("spectra-core", self.STEEP, []) == (["SpectraCore", "Recycling"], 8)
        assert sources_of("spectra", self.STEEP, [STORE]) == (["SpectraCore", "Retrieval"], 0)
        assert sources_of("spectra", FREE, [STORE])[0][-1] == "Recycling"

    def test_in_a_batch_whose_rows_are_dear_long_repeats_are_copied_and_nothing_else(self):
        for cost, together, first in ((DEAR, 1, "SpectraCore"), (DEAR, 4, "Copies"), (FREE, 4, "SpectraCore")):
            method = make_method("spectra", ReplayTarget(cost), Resources([STORE]), together=together)
            assert type(method.drafters[0]).__name__ == first
            assert (len(method.drafters) == 1) == (first == "Copies")

    def test_and_what_is_nearly_certain_in_the_stores_that_tell(self):
        resources = Resources([STORE, TopTextStore([1, 2] * 9), TopTextStore([3, 4] * 9, refined=False)])
        kinds = {
            name: [type(one).__name__ for one in make_method(name, ReplayTarget(DEAR), resources, together=4).drafters]
            for name in ("spectra", "spectra-core")
        }
        assert kinds == {"spectra": ["Copies", "NearCertain"], "spectra-core": ["Copies"]}
        assert resources.with_drafts(()).near_certain is resources.rehearsing().near_certain is resources.near_certain
        assert {found.token for found in resources.near_certain.table.followed.values() if found} == {1, 2}

    def test_stores_have_to_bring_the_time_and_half_the_rows_that_they_take(self):
        for unit, price in ((1.0, 0.3e-3), (0.006, 0.05), (0.001, 0.1)):  # seconds of a plain step; a tenth at most
            cost = StepCost(((1, unit), (2, 1.2 * unit), (64, 9 * unit)))
            _, drafter = make_method("spectra", ReplayTarget(cost), Resources([STORE])).drafters
            assert (drafter.price, drafter.least, drafter.row) == pytest.approx((price, 0.2, 0.1))

    def test_each_can_be_left_out(self):
        assert "Recycling" not in sources_of("spectra-no-recycled", FREE, [STORE])[0]
        with_text, without = (
            make_method(n, ReplayTarget(FREE), Resources([STORE])) for n in ("spectra", "spectra-no-text")
        )
        assert with_text.drafters[0].settings.text
        assert not without.drafters[0].settings.text
