// Pointwise programs over quantized tensors that have a loop of their own: the blocked evaluator takes one for each instruction.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "expr/cpu.h"
#include "ops/cpu/integer/byte_map.h"
#include "ops/cpu/integer/program.h"
#include "ops/cpu/integer/simd/combine.h"
#include "ops/cpu/integer/simd/rows.h"

namespace smelt::ops::integer {

/// A program of one output over contiguous operands; the result is that of the program, bit for bit.
class RowProgram {
 public:
  /// Nothing when the program is none of: bytes to bytes that depend on them alone; quantized f32; the quantized sum or product of two
  /// dequantized tensors of bytes, and its Relu; the quantized choice between two of them by booleans. Nothing either where this CPU has no
  /// AVX2.
  static std::optional<RowProgram> match(const expr::Program& p);

  /// Whether an input may be one element for all of a run.
  bool takes_repeated() const { return combines_ || selects_; }
  void run(int64_t n, std::span<const expr::Operand> inputs, void* output) const;

 private:
  void select(int64_t n, std::span<const expr::Operand> inputs, uint8_t* to) const;

  ByteMap map_, second_map_;
  bool quantizes_ = false, combines_ = false, selects_ = false;
  size_t input_ = 0, second_ = 0, condition_ = 0;
  Combination combination_;
  /// Whether multiplication is right of all pairs of bytes, which is tried when so many have been combined that it pays: results are the same
  /// before and after. Copies share it.
  struct Pairs {
    std::atomic<int64_t> seen = 0;
    std::atomic<bool> is_tried = false, is_sure = false;
  };
  bool is_sure(int64_t n) const;
  std::shared_ptr<Pairs> pairs_;
  Requantization row_;
};

}  // namespace smelt::ops::integer
