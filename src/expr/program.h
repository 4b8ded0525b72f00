// The expression language: every pointwise computation smelt fuses is a Program, whichever backend runs it.
//
// A Program is straight-line code in single-assignment form. Instruction i defines %i; arguments are earlier instructions.
// Each instruction has one element type and computes in it: f32 and f64 as IEEE arithmetic, integers wrapping at their
// width, bool for comparisons. f16 and bf16 only enter and leave: an input is loaded in its own type, `cast` widens it,
// and a final `cast` rounds once (nearest even). So a fused chain of half-precision operators rounds once, not at
// every operator.
//
// Grammar of the printed form (parse(print(p)) == p; white space is free):
//
//   program  = "(" [ input { "," input } ] ")" "{" { statement } "return" ref { "," ref } "}"
//   input    = "in" NUMBER ":" type
//   statement= ref "=" call ":" type ";"
//   call     = function "(" [ ref { "," ref } ] ")" | "cast" "(" ref ")" | "const" "(" NUMBER ")"
//   ref      = "in" NUMBER | "%" NUMBER
//   type     = "f32" | "f64" | "f16" | "bf16" | "i8" … as smelt::name(DType) spells them
//
//   example    (in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = relu(%2):f32; return %3 }
//
// Functions are the rows of functions.def and nothing else: no text of a model reaches a printer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/dtype.h"

namespace smelt::expr {

enum class Fn : uint8_t {
  input,      // the value of input `index` at this element
  constant,   // `value`, in the instruction's type
  cast,       // its argument converted as ONNX Cast converts
#define SMELT_FN(id, arity, ...) id,
#include "expr/functions.def"
#undef SMELT_FN
};

using Ref = int32_t;   // index into Program::code

struct Instruction {
  Fn fn = Fn::input;
  DType type = DType::f32;
  Ref args[3] = {-1, -1, -1};
  int32_t index = -1;    // input only
  double value = 0;      // constant only; integers up to 2^53 in magnitude are exact
  bool operator==(const Instruction&) const = default;
};

/// Well-formed by construction: the first input_count() instructions are the inputs in order, arguments come before
/// their uses, arities and types agree. The builders throw Error otherwise.
class Program {
 public:
  Ref input(DType type);                                   // all inputs before any other instruction
  Ref constant(DType type, double value);
  Ref cast(Ref a, DType to);                               // returns a itself when it already has the type
  Ref call(Fn fn, Ref a);                                  // result type: bool for comparisons and predicates, else a's
  Ref call(Fn fn, Ref a, Ref b);
  Ref call(Fn fn, Ref a, Ref b, Ref c);
  void output(Ref r);

  int input_count() const { return inputs_; }
  const std::vector<Instruction>& code() const { return code_; }
  const std::vector<Ref>& outputs() const { return outputs_; }
  DType type(Ref r) const { return code_[static_cast<size_t>(r)].type; }

  /// Copies the instructions of `p` behind these, its inputs bound to `inputs` (types must agree); returns p's outputs.
  std::vector<Ref> splice(const Program& p, std::span<const Ref> inputs);
  /// Number of instructions that compute (all but inputs and constants): the pointwise FLOPs of one element.
  int operations() const;

  std::string print() const;
  static Program parse(std::string_view text);             // throws Error with the position and what was expected
  bool operator==(const Program&) const = default;

 private:
  std::vector<Instruction> code_;
  std::vector<Ref> outputs_;
  int inputs_ = 0;
};

/// What functions.def says of a function.
struct FnInfo {
  std::string_view name;    // in the grammar
  int arity;
  bool predicate;           // result is bool whatever the arguments' type
};
const FnInfo& info(Fn fn);

}  // namespace smelt::expr
