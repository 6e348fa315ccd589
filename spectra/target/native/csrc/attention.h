// Attention by absolute position: a row reads the committed context and its own ancestors in their places.
//
// The context is walked in blocks of 64 positions counted from 0. A block gives its greatest score, the sum of its
// weights and its weighted values; blocks are joined in order (the online softmax of Milakov and Gimelshein, 2018). A score is
// one sum over the head's dimensions in order, a block's sums run over its positions in order: which slot a position
// sits in, what other rows there are and how work is cut changes no bit.
#pragma once
#include <algorithm>

#include "layers.h"
#include "pool.h"

namespace spectra {

constexpr int BLOCK = 64;
constexpr int BLOCK_VECTORS = BLOCK / LANES;
#if SPECTRA_AVX512
constexpr int TOGETHER = 6;  // queries that share what a register loads
constexpr int FEW_QUERIES = TOGETHER;
#else
constexpr int TOGETHER = 1;
constexpr int FEW_QUERIES = 0;
#endif

// Slots of a cache, one position each.
struct Slots {
    void *keys, *values;  // layer 0
    int64_t layer_stride, head_stride, slot_stride;  // in elements
};

// Rows of a step by sequence. Row r of a sequence attends to positions up to length + depth, depth = chain size - 1.
// The first `shared` positions, whole blocks, are read from another sequence's cache; `own` begins with the next one.
struct Sequence {
    Slots own, others;
    int64_t shared, length;
    int64_t first_row, rows;
};

// One key head of one layer in a cache whose first slot holds position `first`.
template <class Cache>
struct HeadSlots {
    const Cache *keys, *values;
    int64_t stride, first;

    HeadSlots(const Slots& slots, int64_t layer, int64_t kv_head, int64_t first)
        : keys((const Cache*)slots.keys + layer * slots.layer_stride + kv_head * slots.head_stride),
          values((const Cache*)slots.values + layer * slots.layer_stride + kv_head * slots.head_stride),
          stride(slots.slot_stride),
          first(first) {}
    // Those that hold a position of the sequence.
    HeadSlots(const Sequence& s, int64_t layer, int64_t kv_head, int64_t position)
        : HeadSlots(position < s.shared ? s.others : s.own, layer, kv_head, position < s.shared ? 0 : s.shared) {}
    const Cache* key(int64_t position) const { return keys + (position - first) * stride; }
    const Cache* value(int64_t position) const { return values + (position - first) * stride; }
};

// The block of slots that a thread reads after the one at hand. Slot j of it is fetched when slot j of that one is read:
// memory takes a few requests at a time, and one who asks for a whole block at once waits.
template <class Cache>
struct Upcoming {
    const Cache *keys = nullptr, *values = nullptr;
    int64_t stride = 0, slots = 0;
    int dim = 0;

    Upcoming() = default;
    // From `position` on, before `end`.
    Upcoming(const Sequence& s, int64_t layer, int64_t kv_head, int64_t position, int64_t end, int dim)
        : slots(std::min<int64_t>(end - position, BLOCK)), dim(dim) {
        const HeadSlots<Cache> head(s, layer, kv_head, position);
        keys = head.key(position), values = head.value(position), stride = head.stride;
    }

    // First the keys, then the values: memory gives lines that follow each other sooner. Inline, for compilers drop calls
    // of a function that does nothing but fetch.
    INLINE void fetch(int64_t from, int64_t to) const {
        for (const Cache* numbers : {keys, values})
            for (int64_t j = from; j < std::min(to, slots); ++j)
                for (int d = 0; d < dim; d += int(64 / sizeof(Cache))) prefetch_far(numbers + j * stride + d);
    }
};

struct Tree {  // of all sequences
    const int64_t* offsets;  // [rows + 1]
    const int32_t* chains;   // own rows, numbered inside their sequence, from the first ancestor to the row itself
    std::vector<int32_t> straight;  // per row: how many of its chain's first entries are 0, 1, 2, ...

    Tree(const int64_t* offsets, const int32_t* chains, int64_t rows) : offsets(offsets), chains(chains) {
        straight.resize(rows);
        for (int64_t r = 0; r < rows; ++r) {
            int32_t n = 0, size = int32_t(offsets[r + 1] - offsets[r]);
            while (n < size && chains[offsets[r] + n] == n) ++n;
            straight[r] = n;
        }
    }
};

struct Heads {
    int heads, kv_heads, dim;
    float scaling;
    int64_t window;  // 0: none

    int group() const { return heads / kv_heads; }
    int filled() const { return int(rounded(dim, LANES)); }
};

// One key head of the rows [from, to) of a sequence, numbered inside it.
struct AttentionItem {
    const Sequence* sequence;
    int kv_head;
    int64_t from, to;
};

// What a thread keeps at hand for one of them.
struct AttentionBuffers {
    std::vector<AttentionItem> items;
    Lines<float> keys, values;          // a block: keys [dim][64], values [64][filled]
    Lines<float> own_keys, own_values;  // own rows: keys [dim][columns], values [own][filled]
    Lines<float> own_scores;            // [queries][columns]
    Lines<float> scores;                // [queries][64], then weights
    Lines<float> mixed;                 // [queries][filled]
    Lines<float> top, total, old_part, new_part;  // [queries]
    std::vector<const float*> query;
};

#if SPECTRA_AVX512
// take(dimension, keys of 16 slots) for the dimensions of WORDS words a slot.
template <int WORDS, class Cache, class Take>
INLINE void each_of(const Cache* keys, int64_t stride, int64_t slots, int first, Take take) {
    F16 square[WORDS];
    load_columns<WORDS>(keys + first, stride, slots, square);
    UNROLL
    for (int i = 0; i < WORDS; ++i)
        if constexpr (sizeof(Cache) == sizeof(float)) {
            take(first + i, square[i]);
        } else {  // numbers go in pairs
            take(first + 2 * i, bf16_pairs_even(bits(square[i])));
            take(first + 2 * i + 1, bf16_pairs_odd(bits(square[i])));
        }
}
// The same for all whole 16 dimensions, in order. From slot `slots` on: anything.
template <class Cache, class Take>
INLINE void each_dimension(const Cache* keys, int64_t stride, int64_t slots, int dim, Take take) {
    constexpr int SIDE = LANES * int(sizeof(float) / sizeof(Cache));
    int d = 0;
    for (; d + SIDE <= dim; d += SIDE) each_of<LANES>(keys, stride, slots, d, take);
    if (SIDE > LANES && d + LANES <= dim) each_of<LANES / 2>(keys, stride, slots, d, take);
}
#endif

// Columns of keys: out[d][column] for n slots; up to whole registers anything. Values [n][filled].
template <class Cache>
void take_keys(const Cache* keys, int64_t stride, int64_t n, int dim, int64_t columns, float* out,
               const Upcoming<Cache>& upcoming) {
    int whole = 0;  // dimensions that go in squares
    for (int64_t j = 0; j < n; j += LANES) {
        upcoming.fetch(j, j + LANES);
#if SPECTRA_AVX512
        whole = dim / LANES * LANES;
        each_dimension(keys + j * stride, stride, n - j, dim, [&](int d, F16 key) { store(out + d * columns + j, key); });
#endif
    }
    for (int64_t j = 0; j < n; ++j)
        for (int d = whole; d < dim; ++d) out[d * columns + j] = to_float(keys[j * stride + d]);
}
template <class Cache>
void take_values(const Cache* values, int64_t stride, int64_t n, int dim, int filled, float* out) {
    for (int64_t j = 0; j < n; ++j) {
        int d = 0;
        for (; d + LANES <= dim; d += LANES) store(out + j * filled + d, load(values + j * stride + d));
        for (; d < filled; ++d) out[j * filled + d] = d < dim ? to_float(values[j * stride + d]) : 0.0f;
    }
}

// scores[q][column] = query . key for V * 16 columns.
template <int Q, int V>
INLINE void score(const float* const* query, int dim, const float* keys, int64_t columns, float* scores,
                  int64_t stride) {
    F16 sum[Q][V];
    UNROLL
    for (int q = 0; q < Q; ++q)
        UNROLL
        for (int v = 0; v < V; ++v) sum[q][v] = zero();
    for (int d = 0; d < dim; ++d) {
        F16 key[V];
        UNROLL
        for (int v = 0; v < V; ++v) key[v] = load(keys + d * columns + v * LANES);
        UNROLL
        for (int q = 0; q < Q; ++q) {
            F16 value = set1(query[q][d]);
            UNROLL
            for (int v = 0; v < V; ++v) sum[q][v] = fma(value, key[v], sum[q][v]);
        }
    }
    UNROLL
    for (int q = 0; q < Q; ++q)
        UNROLL
        for (int v = 0; v < V; ++v) store(scores + q * stride + v * LANES, sum[q][v]);
}

template <int V>
void score_all(const float* const* query, int64_t queries, int dim, const float* keys, int64_t columns, float* scores,
               int64_t stride) {
    int64_t q = 0;
    for (; q + TOGETHER <= queries; q += TOGETHER)
        score<TOGETHER, V>(query + q, dim, keys, columns, scores + q * stride, stride);
    if constexpr (TOGETHER > 3)
        for (; q + 3 <= queries; q += 3) score<3, V>(query + q, dim, keys, columns, scores + q * stride, stride);
    for (; q < queries; ++q) score<1, V>(query + q, dim, keys, columns, scores + q * stride, stride);
}

// The same for n columns, filled up to whole registers.
template <int V = BLOCK_VECTORS>
void score_columns(const float* const* query, int64_t queries, int dim, const float* keys, int64_t columns, int64_t n,
                   float* scores, int64_t stride) {
    for (; n > (V - 1) * LANES; n -= V * LANES, keys += V * LANES, scores += V * LANES)
        score_all<V>(query, queries, dim, keys, columns, scores, stride);
    if constexpr (V > 1) score_columns<V - 1>(query, queries, dim, keys, columns, n, scores, stride);
}

#if SPECTRA_AVX512
// The same for few queries, from n slots as they lie in the cache; whole 16 dimensions.
template <class Cache, int Q = TOGETHER>
void score_few(int64_t queries, const float* const* query, int dim, const Cache* keys, int64_t slot, int64_t n,
               float* scores, int64_t stride, const Upcoming<Cache>& upcoming) {
    if constexpr (Q > 1)
        if (queries != Q)
            return score_few<Cache, Q - 1>(queries, query, dim, keys, slot, n, scores, stride, upcoming);
    for (int64_t j = 0; j < n; j += LANES) {
        upcoming.fetch(j, j + LANES);
        F16 sum[Q];
        UNROLL
        for (int q = 0; q < Q; ++q) sum[q] = zero();
        each_dimension(keys + j * slot, slot, n - j, dim, [&](int d, F16 key) {
            UNROLL
            for (int q = 0; q < Q; ++q) sum[q] = fma(set1(query[q][d]), key, sum[q]);
        });
        UNROLL
        for (int q = 0; q < Q; ++q) store(scores + q * stride + j, sum[q]);
    }
}
#endif

// mixed[q] = mixed[q] * old_part[q] + new_part[q] * sum over j of weights[q][j] * values[j], V * 16 dimensions.
template <int Q, int V, class T>
INLINE void mix(const float* weights, const T* const* values, int from, int to, const float* old_part,
                const float* new_part, float* mixed, int filled) {
    F16 sum[Q][V];
    UNROLL
    for (int q = 0; q < Q; ++q)
        UNROLL
        for (int v = 0; v < V; ++v) sum[q][v] = zero();
    for (int j = from; j < to; ++j) {
        F16 value[V];
        UNROLL
        for (int v = 0; v < V; ++v) value[v] = load(values[j] + v * LANES);
        UNROLL
        for (int q = 0; q < Q; ++q) {
            F16 weight = set1(weights[q * BLOCK + j]);
            UNROLL
            for (int v = 0; v < V; ++v) sum[q][v] = fma(weight, value[v], sum[q][v]);
        }
    }
    UNROLL
    for (int q = 0; q < Q; ++q)
        UNROLL
        for (int v = 0; v < V; ++v) {
            float* place = mixed + int64_t(q) * filled + v * LANES;
            store(place, fma(sum[q][v], set1(new_part[q]), load(place) * set1(old_part[q])));
        }
}

template <int V, class T>
void mix_all(const float* weights, const T* const* values, int from, int to, const float* old_part,
             const float* new_part, float* mixed, int64_t queries, int filled) {
    int64_t q = 0;
    for (; q + TOGETHER <= queries; q += TOGETHER)
        mix<TOGETHER, V>(weights + q * BLOCK, values, from, to, old_part + q, new_part + q, mixed + q * filled, filled);
    if constexpr (TOGETHER > 3)
        for (; q + 3 <= queries; q += 3)
            mix<3, V>(weights + q * BLOCK, values, from, to, old_part + q, new_part + q, mixed + q * filled, filled);
    for (; q < queries; ++q)
        mix<1, V>(weights + q * BLOCK, values, from, to, old_part + q, new_part + q, mixed + q * filled, filled);
}

template <class T>
void mix_heads(const float* weights, const T* const* values, int from, int to, const float* old_part,
               const float* new_part, float* mixed, int64_t queries, int filled) {
    const T* places[BLOCK];
    int d = 0;
    for (; d + 4 * LANES <= filled; d += 4 * LANES) {
        for (int j = from; j < to; ++j) places[j] = values[j] + d;
        mix_all<4>(weights, places, from, to, old_part, new_part, mixed + d, queries, filled);
    }
    for (; d < filled; d += LANES) {
        for (int j = from; j < to; ++j) places[j] = values[j] + d;
        mix_all<1>(weights, places, from, to, old_part, new_part, mixed + d, queries, filled);
    }
}

// Scores [64] to weights in place; positions outside [from, to) weigh 0. Joins the block's top and total to the query's.
INLINE void weigh(float* scores, float scaling, int from, int to, float& top, float& total, float& old_part,
                  float& new_part) {
    F16 s[BLOCK_VECTORS];
    const F16 least = set1(-1e30f);
    UNROLL
    for (int v = 0; v < BLOCK_VECTORS; ++v)
        s[v] = between(from - v * LANES, to - v * LANES, load(scores + v * LANES) * set1(scaling), least);
    const float block_top = max_lanes(max(max(s[0], s[1]), max(s[2], s[3])));
    UNROLL
    for (int v = 0; v < BLOCK_VECTORS; ++v) {
        s[v] = between(from - v * LANES, to - v * LANES, exp(s[v] - set1(block_top)), zero());
        store(scores + v * LANES, s[v]);
    }
    const float block_total = sum_lanes((s[0] + s[1]) + (s[2] + s[3]));
    const float joint = std::max(top, block_top);
    old_part = first_lane(exp(set1(top - joint)));
    new_part = first_lane(exp(set1(block_top - joint)));
    top = joint;
    total = total * old_part + block_total * new_part;
}

// query: [all rows][heads][dim] of this step; write(row, head, [filled] floats).
template <class Cache, class Write>
void attend_rows(const AttentionItem& item, const Tree& tree, const Heads& heads, int64_t layer, const float* query,
                 int64_t query_stride, AttentionBuffers& buffers, const Upcoming<Cache>& after_all, Write write) {
    const Sequence& sequence = *item.sequence;
    const int kv_head = item.kv_head, group = heads.group(), dim = heads.dim, filled = heads.filled();
    const int64_t from = item.from, to = item.to, queries = (to - from) * group, length = sequence.length;
    const HeadSlots<Cache> own_slots(sequence.own, layer, kv_head, sequence.shared);
    auto chain = [&](int64_t r) { return tree.chains + tree.offsets[sequence.first_row + r]; };
    auto end_of = [&](int64_t r) {  // one past the row's own position
        return length + tree.offsets[sequence.first_row + r + 1] - tree.offsets[sequence.first_row + r];
    };
    auto start_of = [&](int64_t r) { return heads.window ? std::max<int64_t>(0, end_of(r) - heads.window) : 0; };

    // Positions before `in_order` stand in order of their own number for all of these rows.
    int64_t in_order = INT64_MAX, start = INT64_MAX, end = 0, own_end = 0;
    for (int64_t r = from; r < to; ++r) {
        in_order = std::min<int64_t>(in_order, length + tree.straight[sequence.first_row + r]);
        start = std::min(start, start_of(r));
        end = std::max(end, end_of(r));
        for (int64_t i = length; i < end_of(r); ++i) own_end = std::max<int64_t>(own_end, length + chain(r)[i - length] + 1);
    }
    const int64_t own = std::max<int64_t>(0, own_end - in_order), columns = rounded(own, LANES);

    buffers.query.resize(queries);
    for (int64_t q = 0; q < queries; ++q)
        buffers.query[q] = query + (sequence.first_row + from + q / group) * query_stride +
                        (int64_t(kv_head) * group + q % group) * dim;
    buffers.keys.resize(size_t(dim) * BLOCK);
    buffers.values.resize(size_t(BLOCK) * filled);
    buffers.scores.resize(queries * BLOCK);
    buffers.mixed.assign(queries * filled, 0.0f);
    buffers.top.assign(queries, -1e30f);
    buffers.total.assign(queries, 0.0f);
    buffers.old_part.resize(queries);
    buffers.new_part.resize(queries);
    if (own) {
        buffers.own_keys.resize(dim * columns);
        buffers.own_values.resize(own * filled);
        buffers.own_scores.resize(queries * columns);
        take_keys(own_slots.key(in_order), own_slots.stride, own, dim, columns, buffers.own_keys.data(), {});
        take_values(own_slots.value(in_order), own_slots.stride, own, dim, filled, buffers.own_values.data());
        score_columns(buffers.query.data(), queries, dim, buffers.own_keys.data(), columns, own,
                      buffers.own_scores.data(), columns);
    }

    // few queries read the cache as it is; for many it pays to write a block out as floats
    const bool few = FEW_QUERIES && queries <= FEW_QUERIES && dim % LANES == 0;
    const float* places[BLOCK];
    const int64_t first_block = start / BLOCK * BLOCK;
    for (int64_t base = first_block; base < end; base += BLOCK) {
        const HeadSlots<Cache> here(sequence, layer, kv_head, base);
        const int in_place = int(std::clamp<int64_t>(in_order - base, 0, BLOCK));
        const int64_t next = base + BLOCK;
        const Upcoming<Cache> upcoming =
            next < in_order ? Upcoming<Cache>(sequence, layer, kv_head, next, in_order, dim) : after_all;
        const bool direct = few && (in_place == BLOCK || !own);  // values are mixed from their slots
        if (in_place && few) {
#if SPECTRA_AVX512
            score_few(queries, buffers.query.data(), dim, here.key(base), here.stride, in_place, buffers.scores.data(),
                      BLOCK, upcoming);
#endif
        } else if (in_place) {
            take_keys(here.key(base), here.stride, in_place, dim, BLOCK, buffers.keys.data(), upcoming);
            score_columns(buffers.query.data(), queries, dim, buffers.keys.data(), BLOCK, in_place,
                          buffers.scores.data(), BLOCK);
        }
        if (!direct) take_values(here.value(base), here.stride, in_place, dim, filled, buffers.values.data());
        upcoming.fetch(rounded(in_place, LANES), BLOCK);
        const Cache* slots[BLOCK];
        for (int j = 0; j < in_place; ++j) slots[j] = here.value(base + j);
        for (int j = 0; j < in_place; ++j) places[j] = buffers.values.data() + int64_t(j) * filled;
        int64_t waiting = 0;  // queries before the next one to mix that can be mixed together
        auto mix_some = [&](int64_t first, int64_t count, int low, int high) {
            const auto from_places = [&](auto where) {
                mix_heads(buffers.scores.data() + first * BLOCK, where, low, high, buffers.old_part.data() + first,
                          buffers.new_part.data() + first, buffers.mixed.data() + first * filled, count, filled);
            };
            direct ? from_places(slots) : from_places(places);
        };
        auto mix_waiting = [&](int64_t q) {
            if (waiting) mix_some(q - waiting, waiting, 0, BLOCK);
            waiting = 0;
        };
        for (int64_t r = from; r < to; ++r) {
            const int64_t first = (r - from) * group;
            const int low = int(std::clamp<int64_t>(start_of(r) - base, 0, BLOCK));
            const int high = int(std::clamp<int64_t>(end_of(r) - base, 0, BLOCK));
            if (low >= high) {
                mix_waiting(first);
                continue;
            }
            for (int j = in_place; j < high; ++j) {
                const int64_t column = length + chain(r)[base + j - length] - in_order;
                places[j] = buffers.own_values.data() + column * filled;
                for (int64_t q = first; q < first + group; ++q)
                    buffers.scores[q * BLOCK + j] = buffers.own_scores[q * columns + column];
            }
            for (int64_t q = first; q < first + group; ++q)
                weigh(buffers.scores.data() + q * BLOCK, heads.scaling, low, high, buffers.top[q], buffers.total[q],
                      buffers.old_part[q], buffers.new_part[q]);
            if (in_place == BLOCK)
                waiting += group;
            else
                mix_some(first, group, low, high);
        }
        mix_waiting(queries);
    }
    for (int64_t q = 0; q < queries; ++q) {
        float* out = buffers.mixed.data() + q * filled;
        const F16 total = set1(buffers.total[q]);
        for (int d = 0; d < filled; d += LANES) store(out + d, load(out + d) / total);
        write(sequence.first_row + from + q / group, kv_head * group + int(q % group), out);
    }
}

// Key heads times runs of rows, cut so that every thread has something to do.
template <class Cache, class Write>
void attend(const std::vector<Sequence>& sequences, const Tree& tree, const Heads& heads, int64_t layer,
            const float* query, int64_t query_stride, Worker& worker, AttentionBuffers& buffers, Write write) {
    constexpr int64_t RUN = 16;
    std::vector<AttentionItem>& items = buffers.items;
    items.clear();
    for (const Sequence& s : sequences) {
        const int64_t runs = std::max<int64_t>((s.rows + RUN - 1) / RUN, std::min<int64_t>(s.rows, worker.count));
        for (int64_t run = 0; run < runs; ++run)
            for (int head = 0; head < heads.kv_heads; ++head)
                items.push_back({&s, head, s.rows * run / runs, s.rows * (run + 1) / runs});
    }
    const auto begin_of = [&](int64_t number) {
        const AttentionItem& item = items[number];
        const Sequence& s = *item.sequence;
        const int64_t start = heads.window ? std::max<int64_t>(0, s.length + 1 - heads.window) / BLOCK * BLOCK : 0;
        return Upcoming<Cache>(s, layer, item.kv_head, start, s.length, heads.dim);
    };
    const int64_t total = int64_t(items.size());
    worker.share(total, 1, [&](int64_t first, int64_t end) {
        begin_of(first).fetch(0, BLOCK);
        for (int64_t i = first; i < end; ++i)
            attend_rows<Cache>(items[i], tree, heads, layer, query, query_stride, buffers,
                               i + 1 < total ? begin_of(i + 1) : Upcoming<Cache>(), write);
    });
}

}  // namespace spectra
