#include "expr/program.h"

#include <array>
#include <bit>
#include <cmath>

#include "base/error.h"

namespace smelt::expr {
namespace {

constexpr FnInfo table[] = {
    {"input", 0, false, Types::any, "", ""},
    {"const", 0, false, Types::any, "", ""},
    {"cast", 1, false, Types::any, "", ""},
#define SMELT_FN(id, arity, types, result, code, onnx) \
  {#id, arity, std::string_view(#result) == "truth", Types::types, #code, onnx},
#include "expr/functions.def"
#undef SMELT_FN
};

constexpr size_t first_function = static_cast<size_t>(Fn::cast) + 1;

constexpr auto all_functions = [] {
  std::array<Fn, std::size(table) - first_function> fns{};
  for (size_t i = 0; i < fns.size(); ++i) fns[i] = static_cast<Fn>(first_function + i);
  return fns;
}();

std::string_view describe(Types t) {
  switch (t) {
    case Types::numbers: return "f32, f64 or an integer type";
    case Types::floats: return "f32 or f64";
    case Types::integers: return "an integer type";
    case Types::unsigneds: return "an unsigned integer type";
    case Types::booleans: return "bool";
    case Types::any: return "a type that computes (f32, f64, an integer of 8 to 64 bits, bool)";
  }
  return "";
}

bool can_store(DType t) { return is_computing(t) || t == DType::f16 || t == DType::bf16; }

/// Whether integer type t holds the whole number v exactly. For 64-bit types the limit is 2^53, beyond which double has gaps.
bool in_range(DType t, double v) {
  const int width = bits(t) < 64 ? bits(t) - (is_signed(t) ? 1 : 0) : 53;
  const double top = std::ldexp(1.0, width);
  const double low = !is_signed(t) ? 0 : bits(t) < 64 ? -top : 1 - top;
  return v >= low && v < top;
}

}  // namespace

bool Instruction::operator==(const Instruction& o) const {
  return fn == o.fn && type == o.type && args[0] == o.args[0] && args[1] == o.args[1] && args[2] == o.args[2] &&
         index == o.index && std::bit_cast<uint64_t>(value) == std::bit_cast<uint64_t>(o.value);
}

const FnInfo& info(Fn fn) { return table[static_cast<size_t>(fn)]; }
std::span<const Fn> functions() { return all_functions; }

bool is_computing(DType t) {
  switch (t) {
    case DType::f32:
    case DType::f64:
    case DType::boolean:
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
    case DType::u8:
    case DType::u16:
    case DType::u32:
    case DType::u64: return true;
    default: return false;
  }
}

bool accepts(Fn fn, DType t) {
  const bool flt = t == DType::f32 || t == DType::f64;
  const bool integer = is_computing(t) && is_integer(t);
  switch (info(fn).types) {
    case Types::numbers: return flt || integer;
    case Types::floats: return flt;
    case Types::integers: return integer;
    case Types::unsigneds: return integer && !is_signed(t);
    case Types::booleans: return t == DType::boolean;
    case Types::any: return is_computing(t);
  }
  return false;
}

Ref Program::append(const Instruction& i) {
  code_.push_back(i);
  return static_cast<Ref>(code_.size()) - 1;
}

void Program::check(Ref r) const {
  if (r < 0 || static_cast<size_t>(r) >= code_.size())
    fail("expression: argument %{} is not defined yet; expected one of the {} instructions before it", r, code_.size());
}

Ref Program::input(DType type) {
  if (static_cast<size_t>(inputs_) != code_.size())
    fail("expression: in{} comes after other instructions; expected all inputs first", inputs_);
  if (!can_store(type)) fail("expression: in{} has type {}; expected f16, bf16 or {}", inputs_, name(type), describe(Types::any));
  return append({.fn = Fn::input, .type = type, .index = inputs_++});
}

Ref Program::constant(DType type, double value) {
  if (!is_computing(type)) fail("expression: a constant of type {}; expected {}", name(type), describe(Types::any));
  if (is_integer(type) && (std::trunc(value) != value || !in_range(type, value)))
    fail("expression: constant {} is not exact in {}; expected a whole number in its range (to 2^53)", value, name(type));
  if (type == DType::boolean && value != 0 && value != 1) fail("expression: constant {} of type bool; expected 0 or 1", value);
  return append({.fn = Fn::constant, .type = type, .value = value});
}

Ref Program::cast(Ref a, DType to) {
  check(a);
  if (type(a) == to) return a;
  if (!can_store(to)) fail("expression: cast to {}; expected f16, bf16 or {}", name(to), describe(Types::any));
  return append({.fn = Fn::cast, .type = to, .args = {a, -1, -1}});
}

Ref Program::append_call(Fn fn, std::span<const Ref> args) {
  const FnInfo& f = info(fn);
  if (static_cast<size_t>(fn) < first_function) fail("expression: {} is not a function to call; use its builder", f.name);
  if (f.arity != static_cast<int>(args.size())) fail("expression: {} takes {} arguments, found {}", f.name, f.arity, args.size());
  Instruction i{.fn = fn};
  for (size_t k = 0; k < args.size(); ++k) check(i.args[k] = args[k]);
  const size_t first = fn == Fn::select ? 1 : 0;
  if (first == 1 && type(args[0]) != DType::boolean)
    fail("expression: select chooses by %{} of type {}; expected bool", args[0], name(type(args[0])));
  const DType t = type(args[first]);
  if (!accepts(fn, t)) fail("expression: {} of type {}; expected {}", f.name, name(t), describe(f.types));
  for (size_t k = first; k < args.size(); ++k)
    if (type(args[k]) != t)
      fail("expression: {} of {} and {}; expected arguments of one type", f.name, name(t), name(type(args[k])));
  i.type = f.predicate ? DType::boolean : t;
  return append(i);
}

Ref Program::call(Fn fn, Ref a) { return append_call(fn, {{a}}); }
Ref Program::call(Fn fn, Ref a, Ref b) { return append_call(fn, {{a, b}}); }
Ref Program::call(Fn fn, Ref a, Ref b, Ref c) { return append_call(fn, {{a, b, c}}); }

void Program::output(Ref r) {
  check(r);
  outputs_.push_back(r);
}

std::vector<Ref> Program::splice(const Program& p, std::span<const Ref> inputs) {
  if (inputs.size() != static_cast<size_t>(p.input_count()))
    fail("expression: splicing a program of {} inputs with {} bound", p.input_count(), inputs.size());
  std::vector<Ref> at(inputs.begin(), inputs.end());  // p's instructions in this program
  for (size_t i = 0; i < at.size(); ++i) {
    check(at[i]);
    if (type(at[i]) != p.code_[i].type)
      fail("expression: splicing in{} of type {} with %{} of type {}", i, name(p.code_[i].type), at[i], name(type(at[i])));
  }
  for (size_t i = at.size(); i < p.code_.size(); ++i) {
    Instruction moved = p.code_[i];
    for (Ref& a : moved.args)
      if (a >= 0) a = at[static_cast<size_t>(a)];
    // cast() drops a conversion to the type that the argument has now.
    at.push_back(moved.fn == Fn::cast ? cast(moved.args[0], moved.type) : append(moved));
  }
  std::vector<Ref> results;
  for (Ref r : p.outputs_) results.push_back(at[static_cast<size_t>(r)]);
  return results;
}

int Program::operations() const {
  int n = 0;
  for (const Instruction& i : code_) n += i.fn != Fn::input && i.fn != Fn::constant;
  return n;
}

Program conversion(DType from, DType to) {
  Program p;
  p.output(p.cast(p.input(from), to));
  return p;
}

}  // namespace smelt::expr
