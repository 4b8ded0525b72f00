// The expression language. Every pointwise computation that smelt fuses is a Program, whichever backend runs it.
//
// A Program is straight-line code in static single-assignment form. Instruction i defines %i; its arguments are earlier
// instructions. Each instruction has one element type and computes in it: f32 and f64 follow IEEE 754, integers of 8 to 64 bits
// wrap at their width (functions.def has the rest of their semantics), comparisons give bool. f16 and bf16 are storage types:
// an input is loaded in its own type, `cast` widens it to f32, and a final `cast` rounds to nearest even. A fused chain of
// half-precision operators therefore rounds once, not at every operator.
//
// Grammar of the printed form. parse(print(p)) == p; white space has no meaning.
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
// A function is a row of functions.def and nothing else: no text of a model reaches a printer.
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
  cast,      // converts its argument. To a float: rounds to nearest even. Float to integer: truncates toward zero, saturates
             // outside the range, NaN gives 0. Integer to integer: modulo 2^width. To bool: true unless 0
#define SMELT_FN(id, ...) id,
#include "expr/functions.def"
#undef SMELT_FN
};

using Ref = int32_t;  // index into Program::code

struct Instruction {
  Fn fn = Fn::input;
  DType type = DType::f32;
  Ref args[3] = {-1, -1, -1};
  int32_t index = -1;                           // of an input
  double value = 0;                             // of a constant; integers up to 2^53 in magnitude are exact
  bool operator==(const Instruction& o) const;  // compares values bit by bit: NaN equals NaN, 0 differs from -0
};

/// A Program is well formed by construction: the first input_count() instructions are the inputs in order, arguments come
/// before their uses, and arities and types agree. The builders throw Error for anything else.
class Program {
 public:
  Ref input(DType type);                   // inputs come before all other instructions
  Ref constant(DType type, double value);  // is_computing(type); an integer must be whole and in range, a bool 0 or 1
  Ref cast(Ref a, DType to);               // returns a itself when it has the type already
  Ref call(Fn fn, Ref a);                  // a result is bool where info(fn).predicate, else of the arguments' type
  Ref call(Fn fn, Ref a, Ref b);
  Ref call(Fn fn, Ref a, Ref b, Ref c);
  void output(Ref r);

  int input_count() const { return inputs_; }
  const std::vector<Instruction>& code() const { return code_; }
  const std::vector<Ref>& outputs() const { return outputs_; }
  DType type(Ref r) const { return code_[static_cast<size_t>(r)].type; }

  /// Appends p's instructions, its inputs bound to `inputs`; returns its outputs here. Throws Error if counts or types differ.
  std::vector<Ref> splice(const Program& p, std::span<const Ref> inputs);
  /// Number of instructions except inputs and constants, for cost models: the operations per element.
  int operations() const;

  std::string print() const;
  static Program parse(std::string_view text);  // throws Error with the position, what was expected and what was found
  bool operator==(const Program&) const = default;

 private:
  Ref append(const Instruction& i);
  Ref append_call(Fn fn, std::span<const Ref> args);
  void check(Ref r) const;  // throws Error unless r is defined
  std::vector<Instruction> code_;
  std::vector<Ref> outputs_;
  int inputs_ = 0;
};

/// A row of functions.def.
enum class Types : uint8_t { numbers, floats, integers, unsigneds, booleans, any };
struct FnInfo {
  std::string_view name;  // in the grammar
  int arity;
  bool predicate;         // the result is bool whatever the arguments' type
  Types types;            // the arguments' types
  std::string_view code;  // the C++ expression over a, b, c of type T
  std::string_view onnx;  // the same function as ONNX operators
};
const FnInfo& info(Fn fn);
/// All functions, in the order of functions.def.
std::span<const Fn> functions();
/// Whether instructions compute in t: f32, f64, integers of 8 to 64 bits and bool. f16 and bf16 are storage types only.
bool is_computing(DType t);
/// Whether fn takes arguments of type t (select: as its second and third).
bool accepts(Fn fn, DType t);

/// The program (in0:from) { return in0 cast to `to` }. A fused operator without a program of its own applies it to its result.
Program conversion(DType from, DType to);

}  // namespace smelt::expr
