// Sixteen floats at a time, the same functions for every instruction set. Nothing here depends on how many rows there are.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#if defined(SPECTRA_AVX512_BF16)
#define SPECTRA_AVX512 1
#endif

#define INLINE inline __attribute__((always_inline))
// Before a loop over registers, whose count is known: registers cannot be indexed.
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

namespace spectra {

using bf16 = uint16_t;
constexpr int LANES = 16;

#if SPECTRA_AVX512

struct F16 {
    __m512 v;
};
struct I16 {
    __m512i v;
};

INLINE F16 zero() { return {_mm512_setzero_ps()}; }
INLINE F16 set1(float x) { return {_mm512_set1_ps(x)}; }
INLINE F16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
INLINE void store(float* p, F16 a) { _mm512_storeu_ps(p, a.v); }
INLINE F16 operator+(F16 a, F16 b) { return {_mm512_add_ps(a.v, b.v)}; }
INLINE F16 operator-(F16 a, F16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
INLINE F16 operator*(F16 a, F16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
INLINE F16 operator/(F16 a, F16 b) { return {_mm512_div_ps(a.v, b.v)}; }
INLINE F16 fma(F16 a, F16 b, F16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
INLINE F16 fused_minus(F16 a, F16 b, F16 c) { return {_mm512_fmsub_ps(a.v, b.v, c.v)}; }
INLINE F16 max(F16 a, F16 b) { return {_mm512_max_ps(a.v, b.v)}; }
INLINE F16 min(F16 a, F16 b) { return {_mm512_min_ps(a.v, b.v)}; }
INLINE F16 nearest(F16 a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
INLINE I16 to_int(F16 a) { return {_mm512_cvtps_epi32(a.v)}; }
INLINE F16 power_of_two(I16 n) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n.v, _mm512_set1_epi32(127)), 23))};
}
// Lanes from `first` to before `end` of a, the others of b.
INLINE F16 between(int first, int end, F16 a, F16 b) {
    __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __mmask16 live = _mm512_cmpge_epi32_mask(lane, _mm512_set1_epi32(first)) &
                     _mm512_cmplt_epi32_mask(lane, _mm512_set1_epi32(end));
    return {_mm512_mask_blend_ps(live, b.v, a.v)};
}
INLINE __m256 low_half(F16 a) { return _mm512_castps512_ps256(a.v); }
INLINE __m256 high_half(F16 a) { return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a.v), 1)); }

INLINE I16 load_int(const void* p) { return {_mm512_loadu_si512(p)}; }
INLINE F16 bf16_pairs_even(I16 a) { return {_mm512_castsi512_ps(_mm512_slli_epi32(a.v, 16))}; }
INLINE F16 bf16_pairs_odd(I16 a) {
    return {_mm512_castsi512_ps(_mm512_and_si512(a.v, _mm512_set1_epi32(int(0xffff0000))))};
}
INLINE F16 load_bf16(const bf16* p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
INLINE F16 load_half(const uint16_t* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p))}; }
INLINE I16 operator>>(I16 a, int bits) { return {_mm512_srli_epi32(a.v, unsigned(bits))}; }
INLINE I16 set1_int(int32_t x) { return {_mm512_set1_epi32(x)}; }
// first, first + 1, ...
INLINE I16 counting(int32_t first) {
    __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return {_mm512_add_epi32(lane, _mm512_set1_epi32(first))};
}
INLINE I16 operator+(I16 a, I16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
INLINE I16 operator-(I16 a, I16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
INLINE I16 operator*(I16 a, I16 b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
INLINE I16 operator&(I16 a, I16 b) { return {_mm512_and_si512(a.v, b.v)}; }
INLINE I16 operator^(I16 a, I16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
INLINE I16 bits(F16 a) { return {_mm512_castps_si512(a.v)}; }
INLINE F16 number(I16 a) { return {_mm512_castsi512_ps(a.v)}; }
INLINE bool any_nan(F16 a) { return _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q) != 0; }
INLINE bool any_above(F16 a, float least) { return _mm512_cmp_ps_mask(a.v, _mm512_set1_ps(least), _CMP_GT_OQ) != 0; }
// The bits of each lane that the mask has, as a number.
INLINE F16 masked(I16 a, int32_t mask) {
    return {_mm512_cvtepi32_ps(_mm512_and_si512(a.v, _mm512_set1_epi32(mask)))};
}
// The bits of each lane that the mask has, together with these.
INLINE I16 insert(I16 a, int32_t mask, int32_t bits) {
    return {_mm512_ternarylogic_epi32(a.v, _mm512_set1_epi32(mask), _mm512_set1_epi32(bits), 0xea)};
}
// The number that the lowest four bits of each lane are.
INLINE F16 low_four_bits(I16 a) {
    return {_mm512_permutexvar_ps(a.v, _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0))};
}
template <int BITS>
INLINE I16 turned_right(I16 a) {
    return {_mm512_ror_epi32(a.v, BITS)};
}
INLINE F16 set1_pair(const float* p) {
    double both;
    std::memcpy(&both, p, sizeof both);
    return {_mm512_castpd_ps(_mm512_set1_pd(both))};
}
INLINE F16 even_lanes(F16 a, F16 b) {
    const __m512i which = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    return {_mm512_permutex2var_ps(a.v, which, b.v)};
}
INLINE F16 odd_lanes(F16 a, F16 b) {
    const __m512i which = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return {_mm512_permutex2var_ps(a.v, which, b.v)};
}
// Lanes 0..7, or 8..15, each twice.
INLINE F16 twice_low(F16 a) {
    return {_mm512_permutexvar_ps(_mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0), a.v)};
}
INLINE F16 twice_high(F16 a) {
    return {_mm512_permutexvar_ps(_mm512_set_epi32(15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 10, 9, 9, 8, 8), a.v)};
}

// Lane j of columns[i]: word i of row j, rows being `stride` numbers apart. From row `rows` on: the last one's again.
template <int WORDS, class T>
INLINE void load_columns(const T* first, int64_t stride, int64_t rows, F16 (&columns)[WORDS]) {
    const T* row[LANES];
    UNROLL
    for (int j = 0; j < LANES; ++j) row[j] = first + (j < rows ? j : rows - 1) * stride;
    UNROLL
    for (int i = 0; i < WORDS; i += 4) {
        F16 four[4];  // words i to i + 3 of rows j, j + 4, j + 8, j + 12
        UNROLL
        for (int j = 0; j < 4; ++j) {
            const auto part = [&](int lane) { return _mm_loadu_ps((const float*)row[j + 4 * lane] + i); };
            four[j].v = _mm512_castps128_ps512(part(0));
            four[j].v = _mm512_insertf32x4(four[j].v, part(1), 1);
            four[j].v = _mm512_insertf32x4(four[j].v, part(2), 2);
            four[j].v = _mm512_insertf32x4(four[j].v, part(3), 3);
        }
        const __m512d low = _mm512_castps_pd(_mm512_unpacklo_ps(four[0].v, four[1].v));
        const __m512d high = _mm512_castps_pd(_mm512_unpackhi_ps(four[0].v, four[1].v));
        const __m512d low_below = _mm512_castps_pd(_mm512_unpacklo_ps(four[2].v, four[3].v));
        const __m512d high_below = _mm512_castps_pd(_mm512_unpackhi_ps(four[2].v, four[3].v));
        columns[i].v = _mm512_castpd_ps(_mm512_unpacklo_pd(low, low_below));
        columns[i + 1].v = _mm512_castpd_ps(_mm512_unpackhi_pd(low, low_below));
        columns[i + 2].v = _mm512_castpd_ps(_mm512_unpacklo_pd(high, high_below));
        columns[i + 3].v = _mm512_castpd_ps(_mm512_unpackhi_pd(high, high_below));
    }
}

INLINE __m512i round_bf16(F16 a) {  // to nearest, ties to even, in the high half
    __m512i bits = _mm512_castps_si512(a.v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
}
INLINE F16 through_bf16(F16 a) {
    return {_mm512_castsi512_ps(_mm512_and_si512(round_bf16(a), _mm512_set1_epi32(int(0xffff0000))))};
}
#if SPECTRA_AVX512_BF16
INLINE void store_bf16(bf16* p, F16 a) { _mm256_storeu_si256((__m256i*)p, (__m256i)_mm512_cvtneps_pbh(a.v)); }
#else
INLINE void store_bf16(bf16* p, F16 a) {
    _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(round_bf16(a), 16)));
}
#endif

#else  // AVX2

struct F16 {
    __m256 a, b;
};
struct I16 {
    __m256i a, b;
};

INLINE F16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
INLINE F16 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
INLINE F16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
INLINE void store(float* p, F16 x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
INLINE F16 operator+(F16 x, F16 y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
INLINE F16 operator-(F16 x, F16 y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
INLINE F16 operator*(F16 x, F16 y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
INLINE F16 operator/(F16 x, F16 y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
INLINE F16 fma(F16 x, F16 y, F16 z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
INLINE F16 fused_minus(F16 x, F16 y, F16 z) { return {_mm256_fmsub_ps(x.a, y.a, z.a), _mm256_fmsub_ps(x.b, y.b, z.b)}; }
INLINE F16 max(F16 x, F16 y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
INLINE F16 min(F16 x, F16 y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
INLINE F16 nearest(F16 x) {
    constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.a, mode), _mm256_round_ps(x.b, mode)};
}
INLINE I16 to_int(F16 x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
INLINE __m256 power_of_two(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
INLINE F16 power_of_two(I16 n) { return {power_of_two(n.a), power_of_two(n.b)}; }
INLINE __m256 between(int first, int end, __m256 x, __m256 y) {
    __m256i lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    __m256i live = _mm256_and_si256(_mm256_cmpgt_epi32(lane, _mm256_set1_epi32(first - 1)),
                                    _mm256_cmpgt_epi32(_mm256_set1_epi32(end), lane));
    return _mm256_blendv_ps(y, x, _mm256_castsi256_ps(live));
}
INLINE F16 between(int first, int end, F16 x, F16 y) {
    return {between(first, end, x.a, y.a), between(first - 8, end - 8, x.b, y.b)};
}
INLINE __m256 low_half(F16 x) { return x.a; }
INLINE __m256 high_half(F16 x) { return x.b; }

INLINE I16 load_int(const void* p) {
    return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)p + 1)};
}
INLINE F16 bf16_pairs_even(I16 x) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(x.a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(x.b, 16))};
}
INLINE F16 bf16_pairs_odd(I16 x) {
    __m256i high = _mm256_set1_epi32(int(0xffff0000));
    return {_mm256_castsi256_ps(_mm256_and_si256(x.a, high)), _mm256_castsi256_ps(_mm256_and_si256(x.b, high))};
}
INLINE __m256 widen_bf16(const bf16* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16));
}
INLINE F16 load_bf16(const bf16* p) { return {widen_bf16(p), widen_bf16(p + 8)}; }
INLINE F16 load_half(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)),
            _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p + 1))};
}
INLINE I16 operator>>(I16 x, int bits) { return {_mm256_srli_epi32(x.a, bits), _mm256_srli_epi32(x.b, bits)}; }
INLINE I16 set1_int(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
// first, first + 1, ...
INLINE I16 counting(int32_t first) {
    __m256i lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    return {_mm256_add_epi32(lane, _mm256_set1_epi32(first)), _mm256_add_epi32(lane, _mm256_set1_epi32(first + 8))};
}
INLINE I16 operator+(I16 x, I16 y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
INLINE I16 operator-(I16 x, I16 y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
INLINE I16 operator*(I16 x, I16 y) { return {_mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b)}; }
INLINE I16 operator&(I16 x, I16 y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
INLINE I16 operator^(I16 x, I16 y) { return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)}; }
INLINE I16 bits(F16 x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
INLINE F16 number(I16 x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
INLINE bool any_nan(F16 x) {
    return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q), _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q)));
}
INLINE bool any_above(F16 x, float least) {
    const __m256 all = _mm256_set1_ps(least);
    return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(x.a, all, _CMP_GT_OQ), _mm256_cmp_ps(x.b, all, _CMP_GT_OQ)));
}
INLINE F16 masked(I16 x, int32_t mask) {
    __m256i all = _mm256_set1_epi32(mask);
    return {_mm256_cvtepi32_ps(_mm256_and_si256(x.a, all)), _mm256_cvtepi32_ps(_mm256_and_si256(x.b, all))};
}
INLINE __m256i insert(__m256i x, int32_t mask, int32_t bits) {
    return _mm256_or_si256(_mm256_and_si256(x, _mm256_set1_epi32(mask)), _mm256_set1_epi32(bits));
}
INLINE I16 insert(I16 x, int32_t mask, int32_t bits) { return {insert(x.a, mask, bits), insert(x.b, mask, bits)}; }
INLINE F16 low_four_bits(I16 x) { return masked(x, 15); }
template <int BITS>
INLINE __m256i turned_right(__m256i x) {  // whole bytes
    constexpr int64_t first = 0x0706050403020100, from = BITS / 8 * 0x0101010101010101;
    constexpr int64_t low = (first + from & 0x0303030303030303) | first & 0x0404040404040404;
    return _mm256_shuffle_epi8(x, _mm256_set_epi64x(low + 0x0808080808080808, low, low + 0x0808080808080808, low));
}
template <int BITS>
INLINE I16 turned_right(I16 x) {
    return {turned_right<BITS>(x.a), turned_right<BITS>(x.b)};
}
INLINE F16 twice(__m256 x) {
    return {_mm256_permutevar8x32_ps(x, _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0)),
            _mm256_permutevar8x32_ps(x, _mm256_set_epi32(7, 7, 6, 6, 5, 5, 4, 4))};
}
INLINE F16 twice_low(F16 x) { return twice(x.a); }
INLINE F16 twice_high(F16 x) { return twice(x.b); }
INLINE __m256i round_bf16(__m256 x) {  // to nearest, ties to even, in the high half
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
}
INLINE void store_high_halves(bf16* p, I16 x) {
    __m256i both = _mm256_packus_epi32(_mm256_srli_epi32(x.a, 16), _mm256_srli_epi32(x.b, 16));
    _mm256_storeu_si256((__m256i*)p, _mm256_permute4x64_epi64(both, 0xd8));
}
INLINE void store_bf16(bf16* p, F16 x) { store_high_halves(p, {round_bf16(x.a), round_bf16(x.b)}); }
INLINE F16 through_bf16(F16 x) {
    __m256i high = _mm256_set1_epi32(int(0xffff0000));
    return {_mm256_castsi256_ps(_mm256_and_si256(round_bf16(x.a), high)),
            _mm256_castsi256_ps(_mm256_and_si256(round_bf16(x.b), high))};
}
#endif

// A weight to the nearest bf16, ties to even: 65535 times it is rounded by what it has too much. For 0 and what lies
// between 2^-126 and 2^111.
INLINE F16 weight_through_bf16(F16 a) {
    const F16 far = set1(65536.0f);
    return fused_minus(a, far, fused_minus(a, far, a));
}
#if SPECTRA_AVX512
INLINE I16 weights_to_bf16(F16 low, F16 high) {
#if SPECTRA_AVX512_BF16
    return {(__m512i)_mm512_cvtne2ps_pbh(high.v, low.v)};
#else
    const __m512i odd_words = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33,  //
                                               31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return {_mm512_permutex2var_epi16(bits(weight_through_bf16(low)).v, odd_words, bits(weight_through_bf16(high)).v)};
#endif
}
INLINE void store_weights(bf16* p, F16 low, F16 high) { _mm512_storeu_si512(p, weights_to_bf16(low, high).v); }
#else
INLINE void store_weights(bf16* p, F16 low, F16 high) {
    store_high_halves(p, bits(weight_through_bf16(low)));
    store_high_halves(p + LANES, bits(weight_through_bf16(high)));
}
#endif

INLINE float to_float(bf16 x) {
    uint32_t bits = uint32_t(x) << 16;
    float out;
    std::memcpy(&out, &bits, sizeof out);
    return out;
}
INLINE float to_float(float x) { return x; }
INLINE F16 load(const bf16* p) { return load_bf16(p); }

// The sum of the lanes: halves are added to each other until one number is left.
INLINE float sum_lanes(F16 a) {
    __m256 eight = _mm256_add_ps(low_half(a), high_half(a));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
INLINE float max_lanes(F16 a) {
    __m256 eight = _mm256_max_ps(low_half(a), high_half(a));
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
INLINE float first_lane(F16 a) { return _mm256_cvtss_f32(low_half(a)); }

// e^x for x in [-87, 88] (values outside are moved to its ends), relative error below 2e-7: x = n ln 2 + r,
// 2^n times a polynomial in r (Cephes' expf). What is no number stays none: max and min give their second argument then.
INLINE F16 exp(F16 x) {
    x = min(set1(88.0f), max(set1(-87.0f), x));
    F16 n = nearest(x * set1(1.44269504f));
    F16 r = fma(n, set1(2.12194440e-4f), fma(n, set1(-0.693359375f), x));
    F16 p = set1(1.9875691500e-4f);
    p = fma(p, r, set1(1.3981999507e-3f));
    p = fma(p, r, set1(8.3334519073e-3f));
    p = fma(p, r, set1(4.1665795894e-2f));
    p = fma(p, r, set1(1.6666665459e-1f));
    p = fma(p, r, set1(5.0000001201e-1f));
    p = fma(p, r * r, r + set1(1.0f));
    return p * power_of_two(to_int(n));
}

INLINE void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T0); }
INLINE void prefetch_far(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T1); }

constexpr int64_t rounded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// A vector that begins with a cache line: registers and tiles that lie across two take twice the time.
template <class T>
struct LineAllocator {
    using value_type = T;
    static constexpr std::align_val_t LINE{64};

    LineAllocator() = default;
    template <class U>
    LineAllocator(const LineAllocator<U>&) {}
    T* allocate(size_t n) { return (T*)::operator new(n * sizeof(T), LINE); }
    void deallocate(T* p, size_t) { ::operator delete(p, LINE); }
    bool operator==(const LineAllocator&) const { return true; }
    bool operator!=(const LineAllocator&) const { return false; }
};
template <class T>
using Lines = std::vector<T, LineAllocator<T>>;

}  // namespace spectra
