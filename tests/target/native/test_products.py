"""Products of the CPU library: the same bits for any number of rows, near float64, codes as their dense matrix."""

import pytest
import torch
from native_paths import EMULATED, every_path, library, paths, row_counts

from spectra.target.native.codes import Codes, int8
from spectra.target.native.matrix import Matrix, lifts

SHAPES = ((16, 32), (5, 7), (100, 72), (33, 600), (80, 2100), (16, 1024), (16, 2048))
BOUND = {torch.float32: 2.0**-22, torch.bfloat16: 2.0**-22}
"""Error against float64, in parts of the sum of the terms' magnitudes."""


def numbers(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def codes_of(outputs, inputs, bits, group, minimums, half=True, seed=0):
    make = torch.Generator().manual_seed(seed)
    low, high, kind = (0, 16, torch.uint8) if bits == 4 else (-128, 128, torch.int8)
    code = torch.randint(low, high, (outputs, inputs), generator=make).to(kind)
    scales = torch.rand(outputs, inputs // group, generator=make) * 0.1
    least = -scales * (3 + 9 * torch.rand(outputs, inputs // group, generator=make))
    scales, least = (scales.half().float(), least.half().float()) if half else (scales.bfloat16().float(), least)
    return Codes(code, scales, least if minimums else None, bits)


@every_path
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_row_count_gives_the_bits_of_one_row(path, dtype, shape):
    matrix = Matrix.of(library(path), numbers(*shape, dtype=dtype), numbers(shape[0]))
    rows = numbers(130, shape[1], seed=1).to(dtype)
    alone = torch.cat([matrix.product(row[None]) for row in rows])
    for count in row_counts(path):
        assert torch.equal(matrix.product(rows[:count]), alone[:count]), count
    assert torch.equal(matrix.product(rows[37:60]), alone[37:60])


@every_path
@pytest.mark.parametrize(("rows", "weights"), [(-63, -63), (-30, -98), (-130, 3), (1, -130)])
def test_sums_around_the_smallest_numbers_have_the_bits_of_one_row(path, rows, weights):
    def spread(outputs, inputs, power, seed):
        return (
            numbers(outputs, inputs, seed=seed) * 2.0 ** (power + 2 * numbers(outputs, inputs, seed=seed + 1))
        ).bfloat16()

    matrix, x = Matrix.of(library(path), spread(32, 96, weights, 0)), spread(40, 96, rows, 2)
    alone = torch.cat([matrix.product(row[None]) for row in x])
    for count in (2, 5, 16, 17, 40):
        assert torch.equal(matrix.product(x[:count]), alone[:count]), count


@pytest.mark.skipif("amx_bf16" not in paths(), reason="a CPU without AMX")
@pytest.mark.parametrize("power", [0, -63])
def test_emulated_tiles_have_the_bits_of_tiles(power):
    weight, rows = ((numbers(40, 96, seed=seed) * 2.0**power).bfloat16() for seed in (0, 1))
    tiles, emulated = (Matrix.of(library(path), weight).product(rows) for path in ("amx_bf16", EMULATED))
    assert torch.equal(tiles, emulated)


@every_path
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_product_is_near_float64(path, dtype, shape):
    weight, bias, rows = numbers(*shape, dtype=dtype), numbers(shape[0]), numbers(50, shape[1], seed=1).to(dtype)
    got = Matrix.of(library(path), weight, bias).product(rows).double()
    want = rows.double() @ weight.double().T + bias.double()
    size = rows.double().abs() @ weight.double().abs().T + bias.double().abs()
    assert got.shape == want.shape
    assert float(((got - want).abs() / size).max()) < BOUND[dtype]


@every_path
def test_float_rows_of_a_bf16_matrix_are_rounded_first(path):
    matrix, rows = Matrix.of(library(path), numbers(40, 64, dtype=torch.bfloat16)), numbers(9, 64, seed=1)
    assert torch.equal(matrix.product(rows), matrix.product(rows.bfloat16()))


@every_path
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_threads_change_no_bit(path, dtype):
    rows = numbers(21, 600, seed=1).to(dtype)
    results = [
        Matrix.of(library(path, threads), numbers(83, 600, dtype=dtype)).product(rows) for threads in (1, 2, 3, 4)
    ]
    assert all(torch.equal(one, results[0]) for one in results)


QUANTISED = [
    (48, 320, 4, 32, True, True),  # Q4_1
    (48, 320, 4, 32, False, True),  # Q4_0
    (21, 96, 4, 32, True, False),
    (48, 544, 8, 32, False, True),  # Q8_0
    (35, 304, 8, 16, False, False),  # Q6_K
    (35, 304, 8, 16, True, False),
    (48, 320, 8, 32, True, True),  # Q5_1
    (20, 600, 8, 600, False, False),  # round to nearest
    (20, 104, 8, 104, True, True),
    (9, 50, 8, 50, False, True),
]


@every_path
@pytest.mark.parametrize("case", QUANTISED, ids=str)
def test_codes_give_the_bits_of_their_dense_matrix(path, case):
    codes, rows = codes_of(*case), numbers(30, case[1], seed=1)
    packed, dense = Matrix.of(library(path), codes), Matrix.of(library(path), codes.dense())
    assert torch.equal(packed.rows(torch.arange(case[0])), codes.dense().float())
    for count in (1, 2, 5, 13, 30):
        assert torch.equal(packed.product(rows[:count]), dense.product(rows[:count]))


@every_path
@pytest.mark.parametrize("small", [0.0, 2.0**-1, 2.0**-4, 2.0**-9, 2.0**-14, 2.0**-60])
def test_minimums_far_smaller_than_their_scale_give_the_bits_of_their_dense_matrix(path, small):
    codes = codes_of(48, 320, 4, 32, True)
    least = codes.minimums.clone()
    least[7, 3] = codes.scales[7, 3] * small
    least[30, 5] = -codes.scales[30, 5] * small
    codes = Codes(codes.codes, codes.scales, least, 4)
    assert lifts(codes) == (small in (0.0, 2.0**-1))
    packed, dense, rows = Matrix.of(library(path), codes), Matrix.of(library(path), codes.dense()), numbers(13, 320)
    assert packed.nbytes < dense.nbytes
    assert torch.equal(packed.rows(torch.arange(48)), codes.dense().float())
    for count in (1, 13):
        assert torch.equal(packed.product(rows[:count]), dense.product(rows[:count]))


def test_codes_are_read_in_fewer_bytes():
    ready = library()
    four, eight = (Matrix.of(ready, codes_of(64, 576, bits, 32, bits == 4)) for bits in (4, 8))
    assert four.nbytes == 64 * 576 // 2 + 64 * 18 * 4
    assert eight.nbytes == 64 * 576 + 64 * 18 * 2


def test_codes_whose_products_round_are_packed_dense():
    codes = codes_of(20, 64, 4, 32, True)
    codes = Codes(codes.codes, codes.scales * 1.1, codes.minimums, 4)
    rows = numbers(3, 64)
    matrix, dense = Matrix.of(library(), codes), Matrix.of(library(), codes.dense())
    assert matrix.nbytes == dense.nbytes
    assert torch.equal(matrix.product(rows), dense.product(rows))


def test_no_rows_give_no_outputs():
    assert Matrix.of(library(), numbers(20, 30)).product(torch.empty(0, 30)).shape == (0, 20)


@every_path
def test_infinities_and_nan_come_out(path):
    matrix = Matrix.of(library(path), numbers(16, 32, dtype=torch.bfloat16))
    rows = numbers(3, 32)
    rows[1, 3] = float("nan")
    out = matrix.product(rows)
    assert out[1].isnan().all()
    assert out[[0, 2]].isfinite().all()


@every_path
@pytest.mark.parametrize(
    ("bits", "scale"), [(4, 2.0**-112), (4, 2.0**-131), (8, 2.0**-131), (8, 2.0**125), (8, float("nan"))]
)
@pytest.mark.parametrize("minimums", [True, False])
def test_scales_of_any_size_give_the_bits_of_their_dense_matrix(path, bits, scale, minimums):
    codes = codes_of(32, 64, bits, 32, minimums)
    codes = Codes(codes.codes, torch.full_like(codes.scales, scale), codes.minimums, bits)
    rows = numbers(3, 64) * 1e30
    packed, dense = Matrix.of(library(path), codes), Matrix.of(library(path), codes.dense())
    assert torch.equal(packed.rows(torch.arange(32)).nan_to_num(), codes.dense().float().nan_to_num())
    assert torch.equal(packed.product(rows).nan_to_num(), dense.product(rows).nan_to_num())


@every_path
@pytest.mark.parametrize("size", [1e-20, 1e-32, 1e-37, 1e-39])
def test_an_output_whose_weights_are_nearly_zero_keeps_the_others_quantised(path, size):
    weight = numbers(32, 256)
    weight[5] *= size
    codes, rows = int8(weight), numbers(3, 256) * 1e20
    packed, dense = Matrix.of(library(path), codes), Matrix.of(library(path), codes.dense())
    assert packed.nbytes < dense.nbytes
    assert torch.equal(packed.rows(torch.arange(32)), codes.dense().float())
    assert torch.equal(packed.product(rows), dense.product(rows))


def test_what_a_thread_was_told_of_denormal_numbers_changes_no_bit():
    small, rows = torch.randn(64, 64) * 1e-20, torch.randn(9, 64) * 1e-19
    matrices = [Matrix.of(library(threads=threads), small) for threads in (1, 2, 3)]
    want = matrices[0].product(rows)
    assert want.any()
    for flush in (True, False):
        torch.set_flush_denormal(flush)  # of this thread alone
        got = [matrix.product(rows) for matrix in matrices]
        torch.set_flush_denormal(False)
        assert all(torch.equal(one, want) for one in got)


@every_path
def test_a_path_tells_how_many_rows_go_together(path):
    assert library(path).row_block == {"avx2": 4, "amx_bf16": 16, "amx emulated": 16}.get(path, 12)
    assert library(path).few_rows == {"avx512_bf16": 10, "avx512_fma": 10, "avx512": 4}.get(path, 0)
