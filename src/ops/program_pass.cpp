#include "ops/program_pass.h"

#include <omp.h>

#include "ops/strides.h"

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
#pragma omp parallel for num_threads(threads_) schedule(static)
  for (int64_t row = 0; row < count_; ++row) {
    runner.take({row, 1, 0, columns_, y + rows_.offset(row), columns_, omp_get_thread_num()});
  }
}

}  // namespace smelt::ops
