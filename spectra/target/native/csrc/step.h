// One step of a Llama-shaped model (Touvron et al., 2023): rows of several sequences in, logits of the rows asked for out.
#pragma once
#include "attention.h"
#include "greedy.h"

namespace spectra {

struct Layer {
    Matrix query, key, value, output, gate, up, down;
    const float *norm_in, *norm_after;       // filled up with zeros to a multiple of 16
    const float *query_norm, *key_norm;      // [dim] or null
    int64_t window;                          // 0: none
};

struct Model {
    const Layer* layers;
    Matrix head;
    const float* norm;
    int32_t layer_count, hidden, heads, kv_heads, dim, intermediate;
    int32_t wide;  // float weights, rows and cache; otherwise bf16
    float eps, scaling;
};

struct Rows {
    const float* embedded;          // [rows][hidden]
    const float *cosine, *sine;     // [positions][dim / 2]
    const int64_t* offsets;         // [rows + 1]
    const int32_t* chains;
    const Sequence* sequences;
    const int64_t* asked;           // rows whose logits are wanted
    int64_t rows, sequence_count, asked_count;
    float* logits;                  // [asked][outputs of the head]
    int32_t* picks;                 // [asked]: greedy ones; -1 where a logit is no number
};

// What a call works on; kept between calls so that memory is asked for once.
struct Buffers {
    Lines<float> stream, query, key, value, up;
    Lines<uint8_t> normed, mixed, active;
    std::vector<ProductBuffers> products;
    std::vector<AttentionBuffers> attention;
    std::vector<Best> best;  // [threads][asked]
};

template <bool WIDE>
class Step {
    using E = Element<WIDE>;
    using Cache = std::conditional_t<WIDE, float, bf16>;

  public:
    Step(const Model& model, const Rows& rows, Buffers& buffers, int threads)
        : m(model), in(rows), buffers(buffers), tree(rows.offsets, rows.chains, rows.rows),
          sequences(rows.sequences, rows.sequences + rows.sequence_count), count(rows.rows) {
        const int64_t tall = rounded(count, 32);
        hidden = rounded(m.hidden, 32);
        query_size = rounded(int64_t(m.heads) * m.dim, 32);
        key_size = rounded(int64_t(m.kv_heads) * m.dim, 32);
        inner = rounded(m.intermediate, 32);
        normed_stride = row_stride<WIDE>(hidden);
        mixed_stride = row_stride<WIDE>(query_size);
        active_stride = row_stride<WIDE>(inner);
        buffers.stream.resize(tall * hidden);
        buffers.query.resize(tall * query_size);
        buffers.key.resize(tall * key_size);
        buffers.value.resize(tall * key_size);
        buffers.up.resize(tall * inner);
        // rows of products: what fills them up is 0 from here on and never written
        buffers.normed.resize(tall * normed_stride * sizeof(E));
        buffers.mixed.resize(tall * mixed_stride * sizeof(E));
        buffers.active.resize(tall * active_stride * sizeof(E));
        buffers.products.resize(threads);
        buffers.attention.resize(threads);
        for (ProductBuffers& each : buffers.products) each.prepare(count);
        buffers.best.assign(threads * in.asked_count, {});
        owner.resize(count);
        for (const Sequence& s : sequences)
            for (int64_t r = 0; r < s.rows; ++r) owner[s.first_row + r] = &s;
    }

    void work(Worker& worker) {
        worker.share(count, 1, [&](int64_t from, int64_t to) {
            for (int64_t r = from; r < to; ++r) {
                std::memcpy(stream(r), in.embedded + r * m.hidden, sizeof(float) * m.hidden);
                std::fill(stream(r) + m.hidden, stream(r) + hidden, 0.0f);  // a NaN of an earlier step would stay there
            }
        });
        for (int64_t l = 0; l < m.layer_count; ++l) layer(worker, l);
        head(worker);
    }

    // When all threads are done.
    void pick() {
        for (int64_t i = 0; i < in.asked_count; ++i) {
            Best best;
            for (size_t at = i; at < buffers.best.size(); at += in.asked_count) best.join(buffers.best[at]);
            in.picks[i] = best.pick();
        }
    }

  private:
    float* stream(int64_t r) { return buffers.stream.data() + r * hidden; }
    E* normed(int64_t r) { return (E*)buffers.normed.data() + r * normed_stride; }
    E* mixed(int64_t r) { return (E*)buffers.mixed.data() + r * mixed_stride; }
    E* active(int64_t r) { return (E*)buffers.active.data() + r * active_stride; }

    template <class Out>
    void times(const Worker& worker, const Matrix& matrix, int64_t from, int64_t to, const E* rows, int64_t stride,
               Out out, const uint8_t* then) {
        product<WIDE>(matrix, rows, stride, count, from, to, buffers.products[worker.index], out, then);
    }
    // What a thread reads behind panel `to` of `here`, where panels of `next` come after all of its own.
    static const uint8_t* behind(const Worker& worker, const Matrix& here, int64_t to, const Matrix& next) {
        const bool last = to == worker.first_of(here.panels, worker.index + 1);
        return last ? first_panel(worker, next) : here.panel(to);
    }
    static const uint8_t* first_panel(const Worker& worker, const Matrix& m) {
        return m.panel(worker.first_of(m.panels, worker.index));
    }
    auto to(float* place, int64_t stride) {
        return [=](int64_t r, int64_t n, F16 sum) { store(place + r * stride + n, sum); };
    }
    auto onto_stream() {
        return [this](int64_t r, int64_t n, F16 sum) { store(stream(r) + n, load(stream(r) + n) + sum); };
    }

    void norm(Worker& worker, const float* weight) {
        worker.share(count, 1, [&](int64_t from, int64_t to) {
            for (int64_t r = from; r < to; ++r) rms_norm<WIDE>(stream(r), weight, normed(r), m.hidden, m.eps);
        });
    }

    void layer(Worker& worker, int64_t l) {
        const Layer& y = m.layers[l];
        norm(worker, y.norm_in);
        take_heads(worker, y);
        place_heads(worker, y, l);
        const Heads heads{m.heads, m.kv_heads, m.dim, m.scaling, y.window};
        attend<Cache>(sequences, tree, heads, l, buffers.query.data(), query_size, worker,
                      buffers.attention[worker.index],
                      [this](int64_t r, int head, const float* out) { take_mixed(mixed(r) + head * m.dim, out); });
        worker.share(y.output.panels, WIDTH, [&](int64_t from, int64_t to) {
            times(worker, y.output, from, to, mixed(0), mixed_stride, onto_stream(), behind(worker, y.output, to, y.up));
        });
        norm(worker, y.norm_after);
        worker.share(y.up.panels, WIDTH, [&](int64_t from, int64_t to) {
            times(worker, y.up, from, to, normed(0), normed_stride, this->to(buffers.up.data(), inner),
                  y.gate.panel(from));
            const auto activate = [this](int64_t r, int64_t n, F16 gate) {
                store_row<WIDE>(active(r) + n, silu(gate) * load(buffers.up.data() + r * inner + n));
            };
            times(worker, y.gate, from, to, normed(0), normed_stride, activate, behind(worker, y.up, to, y.down));
        });
        const Matrix& next = l + 1 < m.layer_count ? m.layers[l + 1].query : m.head;
        worker.share(y.down.panels, WIDTH, [&](int64_t from, int64_t to) {
            times(worker, y.down, from, to, active(0), active_stride, onto_stream(), behind(worker, y.down, to, next));
        });
    }

    // Queries, keys and values: the panels of three products as those of one.
    void take_heads(Worker& worker, const Layer& y) {
        const int64_t key = y.query.panels, value = key + y.key.panels, all = value + y.value.panels;
        worker.share(all, WIDTH, [&](int64_t from, int64_t to) {
            const auto part = [&](const Matrix& matrix, int64_t first, float* place, int64_t stride) {
                const int64_t begin = std::max<int64_t>(0, from - first);
                const int64_t end = std::min<int64_t>(matrix.panels, to - first);
                const bool last = to == worker.first_of(all, worker.index + 1);
                const uint8_t* then = last ? first_panel(worker, y.output) : nullptr;
                if (begin < end) times(worker, matrix, begin, end, normed(0), normed_stride, this->to(place, stride), then);
            };
            part(y.query, 0, buffers.query.data(), query_size);
            part(y.key, key, buffers.key.data(), key_size);
            part(y.value, value, buffers.value.data(), key_size);
        });
    }

    void take_mixed(E* place, const float* out) {
        alignas(64) E narrow[LANES];
        for (int d = 0; d < m.dim; d += LANES) {
            store_row<WIDE>(narrow, load(out + d));
            std::memcpy(place + d, narrow, sizeof(E) * std::min(LANES, m.dim - d));
        }
    }

    // Queries and keys are normed and rotated; keys and values go to the rows' slots.
    void place_heads(Worker& worker, const Layer& y, int64_t l) {
        const int64_t each = m.heads + m.kv_heads;
        worker.share(count * each, 1, [&](int64_t from, int64_t to) {
            for (int64_t i = from; i < to; ++i) place_head(y, l, i / each, int(i % each));
        });
    }
    void place_head(const Layer& y, int64_t l, int64_t r, int head) {
        const Sequence& s = *owner[r];
        const int64_t position = s.length + tree.offsets[r + 1] - tree.offsets[r] - 1, turn = position * (m.dim / 2);
        const float *cosine = in.cosine + turn, *sine = in.sine + turn;
        if (head < m.heads)
            return rotate_head(buffers.query.data() + r * query_size + head * m.dim, m.dim, y.query_norm, m.eps, cosine,
                               sine);
        const int kv = head - m.heads;
        float* key = buffers.key.data() + r * key_size + kv * m.dim;
        rotate_head(key, m.dim, y.key_norm, m.eps, cosine, sine);
        const int64_t slot = s.length - s.shared + r - s.first_row;
        const int64_t at = l * s.own.layer_stride + kv * s.own.head_stride + slot * s.own.slot_stride;
        keep(key, (Cache*)s.own.keys + at, m.dim);
        keep(buffers.value.data() + r * key_size + kv * m.dim, (Cache*)s.own.values + at, m.dim);
    }

    void head(Worker& worker) {
        worker.share(in.asked_count, 1, [&](int64_t from, int64_t to) {
            for (int64_t i = from; i < to; ++i)
                rms_norm<WIDE>(stream(in.asked[i]), m.norm, normed(i), m.hidden, m.eps);
        });
        const int64_t vocabulary = m.head.outputs;
        const auto out = [&](int64_t r, int64_t n, F16 sum) {
            store_some(in.logits + r * vocabulary, n, vocabulary, sum);
        };
        Best* best = buffers.best.data() + worker.index * in.asked_count;
        worker.share(m.head.panels, WIDTH, [&](int64_t from, int64_t to) {
            product<WIDE>(m.head, normed(0), normed_stride, in.asked_count, from, to, buffers.products[worker.index], out);
            const int64_t end = std::min(to * LANES, vocabulary);
            for (int64_t i = 0; i < in.asked_count; ++i)  // what was written last is still at hand
                best[i].join(best_of(in.logits + i * vocabulary, from * LANES, end));
        });
    }

    const Model& m;
    const Rows& in;
    Buffers& buffers;
    Tree tree;
    std::vector<Sequence> sequences;
    std::vector<const Sequence*> owner;
    int64_t count, hidden, query_size, key_size, inner;
    int64_t normed_stride, mixed_stride, active_stride;
};

}  // namespace spectra
