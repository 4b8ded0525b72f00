#include "expr/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/errors.h"

namespace smelt::expr {
namespace {

using testing::HasSubstr;

Program add_relu() {
  Program p;
  const Ref a = p.input(DType::f32), b = p.input(DType::f32);
  p.output(p.call(Fn::relu, p.call(Fn::add, a, b)));
  return p;
}

TEST(Program, prints_the_example_of_its_header) {
  EXPECT_EQ(add_relu().print(), "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = relu(%2):f32; return %3 }");
}

/// A program that calls fn once on each type it accepts.
Program every_call(Fn fn) {
  Program p;
  const DType types[] = {DType::f32, DType::f64, DType::i8,  DType::i16, DType::i32,    DType::i64,
                         DType::u8,  DType::u16, DType::u32, DType::u64, DType::boolean};
  std::vector<Ref> in;
  for (DType t : types) in.push_back(p.input(t));
  for (Ref a : in) {
    if (!accepts(fn, p.type(a))) continue;
    const Ref first = fn == Fn::select ? in.back() : a;
    p.output(info(fn).arity == 1 ? p.call(fn, first) : info(fn).arity == 2 ? p.call(fn, first, a) : p.call(fn, first, a, a));
  }
  return p;
}

TEST(Program, every_function_parses_back_as_it_prints_on_every_type_it_takes) {
  for (Fn fn : functions()) {
    const Program p = every_call(fn);
    EXPECT_FALSE(p.outputs().empty()) << info(fn).name;
    EXPECT_EQ(Program::parse(p.print()), p) << p.print();
  }
}

TEST(Program, constants_parse_back_to_the_same_bits) {
  for (double v : {0.0, -0.0, 0.1, 1.0 / 3, 1e-310, 1.7976931348623157e308, std::numeric_limits<double>::infinity(),
                   -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    Program p;
    p.output(p.constant(DType::f64, v));
    EXPECT_EQ(Program::parse(p.print()), p) << p.print();
  }
}

TEST(Program, comparisons_give_bool) {
  Program p;
  const Ref a = p.input(DType::i64);
  EXPECT_EQ(p.type(p.call(Fn::less, a, a)), DType::boolean);
  EXPECT_EQ(p.type(p.call(Fn::max, a, a)), DType::i64);
}

TEST(Program, a_cast_to_its_own_type_adds_nothing) {
  Program p;
  const Ref a = p.input(DType::f32);
  EXPECT_EQ(p.cast(a, DType::f32), a);
  EXPECT_EQ(p.code().size(), 1u);
}

TEST(Program, counts_the_operations_of_one_element) { EXPECT_EQ(add_relu().operations(), 2); }

TEST(Program, splices_another_program_behind_its_inputs) {
  Program p;
  const Ref a = p.input(DType::f32), b = p.input(DType::f32);
  const Ref product = p.call(Fn::mul, a, b);
  const std::vector<Ref> out = p.splice(add_relu(), std::vector<Ref>{product, a});
  ASSERT_EQ(out.size(), 1u);
  p.output(out[0]);
  EXPECT_EQ(p.print(), "(in0:f32, in1:f32) { %2 = mul(in0, in1):f32; %3 = add(%2, in0):f32; %4 = relu(%3):f32; return %4 }");
}

TEST(Program, rejects_half_precision_arithmetic) {
  Program p;
  const Ref h = p.input(DType::f16);
  EXPECT_THAT(error_of([&] { p.call(Fn::add, h, h); }), HasSubstr("add of type f16; expected f32, f64 or an integer type"));
  EXPECT_NO_THROW(p.call(Fn::neg, p.cast(h, DType::f32)));
}

TEST(Program, rejects_what_its_rules_forbid) {
  Program p;
  const Ref f = p.input(DType::f32), i = p.input(DType::i32), u = p.input(DType::u8), b = p.input(DType::boolean);
  EXPECT_THAT(error_of([&] { p.call(Fn::add, f, i); }), HasSubstr("add of f32 and i32"));
  EXPECT_THAT(error_of([&] { p.call(Fn::add, f); }), HasSubstr("add takes 2 arguments, found 1"));
  EXPECT_THAT(error_of([&] { p.call(Fn::exp, i); }), HasSubstr("exp of type i32"));
  EXPECT_THAT(error_of([&] { p.call(Fn::bit_and, f, f); }), HasSubstr("expected an integer type"));
  EXPECT_THAT(error_of([&] { p.call(Fn::shift_left, i, i); }), HasSubstr("expected an unsigned integer type"));
  EXPECT_THAT(error_of([&] { p.call(Fn::select, f, f, f); }), HasSubstr("expected bool"));
  EXPECT_THAT(error_of([&] { p.call(Fn::logical_and, u, u); }), HasSubstr("expected bool"));
  EXPECT_THAT(error_of([&] { p.call(Fn::cast, f); }), HasSubstr("not a function to call"));
  EXPECT_THAT(error_of([&] { p.call(Fn::relu, 17); }), HasSubstr("%17 is not defined yet"));
  EXPECT_THAT(error_of([&] { p.output(-1); }), HasSubstr("not defined"));
  EXPECT_THAT(error_of([&] { p.constant(DType::i8, 128); }), HasSubstr("not exact in i8"));
  EXPECT_THAT(error_of([&] { p.constant(DType::i32, 0.5); }), HasSubstr("not exact in i32"));
  EXPECT_THAT(error_of([&] { p.constant(DType::f16, 1); }), HasSubstr("constant of type f16"));
  EXPECT_THAT(error_of([&] { p.splice(add_relu(), std::vector<Ref>{f}); }), HasSubstr("2 inputs with 1 bound"));
  EXPECT_THAT(error_of([&] { p.splice(add_relu(), std::vector<Ref>{f, b}); }), HasSubstr("in1 of type f32"));
  p.call(Fn::neg, f);
  EXPECT_THAT(error_of([&] { p.input(DType::f32); }), HasSubstr("inputs first"));
}

struct Malformed {
  const char* text;
  const char* expected;
};

class MalformedText : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedText, is_an_error_that_says_where_and_what) {
  EXPECT_THAT(error_of([] { Program::parse(GetParam().text); }), HasSubstr(GetParam().expected)) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    Program, MalformedText,
    testing::Values(Malformed{"", "character 1: expected '(', found the end"},
                    Malformed{"(in1:f32) { return in1 }", "inputs are numbered in order"},
                    Malformed{"(in0:f99) { return in0 }", "character 6: expected a type such as f32, found 'f99"},
                    Malformed{"(in0:f32) { return in1 }", "a value defined before"},
                    Malformed{"(in0:f32) { return %0 }", "a value defined before"},
                    Malformed{"(in0:f32) { %2 = relu(in0):f32; return %2 }", "expected %1"},
                    Malformed{"(in0:f32) { %1 = relu(%1):f32; return %1 }", "a value defined before"},
                    Malformed{"(in0:f32) { %1 = system(in0):f32; return %1 }", "a function of the expression language"},
                    Malformed{"(in0:f32) { %1 = input(in0):f32; return %1 }", "a function of the expression language"},
                    Malformed{"(in0:f32) { %1 = relu(in0):f64; return %1 }", "f32, the type of this call's result"},
                    Malformed{"(in0:f32) { %1 = relu():f32; return %1 }", "relu takes 1 arguments, found none"},
                    Malformed{"(in0:f32) { %1 = relu(in0, in0):f32; return %1 }", "relu takes 1 arguments, found 2"},
                    Malformed{"(in0:f32) { %1 = clip(in0, in0, in0, in0):f32; return %1 }", "at most three"},
                    Malformed{"(in0:f32) { %1 = cast(in0):f32; return %1 }", "another type than f32"},
                    Malformed{"() { %0 = const(x):f32; return %0 }", "a constant"},
                    Malformed{"() { %0 = const(300):u8; return %0 }", "not exact in u8"},
                    Malformed{"(in0:f32) { return in0 } x", "expected the end"},
                    Malformed{"(in99999999999:f32) { return in0 }", "a number"}));

}  // namespace
}  // namespace smelt::expr
