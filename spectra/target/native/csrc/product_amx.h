// The same products by AMX tiles of up to 16 rows, 16 outputs and 32 inputs: a row's sums do not depend on the other
// rows of its tile. One row goes by vectors, in the order of the tiles. Models in float have no tiles.
#pragma once
#if SPECTRA_EMULATED_AMX
#include "amx_emulation.h"
#endif

namespace spectra {

constexpr int TILE = 16;
constexpr int64_t TILES_AHEAD = 1536;  // bytes

// Tiles 0..3: sums (row tile, panel); 4, 5: rows; 6, 7: weights. height: of row tiles.
struct alignas(64) TileConfig {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {};

    constexpr explicit TileConfig(int height = 0) {
        for (int tile = 0; tile < 8; ++tile) rows[tile] = uint8_t(tile < 6 ? height : TILE);
    }
};

// By height. Not on the stack: GCC takes only the first 8 bytes for read, and leaves stores to the others out.
struct TileConfigs {
    TileConfig of[TILE + 1];

    constexpr TileConfigs() {
        for (int height = 0; height <= TILE; ++height) of[height] = TileConfig(height);
    }
};
constexpr TileConfigs TILE_CONFIGS;

// Rows of a row tile: as few as so many rows need, all tiles alike.
inline int tile_height(int64_t rows) {
    const int64_t tiles = (rows + TILE - 1) / TILE;
    return int((rows + tiles - 1) / tiles);
}

// A thread before its tiles of so many rows, and when a call is over.
inline void tiles_on(int64_t rows) { _tile_loadconfig(&TILE_CONFIGS.of[tile_height(rows)]); }
inline void tiles_off() { _tile_release(); }

// Row tiles ROWS and panels P of 1 or 2.
template <int ROWS, int P>
void tile_block(const uint8_t* const* weights, const bf16* x, int64_t stride, float* sums, int64_t count, bool first,
                int64_t ahead, int64_t height) {
    constexpr int64_t sum_bytes = WIDTH * LANES * 4;
    float* below = sums + height * WIDTH * LANES;
    const bf16* x_below = x + height * stride;
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
    const int64_t height = tile_height(rows);
    for (int64_t r = 0; r < rows; r += 2 * height) {
        auto over = rows - r > height ? (panels > 1 ? tile_block<2, 2> : tile_block<2, 1>)
                                      : (panels > 1 ? tile_block<1, 2> : tile_block<1, 1>);
        over(weights, x + r * stride, stride, sums + r * WIDTH * LANES, count, first, ahead ? TILES_AHEAD : 0, height);
    }
}

// Denormal numbers count as 0, given or computed, as the tiles have it.
class Flushing {
  public:
    Flushing() { _mm_setcsr(before_ | FLUSH); }
    ~Flushing() { _mm_setcsr(before_); }

  private:
    static constexpr unsigned FLUSH = 0x8040;
    const unsigned before_ = _mm_getcsr();
};

// One row, P panels: of every 32 inputs the even and the odd ones have sums of their own, then both go onto the row's.
//
// BY_TURNS: the weights of a pair of inputs are two registers of 8 outputs each, the two inputs by turns; otherwise one
// register for each input.
template <int P, bool BY_TURNS>
struct RowSums {
    F16 sum[P], first[P], second[P];

    INLINE RowSums() {
        UNROLL
        for (int p = 0; p < P; ++p) sum[p] = first[p] = second[p] = zero();
    }
    // Inputs k and k + 1.
    INLINE void add(const float* x, int64_t k, const F16 (&one)[P], const F16 (&other)[P]) {
        UNROLL
        for (int p = 0; p < P; ++p) {
            first[p] = fma(BY_TURNS ? set1_pair(x + k) : set1(x[k]), one[p], first[p]);
            second[p] = fma(BY_TURNS ? set1_pair(x + k) : set1(x[k + 1]), other[p], second[p]);
        }
        if (k % 32 != 30) return;
        UNROLL
        for (int p = 0; p < P; ++p) {
            const F16 even = BY_TURNS ? even_lanes(first[p], second[p]) : first[p];
            const F16 odd = BY_TURNS ? odd_lanes(first[p], second[p]) : second[p];
            sum[p] = sum[p] + (even + odd);
            first[p] = second[p] = zero();
        }
    }
};

template <int P>
void coded_panels_of_row(const Matrix& m, int64_t panel, const float* x, int64_t ahead, F16 (&sum)[WIDTH]) {
    RowSums<P, true> sums;
    each_pair<true, P>(m, panel, 0, m.inputs, ahead, [&](int64_t k, const F16 (&low)[P], const F16 (&high)[P]) {
        F16 one[P], other[P];
        UNROLL
        for (int p = 0; p < P; ++p) one[p] = weight_through_bf16(low[p]), other[p] = weight_through_bf16(high[p]);
        sums.add(x, k, one, other);
    });
    UNROLL
    for (int p = 0; p < P; ++p) sum[p] = sums.sum[p];
}

template <int P>
void dense_panels_of_row(const Matrix& m, int64_t panel, const float* x, int64_t ahead, F16 (&sum)[WIDTH]) {
    RowSums<P, false> sums;
    for (int64_t k = 0; k < m.inputs; k += 2) {
        F16 even[P], odd[P];
        UNROLL
        for (int p = 0; p < P; ++p) {
            const uint8_t* weights = m.panel(panel + p) + k * 32;
            prefetch_far(weights + ahead);
            const I16 pair = load_int(weights);
            even[p] = bf16_pairs_even(pair), odd[p] = bf16_pairs_odd(pair);
        }
        sums.add(x, k, even, odd);
    }
    UNROLL
    for (int p = 0; p < P; ++p) sum[p] = sums.sum[p];
}

template <int P>
void panels_of_row(const Matrix& m, int64_t panel, const float* x, const uint8_t* then, F16 (&sum)[WIDTH]) {
    const Flushing flushing;
    const int64_t ahead = ahead_of<P>(m, panel, then);
    m.quantised() ? coded_panels_of_row<P>(m, panel, x, ahead, sum) : dense_panels_of_row<P>(m, panel, x, ahead, sum);
}

// `product` of one row.
template <class Out>
void product_of_row(const Matrix& m, const bf16* x, int64_t from, int64_t to, ProductBuffers& buffers, Out out,
                    const uint8_t* then) {
    buffers.numbers.resize(m.inputs);
    for (int64_t k = 0; k < m.inputs; k += LANES) store(buffers.numbers.data() + k, load_bf16(x + k));
    for (int64_t n = from, next; n < to; n = next) {
        next = std::min(to, n / WIDTH * WIDTH + WIDTH);
        F16 sum[WIDTH];
        const auto panels = next - n == WIDTH ? panels_of_row<WIDTH> : panels_of_row<1>;
        panels(m, n, buffers.numbers.data(), next == to ? then : nullptr, sum);
        for (int64_t p = n; p < next; ++p) hand_over(m, 0, p, sum[p - n], out);
    }
}

}  // namespace spectra
