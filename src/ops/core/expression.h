// From pointwise operators to the expression language: one translator for fused regions, whose shapes are symbolic
// (fuse/match/pointwise.h), and for a single bound node (onnx_program.h). What an operator computes stands in its row
// (Facts::expression); these are the forms that are more than a call of one function.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ops/core/facts.h"

namespace smelt::ops {

/// An input of the node that is written.
struct Operand {
  bool present = false;
  expr::Ref ref = -1;           // what the program has of it; -1: nothing, it is left out or only says what the node does
  std::optional<double> value;  // of a constant of one element
};

/// One node being appended to a program. f16 and bf16 are computed in f32.
struct Writer {
  expr::Program& program;
  const Node& node;
  std::span<const Operand> inputs;
  DType type;    // computing type of the leading operand
  DType result;  // the type of the node's output 0; the caller casts what is written to it
  /// In a fused region a constant may give a cheaper form: x * x for Pow(x, 2), silu for Swish with alpha 1, one clip for two
  /// bounds. A node by itself is written as the operator is defined.
  bool in_region = false;

  bool has(size_t i) const { return i < inputs.size() && inputs[i].ref >= 0; }
  /// Operand i as a number of type `as`: a constant of one element is written into the program.
  expr::Ref in(size_t i, DType as) const;
  expr::Ref in(size_t i) const { return in(i, type); }
  expr::Ref number(double v) const { return program.constant(type, v); }
  expr::Ref attribute(std::string_view name, float otherwise) const {
    return number(node.get_float(std::string(name), otherwise));
  }
  /// Arguments in braces are appended in the order in which they are written, whatever the compiler.
  expr::Ref call(expr::Fn fn, std::initializer_list<expr::Ref> arguments) const;
};

/// The type that a value of type t has inside a program: f32 for f16 and bf16, t for those programs compute in; nothing for
/// strings, complex numbers and the 8-bit floats and packed types.
std::optional<DType> computing_type(DType t);
/// The same for a type that programs do compute in; throws Error for the others.
DType required_computing_type(DType t);

/// Appends what the node computes as output 0; nothing where the language has no program for its types.
std::optional<expr::Ref> express(const Writer& w);

expr::Ref write_identity(const Writer& w);
expr::Ref write_cast(const Writer& w);
expr::Ref write_dropout(const Writer& w);
expr::Ref write_mod(const Writer& w);
expr::Ref write_pow(const Writer& w);
expr::Ref write_clip(const Writer& w);
expr::Ref write_bit_shift(const Writer& w);
expr::Ref write_mean(const Writer& w);
template <expr::Fn fn> expr::Ref write_fold(const Writer& w);  // of any number of operands: add, min, max
expr::Ref write_is_inf(const Writer& w);
expr::Ref write_shrink(const Writer& w);
expr::Ref write_swish(const Writer& w);
expr::Ref write_gelu(const Writer& w);
expr::Ref write_quick_gelu(const Writer& w);  // com.microsoft
expr::Ref write_bias_gelu(const Writer& w);
expr::Ref write_fast_gelu(const Writer& w);
expr::Ref write_quantize(const Writer& w);  // with one scale
expr::Ref write_dequantize(const Writer& w);

}  // namespace smelt::ops
