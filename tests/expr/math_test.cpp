// Every f32 function of the CPU evaluator, swept over its whole range against double, on both instruction sets.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "expr/cpu.h"

namespace smelt::expr {
namespace {

/// Runs fn (of one argument) over x.
std::vector<float> evaluate(Fn fn, const std::vector<float>& x, simd::Isa isa) {
  Program p;
  p.output(p.call(fn, p.input(DType::f32)));
  const Evaluator e(p, isa);
  std::vector<float> y(x.size(), std::numeric_limits<float>::quiet_NaN());
  std::vector<uint64_t> scratch(static_cast<size_t>(e.scratch()) / 8 + 8);
  const Operand in{x.data(), 1};
  void* out = y.data();
  e.run(static_cast<int64_t>(x.size()), {&in, 1}, {&out, 1}, scratch.data());
  return y;
}

/// About a million floats: evenly spaced bit patterns, so every exponent, both signs, subnormals.
std::vector<float> sweep(float low, float high) {
  std::vector<float> x;
  auto add_range = [&](uint32_t from, uint32_t to, uint32_t sign) {  // magnitudes
    for (uint64_t u = from; u <= to; u += 2003) x.push_back(std::bit_cast<float>(static_cast<uint32_t>(u) | sign));
  };
  if (high > 0) add_range(low > 0 ? std::bit_cast<uint32_t>(low) : 0, std::bit_cast<uint32_t>(high), 0);
  if (low < 0) add_range(0, std::bit_cast<uint32_t>(-low), 0x80000000u);
  return x;
}

/// The distance between neighbouring floats at v, that of the smallest normal number below it.
double ulp(double v) {
  const double a = std::max(std::abs(v), 1.17549435e-38);
  return std::ldexp(1.0, std::max(std::ilogb(a), -126) - 23);
}

struct Function {
  Fn fn;
  double (*exact)(double);
  float low, high;
  double bound;         // ulp
  double absolute = 0;  // allowed besides: where a formula cancels, of the formula's own making
};

double exact_gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double exact_gelu_tanh(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }
double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double exact_softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

class FunctionSweep : public testing::TestWithParam<std::tuple<Function, simd::Isa>> {};

TEST_P(FunctionSweep, stays_within_its_bound) {
  const auto& [f, isa] = GetParam();
  if (isa > simd::widest()) GTEST_SKIP() << "this CPU lacks the instruction set";
  const std::vector<float> x = sweep(f.low, f.high), y = evaluate(f.fn, x, isa);
  double worst = 0;
  float at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = f.exact(x[i]);
    const double limit = std::numeric_limits<float>::max();
    double error;
    if (std::isnan(exact))
      error = std::isnan(y[i]) ? 0 : INFINITY;
    else if (std::abs(exact) > limit)
      error = std::abs(y[i]) >= limit && std::signbit(y[i]) == std::signbit(exact) ? 0 : INFINITY;
    else
      error = std::max(0.0, std::abs(static_cast<double>(y[i]) - exact) - f.absolute) / ulp(exact);
    if (!(error <= worst)) worst = error, at = x[i];
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  printf("  %s: %.2f ulp at %g\n", std::string(info(f.fn).name).c_str(), worst, static_cast<double>(at));
  EXPECT_LE(worst, f.bound) << info(f.fn).name << " at " << at;
}

constexpr float all = std::numeric_limits<float>::max();

INSTANTIATE_TEST_SUITE_P(
    Math, FunctionSweep,
    testing::Combine(
        testing::Values(Function{Fn::exp, std::exp, -all, all, 2}, Function{Fn::log, std::log, -all, all, 2},
                        Function{Fn::tanh, std::tanh, -all, all, 4}, Function{Fn::erf, std::erf, -all, all, 3},
                        Function{Fn::sigmoid, exact_sigmoid, -87, all, 4},
                        Function{Fn::silu, [](double x) { return x * exact_sigmoid(x); }, -80, all, 4},
                        Function{Fn::softplus, exact_softplus, -80, all, 4}, Function{Fn::gelu, exact_gelu, -all, 1e30f, 4, 3e-7},
                        Function{Fn::gelu_tanh, exact_gelu_tanh, -all, 1e12f, 4, 3e-7},
                        Function{Fn::sqrt, std::sqrt, -all, all, 0.5},
                        Function{Fn::rsqrt, [](double x) { return 1 / std::sqrt(x); }, -all, all, 1.5},
                        Function{Fn::floor, std::floor, -all, all, 0}, Function{Fn::ceil, std::ceil, -all, all, 0},
                        Function{Fn::round, std::nearbyint, -all, all, 0}, Function{Fn::sin, std::sin, -1e7f, 1e7f, 1},
                        Function{Fn::cos, std::cos, -1e7f, 1e7f, 1}, Function{Fn::atan, std::atan, -all, all, 1},
                        Function{Fn::tan, std::tan, -1e7f, 1e7f, 1}, Function{Fn::asin, std::asin, -2, 2, 1},
                        Function{Fn::acos, std::acos, -2, 2, 1}, Function{Fn::asinh, std::asinh, -all, all, 2},
                        Function{Fn::hard_swish, [](double x) { return x * std::min(std::max(x / 6 + 0.5, 0.0), 1.0); }, -100,
                                 1e30f, 2, 1e-7}),
        testing::Values(simd::Isa::base, simd::Isa::avx2, simd::Isa::avx512)));

TEST(Math, hands_nan_on_and_keeps_the_limits) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (simd::Isa isa : {simd::Isa::base, simd::best(), simd::widest()}) {
    auto at = [&](Fn fn, float x) { return evaluate(fn, {x}, isa)[0]; };
    for (Fn fn : functions()) {
      if (info(fn).arity == 1 && !info(fn).predicate && info(fn).types == Types::floats) {
        EXPECT_TRUE(std::isnan(at(fn, nan))) << info(fn).name;
      }
    }
    for (Fn fn : {Fn::relu, Fn::neg, Fn::abs, Fn::sign}) EXPECT_TRUE(std::isnan(at(fn, nan))) << info(fn).name;
    EXPECT_EQ(at(Fn::exp, -inf), 0);
    EXPECT_EQ(at(Fn::exp, inf), inf);
    EXPECT_EQ(at(Fn::tanh, inf), 1);
    EXPECT_EQ(at(Fn::tanh, -inf), -1);
    EXPECT_EQ(at(Fn::erf, -inf), -1);
    EXPECT_EQ(at(Fn::sigmoid, -inf), 0);
    EXPECT_EQ(at(Fn::sigmoid, inf), 1);
    EXPECT_EQ(at(Fn::log, 0), -inf);
    EXPECT_EQ(at(Fn::log, inf), inf);
    EXPECT_TRUE(std::isnan(at(Fn::log, -1)));
    EXPECT_EQ(at(Fn::softplus, inf), inf);
    EXPECT_EQ(at(Fn::softplus, -inf), 0);
    for (Fn fn : {Fn::sin, Fn::cos, Fn::tan, Fn::asin, Fn::acos}) EXPECT_TRUE(std::isnan(at(fn, inf))) << info(fn).name;
    for (Fn fn : {Fn::sin, Fn::tan, Fn::asin, Fn::atan}) EXPECT_TRUE(std::signbit(at(fn, -0.0f))) << info(fn).name;
    EXPECT_EQ(at(Fn::acos, 1), 0);
    EXPECT_EQ(at(Fn::atan, -inf), -1.57079637f);
    EXPECT_TRUE(std::signbit(at(Fn::ceil, -0.25f)));
    EXPECT_TRUE(std::signbit(at(Fn::round, -0.25f)));
  }
}

}  // namespace
}  // namespace smelt::expr
