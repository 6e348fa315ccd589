// Threads of our own, asleep between calls. A call is a row of phases: what one does is done before the next begins.
//
// The items of a phase are taken in runs, by each thread from its own part first and then from the parts of the others.
// So a thread that the system keeps waiting is not waited for: the others do its part, and it passes over the phases
// that it missed. Bits never depend on how many threads there are, nor on who does what.
#pragma once
#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

namespace spectra {

// A number that threads wait on: they spin for a moment, then sleep.
class Gate {
  public:
    uint32_t value() const { return word_.load(std::memory_order_acquire); }

    uint32_t wait_until_not(uint32_t old) {
        for (int spin = 0; spin < SPINS; ++spin) {
            uint32_t now = value();
            if (now != old) return now;
            _mm_pause();
        }
        std::unique_lock<std::mutex> lock(mutex_);
        sleepers_.fetch_add(1);
        wake_.wait(lock, [&] { return word_.load() != old; });
        sleepers_.fetch_sub(1);
        return value();
    }

    void set(uint32_t now) {
        word_.store(now);  // sequentially consistent, as the counter of sleepers: one of the two sides sees the other
        if (sleepers_.load() > 0) {
            { std::lock_guard<std::mutex> lock(mutex_); }
            wake_.notify_all();
        }
    }

  private:
    static constexpr int SPINS = 4000;
    std::atomic<uint32_t> word_{0};
    std::atomic<int> sleepers_{0};
    std::mutex mutex_;
    std::condition_variable wake_;
};

class Pool;

// One of the threads of a call.
class Worker {
  public:
    const int index, count;

    Worker(Pool& pool, int index, int count, uint32_t phase)
        : index(index), count(count), pool_(pool), phase_(phase) {}

    // Of n items those from first_of(n, thread) up to first_of(n, thread + 1) are a thread's own.
    int64_t first_of(int64_t n, int thread) const { return n * thread / count; }

    // A phase: work(from, to) on n items in runs of a multiple of `whole`. All of them are done when it returns.
    // Every thread of a call goes through the same phases.
    template <class Work>
    void share(int64_t n, int64_t whole, Work work);

  private:
    static constexpr int64_t RUNS = 4;  // of a thread's own part

    Pool& pool_;
    uint32_t phase_;
};

class Pool {
  public:
    static constexpr int MOST = 255;

    // body(worker) on `count` threads, the caller's included, or on as many as the system gives. One call at a time.
    void run(int count, const std::function<void(Worker&)>& body) {
        count = count < 1 ? 1 : count > MOST ? MOST : count;
        while (threads_ < count - 1 && start_thread()) ++threads_;
        count = std::min(count, threads_ + 1);
        const uint32_t before = over_.value();
        Worker caller(*this, 0, count, before);
        if (count == 1) return body(caller);
        body_ = &body;
        count_ = count;
        before_ = before;
        for (int i = 0; i < count; ++i) parts_[i].taken.store(tagged(before, 0));
        done_.store(tagged(before, 0));
        inside_.store(0);
        start_.set((start_.value() & ~0xffu) + 0x100u + uint32_t(count));
        body(caller);
        const uint32_t left = left_.value();
        if (inside_.fetch_or(CLOSED) != 0) left_.wait_until_not(left);
    }

  private:
    friend class Worker;

    static constexpr uint32_t CLOSED = 1u << 31;

    // A number of items, and the phase that it belongs to: a thread that comes late does not take it for another one's.
    static uint64_t tagged(uint32_t phase, int64_t items) { return uint64_t(phase) << 32 | uint64_t(items); }
    static uint32_t phase_of(uint64_t word) { return uint32_t(word >> 32); }
    static int64_t items_of(uint64_t word) { return int64_t(uint32_t(word)); }
    static bool earlier(uint32_t one, uint32_t other) { return int32_t(one - other) < 0; }

    struct alignas(64) Part {
        std::atomic<uint64_t> taken{0};
    };

    bool start_thread() {
        try {
            std::thread(&Pool::serve, this, threads_ + 1).detach();
            return true;
        } catch (const std::system_error&) {
            return false;
        }
    }

    void serve(int index) {
        uint32_t seen = 0;
        for (;;) {
            seen = start_.wait_until_not(seen);
            if (index >= int(seen & 0xff) || !enter()) continue;
            seen = start_.value();
            if (index < count_) {
                Worker worker(*this, index, count_, before_);
                (*body_)(worker);
            }
            if (inside_.fetch_sub(1) - 1 == CLOSED) left_.set(left_.value() + 1);
        }
    }

    // Whether the call is not over; the caller then waits for this thread to leave it.
    bool enter() {
        uint32_t now = inside_.load();
        do
            if (now & CLOSED) return false;
        while (!inside_.compare_exchange_weak(now, now + 1));
        return true;
    }

    // The first item of the next run of a part of so many items, -1 where all are taken.
    int64_t take(int owner, uint32_t phase, int64_t size, int64_t run) {
        std::atomic<uint64_t>& taken = parts_[owner].taken;
        uint64_t now = taken.load();
        for (;;) {
            if (earlier(phase, phase_of(now))) return -1;
            const int64_t first = phase_of(now) == phase ? items_of(now) : 0;
            if (first >= size) return -1;
            if (taken.compare_exchange_weak(now, tagged(phase, std::min(size, first + run)))) return first;
        }
    }

    void finish(uint32_t phase, int64_t items, int64_t all) {
        uint64_t now = done_.load(), then;
        do then = tagged(phase, items + (phase_of(now) == phase ? items_of(now) : 0));
        while (!done_.compare_exchange_weak(now, then));
        if (items_of(then) == all) over_.set(phase);
    }

    bool is_over(uint32_t phase) const { return !earlier(over_.value(), phase); }

    void wait(uint32_t phase) {
        for (uint32_t now = over_.value(); earlier(now, phase);) now = over_.wait_until_not(now);
    }

    int threads_ = 0;
    const std::function<void(Worker&)>* body_ = nullptr;
    int count_ = 0;
    uint32_t before_ = 0;  // the phase before the call's first one
    Gate start_;  // low 8 bits: threads of this call; above them a counter of calls
    Gate over_;   // the last phase that is over
    Gate left_;   // counts the calls whose caller had to wait for a thread to leave
    std::atomic<uint32_t> inside_{CLOSED};  // threads in the call beside the caller's; closed: no more enter
    alignas(64) std::atomic<uint64_t> done_{0};
    Part parts_[MOST];
};

template <class Work>
void Worker::share(int64_t n, int64_t whole, Work work) {
    if (n <= 0) return;
    if (count == 1) return work(int64_t(0), n);
    ++phase_;
    int64_t done = 0;
    for (int i = 0; i < count && !pool_.is_over(phase_); ++i) {
        const int owner = (index + i) % count;
        const int64_t first = first_of(n, owner), size = first_of(n, owner + 1) - first;
        const int64_t run = (std::max<int64_t>(1, size / RUNS) + whole - 1) / whole * whole;
        for (int64_t at; (at = pool_.take(owner, phase_, size, run)) >= 0;) {
            const int64_t end = std::min(size, at + run);
            work(first + at, first + end);
            done += end - at;
        }
    }
    if (done) pool_.finish(phase_, done, n);
    pool_.wait(phase_);
}

}  // namespace spectra
