// The greedy pick of a row of scores, in parts that are joined in any order.
#pragma once
#include <limits>

#include "simd.h"

namespace spectra {

// The lowest token with the highest score of those seen so far.
struct Best {
    float score = -std::numeric_limits<float>::infinity();
    int32_t token = std::numeric_limits<int32_t>::max();
    bool no_number = false;  // a score is none

    void join(const Best& other) {
        no_number |= other.no_number;
        if (other.score > score || (other.score == score && other.token < token)) score = other.score, token = other.token;
    }
    int32_t pick() const { return no_number ? -1 : token; }
};

// Of the tokens [from, to).
inline Best best_of(const float* scores, int64_t from, int64_t to) {
    Best best;
    best.token = int32_t(from);
    const auto take = [&](int64_t token) {
        if (scores[token] > best.score) best.score = scores[token], best.token = int32_t(token);
    };
    int64_t at = from;
    for (; at + LANES <= to; at += LANES) {
        const F16 some = load(scores + at);
        best.no_number |= any_nan(some);
        if (any_above(some, best.score))
            for (int64_t token = at; token < at + LANES; ++token) take(token);
    }
    for (; at < to; ++at) {
        best.no_number |= scores[at] != scores[at];
        take(at);
    }
    return best;
}

}  // namespace spectra
