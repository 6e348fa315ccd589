// What Python calls. Pointers in, pointers out; one call at a time.
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <new>
#include <pthread.h>

#include "draw.h"
#include "step.h"

using namespace spectra;

namespace {

struct Engine {
    std::mutex busy;
    Pool pool;
    Buffers buffers;
    Lines<uint8_t> rows;  // of a lone product
};

// Never freed: its threads sleep until the process ends. A forked child has none of them and starts with a new one.
Engine* engine = new Engine;
[[gnu::constructor]] void watch_forks() {
    pthread_atfork(nullptr, nullptr, [] { engine = new Engine; });
}

// Rounding to nearest and denormal numbers as they are, whatever the program has told one of its threads.
class Arithmetic {
  public:
    Arithmetic() { _mm_setcsr(DEFAULT); }
    ~Arithmetic() { _mm_setcsr(before_); }

  private:
    static constexpr unsigned DEFAULT = 0x1f80;
    const unsigned before_ = _mm_getcsr();
};

template <class Body>
void on_pool(int threads, const Body& body) {
    engine->pool.run(threads, [&](Worker& worker) {
        const Arithmetic arithmetic;
        body(worker);
#if SPECTRA_AMX
        tiles_off();
#endif
    });
}

template <bool WIDE>
void take_row(const float* from, int64_t inputs, Element<WIDE>* to) {
    int64_t k = 0;
    for (; k + LANES <= inputs; k += LANES) store_row<WIDE>(to + k, load(from + k));
    if (k < inputs) {
        float rest[LANES] = {};
        std::memcpy(rest, from + k, sizeof(float) * (inputs - k));
        Element<WIDE> last[LANES];
        store_row<WIDE>(last, load(rest));
        std::memcpy(to + k, last, sizeof(Element<WIDE>) * (inputs - k));
    }
}

template <bool WIDE>
void lone_product(const Matrix& m, const float* x, int64_t rows, int64_t inputs, float* y, int threads) {
    const int64_t stride = row_stride<WIDE>(m.inputs);
    engine->rows.assign(rounded(rows, 32) * stride * sizeof(Element<WIDE>), 0);
    engine->buffers.products.resize(threads);
    for (ProductBuffers& each : engine->buffers.products) each.prepare(rows);
    Element<WIDE>* taken = (Element<WIDE>*)engine->rows.data();
    on_pool(threads, [&](Worker& worker) {
        worker.share(rows, 1, [&](int64_t from, int64_t to) {
            for (int64_t r = from; r < to; ++r) take_row<WIDE>(x + r * inputs, inputs, taken + r * stride);
        });
        const auto out = [&](int64_t r, int64_t n, F16 sum) { store_some(y + r * m.outputs, n, m.outputs, sum); };
        worker.share(m.panels, WIDTH, [&](int64_t from, int64_t to) {
            product<WIDE>(m, taken, stride, rows, from, to, engine->buffers.products[worker.index], out);
        });
    });
}

template <bool WIDE>
void whole_step(const Model& model, Buffers& buffers, const Rows& rows, int threads) {
    Step<WIDE> step(model, rows, buffers, threads);
    on_pool(threads, [&](Worker& worker) { step.work(worker); });
    step.pick();
}

template <class Cache>
void lone_attention(const Sequence& sequence, const Tree& tree, const Heads& heads, const float* query, float* out,
                    int threads) {
    engine->buffers.attention.resize(threads);
    const int64_t stride = int64_t(heads.heads) * heads.dim;
    on_pool(threads, [&](Worker& worker) {
        attend<Cache>({sequence}, tree, heads, 0, query, stride, worker, engine->buffers.attention[worker.index],
                      [&](int64_t r, int head, const float* mixed) {
                          std::memcpy(out + r * stride + head * heads.dim, mixed, sizeof(float) * heads.dim);
                      });
    });
}

}  // namespace

extern "C" {

// 0, or the number of the error that keeps this CPU's tiles from being used.
int spectra_prepare() {
#if SPECTRA_AMX && !SPECTRA_EMULATED_AMX
    constexpr int REQUEST = 0x1023, TILE_DATA = 18;  // ARCH_REQ_XCOMP_PERM
    if (syscall(SYS_arch_prctl, REQUEST, TILE_DATA)) return errno;
#endif
    return 0;
}

// Rows that a product of 16-bit numbers takes together: one more costs clearly more than the ones before.
int spectra_row_block() {
#if SPECTRA_AMX
    return TILE;
#else
    return TALL;
#endif
}

// Rows that a product of quantised weights takes as they are unpacked; more take them from memory. 0: none does.
int spectra_few_rows() { return FEW; }

// x [rows][inputs] -> y [rows][outputs].
void spectra_product(const Matrix* m, const float* x, int64_t rows, int64_t inputs, float* y, int threads) {
    std::lock_guard<std::mutex> lock(engine->busy);
    if (m->format == F32)
        lone_product<true>(*m, x, rows, inputs, y, threads);
    else
        lone_product<false>(*m, x, rows, inputs, y, threads);
}

// query, out [rows][heads][dim].
void spectra_attend(const Sequence* sequence, const Heads* heads, const int64_t* offsets, const int32_t* chains,
                    const float* query, int wide, float* out, int threads) {
    std::lock_guard<std::mutex> lock(engine->busy);
    const Tree tree(offsets, chains, sequence->rows);
    if (wide)
        lone_attention<float>(*sequence, tree, *heads, query, out, threads);
    else
        lone_attention<bf16>(*sequence, tree, *heads, query, out, threads);
}

void* spectra_buffers() { return new Buffers; }
void spectra_free_buffers(void* buffers) { delete (Buffers*)buffers; }

// A step of this model; its buffers serve this model alone.
void spectra_step(const Model* model, void* buffers, const Rows* rows, int threads) {
    std::lock_guard<std::mutex> lock(engine->busy);
    (model->wide ? whole_step<true> : whole_step<false>)(*model, *(Buffers*)buffers, *rows, threads);
}

// Rows of a packed matrix as numbers: out [rows][inputs of the matrix, filled up].
void spectra_rows(const Matrix* m, const int64_t* which, int64_t rows, float* out) {
    Lines<bf16> unpacked;
    for (int64_t r = 0; r < rows; ++r, out += m->inputs) {
        const int64_t lane = which[r] % LANES;
        const uint8_t* data = m->panel(which[r] / LANES);
        if (m->format == F32) {
            for (int64_t k = 0; k < m->inputs; ++k) out[k] = ((const float*)data)[k * LANES + lane];
            continue;
        }
        const bf16* pairs = (const bf16*)data;
        if (m->quantised()) {
            unpacked.resize(m->inputs * LANES);
            unpack(*m, which[r] / LANES, 0, m->inputs, 0, unpacked.data());
            pairs = unpacked.data();
        }
        for (int64_t k = 0; k < m->inputs; ++k) out[k] = to_float(pairs[(k / 2 * LANES + lane) * 2 + k % 2]);
    }
}

// The token that keyed noise draws from scores [count]; -1 where one is no number.
int64_t spectra_draw(const float* scores, int64_t count, uint32_t first, uint32_t second) {
    const Arithmetic arithmetic;
    return draw(scores, count, first, second);
}

// Seconds in which the pool's threads read these bytes once.
double spectra_read_seconds(const uint8_t* const* buffers, const int64_t* bytes, int64_t count, int threads) {
    constexpr int64_t AHEAD = 2048;  // bytes
    std::lock_guard<std::mutex> lock(engine->busy);
    std::atomic<int64_t> kept{0};
    std::atomic<int> awake{0};
    std::atomic<bool> begun{false};
    std::chrono::steady_clock::time_point start;
    engine->pool.run(threads, [&](Worker& worker) {
        awake.fetch_add(1);
        if (worker.index == 0) {
            while (awake.load() < worker.count) std::this_thread::yield();
            start = std::chrono::steady_clock::now();
            begun.store(true);
        } else {
            while (!begun.load()) std::this_thread::yield();
        }
        I16 mixed = set1_int(0);
        for (int64_t b = 0; b < count; ++b)
            worker.share(bytes[b] / 64, 1, [&](int64_t from, int64_t to) {
                for (const uint8_t *p = buffers[b] + from * 64, *end = buffers[b] + to * 64; p < end; p += 64) {
                    prefetch_far(p + AHEAD);
                    mixed = mixed ^ load_int(p);
                }
            });
        int64_t sum = 0;
        std::memcpy(&sum, &mixed, sizeof sum);
        kept += sum;
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return kept.load() == 42 ? seconds + 1e-12 : seconds;
}

}  // extern "C"
