// What follows a product on a GPU: a program over the sums and its operands, which a kernel applies to a few neighbouring columns
// of a row at a time (src/kernels/pointwise/epilogue.cuh). Products and convolutions share it.
//
// The output is seen as batches of a matrix: its columns are one axis, its batches some others (or none), and its rows all that
// are left, in order. Operands broadcast to the output. Any tensor may have any strides.
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/cuda/device.h"
#include "expr/program.h"
#include "ops/core/tactic.h"
#include "ops/cuda/source.h"
#include "ops/cuda/walk.h"

namespace smelt::ops {

/// A tensor that the program reads: one of the node's inputs, memory on the device that the kernel keeps, or what the kernel makes
/// itself, which has no address.
struct EpilogueOperand {
  static constexpr size_t no_input = SIZE_MAX;
  BoundTensor tensor;
  size_t input = no_input;
  std::shared_ptr<device::cuda::Memory> memory = nullptr;
  double most = std::numeric_limits<double>::infinity();  // magnitude of its elements, as expr::to_cuda takes it
  /// The tensor, of i32, has one element for all columns of a row: where these lie in `memory`, which begins with it, or -1, where they are
  /// all zeros. They lie at multiples of 16 elements, whole such parts of them.
  bool by_index = false;
};

/// How the output's axes are rows, columns and batches.
struct EpilogueAxes {
  size_t column;
  std::vector<size_t> batches;
};

class CudaEpilogue {
 public:
  CudaEpilogue() = default;  // none; only to be assigned to
  /// y = program(sums, operands…), or the reason why there is none: "31 operands, an epilogue takes 30".
  static Result<CudaEpilogue> make(const expr::Program& program, const BoundTensor& y, std::vector<EpilogueOperand> operands,
                                   const EpilogueAxes& axes, int64_t width = 4);

  /// The same over `width` columns at a time, where every tensor is then accessed as widely as now and all columns make whole
  /// accesses; else as it is.
  CudaEpilogue widened(int64_t width) const;

  /// The same over `width` columns at a time, however its tensors are then accessed.
  CudaEpilogue at_width(int64_t width) const;
  /// How load<> and store<> take a tensor, 0: y, then the operands: 1 side by side and aligned to `width` elements or 16 bytes, 0
  /// one element for all columns, 2 at an index (EpilogueOperand::by_index), -1 any stride.
  int access(size_t tensor) const { return access_[tensor]; }
  bool varies_by_row(size_t tensor) const;
  int64_t columns() const { return y_.shape[axes_.column]; }

  /// The sums' magnitude is at most so.
  void sums_at_most(double most) { sums_most_ = most; }

  /// Declares Program and Epilogue.
  std::string source() const;
  /// The same, then the entry; its argument is WithEpilogue<entry.arguments, Epilogue>, the first of them of `bytes`, a multiple of
  /// its `alignment`.
  std::string source(KernelEntry entry, size_t bytes, size_t alignment = 8) const;
  /// "bias" forms as a cache key wants them: the program, then types, shapes and strides of the operands, the
  /// output's where it is not dense, and how wide their accesses are.
  std::string text() const;
  const expr::Program& program() const { return program_; }
  const BoundTensor& output() const { return y_; }
  const std::vector<EpilogueOperand>& operands() const { return operands_; }
  int64_t rows() const { return row_count_; }
  int64_t batches() const { return batch_count_; }
  /// Bytes that the operands and the output move, each element once.
  int64_t moved_bytes() const { return moved_; }
  bool reads(size_t i) const;  // input i
  /// Whether input i is read once only, at the place where the output's element in its place is written next.
  bool in_place(size_t i) const;
  size_t bytes() const { return argument_.size(); }

  /// kernels::EpilogueArgs as it lies in memory, with the addresses of a run; valid until the next call.
  const void* argument(const Buffers& b);

 private:
  expr::Program program_;
  BoundTensor y_;
  std::vector<EpilogueOperand> operands_;
  EpilogueAxes axes_;
  double sums_most_ = std::numeric_limits<double>::infinity();
  int64_t width_ = 4, row_count_ = 1, batch_count_ = 1, moved_ = 0;
  Views row_views_, batch_views_;      // of the output, then the operands
  std::vector<int64_t> column_steps_;  // elements from one column to the next
  std::vector<int> access_;            // how load<> and store<> take them: 1, 0, -1
  std::vector<std::byte> argument_;
};

/// The program of a fused node's product, over its sums before alpha, which are multiplied first; without one the sums, of type `sums`,
/// in y's type.
expr::Program epilogue_program(const Node& node, DType sums, DType y, double alpha);

/// `node`'s inputs from `first` on that are there.
std::vector<EpilogueOperand> epilogue_operands(const BoundNode& node, size_t first);

}  // namespace smelt::ops
