// Products whose every output is one sum over the inputs in one fixed order, whatever rows stand beside it.
//
// A sum runs over the inputs from first to last (bf16: pair by pair) in one lane of one accumulator. How rows, outputs
// and inputs are cut into blocks changes no bit: between blocks of inputs a sum waits in memory as the float it is.
#pragma once
#include <algorithm>
#include <type_traits>

#include "formats.h"

namespace spectra {

// What a row is made of: WIDE models keep floats; others round to bf16, kept as floats where products are of floats.
template <bool WIDE>
struct Row {
#if SPECTRA_BF16_PRODUCTS
    static constexpr bool NARROW = !WIDE;
#else
    static constexpr bool NARROW = false;
#endif
    using Element = std::conditional_t<NARROW, bf16, float>;
};
template <bool WIDE>
using Element = typename Row<WIDE>::Element;

template <bool WIDE>
INLINE void store_row(Element<WIDE>* p, F16 a) {
    if constexpr (Row<WIDE>::NARROW)
        store_bf16(p, a);
    else
        store(p, WIDE ? a : through_bf16(a));
}

// Numbers from the beginning of a row of n to that of the next. Rows that fill whole pages get a cache line more: otherwise
// those of a block lie in one set of the nearest cache, which does not hold so many.
template <bool WIDE>
constexpr int64_t row_stride(int64_t n) {
    constexpr int64_t line = 64 / sizeof(Element<WIDE>), page = 64 * line;
    return n % page ? n : n + line;
}

constexpr int64_t DEEP = 2048;  // inputs a block
constexpr int64_t DEEP_UNPACKED = 256;
#if SPECTRA_AVX512 && !SPECTRA_AMX
#define SPECTRA_FEW_ROWS 1
#endif
// So many rows take quantised weights as they are unpacked; more, from memory. Where no instruction rounds, the detour is
// shorter from 5 rows on.
#if SPECTRA_FEW_ROWS && SPECTRA_AVX512_BF16
constexpr int FEW = 10;
#elif SPECTRA_FEW_ROWS
constexpr int FEW = 4;
#else
constexpr int FEW = 0;
#endif
// So many rows, of bf16 or float, go panel by panel, and who reads memory from front to back is served by the CPU itself: on
// a Zen 4 up to a quarter sooner than one who asks for what comes, or reads two panels side by side.
#if SPECTRA_BF16_PRODUCTS && !SPECTRA_AMX
constexpr int IN_A_ROW = 3;
#else
constexpr int IN_A_ROW = 0;
#endif
#if SPECTRA_AVX512
constexpr int TALL = 12;  // rows a block
constexpr int REGISTER_PANELS = 2;
#else
constexpr int TALL = 4;
constexpr int REGISTER_PANELS = 1;
#endif

// What a thread keeps at hand.
struct ProductBuffers {
    Lines<float> sums, numbers;
    Lines<bf16> unpacked;

    void prepare(int64_t rows) {
        sums.resize(rounded(rows, 32) * WIDTH * LANES);
        unpacked.resize(WIDTH * DEEP_UNPACKED * LANES);
    }
};

constexpr int64_t STREAM_AHEAD = 4096;  // bytes

// How far ahead a product fetches that reads P panels at once, from this one on: the panels behind them, or `then`.
template <int P>
int64_t ahead_of(const Matrix& m, int64_t panel, const uint8_t* then) {
    return then ? then - m.panel(panel) : P == 1 ? STREAM_AHEAD : P * m.panel_bytes;
}

// A sum over all inputs to who asked for it, the bias added.
template <class Out>
INLINE void hand_over(const Matrix& m, int64_t row, int64_t panel, F16 sum, Out out) {
    const int64_t output = panel * LANES;
    out(row, output, m.bias ? sum + load(m.bias + output) : sum);
}

}  // namespace spectra

#if SPECTRA_AMX
#include "product_amx.h"
#endif

namespace spectra {

// Where R rows stand that are walked together. A pointer serves three rows: with one for each the registers do not reach,
// and products wait for pointers from memory (a tenth of the time on a Zen 4 from 8 rows on).
template <int R, class E>
class RowPointers {
  public:
    INLINE RowPointers(const E* x, int64_t stride) : stride_(stride) {
        UNROLL
        for (int i = 0; i < POINTERS; ++i) first_[i] = x + 3 * i * stride;
    }
    INLINE const E* operator[](int row) const { return first_[row / 3] + row % 3 * stride_; }
    INLINE void advance(int64_t inputs) {
        UNROLL
        for (int i = 0; i < POINTERS; ++i) {
            first_[i] += inputs;
            asm("" : "+r"(first_[i]));  // otherwise compilers make a pointer for each row of it
        }
    }

  private:
    static constexpr int POINTERS = (R + 2) / 3;
    const E* first_[POINTERS];
    const int64_t stride_;
};

// sum[r][p] += input `i` of row r, from where the pointers are, times column[p], the weights of a panel for it.
template <int R, int P>
INLINE void add_column(const RowPointers<R, float>& x, int i, const F16 (&column)[P], F16 (&sum)[R][P]) {
    UNROLL
    for (int r = 0; r < R; ++r) {
        const F16 value = set1(x[r][i]);
        UNROLL
        for (int p = 0; p < P; ++p) sum[r][p] = fma(value, column[p], sum[r][p]);
    }
}

// sum[r][p] += a pair of inputs of row r times pair[p], the weights of a panel for it.
template <int R, int P>
INLINE void add_pair(const RowPointers<R, Element<false>>& x, const I16 (&pair)[P], F16 (&sum)[R][P]) {
#if SPECTRA_BF16_PRODUCTS
    UNROLL
    for (int r = 0; r < R; ++r) {
        int32_t two;
        std::memcpy(&two, x[r], sizeof two);
        const __m512i value = _mm512_set1_epi32(two);
        UNROLL
        for (int p = 0; p < P; ++p)
            sum[r][p].v = _mm512_dpbf16_ps(sum[r][p].v, (__m512bh)value, (__m512bh)pair[p].v);
    }
#else
    UNROLL
    for (int odd = 0; odd < 2; ++odd) {
        F16 column[P];
        UNROLL
        for (int p = 0; p < P; ++p) column[p] = odd ? bf16_pairs_odd(pair[p]) : bf16_pairs_even(pair[p]);
        add_column<R, P>(x, odd, column, sum);
    }
#endif
}

// What a block fetches while it computes: from so many bytes behind its weights on, `pace` bytes for each line it reads;
// nothing where that is 0.
struct Fetch {
    int64_t ahead, pace;
};

// Rows R, panels P: sums[R][WIDTH * 16] (+)= over `count` inputs. weights: one pointer a panel.
template <bool WIDE, bool FETCHES, int R, int P>
void block(const uint8_t* const* weights, const Element<WIDE>* x, int64_t stride, float* sums, int64_t count,
           bool first, Fetch fetch) {
    F16 sum[R][P];
    UNROLL
    for (int r = 0; r < R; ++r)
        UNROLL
        for (int p = 0; p < P; ++p) sum[r][p] = first ? zero() : load(sums + (r * WIDTH + p) * LANES);
    RowPointers<R, Element<WIDE>> row(x, stride);
    constexpr int STEP = WIDE ? 1 : 2;  // inputs whose weights fill a line
    const uint8_t *w = weights[0], *next = w + fetch.ahead;
    const int64_t apart = weights[P - 1] - w;
    for (int64_t k = 0; k < count; k += STEP, w += 64, next += fetch.pace) {
        std::conditional_t<WIDE, F16, I16> line[P];
        UNROLL
        for (int p = 0; p < P; ++p) {
            if (FETCHES) prefetch_far(next + p * apart);
            if constexpr (WIDE)
                line[p] = load((const float*)(w + p * apart));
            else
                line[p] = load_int(w + p * apart);
        }
        if constexpr (WIDE)
            add_column<R, P>(row, 0, line, sum);
        else
            add_pair<R, P>(row, line, sum);
        row.advance(STEP);
    }
    UNROLL
    for (int r = 0; r < R; ++r)
        UNROLL
        for (int p = 0; p < P; ++p) store(sums + (r * WIDTH + p) * LANES, sum[r][p]);
}

template <bool WIDE, int P, int R = TALL>
INLINE void block_of(int rows, const uint8_t* const* weights, const Element<WIDE>* x, int64_t stride, float* sums,
                     int64_t count, bool first, Fetch fetch) {
    if constexpr (R > 1)
        if (rows != R) return block_of<WIDE, P, R - 1>(rows, weights, x, stride, sums, count, first, fetch);
    (fetch.pace ? block<WIDE, true, R, P> : block<WIDE, false, R, P>)(weights, x, stride, sums, count, first, fetch);
}

// All rows over one block of inputs, in blocks of rows of nearly the same height. What follows, `ahead` bytes behind, is
// fetched by the first two of them, half each. 0: nothing is.
template <bool WIDE>
void rows_over(int panels, const uint8_t* const* weights, const Element<WIDE>* x, int64_t stride, int64_t rows,
               float* sums, int64_t count, bool first, int64_t ahead) {
#if SPECTRA_AMX
    if constexpr (!WIDE) return tiles_over(panels, weights, x, stride, rows, sums, count, first, ahead);
#endif
    const int64_t blocks = (rows + TALL - 1) / TALL, lines = WIDE ? count : count / 2;
    const bool in_a_row = rows <= IN_A_ROW;
    const int64_t fetching = in_a_row || !ahead ? 0 : std::min<int64_t>(blocks, 2);
    for (int64_t b = 0; b < blocks; ++b) {
        const int64_t from = rows * b / blocks, to = rows * (b + 1) / blocks;
        const Element<WIDE>* top = x + from * stride;
        float* out = sums + from * WIDTH * LANES;
        const Fetch share = b < fetching ? Fetch{ahead + b * lines / fetching * 64, 64 / fetching} : Fetch{0, 0};
        if (panels == WIDTH && REGISTER_PANELS == WIDTH && !in_a_row)
            block_of<WIDE, REGISTER_PANELS>(int(to - from), weights, top, stride, out, count, first, share);
        else
            for (int p = 0; p < panels; ++p)
                block_of<WIDE, 1>(int(to - from), weights + p, top, stride, out + p * LANES, count, first, share);
    }
}

#if SPECTRA_FEW_ROWS
// So many rows take two panels at once: the sums of one would wait for themselves, and what is read of a row serves both.
// Where weights stay floats, more do not fit the registers.
#if SPECTRA_BF16_PRODUCTS
constexpr int SIDE_BY_SIDE = FEW;
#else
constexpr int SIDE_BY_SIDE = 4;
#endif

// The same as `add_pair` of weights not yet rounded, as `each_pair` gives them.
template <int R, int P>
INLINE void add_weights(const RowPointers<R, Element<false>>& x, const F16 (&low)[P], const F16 (&high)[P],
                        F16 (&sum)[R][P]) {
#if SPECTRA_AVX512_BF16
    I16 pair[P];
    UNROLL
    for (int p = 0; p < P; ++p) pair[p] = weights_to_bf16(low[p], high[p]);
    add_pair<R, P>(x, pair, sum);
#else
    F16 even[P], odd[P];
    UNROLL
    for (int p = 0; p < P; ++p) {
        const F16 first = weight_through_bf16(low[p]), second = weight_through_bf16(high[p]);
        even[p] = even_lanes(first, second), odd[p] = odd_lanes(first, second);
    }
    add_column<R, P>(x, 0, even, sum);
    add_column<R, P>(x, 1, odd, sum);
#endif
}

// Few rows, quantised weights: P panels go from their codes into the sums without a detour through memory.
template <int R, int P>
void few_rows(const Matrix& m, int64_t panel, const Element<false>* x, int64_t stride, float* sums,
              const uint8_t* then) {
    F16 sum[R][P];
    UNROLL
    for (int r = 0; r < R; ++r)
        UNROLL
        for (int p = 0; p < P; ++p) sum[r][p] = zero();
    each_pair<true, P>(m, panel, 0, m.inputs, ahead_of<P>(m, panel, then), [&](int64_t k, const F16 (&low)[P], const F16 (&high)[P]) {
        add_weights<R, P>(RowPointers<R, Element<false>>(x + k, stride), low, high, sum);
    });
    UNROLL
    for (int r = 0; r < R; ++r)
        UNROLL
        for (int p = 0; p < P; ++p) store(sums + (r * WIDTH + p) * LANES, sum[r][p]);
}

template <int P, int R>
INLINE void few_rows_of(int64_t rows, const Matrix& m, int64_t panel, const Element<false>* x, int64_t stride, float* sums,
                        const uint8_t* then) {
    if constexpr (R > 1)
        if (rows != R) return few_rows_of<P, R - 1>(rows, m, panel, x, stride, sums, then);
    few_rows<R, P>(m, panel, x, stride, sums, then);
}
#endif

// out(row, first output, 16 outputs) for all rows of x and the panels [from, to). x: [rows][stride], see `row_stride`, filled
// up with zeros to m.inputs, readable (any number) up to a multiple of 32 rows. then: what this thread reads next, which is
// fetched during the last panels; null: what lies behind them.
template <bool WIDE, class Out>
void product(const Matrix& m, const Element<WIDE>* x, int64_t stride, int64_t rows, int64_t from, int64_t to,
             ProductBuffers& buffers, Out out, const uint8_t* then = nullptr) {
    if (!rows) return;
#if SPECTRA_AMX
    if constexpr (!WIDE) {
        if (rows == 1) return product_of_row(m, x, from, to, buffers, out, then);
        tiles_on(rows);
    }
#endif
    const bool coded = !WIDE && m.quantised(), few = coded && rows <= FEW;
    for (int64_t n = from, next; n < to; n = next) {
        next = std::min(to, n / WIDTH * WIDTH + WIDTH);
        const int panels = int(next - n);
        const uint8_t* after = next == to ? then : nullptr;
#if SPECTRA_FEW_ROWS
        if constexpr (!WIDE)
            if (few && rows <= SIDE_BY_SIDE && panels == WIDTH)
                few_rows_of<WIDTH, SIDE_BY_SIDE>(rows, m, n, x, stride, buffers.sums.data(), after);
            else if (few)
                for (int p = 0; p < panels; ++p)
                    few_rows_of<1, FEW>(rows, m, n + p, x, stride, buffers.sums.data() + p * LANES, after);
#endif
        const int64_t deep = coded ? DEEP_UNPACKED : DEEP;
        const int64_t input_bytes = WIDE ? LANES * 4 : LANES * 2;
        const int64_t ahead = after ? after - m.panel(n) : std::min<int64_t>(panels * m.panel_bytes, 65536);
        for (int64_t k = 0; k < m.inputs && !few; k += deep) {
            const int64_t count = m.inputs - k < deep ? m.inputs - k : deep;
            const uint8_t* weights[WIDTH];
            for (int p = 0; p < panels; ++p) {
                weights[p] = m.panel(n + p) + k * input_bytes;
                if (!coded) continue;
                bf16* unpacked = buffers.unpacked.data() + p * DEEP_UNPACKED * LANES;
                unpack(m, n + p, k, k + count, ahead, unpacked);
                weights[p] = (const uint8_t*)unpacked;
            }
            rows_over<WIDE>(panels, weights, x + k, stride, rows, buffers.sums.data(), count, k == 0, coded ? 0 : ahead);
        }
        for (int p = 0; p < panels; ++p)
            for (int64_t r = 0; r < rows; ++r)
                hand_over(m, r, n + p, load(buffers.sums.data() + (r * WIDTH + p) * LANES), out);
    }
}

}  // namespace spectra
