// What follows the sums of a convolution of 8-bit integers that another kernel made in memory: scales, the program, as a sweep over them.
#pragma once

#include <optional>
#include <vector>

#include "ops/conv/int8_problem.h"
#include "ops/pointwise/cpu_sweep.h"

namespace smelt::ops::conv {

class Int8SumsEnd {
 public:
  /// `sums`: of the result's shape, i32 without the bias, or f32 with it.
  Int8SumsEnd(const Request& q, const BoundTensor& sums);
  /// Why the result cannot be written so; nothing where it can.
  static std::optional<Refusal> rejects(const Request& q, DType sums);

  int64_t workspace() const { return sweep_.workspace(); }
  /// `b`: of the convolution.
  void run(const void* sums, const Buffers& b, void* scratch);

 private:
  Sweep sweep_;
  size_t operands_, first_;    // the node's first operand, and where it stands among inputs_
  std::vector<float> scales_;  // of each channel, as the bias
  std::vector<int32_t> bias_;
  std::vector<const void*> inputs_;  // the sums, scales, the bias where it is added here, the program's operands
};

}  // namespace smelt::ops::conv
