// AMX tiles in plain C++, as Intel's manual gives their arithmetic, for CPUs that have none. A test build includes it.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace amx_emulation {

struct Unit {
    bool configured = false;
    uint8_t config[64];
    uint8_t tiles[8][16][64];
};
inline thread_local Unit unit;

inline int rows(int tile) { return unit.config[48 + tile]; }
inline int bytes(int tile) { return unit.config[16 + 2 * tile] | unit.config[17 + 2 * tile] << 8; }

inline void need(bool condition) {
    if (!condition) std::abort();  // a tile instruction would raise #UD
}
inline void load_config(const void* p) {
    std::memcpy(unit.config, p, 64);
    need(unit.config[0] == 1 && uintptr_t(p) % 64 == 0);
    for (int t = 0; t < 8; ++t) need(rows(t) <= 16 && bytes(t) <= 64 && (rows(t) == 0) == (bytes(t) == 0));
    for (int t = 8; t < 16; ++t) need(rows(t) == 0 && bytes(t) == 0);
    std::memset(unit.tiles, 0, sizeof unit.tiles);
    unit.configured = true;
}
inline void release() { unit.configured = false; }
inline void zero(int tile) {
    need(unit.configured && rows(tile));
    std::memset(unit.tiles[tile], 0, sizeof unit.tiles[tile]);
}
inline void load(int tile, const void* from, int64_t stride) {
    zero(tile);
    for (int r = 0; r < rows(tile); ++r)
        std::memcpy(unit.tiles[tile][r], (const char*)from + r * stride, bytes(tile));
}
inline void save(int tile, void* to, int64_t stride) {
    need(unit.configured && rows(tile));
    for (int r = 0; r < rows(tile); ++r) std::memcpy((char*)to + r * stride, unit.tiles[tile][r], bytes(tile));
}
inline float flushed(float x) { return std::fabs(x) < 1.17549435e-38f ? std::copysign(0.0f, x) : x; }
inline float narrow(const uint8_t* p, int i) {
    uint16_t half;
    std::memcpy(&half, p + 2 * i, 2);
    uint32_t bits = uint32_t(half) << 16;
    float out;
    std::memcpy(&out, &bits, 4);
    return flushed(out);
}
// TDPBF16PS: even and odd elements of the pairs in sums of their own, then both onto the tile.
inline void dot(int sums, int left, int right) {
    need(unit.configured && bytes(left) == 4 * rows(right) && rows(sums) == rows(left) && bytes(sums) == bytes(right));
    const int columns = bytes(sums) / 4;
    float even_right[16][16], odd_right[16][16];
    for (int k = 0; k < rows(right); ++k)
        for (int n = 0; n < columns; ++n) {
            even_right[k][n] = narrow(unit.tiles[right][k], 2 * n);
            odd_right[k][n] = narrow(unit.tiles[right][k], 2 * n + 1);
        }
    for (int m = 0; m < rows(sums); ++m) {
        float even[16] = {}, odd[16] = {}, sum[16];
        for (int k = 0; k < rows(right); ++k) {
            const float left_even = narrow(unit.tiles[left][m], 2 * k), left_odd = narrow(unit.tiles[left][m], 2 * k + 1);
            for (int n = 0; n < columns; ++n) {
                even[n] = flushed(std::fmaf(left_even, even_right[k][n], even[n]));
                odd[n] = flushed(std::fmaf(left_odd, odd_right[k][n], odd[n]));
            }
        }
        std::memcpy(sum, unit.tiles[sums][m], 4 * columns);
        for (int n = 0; n < columns; ++n) sum[n] = flushed(sum[n] + flushed(even[n] + odd[n]));
        std::memcpy(unit.tiles[sums][m], sum, 4 * columns);
    }
}

}  // namespace amx_emulation

#define _tile_loadconfig(p) amx_emulation::load_config(p)
#define _tile_release() amx_emulation::release()
#define _tile_zero(t) amx_emulation::zero(t)
#define _tile_loadd(t, p, stride) amx_emulation::load(t, p, stride)
#define _tile_stored(t, p, stride) amx_emulation::save(t, p, stride)
#define _tile_dpbf16ps(c, a, b) amx_emulation::dot(c, a, b)
