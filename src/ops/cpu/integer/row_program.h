// Pointwise programs over quantized tensors that have a loop of their own: the blocked evaluator takes one for each instruction.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "expr/cpu.h"
#include "ops/cpu/integer/program.h"
#include "ops/cpu/integer/simd/rows.h"

namespace smelt::ops::integer {

/// A program of one output over contiguous operands; the result is that of the program, bit for bit.
class RowProgram {
 public:
  /// Nothing when the program is none of: bytes to bytes that depend on them alone; quantized f32, or sum or product of two
  /// operands, each f32 or dequantized bytes; dequantized bytes. Nothing either where this CPU has no AVX2.
  static std::optional<RowProgram> match(const expr::Program& p);

  void run(int64_t n, std::span<const expr::Operand> inputs, void* output) const;

 private:
  struct Side {
    int input = -1;
    DType type = DType::f32;
    int32_t zero = 0;
    float scale = 1;
  };
  enum class Kind : uint8_t { table, quantize, combine, dequantize };
  static std::optional<Side> side(const expr::Program& p, expr::Ref r);
  /// `n` elements of a side from element `at` on, as f32: where they lie, or in `block`.
  const float* numbers(const Side& s, std::span<const expr::Operand> inputs, int64_t at, int64_t n, float* block) const;

  Kind kind_ = Kind::table;
  std::array<uint8_t, 256> table_{};
  Side a_, b_;
  Combine op_ = Combine::add;
  Requantization row_;
};

}  // namespace smelt::ops::integer
