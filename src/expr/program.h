// The expression language: every pointwise computation smelt fuses is a Program, whichever backend runs it.
//
// A Program is straight-line code in single-assignment form. Instruction i defines %i; arguments are earlier instructions.
// Each instruction has one element type and computes in it: f32 and f64 as IEEE arithmetic, integers wrapping at their
// width (8 to 64 bits; functions.def has the rest of their semantics), bool for comparisons. f16 and bf16 only enter and leave:
// an input is loaded in its own type, `cast` widens it, and a final `cast` rounds once (nearest even). So a fused chain of
// half-precision operators rounds once, not at every operator.
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
//   NUMBER     decimal digits; of a constant, a decimal floating-point number, "inf", "-inf" or "nan"
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
  input,     // the value of input `index` at this element
  constant,  // `value`, in the instruction's type
  cast,      // its argument converted: to a float, rounded to nearest even; float to integer, truncated toward zero, out of
             // range saturated, NaN to 0; integer to integer, modulo 2^width; to bool, "is not 0"
#define SMELT_FN(id, ...) id,
#include "expr/functions.def"
#undef SMELT_FN
};

using Ref = int32_t;  // index into Program::code

struct Instruction {
  Fn fn = Fn::input;
  DType type = DType::f32;
  Ref args[3] = {-1, -1, -1};
  int32_t index = -1;                           // input only
  double value = 0;                             // constant only; integers up to 2^53 in magnitude are exact
  bool operator==(const Instruction& o) const;  // values bit by bit: NaN equals NaN, 0 differs from -0
};

/// Well-formed by construction: the first input_count() instructions are the inputs in order, arguments come before
/// their uses, arities and types agree. The builders throw Error otherwise.
class Program {
 public:
  Ref input(DType type);                   // all inputs before any other instruction
  Ref constant(DType type, double value);  // of a computing type; an integer's must be whole and in range
  Ref cast(Ref a, DType to);               // returns a itself when it already has the type
  Ref call(Fn fn, Ref a);                  // result type: bool for comparisons and predicates, else a's
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
  static Program parse(std::string_view text);  // throws Error with the position and what was expected
  bool operator==(const Program&) const = default;

 private:
  Ref append(const Instruction& i);
  Ref append_call(Fn fn, std::span<const Ref> args);
  void check(Ref r) const;  // r is defined
  std::vector<Instruction> code_;
  std::vector<Ref> outputs_;
  int inputs_ = 0;
};

/// What functions.def says of a function.
enum class Types : uint8_t { numbers, floats, integers, unsigneds, booleans, any };
struct FnInfo {
  std::string_view name;  // in the grammar
  int arity;
  bool predicate;         // result is bool whatever the arguments' type
  Types types;            // what the arguments may be
  std::string_view code;  // the C++ expression over a, b, c of type T
  std::string_view onnx;  // the operators it is in ONNX
};
const FnInfo& info(Fn fn);
/// All functions of functions.def, in its order.
std::span<const Fn> functions();
/// The types that instructions compute in: f32, f64, the integers of 8 to 64 bits, bool. f16 and bf16 only enter and leave.
bool is_computing(DType t);
/// Whether fn takes arguments of this type.
bool accepts(Fn fn, DType t);

/// (in0:from) { return in0 cast to `to` }: what a fused operator without a program does with its result.
Program conversion(DType from, DType to);

}  // namespace smelt::expr
