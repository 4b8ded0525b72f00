// What is known of an operator besides its shape rule and its reference: facts that stand beside them in its row and that
// shape analysis, fusion, layouts, costs and the conversion to 16 bits read. tests/ops/core/facts_test.cpp holds them against ONNX's
// schemas and the references.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "expr/program.h"
#include "ops/core/operator.h"

namespace smelt::ops {

struct AtMost;
struct BoundNode;
struct Writer;

/// Where the elements of an operator's outputs come from.
enum class Elements : uint8_t {
  computed,   // from any elements of the inputs
  pointwise,  // each from the operands' elements at its place, after broadcasting
  in_order,   // input 0's, in their order, under other extents: a view where memory is dense
  moved,      // copies of input 0's (Concat: of every input's) at other places
  extents,    // numbers of input 0's extents; its elements are not read
};

/// The shape of output 0.
enum class OutShape : uint8_t {
  own,        // by the operator's rule
  input,      // input 0's
  input_all,  // input 0's, and so are all other outputs'
  broadcast,  // what the inputs broadcast to
};

/// What a conversion to 16-bit floats makes of the operator (fuse/precision.h), as autocast's lists of operators in frameworks.
enum class Autocast : uint8_t {
  lower,    // computes in 16 bits where ONNX defines it for them
  no_form,  // is not defined for them
  fp32,     // stays fp32: squares, exponentials and long sums leave fp16's range (65504) or lose bf16's 8 bits; positions,
            // angles and indices need more bits
};

/// Floating-point operations of a node, its program's apart (ops/core/cost.h).
struct Flops {
  int64_t of_output = -1;                          // an element of output 0; -1: 1 where it is pointwise, else 0
  int64_t of_input = 0;                            // an element of input 0
  int64_t (*count)(const BoundNode& b) = nullptr;  // all, where neither is constant; the program's included
};
inline constexpr Flops no_flops{.of_output = 0};

/// An attribute that is a float.
struct FloatAttribute {
  std::string_view name;
  float otherwise = 0;  // ONNX's default
};

/// A pointwise operator in the expression language (ops/core/expression.h): a call of one function with the operands and
/// then the attributes as arguments, or what `write` appends.
struct Expression {
  using Write = expr::Ref (*)(const Writer& w);  // -1: the language has no program for these operands
  expr::Fn fn = expr::Fn::input;                 // with `write`: one that takes the same types
  FloatAttribute parameters[2];
  Write write = nullptr;
  int least = 1;         // operands that `write` reads always
  bool mixed = false;    // operands may differ in type; the first one's counts
  bool of_node = false;  // the node's own program (ai.smelt.Pointwise)

  constexpr Expression() = default;
  constexpr Expression(expr::Fn function, FloatAttribute first = {}, FloatAttribute second = {})
      : fn(function), parameters{first, second} {}
  constexpr Expression(expr::Fn like, Write append, int operands = 1, bool may_differ = false)
      : fn(like), write(append), least(operands), mixed(may_differ) {}
  static constexpr Expression program_of_node() {
    Expression e;
    e.of_node = true;
    return e;
  }

  constexpr bool exists() const { return of_node || fn != expr::Fn::input; }
  /// The operand whose type it computes in: not the condition of a select.
  constexpr size_t lead() const { return fn == expr::Fn::select && !write ? 1 : 0; }
  /// Operands that must be present.
  size_t operands() const;
  bool accepts(DType computing) const;
};

inline constexpr bool mixed_types = true;

struct Facts {
  Elements elements = Elements::computed;
  OutShape shape = OutShape::own;
  Expression expression;
  uint8_t operands = 255;  // leading inputs whose elements it reads; the others say a type or what it does
  Flops flops;
  Autocast autocast = Autocast::lower;
  bool contracts = false;       // sums of products: takes longer than reading its inputs
  bool reads_part = false;      // of input 0 only what output 0 holds
  bool expands_on_gpu = false;  // a GPU runs its ONNX function's body, or what a rule of the import makes of it
  bool data_dependent = false;  // the outputs' extents depend on elements
  /// The largest that data-dependent outputs can be, where a GPU's kernel finds them (ops/core/data_dependent.h).
  std::vector<AtMost> (*at_most)(const Node& node, std::span<const TensorDesc> inputs) = nullptr;
};

/// Of a pointwise operator whose output has the shape of input 0.
constexpr Facts elementwise(Expression e, Facts more = {}) {
  more.elements = Elements::pointwise;
  if (more.shape == OutShape::own) more.shape = OutShape::input;
  more.expression = e;
  return more;
}
/// Of a pointwise operator whose output has the shape that its inputs broadcast to.
constexpr Facts broadcasting(Expression e, Facts more = {}) {
  more.shape = OutShape::broadcast;
  return elementwise(e, more);
}

/// A row of a family's table.
struct OpRow {
  OpDef def;
  Facts facts;
};

/// Null when smelt has no such operator.
const OpRow* find_row(std::string_view op, std::string_view domain);
/// All rows, in the registry's order.
std::span<const OpRow* const> rows();
/// The facts of a node's operator; the defaults where smelt has no such operator.
const Facts& facts(const Node& node);

}  // namespace smelt::ops
