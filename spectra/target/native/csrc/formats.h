// A packed matrix: panels of 16 outputs, whole inputs one after the other, so that a panel is read from front to back.
//
// F32   [panel][input][16] float
// BF16  [panel][input / 2][16][2] bf16: pairs of inputs, as bf16 dot products and AMX tiles take them
// BITS4 [panel][group] of {16 scales, 16 minimums, codes [input / 8][16 words of 8 codes]}
// BITS8 [panel][group] of {16 scales, 16 minimums, codes [input / 4][16 words of 4 codes]}
//
// Word i holds the codes of outputs i / 2 and 8 + i / 2 for inputs 8b + 2t + i % 2 (BITS8: 4b + 2t + i % 2): turned right by
// 8t bits it has them at bits 0 and 12 (BITS8: by 16t bits, at 15 and 7). So they come out as two registers in the order of
// a BF16 pair. Codes of 8 bits, -128 to 127, are held 128 higher. Inputs are filled up to a multiple of 32 with zeros,
// outputs to 16. Two bytes behind the last panel of BITS4 are read, and do not count.
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
    int32_t lifted;       // minimums less 2048 times their scale are floats (8 bits: less 384 and 65664 times it)

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

// Codes of 4 bits at bit 0 of a word.
class LowCodes {
  public:
    INLINE void serve(Line line) { line_ = line; }
    INLINE F16 weights(I16 word) const { return line_.at(low_four_bits(word)); }

  private:
    Line line_;
};

// Codes of BITS are taken where they stand in a word, from bit AT on: these bits behind an EXPONENT are the float
// 2^EXPONENT + code. LIFTED: this serves as the code, with a minimum for it.
template <int BITS, int AT, bool LIFTED>
class PlacedCodes {
    static constexpr int EXPONENT = 23 - AT;
    static constexpr int32_t MASK = ((1 << BITS) - 1) << AT, BASE = (127 + EXPONENT) << 23;
    static constexpr float ZERO = (1 << EXPONENT) + (BITS == 8 ? 128 : 0);  // what stands for 0

  public:
    INLINE void serve(Line line) {
        line_ = LIFTED ? Line{line.scale, fma(line.scale, set1(-ZERO), line.minimum)} : line;
    }
    INLINE F16 weights(I16 word) const {
        const F16 placed = number(insert(word, MASK, BASE));
        return line_.at(LIFTED ? placed : placed - set1(ZERO));
    }

  private:
    Line line_;
};

// Where the two codes of a word stand.
template <int BITS, bool LIFTED>
struct Places {
    LowCodes low;
    PlacedCodes<4, 12, LIFTED> high;
};
template <bool LIFTED>
struct Places<8, LIFTED> {
    PlacedCodes<8, 15, LIFTED> low;
    PlacedCodes<8, 7, LIFTED> high;
};

// Sixteen words turned right to the codes of a pair, the others of a word anywhere. For 4 bits these stand in the words one
// and two bytes further on, too, and a load is cheaper than a turn.
template <int BITS>
INLINE I16 turned_to(const uint8_t* words, int pair) {
    if (BITS == 8) return pair ? turned_right<16>(load_int(words)) : load_int(words);
    return pair < 3 ? load_int(words + pair) : turned_right<24>(load_int(words));
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
    Places<BITS, LIFTED> places[P];
    UNROLL
    for (int p = 0; p < P; ++p) places[p].low.serve(group[p].low), places[p].high.serve(group[p].high);
    for (int64_t at = 0; k < end; k += 2 * PAIRS, at += 64) {
        UNROLL
        for (int p = 0; p < P; ++p) fetch<NEAR>(codes[p] + at + ahead);
        UNROLL
        for (int pair = 0; pair < PAIRS; ++pair) {
            F16 low[P], high[P];
            UNROLL
            for (int p = 0; p < P; ++p) {
                const I16 word = turned_to<BITS>(codes[p] + at, pair);
                low[p] = places[p].low.weights(word), high[p] = places[p].high.weights(word);
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

// The same as bf16 pairs [(to - from) / 2][16][2] of one panel.
inline void unpack(const Matrix& m, int64_t panel, int64_t from, int64_t to, int64_t ahead, bf16* out) {
    each_pair<false, 1>(m, panel, from, to, ahead, [=](int64_t k, const F16 (&low)[1], const F16 (&high)[1]) {
        store_weights(out + (k - from) * LANES, low[0], high[0]);
    });
}

}  // namespace spectra
