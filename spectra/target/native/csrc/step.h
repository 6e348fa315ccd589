// One step of a Llama-shaped model (Touvron et al., 2023): rows of several sequences in, logits of the rows asked for out.
#pragma once
#include "attention.h"

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
    const int64_t* positions;       // [rows]
    const float *cosine, *sine;     // [positions][dim / 2]
    const int64_t* offsets;         // [rows + 1]
    const int32_t* chains;
    const Sequence* sequences;
    const int64_t* asked;           // rows whose logits are wanted
    int64_t rows, sequence_count, asked_count;
    float* logits;                  // [asked][outputs of the head]
};

// What a call works on; kept between calls so that memory is asked for once.
struct Buffers {
    std::vector<float> stream, query, key, value, up, logits;
    std::vector<uint8_t> normed, mixed, active;
    std::vector<ProductBuffers> products;
    std::vector<AttentionBuffers> attention;
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
        buffers.stream.resize(tall * hidden);
        buffers.query.resize(tall * query_size);
        buffers.key.resize(tall * key_size);
        buffers.value.resize(tall * key_size);
        buffers.up.resize(tall * inner);
        // rows of products: what fills them up is 0 from here on and never written
        buffers.normed.resize(tall * hidden * sizeof(E));
        buffers.mixed.resize(tall * query_size * sizeof(E));
        buffers.active.resize(tall * inner * sizeof(E));
        buffers.products.resize(threads);
        buffers.attention.resize(threads);
        for (ProductBuffers& each : buffers.products) each.prepare(count);
        owner.resize(count);
        for (const Sequence& s : sequences)
            for (int64_t r = 0; r < s.rows; ++r) owner[s.first_row + r] = &s;
    }

    void work(const Worker& worker) {
        for (int64_t r = worker.first(count); r < worker.end(count); ++r) {
            std::memcpy(stream(r), in.embedded + r * m.hidden, sizeof(float) * m.hidden);
            std::fill(stream(r) + m.hidden, stream(r) + hidden, 0.0f);  // a NaN of an earlier step would stay there
        }
        for (int64_t l = 0; l < m.layer_count; ++l) layer(worker, l);
        head(worker);
    }

  private:
    float* stream(int64_t r) { return buffers.stream.data() + r * hidden; }
    E* normed(int64_t r) { return (E*)buffers.normed.data() + r * hidden; }
    E* mixed(int64_t r) { return (E*)buffers.mixed.data() + r * query_size; }
    E* active(int64_t r) { return (E*)buffers.active.data() + r * inner; }

    template <class Out>
    void times(const Worker& worker, const Matrix& matrix, const E* rows, int64_t stride, Out out) {
        product<WIDE>(matrix, rows, stride, count, worker.first(matrix.panels), worker.end(matrix.panels),
                      buffers.products[worker.index], out);
    }
    auto to(float* place, int64_t stride) {
        return [=](int64_t r, int64_t n, F16 sum) { store(place + r * stride + n, sum); };
    }
    auto onto_stream() {
        return [this](int64_t r, int64_t n, F16 sum) { store(stream(r) + n, load(stream(r) + n) + sum); };
    }

    void norm(const Worker& worker, const float* weight) {
        for (int64_t r = worker.first(count); r < worker.end(count); ++r)
            rms_norm<WIDE>(stream(r), weight, normed(r), m.hidden, m.eps);
        worker.barrier();
    }

    void layer(const Worker& worker, int64_t l) {
        const Layer& y = m.layers[l];
        norm(worker, y.norm_in);
        times(worker, y.query, normed(0), hidden, to(buffers.query.data(), query_size));
        times(worker, y.key, normed(0), hidden, to(buffers.key.data(), key_size));
        times(worker, y.value, normed(0), hidden, to(buffers.value.data(), key_size));
        worker.barrier();
        place_heads(worker, y, l);
        worker.barrier();
        const Heads heads{m.heads, m.kv_heads, m.dim, m.scaling, y.window};
        attend<Cache>(sequences, tree, heads, l, buffers.query.data(), query_size, worker,
                      buffers.attention[worker.index],
                      [this](int64_t r, int head, const float* out) { take_mixed(mixed(r) + head * m.dim, out); });
        worker.barrier();
        times(worker, y.output, mixed(0), query_size, onto_stream());
        worker.barrier();
        norm(worker, y.norm_after);
        times(worker, y.up, normed(0), hidden, to(buffers.up.data(), inner));
        times(worker, y.gate, normed(0), hidden, [this](int64_t r, int64_t n, F16 gate) {
            store_row<WIDE>(active(r) + n, silu(gate) * load(buffers.up.data() + r * inner + n));
        });
        worker.barrier();
        times(worker, y.down, active(0), inner, onto_stream());
        worker.barrier();
    }

    void take_mixed(E* place, const float* out) {
        alignas(64) E narrow[LANES];
        for (int d = 0; d < m.dim; d += LANES) {
            store_row<WIDE>(narrow, load(out + d));
            std::memcpy(place + d, narrow, sizeof(E) * std::min(LANES, m.dim - d));
        }
    }

    // Queries and keys are normed and rotated; keys and values go to the rows' slots.
    void place_heads(const Worker& worker, const Layer& y, int64_t l) {
        const int half = m.dim / 2;
        const int64_t each = m.heads + m.kv_heads, total = count * each;
        for (int64_t i = worker.first(total); i < worker.end(total); ++i) {
            const int64_t r = i / each, head = i % each;
            const float *cosine = in.cosine + in.positions[r] * half, *sine = in.sine + in.positions[r] * half;
            if (head < m.heads) {
                rotate_head(buffers.query.data() + r * query_size + head * m.dim, m.dim, y.query_norm, m.eps, cosine,
                            sine);
                continue;
            }
            const int64_t kv = head - m.heads;
            float* key = buffers.key.data() + r * key_size + kv * m.dim;
            rotate_head(key, m.dim, y.key_norm, m.eps, cosine, sine);
            const Sequence& s = *owner[r];
            const int64_t at = l * s.layer_stride + kv * s.head_stride + (s.length + r - s.first_row) * s.slot_stride;
            keep(key, (Cache*)s.keys + at, m.dim);
            keep(buffers.value.data() + r * key_size + kv * m.dim, (Cache*)s.values + at, m.dim);
        }
    }

    void head(const Worker& worker) {
        const int64_t asked = in.asked_count;
        for (int64_t i = worker.first(asked); i < worker.end(asked); ++i)
            rms_norm<WIDE>(stream(in.asked[i]), m.norm, normed(i), m.hidden, m.eps);
        worker.barrier();
        const int64_t vocabulary = m.head.outputs;
        product<WIDE>(m.head, normed(0), hidden, asked, worker.first(m.head.panels), worker.end(m.head.panels),
                      buffers.products[worker.index], [&](int64_t r, int64_t n, F16 sum) {
                          float* place = in.logits + r * vocabulary + n;
                          if (n + LANES <= vocabulary) return store(place, sum);
                          float last[LANES];
                          store(last, sum);
                          std::memcpy(place, last, sizeof(float) * (vocabulary - n));
                      });
    }

    const Model& m;
    const Rows& in;
    Buffers& buffers;
    Tree tree;
    std::vector<Sequence> sequences;
    std::vector<const Sequence*> owner;
    int64_t count, hidden, query_size, key_size, inner;
};

}  // namespace spectra
