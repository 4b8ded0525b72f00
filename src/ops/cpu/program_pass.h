// A program over a finished product in memory, in place: for kernels that cannot apply it themselves.
#pragma once

#include "ops/cpu/epilogue.h"

namespace smelt::ops {

class ProgramPass {
 public:
  /// `y`: what the product wrote (f32, its columns along `column_axis` adjacent) and the program replaces.
  ProgramPass(const BoundTensor& y, size_t column_axis, int threads);
  /// `scratch`: threads · epilogue.scratch() bytes.
  void run(const Epilogue& epilogue, const Buffers& b, void* scratch) const;

 private:
  igemm::RowMap rows_;
  int64_t count_, columns_;
  int threads_;
};

}  // namespace smelt::ops
