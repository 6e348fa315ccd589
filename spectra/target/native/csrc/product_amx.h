// The same products by AMX tiles of 16 rows, 16 outputs and 32 inputs. Rows are filled up to whole tiles: a row's sums do
// not depend on the other rows of its tile. Models in float have no tiles.
#pragma once
#if SPECTRA_EMULATED_AMX
#include "amx_emulation.h"
#endif

namespace spectra {

constexpr int TILE = 16;

struct alignas(64) TileConfig {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {TILE, TILE, TILE, TILE, TILE, TILE, TILE, TILE};
};

// Not on the stack: GCC takes only the first 8 bytes for read, and leaves stores to the others out.
constexpr TileConfig TILE_CONFIG;

// Every thread before and after its tiles.
inline void tiles_on() { _tile_loadconfig(&TILE_CONFIG); }
inline void tiles_off() { _tile_release(); }

// Tiles 0..3: sums (row tile, panel); 4, 5: rows; 6, 7: weights. Row tiles ROWS and panels P of 1 or 2.
template <int ROWS, int P>
void tile_block(const uint8_t* const* weights, const bf16* x, int64_t stride, float* sums, int64_t count, bool first,
                int64_t ahead) {
    constexpr int64_t sum_bytes = WIDTH * LANES * 4;
    float* below = sums + TILE * WIDTH * LANES;
    const bf16* x_below = x + TILE * stride;
    if (first) {
        _tile_zero(0);
        if constexpr (P > 1) _tile_zero(1);
        if constexpr (ROWS > 1) _tile_zero(2);
        if constexpr (ROWS > 1 && P > 1) _tile_zero(3);
    } else {
        _tile_loadd(0, sums, sum_bytes);
        if constexpr (P > 1) _tile_loadd(1, sums + LANES, sum_bytes);
        if constexpr (ROWS > 1) _tile_loadd(2, below, sum_bytes);
        if constexpr (ROWS > 1 && P > 1) _tile_loadd(3, below + LANES, sum_bytes);
    }
    for (int64_t k = 0; k < count; k += 32) {
        const uint8_t* left = weights[0] + k * 32;
        for (int line = 0; line < 16; ++line) prefetch_far(left + line * 64 + ahead);
        _tile_loadd(6, left, 64);
        _tile_loadd(4, x + k, stride * 2);
        _tile_dpbf16ps(0, 4, 6);
        if constexpr (ROWS > 1) {
            _tile_loadd(5, x_below + k, stride * 2);
            _tile_dpbf16ps(2, 5, 6);
        }
        if constexpr (P > 1) {
            const uint8_t* right = weights[1] + k * 32;
            for (int line = 0; line < 16; ++line) prefetch_far(right + line * 64 + ahead);
            _tile_loadd(7, right, 64);
            _tile_dpbf16ps(1, 4, 7);
            if constexpr (ROWS > 1) _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, sums, sum_bytes);
    if constexpr (P > 1) _tile_stored(1, sums + LANES, sum_bytes);
    if constexpr (ROWS > 1) _tile_stored(2, below, sum_bytes);
    if constexpr (ROWS > 1 && P > 1) _tile_stored(3, below + LANES, sum_bytes);
}

// All rows over one block of inputs.
inline void tiles_over(int panels, const uint8_t* const* weights, const bf16* x, int64_t stride, int64_t rows,
                       float* sums, int64_t count, bool first, int64_t ahead) {
    for (int64_t r = 0; r < rows; r += 2 * TILE) {
        auto over = rows - r > TILE ? (panels > 1 ? tile_block<2, 2> : tile_block<2, 1>)
                                    : (panels > 1 ? tile_block<1, 2> : tile_block<1, 1>);
        over(weights, x + r * stride, stride, sums + r * WIDTH * LANES, count, first, ahead);
    }
}

}  // namespace spectra
