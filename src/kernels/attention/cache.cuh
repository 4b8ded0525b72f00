// Keys or values whose rows are those of two tensors, a cache's past and what is new, and which go to a third, the present. A tile
// of them is copied to shared memory as attention/flash.cuh has it; the thread that copied a vector of it writes it to the present.
#pragma once

#include "attention/flash.cuh"
#include "common/ptx/memory.cuh"
#include "kernels/attention/cache.h"

namespace smelt_flash {

template <class Tile, class T, int Rows> struct CachedCopies : TileCopies<Tile, T, Rows> {
  using Base = TileCopies<Tile, T, Rows>;
  using Share = typename Tile::Share;
  const T* fresh;                                                                  // this thread's vector of its first row
  T* present;                                                                      // likewise
  i64 fresh_stride, present_stride;
  u32 past;

  __device__ __forceinline__ CachedCopies(const T* rows, i64 stride, const T* fresh_rows, i64 fresh_stride, T* present_rows,
                                          i64 present_stride, u32 past)
      : Base(rows, stride), fresh_stride(fresh_stride), present_stride(present_stride), past(past) {
    const u32 vector = Share::template copy<u32>(0);
    fresh = fresh_rows + vector * 8;
    present = present_rows + vector * 8;
  }
  /// As TileCopies: of tile number `tile`, `inside` rows exist.
  __device__ __forceinline__ void copy(u32 tile_address, u32 tile, u32 inside) const {
    const u32 first = tile * Rows;
    if (first + Rows <= past) return Base::copy(tile_address, tile, Rows);
    if (this->row >= Share::step) return;
    const char* source = this->from + static_cast<u64>(tile) * this->tile_bytes;
#pragma unroll 1
    for (int i = 0; i < Share::each; ++i, source += this->step_bytes) {
      const u32 row = this->row + i * Share::step;
      if (row >= Rows) break;
      const void* const from = first + row < past ? static_cast<const void*>(source) : fresh + (first + row - past) * fresh_stride;
      copy_async<16>(tile_address + this->to + i * Share::step * Tile::pitch, row < inside ? from : fresh, row < inside);
    }
  }
  /// Writes what this thread copied, which has arrived, to the present.
  __device__ __forceinline__ void store(u32 tile_address, u32 tile, u32 inside) const {
    if (this->row >= Share::step) return;
    T* to = present + (static_cast<u64>(tile) * Rows + this->row) * present_stride;
#pragma unroll
    for (int i = 0; i < Share::each; ++i, to += Share::step * present_stride)
      if (((i + 1) * Share::step <= Rows || !Share::template beyond<u32>(i)) && this->row + i * Share::step < inside) {
        const uint4 x = ptx::ld_shared_v4(tile_address + this->to + i * Share::step * Tile::pitch);
        *reinterpret_cast<uint4*>(to) = x;
      }
  }
};

}  // namespace smelt_flash
