// Every part of the CPU library on random shapes, in buffers that end where they must: for the sanitizers.
#include <cstdio>
#include <memory>
#include <random>

#include "native.cpp"

static std::mt19937 rng(1);
static int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(rng); }

template <class T>
struct Buffer {  // of its exact size, on the heap
    std::unique_ptr<T[]> data;
    explicit Buffer(int64_t n) : data(new T[n]) {
        for (int64_t i = 0; i < n; ++i)
            if constexpr (sizeof(T) == 4)
                data[i] = T(pick(-1000, 1000)) / 1000;
            else if constexpr (sizeof(T) == 2)
                data[i] = T(0x3c00 + pick(0, 255));  // small in bf16 and as a half
            else
                data[i] = T(pick(0, 0x3c));
    }
    operator T*() { return data.get(); }
};

static std::vector<std::unique_ptr<Buffer<uint8_t>>> bytes_kept;
static std::vector<std::unique_ptr<Buffer<float>>> floats_kept;

static Matrix matrix(int outputs, int inputs, int format, int group = 32) {
    Matrix m{};
    m.outputs = outputs, m.inputs = int(rounded(inputs, 32)), m.panels = (outputs + 15) / 16, m.format = format;
    m.group = group ? group : m.inputs, m.scale_bytes = pick(0, 1) ? 2 : 4, m.has_minimum = pick(0, 1);
    const int64_t header = 16 * m.scale_bytes * (1 + m.has_minimum);
    m.panel_bytes = format == F32    ? m.inputs * 64
                    : format == BF16 ? m.inputs * 32
                                     : m.inputs / m.group * (header + m.group * (format == BITS4 ? 8 : 16));
    const int behind = format == BITS4 ? 2 : 0;  // see formats.h
    bytes_kept.push_back(std::make_unique<Buffer<uint8_t>>(m.panel_bytes * m.panels + behind));
    m.data = *bytes_kept.back();
    floats_kept.push_back(std::make_unique<Buffer<float>>(16 * m.panels));
    m.bias = pick(0, 1) ? (float*)*floats_kept.back() : nullptr;
    m.lifted = pick(0, 1);
    return m;
}
static const float* norm_weight(int n) {
    floats_kept.push_back(std::make_unique<Buffer<float>>(rounded(n, 16)));
    return *floats_kept.back();
}

struct Trees {
    std::vector<int64_t> offsets{0};
    std::vector<int32_t> chains;
    void add(int rows) {
        std::vector<std::vector<int32_t>> all;
        for (int r = 0; r < rows; ++r) {
            all.push_back(r && pick(0, 9) ? all[pick(0, r - 1)] : std::vector<int32_t>{});
            all[r].push_back(r);
            chains.insert(chains.end(), all[r].begin(), all[r].end());
            offsets.push_back(int64_t(chains.size()));
        }
    }
};

static void products() {
    for (int i = 0; i < 60; ++i) {
        const int outputs = pick(1, 90), inputs = pick(1, 700), rows = pick(1, 40), format = i % 4;
        const Matrix m = matrix(outputs, inputs, format, std::vector<int>{16, 32, 0}[pick(0, 2)]);
        Buffer<float> x(int64_t(rows) * inputs), y(int64_t(rows) * outputs), weight(m.inputs);
        spectra_product(&m, x, rows, inputs, y, pick(1, 3));
        const int64_t last = outputs - 1;
        spectra_rows(&m, &last, 1, weight);
    }
    for (int i = 0; i < 12; ++i) {
        const int outputs = pick(1, 70), inputs = pick(2040, 2200), rows = pick(1, 60);
        const Matrix m = matrix(outputs, inputs, i % 4);
        Buffer<float> x(int64_t(rows) * inputs), y(int64_t(rows) * outputs);
        spectra_product(&m, x, rows, inputs, y, pick(1, 5));
    }
}

template <class Cache>
static void attention() {
    for (int i = 0; i < 40; ++i) {
        const int kv = pick(1, 3), group = pick(1, 7), dim = 8 * pick(1, 17), rows = pick(1, 80);
        const int length = pick(0, 3) ? pick(0, 330) : 64 * pick(0, 5);  // often at the end of a block
        Trees trees;
        trees.add(rows);
        const int64_t shared = 64 * pick(0, length / 64), slots = length + rows - shared;
        Buffer<Cache> keys(kv * slots * dim), values(kv * slots * dim);
        Buffer<Cache> other_keys(kv * shared * dim), other_values(kv * shared * dim);
        const Sequence sequence{{keys, values, 0, slots * dim, dim},
                                {other_keys, other_values, 0, shared * dim, dim},
                                shared, length, 0, rows};
        const Heads heads{kv * group, kv, dim, 0.1f, pick(0, 1) ? pick(1, 300) : 0};
        Buffer<float> query(int64_t(rows) * heads.heads * dim), out(int64_t(rows) * heads.heads * dim);
        spectra_attend(&sequence, &heads, trees.offsets.data(), trees.chains.data(), query, sizeof(Cache) == 4, out,
                       pick(1, 5));
    }
}

template <class Cache>
static void steps() {
    const bool wide = sizeof(Cache) == 4;
    for (int i = 0; i < 10; ++i) {
        const int kv = pick(1, 3), heads = kv * pick(1, 3), dim = 8 * pick(1, 5), inner = pick(20, 90), words = pick(5, 99);
        const int hidden = pick(20, 90), slots = 300;
        auto any = [&](int n, int k) { return matrix(n, k, wide ? F32 : pick(BF16, BITS8)); };
        std::vector<Layer> layers;
        for (int l = 0; l < 2; ++l)
            layers.push_back({any(heads * dim, hidden), any(kv * dim, hidden), any(kv * dim, hidden),
                              any(hidden, heads * dim), any(inner, hidden), any(inner, hidden), any(hidden, inner),
                              norm_weight(hidden), norm_weight(hidden), l ? norm_weight(dim) : nullptr,
                              l ? norm_weight(dim) : nullptr, l ? pick(1, 150) : 0});
        const Model model{layers.data(), any(words, hidden), norm_weight(hidden), 2, hidden, heads, kv,
                          dim, inner, wide, 1e-5f, 0.2f};
        void* buffers = spectra_buffers();
        for (int again = 0; again < 3; ++again) {
            Trees trees;
            std::vector<Sequence> sequences;
            std::vector<Buffer<Cache>> caches;
            int64_t count = 0;
            for (int s = pick(0, 1) ? pick(1, 3) : pick(4, 20); s > 0; --s) {
                const int rows = pick(0, 3) ? pick(0, 6) : pick(1, 70);
                const int length = pick(0, 2) ? pick(0, slots - rows) : 64 * pick(0, 3);  // often at the end of a block
                const int64_t shared = 64 * pick(0, length / 64), own = length + rows - shared;
                auto cache = [&](int64_t size) -> Slots {
                    caches.emplace_back(2l * kv * size * dim);
                    caches.emplace_back(2l * kv * size * dim);
                    return {caches[caches.size() - 2], caches.back(), kv * size * dim, size * dim, dim};
                };
                const Slots mine = cache(own), others = cache(shared);
                sequences.push_back({mine, others, shared, length, count, rows});
                trees.add(rows);
                count += rows;
            }
            if (!count) continue;
            std::vector<int64_t> asked;
            for (int64_t r = 0; r < count; r += pick(1, 5)) asked.push_back(r);
            Buffer<float> embedded(count * hidden), cosine(slots * dim / 2), sine(slots * dim / 2);
            Buffer<float> logits(int64_t(asked.size()) * words);
            Buffer<int32_t> picks(int64_t(asked.size()));
            const Rows rows{embedded, cosine, sine, trees.offsets.data(), trees.chains.data(),
                            sequences.data(), asked.data(), count, int64_t(sequences.size()), int64_t(asked.size()),
                            logits, picks};
            spectra_step(&model, buffers, &rows, pick(1, 5));
        }
        spectra_free_buffers(buffers);
    }
}

int main() {
    if (spectra_prepare()) return 2;
    products();
    attention<float>();
    attention<bf16>();
    steps<float>();
    steps<bf16>();
    std::puts("clean");
}
