"""The rounding of weights in float against the rounding of their bits."""

import ctypes

import pytest
from compiled import compiled

from spectra.target.native.codes import EXACT
from spectra.target.native.library import LibraryError, paths_here

DIFFERING = """
#include <cstdint>
#include "simd.h"
using namespace spectra;

extern "C" long differing(uint32_t exponent) {
    long found = 0;
    for (uint32_t mantissa = 0; mantissa < (1u << 23); mantissa += LANES) {
        uint32_t bits[LANES], rounded[LANES];
        float number[LANES];
        for (int i = 0; i < LANES; ++i) bits[i] = uint32_t(i % 2) << 31 | exponent << 23 | (mantissa + i);
        std::memcpy(number, bits, sizeof number);
        store(number, weight_through_bf16(load(number)));
        std::memcpy(rounded, number, sizeof number);
        for (int i = 0; i < LANES; ++i)
            found += rounded[i] != ((bits[i] + 0x7fff + (bits[i] >> 16 & 1)) & 0xffff0000);
    }
    return found;
}
"""


@pytest.mark.parametrize("path", ["avx512", "avx2"])
def test_every_weight_is_rounded_to_nearest_ties_to_even(path, tmp_path):
    try:
        paths_here(path)
    except LibraryError as error:
        pytest.skip(str(error))
    differing = ctypes.CDLL(str(compiled(DIFFERING, path, tmp_path))).differing
    differing.restype = ctypes.c_long
    least, most = (127 + round(power) for power in (-100 - 24, 100 + 8))
    assert EXACT == (2.0**-100, 2.0**100)  # what a code, a scale and a minimum make of it lies between these two
    for exponent in (least, 126, 127, most):
        assert differing(exponent) == 0
