// The blocked CPU evaluator: a Program compiled into a list of loops over blocks of a few hundred elements, which stay in the
// L1 cache between one loop and the next. Every loop is vectorised for the CPU's instruction set (expr/simd/isa.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "expr/cpu/blocks.h"
#include "expr/program.h"
#include "expr/simd/isa.h"

namespace smelt::expr {

/// Where one input's elements lie: element i is at data + i * stride (in elements). Stride 1 is read in place, stride 0 once a
/// call; any other is gathered block by block.
struct Operand {
  const void* data = nullptr;
  int64_t stride = 1;
};

/// Immutable once built: any number of threads may run it, each with its own scratch memory.
class Evaluator {
 public:
  /// `loop_length`: the longest run that run() will be called with, where it is known to be short; it only saves scratch memory.
  explicit Evaluator(const Program& program, simd::Isa isa = simd::best(), int64_t loop_length = INT64_MAX);

  /// Bytes of scratch memory that run() needs, 64-byte aligned.
  int64_t scratch() const { return scratch_; }
  /// Evaluates n elements: inputs in the program's order, one contiguous output for each of the program's. Allocates nothing.
  /// The output of a program that has one may be the memory of an input of stride 1 whose type is as wide.
  void run(int64_t n, std::span<const Operand> inputs, std::span<void* const> outputs, void* scratch) const;
  /// Elements evaluated at a time.
  int64_t block() const { return block_; }
  /// Loops over each block, for cost models.
  int loops() const { return static_cast<int>(steps_.size()); }

 private:
  // A slot is an index into the table of pointers that run() keeps: inputs, outputs, constants, then blocks of scratch memory.
  struct Step {
    BlockFn fn;
    int32_t out, args[3];
  };
  struct Constant {
    int32_t slot;
    int64_t offset;  // into constants_
  };
  class Compiler;

  std::vector<Step> steps_;
  std::vector<int32_t> input_bytes_, output_bytes_;  // of an element
  std::vector<bool> input_read_;
  std::vector<int32_t> copies_;  // outputs that are an input or a constant: pairs (output, slot)
  std::vector<Constant> constant_slots_;
  std::vector<uint8_t> constants_;  // each splatted over a block
  int32_t first_block_ = 0, slots_ = 0, slot_bytes_ = 0;
  int64_t block_ = 0, scratch_ = 0;
};

/// Elements from `data` on, `stride` elements of `bytes` bytes each apart, to contiguous memory (stride 0: repeated).
void gather(void* to, const void* data, int64_t stride, int64_t n, int bytes);

}  // namespace smelt::expr
