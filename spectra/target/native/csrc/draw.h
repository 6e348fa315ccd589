// A draw with keyed noise: the token of the largest score less the log of its noise, see spectra/verify/noise.py.
#pragma once
#include <limits>

#include "simd.h"

namespace spectra {

// ln x of normal numbers, relative error below 2e-7: x = 2^n m with m around 1, ln m a polynomial (Cephes' logf).
INLINE F16 log(F16 x) {
    const I16 root = set1_int(0x3f3504f3);  // sqrt(1/2)
    const I16 above = bits(x) - root;
    const F16 n = masked((above + set1_int(0x3f800000)) >> 23, 0x1ff) - set1(127.0f);
    const F16 m = number((above & set1_int(0x7fffff)) + root) - set1(1.0f);
    const F16 z = m * m;
    F16 p = set1(7.0376836292e-2f);
    p = fma(p, m, set1(-1.1514610310e-1f));
    p = fma(p, m, set1(1.1676998740e-1f));
    p = fma(p, m, set1(-1.2420140846e-1f));
    p = fma(p, m, set1(1.4249322787e-1f));
    p = fma(p, m, set1(-1.6668057665e-1f));
    p = fma(p, m, set1(2.0000714765e-1f));
    p = fma(p, m, set1(-2.4999993993e-1f));
    p = fma(p, m, set1(3.3333331174e-1f));
    p = fma(n, set1(-2.12194440e-4f), p * m * z);
    return fma(n, set1(0.693359375f), m + fma(z, set1(-0.5f), p));
}

// MurmurHash3's finalizer (Appleby, 2011).
INLINE I16 mixed(I16 word) {
    word = (word ^ (word >> 16)) * set1_int(int32_t(0x85ebca6b));
    word = (word ^ (word >> 13)) * set1_int(int32_t(0xc2b2ae35));
    return word ^ (word >> 16);
}

// Numbers between 0 and 1 of sixteen tokens.
INLINE F16 uniform(I16 tokens, I16 first, I16 second) {
    const I16 word = mixed(mixed(tokens * set1_int(int32_t(0x9e3779b9)) + first) + second);
    const F16 u = (masked(word, 0x7fffffff) + set1(0.5f)) * set1(0x1p-31f);
    return min(u, set1(1.0f - 0x1p-24f));
}

// ln of the Exp(1) noise that they give: ln -ln(1 - u).
INLINE F16 log_noise(F16 u) {
    const F16 rest = set1(1.0f) - u;
    const F16 lost = rest - set1(1.0f) + u;  // by the rounding of `rest`
    return log(lost / rest - log(rest));
}

// Never below -log_noise, without a logarithm: the noise is at least u, and u at least the power of two that begins it.
INLINE F16 most_of_minus_log_noise(F16 u) {
    constexpr float LN2 = 0.693147181f, ROUNDING = 1e-3f;
    return fma(masked(bits(u) >> 23, 0xff), set1(-LN2), set1(127 * LN2 + ROUNDING));
}

// The lowest token with the largest score less log noise; -1 where a score is no number.
inline int64_t draw(const float* scores, int64_t count, uint32_t first, uint32_t second) {
    const I16 one = set1_int(int32_t(first)), other = set1_int(int32_t(second));
    float best = -std::numeric_limits<float>::infinity(), last[LANES], drawn[LANES];
    int64_t token = 0;
    for (int64_t at = 0; at < count; at += LANES) {
        const float* from = scores + at;
        if (at + LANES > count) {
            for (int lane = 0; lane < LANES; ++lane)
                last[lane] = at + lane < count ? from[lane] : -std::numeric_limits<float>::infinity();
            from = last;
        }
        const F16 score = load(from);
        if (any_nan(score)) return -1;
        const F16 u = uniform(counting(int32_t(at)), one, other);
        if (!any_above(score + most_of_minus_log_noise(u), best)) continue;
        const F16 value = score - log_noise(u);
        if (!any_above(value, best)) continue;
        store(drawn, value);
        for (int lane = 0; lane < LANES; ++lane)
            if (drawn[lane] > best) best = drawn[lane], token = at + lane;
    }
    return token;
}

}  // namespace spectra
