// Bulk conversions of f16, bf16 and f32 memory, for kernels that compute in f32.
#pragma once

#include "ops/core/tactic.h"
#include "ops/cpu/igemm/row_map.h"

namespace smelt::ops {

/// `count` elements of `type`, `from_stride` elements apart, to floats `to_stride` apart. One thread.
void copy_as_f32(float* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t count, DType type);

/// All of a tensor of f16, bf16 or f32 to dense f32 in its layout's order, prepared once.
class ConvertToF32 {
 public:
  ConvertToF32(const BoundTensor& from, int threads);
  void run(float* to, const void* data) const;
  /// What into_f32 takes of its memory: a multiple of 64 bytes, none for a tensor of f32.
  int64_t workspace() const { return workspace_; }
  /// The data as f32: as it lies where it is f32, else converted to the start of `memory`, which then begins behind it.
  const float* into_f32(const void* data, char*& memory) const;

 private:
  DType type_;
  int64_t size_, workspace_ = 0, row_ = 0, step_ = 1, count_ = 0;
  igemm::RowMap rows_;
  int threads_ = 1;
};

}  // namespace smelt::ops
