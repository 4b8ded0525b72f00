// What products of 8-bit integers on a GPU have in common, whether the right operand is laid out before the run or computed in it.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "device/cuda/device.h"
#include "ops/matmul/cuda_offer.h"
#include "ops/matmul/int8_problem.h"

namespace smelt::ops::matmul {

/// Where the kernel finds what it reads: the product's operands and zero points (as CudaProblem has them), what is kept on the device,
/// then the node's inputs.
enum Int8Place : size_t {
  place_a,
  place_b,
  place_b_zeros,
  place_a_zero,
  place_b_zero,
  place_column,
  place_sums,
  place_scales,
  int8_places
};

bool all_of(const std::vector<int32_t>& values, int32_t v);
/// One for each column of what may be one for all; none are 0.
template <class T> std::vector<T> spread(const std::vector<T>& values, int64_t columns) {
  const auto count = static_cast<size_t>(columns);
  return values.size() == count ? values : std::vector<T>(count, values.empty() ? T{} : values[0]);
}
/// One i32 or float a column.
BoundTensor by_column(DType type, int64_t columns);
/// Why a GPU's kernels take neither operand's type, or a tensor's layout.
std::optional<Refusal> rejects_int8_bytes(const Product& q);
/// The program over the sums and what comes of it: `column` adds a number for each column; `sums` takes a's zero point, which a run
/// computes, times b's sums from them. Its operands are (column?, sums?, zero point?, scales?, the node's).
Result<CudaEpilogue> int8_epilogue(const Product& q, const MatrixResult& result, int64_t columns, bool column, bool sums);

/// A product's parameters on the device.
class Int8Parameters {
 public:
  void keep(const Gpu& gpu, Int8Place place, const void* from, size_t bytes);
  template <class T> void keep(const Gpu& gpu, Int8Place place, const std::vector<T>& values) {
    if (!values.empty()) keep(gpu, place, values.data(), values.size() * sizeof(T));
  }
  void keep(Int8Place place, std::shared_ptr<device::cuda::Memory> memory) { kept_[place] = std::move(memory); }
  /// Runs the kernel with these, with `others` in their places, and behind them the node's inputs.
  void run(Kernel& inner, const Buffers& b, std::initializer_list<std::pair<Int8Place, size_t>> others) const;

 private:
  std::array<std::shared_ptr<device::cuda::Memory>, int8_places> kept_;
};

/// "cuda" and "hopper" of products whose right operand is computed, has a batch or a zero point that a run computes, or whose left
/// operand is stored by columns: cuda_int8_computed.cpp.
void offer_int8_computed_cuda(const Product& q, const Machine& machine, Offer& offer);

}  // namespace smelt::ops::matmul
