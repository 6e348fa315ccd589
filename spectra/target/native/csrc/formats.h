// A packed matrix: panels of 16 outputs, whole inputs one after the other, so that a panel is read from front to back.
//
// F32   [panel][input][16] float
// BF16  [panel][input / 2][16][2] bf16: pairs of inputs, as bf16 dot products and AMX tiles take them
// BITS4 [panel][group] of {16 scales, 16 minimums, codes [input / 8][16 words of 8 codes]}
// BITS8 [panel][group] of {16 scales, 16 minimums, codes [input / 2][32] int8}
//
// Word i of BITS4 holds in its bits 4 (2t + h) the code of output 8h + i / 2 and input 8b + 2t + i % 2: codes come out
// as two registers (h) in the order of a BF16 pair. Inputs are filled up to a multiple of 32 with zeros, outputs to 16.
#pragma once
#include "simd.h"

namespace spectra {

enum Format : int32_t { F32 = 0, BF16 = 1, BITS4 = 2, BITS8 = 3 };

struct Matrix {
    const uint8_t* data;
    const float* bias;  // [16 * panels] or null
    int64_t panel_bytes;
    int32_t outputs, inputs, panels;  // inputs: filled up
    int32_t format;
    int32_t group;        // inputs that share a scale
    int32_t scale_bytes;  // 2: IEEE half, 4: float
    int32_t has_minimum;

    const uint8_t* panel(int64_t n) const { return data + n * panel_bytes; }
    bool quantised() const { return format >= BITS4; }
};

INLINE F16 load_scale(const uint8_t* p, int bytes) {
    return bytes == 2 ? load_half((const uint16_t*)p) : load((const float*)p);
}

struct Spread {  // a group's 16 numbers in the order of codes
    F16 low, high;
};
INLINE Spread spread(F16 x) { return {twice_low(x), twice_high(x)}; }

// A code is taken where it stands in its word: at bit 4 * PLACE it counts 16^PLACE times, and its scale so much less.
template <int PLACE>
INLINE F16 code(I16 word) {
    return masked(word, 15 << (4 * PLACE));
}

struct Scales4 {
    F16 low0, high1, low2, high3, low4, high2, low3, high4;  // by half and place

    explicit Scales4(const Spread& s)
        : low0(s.low), high1(s.high * set1(0x1p-4f)), low2(s.low * set1(0x1p-8f)), high3(s.high * set1(0x1p-12f)),
          low4(s.low * set1(0x1p-16f)), high2(s.high * set1(0x1p-8f)), low3(s.low * set1(0x1p-12f)),
          high4(s.high * set1(0x1p-16f)) {}
};

// take(input, low, high) for the pairs of inputs in [from, to) of a panel: two registers that rounded to bf16 are a BF16
// pair. from and to: multiples of 16, of 32 for 4 bits. ahead: how many bytes further on memory is fetched,
// NEAR: into the nearest cache.
template <bool NEAR, class Take>
INLINE void each_pair(const Matrix& m, int64_t panel, int64_t from, int64_t to, int64_t ahead, Take take) {
    const int64_t header = LANES * m.scale_bytes * (1 + m.has_minimum);
    const int64_t step = m.format == BITS4 ? LANES / 2 : LANES;  // bytes of codes an input
    const int64_t block = header + m.group * step;
    const uint8_t* base = m.panel(panel);
    const int64_t first = from / m.group;
    const uint8_t* p = base + first * block;
    for (int64_t k = from, start = first * m.group; k < to; p += block, start += m.group) {
        const int64_t end = start + m.group < to ? start + m.group : to;
        NEAR ? prefetch(p + ahead) : prefetch_far(p + ahead);
        // without minimums -0.0 is added: it changes no number
        const Spread scale = spread(load_scale(p, m.scale_bytes));
        const Spread minimum =
            m.has_minimum ? spread(load_scale(p + LANES * m.scale_bytes, m.scale_bytes)) : spread(set1(-0.0f));
        const F16 low = minimum.low, high = minimum.high;
        const uint8_t* codes = p + header + (k - start) * step;
        if (m.format == BITS4) {
            const Scales4 s(scale);
            for (; k < end; k += 8, codes += 64) {
                NEAR ? prefetch(codes + ahead) : prefetch_far(codes + ahead);
                const I16 word = load_int(codes), rest = word >> 12;  // codes 5 to 7 at places 2 to 4
                take(k, fma(code<0>(word), s.low0, low), fma(code<1>(word), s.high1, high));
                take(k + 2, fma(code<2>(word), s.low2, low), fma(code<3>(word), s.high3, high));
                take(k + 4, fma(code<4>(word), s.low4, low), fma(code<2>(rest), s.high2, high));
                take(k + 6, fma(code<3>(rest), s.low3, low), fma(code<4>(rest), s.high4, high));
            }
        } else {
            for (; k < end; k += 2, codes += 32) {
                NEAR ? prefetch(codes + ahead) : prefetch_far(codes + ahead);
                const int8_t* eight = (const int8_t*)codes;
                take(k, fma(load_int8(eight), scale.low, low), fma(load_int8(eight + LANES), scale.high, high));
            }
        }
    }
}

// The same as bf16 pairs [(to - from) / 2][16][2].
inline void unpack(const Matrix& m, int64_t panel, int64_t from, int64_t to, int64_t ahead, bf16* out) {
    each_pair<false>(m, panel, from, to, ahead,
              [=](int64_t k, F16 low, F16 high) { store_bf16(out + (k - from) * LANES, low, high); });
}

}  // namespace spectra
