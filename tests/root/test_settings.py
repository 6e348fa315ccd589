"""Every value out of range, and every one that is no number, is refused by name on one line."""

import math

import pytest

from spectra.errors import SpectraError
from spectra.methods.presets import make_method
from spectra.settings import Limits, Sampling

NO_NUMBER = (math.nan, math.inf, -math.inf, True, False, None, "1", "", [], 1j)
SAMPLING = {
    "temperature": ((0, 0.0, 1, 100), (-1e-9, 100.1, 10**400)),
    "top_k": ((0, 1, 10**9), (-1, 10**9 + 1, 1.0, 1.5)),
    "top_p": ((1, 1e-9, 0.5), (0, 0.0, -0.1, 1.0001)),
    "min_p": ((0, 1, 0.5), (-0.1, 1.0001)),
    "repetition_penalty": ((1e-9, 1, 100), (0, -1, 100.1)),
    "seed": ((0, 1, 2**63 - 1), (-1, 2**63, 10**400, 1.0, 0.5)),
}


def refused(field, make):
    with pytest.raises(SpectraError) as error:
        make()
    assert error.value.field == field
    assert str(error.value).startswith(f"{field}: ")
    assert "; give" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("field", SAMPLING)
def test_sampling(field):
    good, bad = SAMPLING[field]
    for value in good:
        assert getattr(Sampling(**{field: value}), field) == value
    for value in (*bad, *NO_NUMBER):
        refused(field, lambda value=value: Sampling(**{field: value}))


@pytest.mark.parametrize("eos", [2, None, [None], ["</s>"], "</s>", 2.0])
def test_ends_of_sequence_that_are_no_set_of_ids(eos):
    refused("eos", lambda: Limits(9, eos))
    assert Limits(9, [2]).cut([1], 0, [2, 3]) == ([2], "eos")


def test_limits():
    for value in (1, 1_000_000):
        assert Limits(value).max_new_tokens == value
    for value in (0, -1, 1.0, 1.5, 1_000_001, *NO_NUMBER):
        refused("max_new_tokens", lambda value=value: Limits(value))
    for odd in (5, "stop", [print]):
        refused("criteria", lambda odd=odd: Limits(5, criteria=odd))


def test_nodes_and_method():
    for value in (0, -1, 1.5, 1025, *(v for v in NO_NUMBER if v is not None)):
        refused("nodes", lambda value=value: make_method("spectra", None, nodes=value))
    with pytest.raises(SpectraError) as error:
        make_method("spectre", None)
    assert error.value.field == "method"
    assert "spectra-paper-core" in str(error.value)


def test_greedy_is_temperature_zero():
    assert Sampling().greedy
    assert not Sampling(temperature=1e-6).greedy


def test_cut_ends_where_plain_decoding_would():
    limits = Limits(5, frozenset({7, 8}))
    assert limits.cut([1], 0, [2, 3]) == ([2, 3], "")
    assert limits.cut([1], 0, [2, 7, 3, 8]) == ([2, 7], "eos")
    assert limits.cut([1], 3, [2, 3, 4]) == ([2, 3], "length")
    assert limits.cut([1], 3, [2, 7, 4]) == ([2, 7], "eos")
    assert limits.cut([1], 4, [2]) == ([2], "length")


def test_of_several_reasons_to_end_the_first_is_told():
    limits = Limits(1, frozenset({7}), lambda tokens: True)
    assert limits.cut([1], 0, [7]) == ([7], "eos")
    assert limits.cut([1], 0, [2]) == ([2], "criteria")


def test_criteria_are_asked_after_each_token_with_everything():
    asked = []

    def criteria(tokens):
        asked.append(list(tokens))
        return tokens[-1] == 3

    assert Limits(9, criteria=criteria).cut([1, 1], 0, [2, 3, 4]) == ([2, 3], "criteria")
    assert asked == [[1, 1, 2], [1, 1, 2, 3]]


def test_criteria_that_run_out_of_values_are_named():
    """Inside a generator Python says `generator raised StopIteration`, and nothing of whose it is."""
    values = iter([False])
    limits = Limits(9, criteria=lambda tokens: next(values))
    with pytest.raises(SpectraError, match="criteria: one raised StopIteration; give one that says"):
        limits.cut([1], 0, [2, 3])
