// The pool of the CPU library: phases of random sizes on threads that are held up at random.
//
// Items are plain memory: a phase reads what the one before wrote, so a race shows under the thread sanitizer and an item
// that is done twice or not at all shows by its number.
#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

#include "pool.h"

using namespace spectra;

int main() {
    Pool pool;
    std::mt19937 dice(7);
    const auto below = [&](int n) { return int(dice() % uint32_t(n)); };
    for (int call = 0; call < 300; ++call) {
        const int threads = 1 + below(6), phases = 1 + below(12), held_up = below(8), often = 1 + below(40);
        std::vector<std::vector<int>> items(phases);
        std::vector<int64_t> whole(phases);
        for (int phase = 0; phase < phases; ++phase) {
            items[phase].resize(below(4) ? below(60) : 0);
            whole[phase] = 1 + below(4);
        }
        std::atomic<int> wrong{0};
        pool.run(threads, [&](Worker& worker) {
            const auto hold = [&] { std::this_thread::sleep_for(std::chrono::microseconds(300)); };
            if (worker.index == held_up) hold();
            const std::vector<int>* before = nullptr;
            for (int phase = 0; phase < phases; ++phase) {
                std::vector<int>& own = items[phase];
                worker.share(int64_t(own.size()), whole[phase], [&](int64_t from, int64_t to) {
                    for (int64_t i = from; i < to; ++i) {
                        if (before)
                            for (int done : *before) wrong += done != 1;
                        if (worker.index == held_up && i % often == 0) hold();
                        ++own[i];
                    }
                });
                if (!own.empty()) before = &own;
            }
        });
        for (const std::vector<int>& phase : items)
            for (int done : phase) wrong += done != 1;
        if (wrong) return std::printf("%d items wrong in call %d of %d threads\n", wrong.load(), call, threads), 1;
    }
    std::puts("clean");
    std::fflush(stdout);
    std::quick_exit(0);  // the pool's threads never end
}
