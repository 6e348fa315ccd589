// Threads of our own: asleep between calls, a barrier inside a call. Bits never depend on how many there are.
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
struct Worker {
    Pool& pool;
    int index, count;

    void barrier() const;
    // This thread's part of n equal things.
    int64_t first(int64_t n) const { return n * index / count; }
    int64_t end(int64_t n) const { return n * (index + 1) / count; }
};

class Pool {
  public:
    static constexpr int MOST = 255;

    // body(worker) on `count` threads, the caller's included, or on as many as the system gives. One call at a time.
    void run(int count, const std::function<void(const Worker&)>& body) {
        count = count < 1 ? 1 : count > MOST ? MOST : count;
        while (threads_ < count - 1 && start_thread()) ++threads_;
        count = std::min(count, threads_ + 1);
        body_ = &body;
        if (count > 1) start_.set((start_.value() & ~0xffu) + 0x100u + uint32_t(count));
        Worker caller{*this, 0, count};
        body(caller);
        caller.barrier();
    }

  private:
    friend struct Worker;

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
            int count = int(seen & 0xff);
            if (index >= count) continue;
            Worker worker{*this, index, count};
            (*body_)(worker);
            worker.barrier();
        }
    }

    int threads_ = 0;
    const std::function<void(const Worker&)>* body_ = nullptr;
    Gate start_;  // low 8 bits: threads of this call; above them a counter of calls
    Gate passed_;
    std::atomic<int> arrived_{0};
};

inline void Worker::barrier() const {
    if (count == 1) return;
    uint32_t before = pool.passed_.value();
    if (pool.arrived_.fetch_add(1) + 1 == count) {
        pool.arrived_.store(0);
        pool.passed_.set(before + 1);
    } else {
        pool.passed_.wait_until_not(before);
    }
}

}  // namespace spectra
