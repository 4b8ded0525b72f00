// A ring of stages in shared memory, which asynchronous copies fill with tiles while the block works on earlier ones (CUTLASS: a
// multistage pipeline). A block goes over tiles first … end - 1:
//
//   CopyRing<StageOffsets<Stages, StageBytes>> ring;          or <StageAddresses<Stages, StageBytes>> ring{{address}}
//   ring.fill(first, end, issue);            the copies of the first Stages - 1 tiles
//   ring.wait();                             tile t has arrived, and all threads are done with tile t - 1
//   ring.issue_ahead(t, end, issue);         the copies of tile t + Stages - 1, where tile t - 1 lay
//   … ring.current() …                       the stage of tile t; next(): of tile t + 1
//   ring.advance();                          to tile t + 1
//   ring.drain();                            after the last tile: the memory is free
//
// issue(stage, t) issues this thread's copies (common/copy_async.cuh) of tile t to a stage; it is called once for each tile, in
// order. All threads of the block make the same calls.
#pragma once

#include "common/copy_async.cuh"

/// Names stages by their offsets in bytes from the first.
template <int Stages, int StageBytes> struct StageOffsets {
  static constexpr int stages = Stages;
  int reading = 0, writing = Stages - 1;                                    // stages' numbers

  static __device__ __forceinline__ int first() { return 0; }
  static __device__ __forceinline__ int after(int number) { return number + 1 == Stages ? 0 : number + 1; }
  static __device__ __forceinline__ int name(int number) { return number * StageBytes; }
  static __device__ __forceinline__ void issued() {}
  __device__ __forceinline__ void advance() { reading = after(reading), writing = after(writing); }
};

/// Names stages by their addresses: no multiplication a tile, but a register for the first one's. `writing` moves on as soon as
/// copies are issued; with `reading`, some kernels would take 4 registers more.
template <int Stages, int StageBytes> struct StageAddresses {
  static constexpr int stages = Stages;
  u32 begin, reading = begin, writing = begin + (Stages - 1) * StageBytes;

  __device__ __forceinline__ u32 first() const { return begin; }
  __device__ __forceinline__ u32 after(u32 address) const {
    return address + StageBytes == begin + Stages * StageBytes ? begin : address + StageBytes;
  }
  static __device__ __forceinline__ u32 name(u32 address) { return address; }
  __device__ __forceinline__ void issued() { writing = after(writing); }
  __device__ __forceinline__ void advance() { reading = after(reading); }
};

template <class Stage> struct CopyRing : Stage {
  static_assert(Stage::stages >= 2);

  template <class Count, class Issue> __device__ __forceinline__ void fill(Count first, Count end, Issue&& issue) const {
    auto stage = this->first();
#pragma unroll
    for (int s = 0; s < Stage::stages - 1; ++s, stage = this->after(stage)) {
      if (first + s < end) issue(this->name(stage), first + s);
      copy_async_commit();
    }
  }
  static __device__ __forceinline__ void wait() {
    copy_async_wait<Stage::stages - 2>();
    __syncthreads();
  }
  template <class Count, class Issue> __device__ __forceinline__ void issue_ahead(Count t, Count end, Issue&& issue) {
    if (const Count tile = t + Stage::stages - 1; tile < end) issue(this->name(this->writing), tile);
    this->issued();
    copy_async_commit();
  }
  /// The stage of tile t + Stages - 1, for copies that are issued part by part; after the last of them issued_ahead().
  __device__ __forceinline__ auto filling() const { return this->name(this->writing); }
  __device__ __forceinline__ void issued_ahead() {
    this->issued();
    copy_async_commit();
  }
  __device__ __forceinline__ auto current() const { return this->name(this->reading); }
  __device__ __forceinline__ auto next() const { return this->name(this->after(this->reading)); }
  static __device__ __forceinline__ void drain() {
    copy_async_wait<0>();
    __syncthreads();
  }
};
