// The blocked CPU evaluator. It compiles a Program into a list of loops over blocks of up to 1024 elements or 4 KB, so that a
// block stays in the L1 cache between one loop and the next. Every loop is vectorised for the CPU's instruction set
// (expr/simd/isa.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "expr/cpu/blocks.h"
#include "expr/program.h"
#include "expr/simd/isa.h"

namespace smelt::expr {

/// One input of a run. Element i lies at data + i * stride; stride counts elements. The evaluator reads stride 1 in place,
/// repeats the one element of stride 0, and gathers any other stride block by block.
struct Operand {
  const void* data = nullptr;
  int64_t stride = 1;
};

/// A compiled Program. It does not change once it is built: any number of threads may run it, each with its own scratch memory.
class Evaluator {
 public:
  /// `loop_length`: the largest n that run() will get, where that is known. A small one makes blocks, and with them the scratch
  /// memory, smaller; it changes no result.
  explicit Evaluator(const Program& program, simd::Isa isa = simd::widest(), int64_t loop_length = INT64_MAX);

  /// Size in bytes of the scratch memory that run() needs.
  int64_t scratch() const { return scratch_; }
  /// Evaluates n elements. `inputs`: one operand per input, in the program's order. `outputs`: n contiguous elements per output.
  /// `scratch`: scratch() bytes, 64-byte aligned. Allocates nothing and does not throw.
  /// A program with one output may write it over an input of stride 1 whose element type has the same width.
  void run(int64_t n, std::span<const Operand> inputs, std::span<void* const> outputs, void* scratch) const;
  /// The same in two steps, for many short runs one after the other: prepare() once for all that use this scratch memory.
  void prepare(void* scratch) const;
  void run_prepared(int64_t n, std::span<const Operand> inputs, std::span<void* const> outputs, void* scratch) const;
  /// Number of elements in a block.
  int64_t block() const { return block_; }
  /// Number of loops over each block, for cost models.
  int loops() const { return static_cast<int>(steps_.size()); }

 private:
  // A slot is an index into run()'s table of pointers, which holds inputs, outputs, constants and blocks of scratch memory, in
  // this order.
  struct Step {
    BlockFn fn;
    int32_t out, args[3];
  };
  struct Constant {
    int32_t slot;
    int64_t offset;  // into constants_
  };
  class Compiler;
  uint8_t* input_blocks(void* scratch) const;

  std::vector<Step> steps_;
  std::vector<int32_t> input_bytes_, output_bytes_;  // size of an element
  std::vector<GatherFn> input_gather_;
  std::vector<bool> input_read_;
  std::vector<int32_t> copies_;  // pairs (output, slot) for outputs that copy an input or a constant
  std::vector<Constant> constant_slots_;
  std::vector<uint8_t> constants_;  // each repeated over a block
  int32_t first_block_ = 0, slots_ = 0, slot_bytes_ = 0;
  int64_t block_ = 0, scratch_ = 0;
};

/// Copies n elements of `bytes` bytes each (1, 2, 4 or 8) to contiguous memory. Element i lies at data + i * stride * bytes;
/// stride 0 repeats one element.
void gather(void* to, const void* data, int64_t stride, int64_t n, int bytes);
/// The function that does so for many rows, of elements of so many bytes.
GatherFn gather_of(int bytes);

}  // namespace smelt::expr
