// The kernel of src/kernels/gemm/hopper.cuh, whatever its left operand is: a matrix, or the windows of images.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/cuda/gpu.h"
#include "ops/matmul/cuda_hopper.h"

namespace smelt::ops::matmul {

/// The matrices of a batched operand as one more axis of a tensor map: `step` elements from one to the next, of which the batch's
/// axes take whole multiples (0 where they repeat).
struct OperandMatrices {
  int64_t step = 0, count = 1;
  Shape batch;  // in steps
  OperandMatrices(const CudaOperand& o, const Shape& batch);
};

/// Which of its matrices each operand has along the batch's axes.
Views matrix_views(const CudaProblem& p);

/// All of a matrix's tensor map but the address.
class OperandMap {
 public:
  /// `box`: of the tile's extent along M or N; a part of it where `sharing` blocks each bring theirs.
  OperandMap(const CudaOperand& o, const Shape& batch, DType type, int64_t extent, int64_t k, int64_t box, int64_t sharing,
             int64_t line_bytes = HopperConfig::line_bytes);
  void encode(kernels::TensorMap& map, const void* address) const;

 private:
  device::cuda::abi::TensorMapType type_;
  device::cuda::abi::TensorMapSwizzle swizzle_;
  uint64_t extents_[3] = {}, steps_[2] = {};
  uint32_t box_[3] = {};
};

device::cuda::abi::TensorMapType tensor_map_type(DType type);
/// As stages have lines of so many bytes.
device::cuda::abi::TensorMapSwizzle tensor_map_swizzle(int64_t line_bytes);

/// Elements from a row of y to the next, where all of its rows are those of one matrix whose columns lie side by side.
std::optional<int64_t> result_pitch(const CudaEpilogue& e);

/// The maps by which tiles of `columns_of_tile` columns of y are stored: of 64 columns, and of those that are left.
class ResultMaps {
 public:
  ResultMaps(const CudaEpilogue& e, int64_t rows, int64_t columns_of_tile);
  void encode(kernels::TensorMap (&maps)[2], void* address) const;

 private:
  device::cuda::abi::TensorMapType type_;
  int64_t rows_, columns_, tile_, pitch_ = 0;  // pitch_: bytes from row to row
};

/// How a kernel differs from the others: its name, the header that it includes, the structure of its argument and the bytes that
/// this has behind HopperGemmArgs.
struct HopperEntry {
  std::string name, header, arguments;
  size_t bytes;
  std::vector<std::string> options = {};  // for the compiler
};

class HopperKernel : public CompiledKernel {
 public:
  HopperKernel(const CudaProblem& p, const HopperConfig& c, const Gpu& gpu, const HopperEntry& entry);

  int64_t workspace() const override { return partial_bytes_; }
  void run(const Buffers& b) override;

 protected:
  /// The maps of the operands. Not called where launches are only planned.
  virtual void encode(kernels::HopperGemmArgs& args, const Buffers& b) = 0;
  /// What the argument has behind `args`: HopperEntry::bytes.
  virtual void append(Arguments& arguments) const = 0;

  const CudaEpilogue& epilogue() const { return epilogue_; }

 private:
  CudaEpilogue epilogue_;
  std::optional<ResultMaps> results_;
  std::shared_ptr<device::cuda::Device> device_;
  int64_t tiles_ = 0, partial_bytes_ = 0;
  device::cuda::LaunchShape shape_;
  int64_t early_shared_bytes_ = 0;  // where it begins while the kernel before it runs; 0: it has nothing to do then
  kernels::HopperGemmArgs args_{};
  std::shared_ptr<device::cuda::Memory> arrived_;
};

}  // namespace smelt::ops::matmul
