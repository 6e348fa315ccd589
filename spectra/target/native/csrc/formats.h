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

INLINE void store_pair(bf16* out, F16 low, F16 high, const Spread& scale, const Spread& minimum) {
    store_bf16(out, fma(low, scale.low, minimum.low), fma(high, scale.high, minimum.high));
}

constexpr int64_t AHEAD = 4096;  // bytes that quantised weights are fetched ahead

// Eight inputs of 16 outputs from 64 bytes of codes.
INLINE void unpack4(const uint8_t* codes, const Spread& scale, const Spread& minimum, bf16* out) {
    I16 word = load_int(codes);
    store_pair(out, nibble<0>(word), nibble<1>(word), scale, minimum);
    store_pair(out + 32, nibble<2>(word), nibble<3>(word), scale, minimum);
    store_pair(out + 64, nibble<4>(word), nibble<5>(word), scale, minimum);
    store_pair(out + 96, nibble<6>(word), nibble<7>(word), scale, minimum);
}

// Inputs [from, to) of a panel as bf16 pairs [(to - from) / 2][16][2]. from and to: multiples of 16, of 32 for 4 bits.
inline void unpack(const Matrix& m, int64_t panel, int64_t from, int64_t to, bf16* out) {
    const int64_t header = LANES * m.scale_bytes * (1 + m.has_minimum);
    const int64_t step = m.format == BITS4 ? LANES / 2 : LANES;  // bytes of codes an input
    const int64_t block = header + m.group * step;
    const uint8_t* base = m.panel(panel);
    for (int64_t k = from; k < to;) {
        const int64_t g = k / m.group, end = (g + 1) * m.group < to ? (g + 1) * m.group : to;
        const uint8_t* p = base + g * block;
        // without minimums -0.0 is added: it changes no number
        const Spread scale = spread(load_scale(p, m.scale_bytes));
        const Spread minimum =
            m.has_minimum ? spread(load_scale(p + LANES * m.scale_bytes, m.scale_bytes)) : spread(set1(-0.0f));
        const uint8_t* codes = p + header + (k - g * m.group) * step;
        if (m.format == BITS4) {
            for (; k < end; k += 8, codes += 64, out += 128) {
                prefetch(codes + AHEAD);
                unpack4(codes, scale, minimum, out);
            }
        } else {
            for (; k < end; k += 2, codes += 32, out += 32) {
                prefetch(codes + AHEAD);
                store_pair(out, load_int8((const int8_t*)codes), load_int8((const int8_t*)codes + 16), scale, minimum);
            }
        }
    }
}

}  // namespace spectra
