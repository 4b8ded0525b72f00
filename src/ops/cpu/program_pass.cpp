#include "ops/cpu/program_pass.h"

#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops {

ProgramPass::ProgramPass(const BoundTensor& y, size_t column_axis, int threads)
    : columns_(y.shape[column_axis]), threads_(threads) {
  Shape grid = y.shape, steps = memory_strides(y);
  grid.erase(grid.begin() + static_cast<int64_t>(column_axis));
  steps.erase(steps.begin() + static_cast<int64_t>(column_axis));
  rows_ = igemm::RowMap(grid, steps);
  count_ = elements(grid);
}

void ProgramPass::run(const Epilogue& epilogue, const Buffers& b, void* scratch) const {
  const Epilogue::Runner runner(epilogue, b, scratch);
  const float* y = static_cast<const float*>(b.outputs[0]);
  parallel(threads_, count_, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t row = begin; row < end; ++row) {
      runner.take({row, 1, 0, columns_, y + rows_.offset(row), columns_, thread});
    }
  });
}

}  // namespace smelt::ops
