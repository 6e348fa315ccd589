// What a layer does between its products, one row at a time, in float.
#pragma once
#include <cmath>

#include "product.h"

namespace spectra {

// 1 / sqrt(mean of squares + eps). Arrays are filled up with zeros to a multiple of 16.
INLINE float rms_scale(const float* x, int64_t n, float eps) {
    F16 sum = zero();
    for (int64_t i = 0; i < n; i += LANES) {
        F16 v = load(x + i);
        sum = fma(v, v, sum);
    }
    return 1.0f / std::sqrt(sum_lanes(sum) / float(n) + eps);
}

// x / rms(x) * weight (Zhang and Sennrich, 2019) as a product's row.
template <bool WIDE>
void rms_norm(const float* x, const float* weight, Element<WIDE>* out, int64_t n, float eps) {
    const F16 scale = set1(rms_scale(x, n, eps));
    for (int64_t i = 0; i < n; i += LANES) store_row<WIDE>(out + i, load(x + i) * scale * load(weight + i));
}

// One head of any size: norm (weight may be null), then the rotary embedding (Su et al., 2021) in halves.
// cosine, sine: [dim / 2].
inline void rotate_head(float* x, int dim, const float* weight, float eps, const float* cosine, const float* sine) {
    if (weight) {
        float lanes[LANES] = {};
        for (int i = 0; i < dim; ++i) lanes[i % LANES] += x[i] * x[i];
        const float scale = 1.0f / std::sqrt(sum_lanes(load(lanes)) / float(dim) + eps);
        for (int i = 0; i < dim; ++i) x[i] = x[i] * scale * weight[i];
    }
    const int half = dim / 2;
    int i = 0;
    for (; i + LANES <= half; i += LANES) {
        const F16 a = load(x + i), b = load(x + i + half), c = load(cosine + i), s = load(sine + i);
        store(x + i, a * c - b * s);
        store(x + i + half, b * c + a * s);
    }
    for (; i < half; ++i) {
        const float a = x[i], b = x[i + half];
        x[i] = a * cosine[i] - b * sine[i];
        x[i + half] = b * cosine[i] + a * sine[i];
    }
}

INLINE F16 silu(F16 x) { return x / (set1(1.0f) + exp(zero() - x)); }

// The outputs from `output` on of a product with so many.
INLINE void store_some(float* outputs, int64_t output, int64_t count, F16 sum) {
    if (output + LANES <= count) return store(outputs + output, sum);
    float last[LANES];
    store(last, sum);
    std::memcpy(outputs + output, last, sizeof(float) * (count - output));
}

// A key or value as the cache keeps it.
inline void keep(const float* x, float* out, int dim) { std::memcpy(out, x, sizeof(float) * dim); }
inline void keep(const float* x, bf16* out, int dim) {
    int i = 0;
    for (; i + LANES <= dim; i += LANES) store_bf16(out + i, load(x + i));
    if (i < dim) {
        float rest[LANES] = {};
        bf16 narrow[LANES];
        std::memcpy(rest, x + i, sizeof(float) * (dim - i));
        store_bf16(narrow, load(rest));
        std::memcpy(out + i, narrow, sizeof(bf16) * (dim - i));
    }
}

}  // namespace spectra
