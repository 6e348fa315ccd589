"""Our library draws the token that torch draws with the same noise, on every path of this CPU."""

import pytest
import torch
from native_paths import every_path, library

from spectra.verify.noise import keyed_noise
from spectra.verify.picks import NO_NUMBER

CPU = torch.device("cpu")


def scores_of(size, seed):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)) * 3


@every_path
@pytest.mark.parametrize("size", [1, 15, 16, 17, 1000, 49152])
def test_the_draw_is_that_of_torch(path, size):
    draw = library(path).draw
    for position in range(60):
        scores, noise = scores_of(size, position), keyed_noise(5, position, size, CPU)
        values = scores.double() - noise.double().log()
        token = draw(scores, 5, position)
        assert token == int((scores - noise.log()).argmax())
        assert float(values[token]) == float(values.max())


@every_path
@pytest.mark.parametrize("scale", [0.0, 1e-3, 30.0, 1e4, 1e8, 1e30])
def test_however_far_apart_the_scores_are(path, scale):
    """Most noise is never computed: it could not make its token the best."""
    for position in range(200):
        scores = scores_of(5000, position) * scale
        want = int((scores - keyed_noise(5, position, 5000, CPU).log()).argmax())
        assert library(path).draw(scores, 5, position) == want


@every_path
def test_a_token_that_may_not_be_drawn_is_not(path):
    scores = torch.full((1003,), float("-inf"))
    scores[[3, 1001]] = 0.5
    drawn = {library(path).draw(scores, seed, 7) for seed in range(40)}
    assert drawn == {3, 1001}


@every_path
@pytest.mark.parametrize("at", [0, 15, 16, 40])
def test_a_row_with_no_number_is_told(path, at):
    scores = scores_of(41, 0)
    scores[at] = float("nan")
    assert library(path).draw(scores, 1, 2) == NO_NUMBER


@every_path
def test_rows_that_do_not_lie_in_one_piece(path):
    scores = scores_of(2 * 600, 1)[::2]
    assert library(path).draw(scores, 1, 2) == library(path).draw(scores.clone(), 1, 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_scores_of_another_type_are_read_as_the_numbers_they_are(dtype):
    scores = scores_of(1000, 3).to(dtype)
    assert library().draw(scores, 1, 2) == library().draw(scores.float(), 1, 2)


@every_path
@pytest.mark.parametrize("seed", [-1, -(2**63), 2**63 - 1, 2**64 + 5])
def test_any_seed_and_far_positions_and_small_vocabularies(path, seed):
    for size in (*range(1, 41), 262144):
        scores = scores_of(size, size)
        want = int((scores - keyed_noise(seed, 10**6, size, CPU).log()).argmax())
        assert library(path).draw(scores, seed, 10**6) == want


@every_path
def test_rows_of_infinities_are_drawn_as_torch_does(path):
    inf = float("inf")
    for row in ([-inf] * 37, [1.0, inf, 2.0, inf], [1e-42] * 40, [3e38] * 40, [-3.4e38] * 40):
        scores = torch.tensor(row)
        want = int((scores - keyed_noise(3, 9, len(row), CPU).log()).argmax())
        assert library(path).draw(scores, 3, 9) == want
