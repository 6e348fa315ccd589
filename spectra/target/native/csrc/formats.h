// A packed matrix: panels of 16 outputs, whole inputs one after the other, so that a panel is read from front to back.
//
// F32   [panel][input][16] float
// BF16  [panel][input / 2][16][2] bf16: pairs of inputs, as bf16 dot products and AMX tiles take them
// BITS4 [panel][group] of {16 scales, 16 minimums, codes [input / 8][16 words of 8 codes]}
// BITS8 [panel][group] of {16 scales, 16 minimums, codes [input / 4][16 words of 4 codes]}
//
// Word i holds the codes of outputs i / 2 and 8 + i / 2 for inputs 8b + 2t + i % 2 (BITS8: 4b + 2t + i % 2): turned right by
// 8t bits it has them at bits 19 and 15 (BITS8: by 16t bits, at 15 and 7). So they come out as two registers in the order of
// a BF16 pair. Codes of 8 bits, -128 to 127, are held 128 higher. Inputs are filled up to a multiple of 32 with zeros,
// outputs to 16. A byte behind the last panel of BITS4 is read, and does not count.
#pragma once
#include "simd.h"

namespace spectra {

enum Format : int32_t { F32 = 0, BF16 = 1, BITS4 = 2, BITS8 = 3 };

constexpr int WIDTH = 2;  // panels a block

struct Matrix {
    const uint8_t* data;
    const float* bias;  // [16 * panels] or null
    int64_t panel_bytes;
    int32_t outputs, inputs, panels;  // inputs: filled up
    int32_t format;
    int32_t group;        // inputs that share a scale
    int32_t scale_bytes;  // 2: IEEE half, 4: float
    int32_t has_minimum;
    int32_t lifted;       // minimums less 16 and 256 times their scale are floats (8 bits: less 384 and 65664 times it)

    const uint8_t* panel(int64_t n) const { return data + n * panel_bytes; }
    bool quantised() const { return format >= BITS4; }
};

INLINE F16 load_scale(const uint8_t* p, int bytes) {
    return bytes == 2 ? load_half((const uint16_t*)p) : load((const float*)p);
}

// Weights of a group from their codes, outputs in the order of codes.
struct Line {
    F16 scale, minimum;

    F16 at(F16 codes) const { return fma(codes, scale, minimum); }
};
struct Group {
    Line low, high;  // outputs 0..7 and 8..15, each twice
};
INLINE Group load_group(const Matrix& m, const uint8_t* p) {
    const F16 scale = load_scale(p, m.scale_bytes);
    // without minimums -0.0 is added: it changes no number
    const F16 minimum = m.has_minimum ? load_scale(p + LANES * m.scale_bytes, m.scale_bytes) : set1(-0.0f);
    return {{twice_low(scale), twice_low(minimum)}, {twice_high(scale), twice_high(minimum)}};
}

// Codes of BITS are taken where they stand in a word, from bit AT on: these bits behind the exponent of 1 are the float
// 1 + code / STEP. LIFTED: this serves as the code, with a scale and a minimum for it.
template <int BITS, int AT, bool LIFTED>
class PlacedCodes {
    static constexpr int32_t MASK = ((1 << BITS) - 1) << AT, ONE = 0x3f800000;
    static constexpr float STEP = 1 << (23 - AT), ZERO = BITS == 8 ? 128 : 0;  // the code that stands for 0

  public:
    INLINE void serve(Line line) {
        line_ = LIFTED ? Line{line.scale * set1(STEP), fma(line.scale, set1(-STEP - ZERO), line.minimum)} : line;
    }
    INLINE F16 weights(I16 word) const {
        const F16 placed = number(insert(word, MASK, ONE));
        return line_.at(LIFTED ? placed : fma(placed, set1(STEP), set1(-STEP - ZERO)));
    }

  private:
    Line line_;
};

// Sixteen words turned right by t bytes, for odd t in bits 15 to 22: these stand in the words a byte further on or back, too,
// and a load is cheaper than a turn.
INLINE I16 turned_by_bytes(const uint8_t* words, int t) {
    return t == 0 ? load_int(words) : t == 1 ? load_int(words + 1) : t == 2 ? half_turned(load_int(words)) : load_int(words - 1);
}

template <bool NEAR>
INLINE void fetch(const void* p) {
    NEAR ? prefetch(p) : prefetch_far(p);
}

// take(input, low, high) for the pairs of inputs [k, end) of a group of P panels: the weights of 8 outputs each, the pair's
// two inputs by turns, not yet rounded. ahead: how many bytes further on memory is fetched, NEAR: into the nearest cache.
template <bool NEAR, int BITS, bool LIFTED, int P, class Take>
INLINE void pairs_of_bits(const Group (&group)[P], const uint8_t* const (&codes)[P], int64_t k, int64_t end, int64_t ahead,
                          Take take) {
    constexpr int PAIRS = 16 / BITS;  // whose codes fill a line
    PlacedCodes<BITS, 23 - BITS, LIFTED> low_codes[P];
    PlacedCodes<BITS, 23 - 2 * BITS, LIFTED> high_codes[P];
    UNROLL
    for (int p = 0; p < P; ++p) low_codes[p].serve(group[p].low), high_codes[p].serve(group[p].high);
    for (int64_t at = 0; k < end; k += 2 * PAIRS, at += 64) {
        UNROLL
        for (int p = 0; p < P; ++p) fetch<NEAR>(codes[p] + at + ahead);
        UNROLL
        for (int pair = 0; pair < PAIRS; ++pair) {
            F16 low[P], high[P];
            UNROLL
            for (int p = 0; p < P; ++p) {
                const I16 word = turned_by_bytes(codes[p] + at, pair * BITS / 4);
                low[p] = low_codes[p].weights(word), high[p] = high_codes[p].weights(word);
            }
            take(k + 2 * pair, low, high);
        }
    }
}

// The pairs of inputs in [from, to) of P panels. from and to: multiples of 16, of 32 for 4 bits.
template <bool NEAR, int P, class Take>
INLINE void each_pair(const Matrix& m, int64_t panel, int64_t from, int64_t to, int64_t ahead, Take take) {
    const int64_t header = LANES * m.scale_bytes * (1 + m.has_minimum);
    const int64_t step = m.format == BITS4 ? LANES / 2 : LANES;  // bytes of codes an input
    const int64_t block = header + m.group * step;
    const int64_t first = from / m.group;
    const uint8_t* place[P];
    UNROLL
    for (int p = 0; p < P; ++p) place[p] = m.panel(panel + p) + first * block;
    for (int64_t k = from, start = first * m.group; k < to;) {
        Group group[P];
        const uint8_t* codes[P];
        UNROLL
        for (int p = 0; p < P; ++p) {
            fetch<NEAR>(place[p] + ahead);
            group[p] = load_group(m, place[p]);
            codes[p] = place[p] + header + (k - start) * step;
            place[p] += block;
        }
        start += m.group;
        const int64_t end = start < to ? start : to;
        if (m.format == BITS4 && m.lifted)
            pairs_of_bits<NEAR, 4, true, P>(group, codes, k, end, ahead, take);
        else if (m.format == BITS4)
            pairs_of_bits<NEAR, 4, false, P>(group, codes, k, end, ahead, take);
        else if (m.lifted)
            pairs_of_bits<NEAR, 8, true, P>(group, codes, k, end, ahead, take);
        else
            pairs_of_bits<NEAR, 8, false, P>(group, codes, k, end, ahead, take);
        k = end;
    }
}

// The same as bf16 pairs [(to - from) / 2][16][2] of each panel, `apart` numbers from one panel to the next.
template <int P>
inline void unpack(const Matrix& m, int64_t panel, int64_t from, int64_t to, int64_t ahead, bf16* out, int64_t apart) {
    each_pair<false, P>(m, panel, from, to, ahead, [=](int64_t k, const F16 (&low)[P], const F16 (&high)[P]) {
        UNROLL
        for (int p = 0; p < P; ++p) store_weights(out + p * apart + (k - from) * LANES, low[p], high[p]);
    });
}

}  // namespace spectra
