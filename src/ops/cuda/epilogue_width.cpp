#include "ops/cuda/epilogue_width.h"

#include <utility>

#include "base/number.h"

namespace smelt::ops {
namespace {

/// How much an element of an access of `width` bytes costs over one of 16.
double over_16_bytes(int64_t width) { return width >= 16 ? 1 : width == 8 ? 1.02 : width == 4 ? 1.1 : 1.4; }

}  // namespace

int64_t columns_of_lane(const CudaEpilogue& epilogue, int64_t most) {
  constexpr int64_t least = 2;
  const bool bytes_only = bytes(epilogue.output().type, 1) == 1;
  int64_t found = least;
  std::pair<int, double> best{0, 0};  // which tensors have whole accesses; less than the cost of a row
  for (int64_t width = most; width >= least; width /= 2) {
    const CudaEpilogue e = epilogue.at_width(width);
    bool all = true;
    for (size_t t = 0; t <= e.operands().size(); ++t) all = all && e.access(t) != -1;
    const int whole = all ? 2 : e.access(0) == 1 ? 1 : 0;
    if (whole == 0) continue;
    const double cost = static_cast<double>(divide_up(e.columns(), 4 * width) * 4 * width) * over_16_bytes(width);
    const std::pair<int, double> here{whole, bytes_only ? -cost : static_cast<double>(width)};
    if (best.first == 0 || here > best) best = here, found = width;
  }
  return found;
}

uint32_t by_column(const CudaEpilogue& epilogue) {
  uint32_t bits = 0;
  for (size_t i = 0; i < epilogue.operands().size(); ++i)
    if (!epilogue.varies_by_row(1 + i)) bits |= uint32_t{1} << i;
  return bits;
}

}  // namespace smelt::ops
