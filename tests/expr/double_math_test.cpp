// The double functions that no libm computes, swept over the exponents against long double; and f32's power against double.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "expr/cpu.h"

namespace smelt::expr {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const simd::Isa every_isa[] = {simd::Isa::base, simd::Isa::avx2, simd::Isa::avx512};

template <class T> std::vector<T> evaluate(const Program& p, const std::vector<std::vector<T>>& x, simd::Isa isa) {
  const Evaluator e(p, isa);
  std::vector<T> y(x[0].size(), std::numeric_limits<T>::quiet_NaN());
  std::vector<uint64_t> scratch(static_cast<size_t>(e.scratch()) / 8 + 8);
  std::vector<Operand> in;
  for (const std::vector<T>& v : x) in.push_back({v.data(), 1});
  void* out = y.data();
  e.run(static_cast<int64_t>(y.size()), in, {&out, 1}, scratch.data());
  return y;
}
std::vector<double> evaluate(Fn fn, const std::vector<double>& x, simd::Isa isa) {
  Program p;
  const Ref in = p.input(DType::f64);
  p.output(fn == Fn::elu ? p.call(fn, in, p.constant(DType::f64, 1)) : p.call(fn, in));
  return evaluate<double>(p, {x}, isa);
}

/// Both signs, every exponent: some 400 thousand.
std::vector<double> sweep(double low, double high) {
  std::vector<double> x;
  constexpr uint64_t step = 0x0000'4d3c'1b2a'7f31;
  for (uint64_t u = 1; u < std::bit_cast<uint64_t>(infinity); u += step)
    for (double v : {std::bit_cast<double>(u), -std::bit_cast<double>(u)})
      if (v >= low && v <= high) x.push_back(v);
  // And what most calls are given.
  for (double v = -40; v <= 40; v += 0.0007)
    if (v >= low && v <= high) x.push_back(v);
  return x;
}

long double ulp(long double v) {
  const long double a = std::max(std::fabs(v), 2.2250738585072014e-308L);
  return std::ldexp(1.0L, std::max(std::ilogb(a), -1022) - 52);
}

struct Function {
  Fn fn;
  long double (*exact)(long double);
  double low, high;
  double bound;  // ulp
};
constexpr double all = std::numeric_limits<double>::max();

const Function swept[] = {
    {Fn::exp, [](long double x) { return std::exp(x); }, -all, all, 1.5},
    {Fn::log, [](long double x) { return std::log(x); }, 0, all, 1.5},
    {Fn::tanh, [](long double x) { return std::tanh(x); }, -all, all, 3},
    {Fn::elu, [](long double x) { return x < 0 ? std::expm1(x) : x; }, -all, all, 2},
    {Fn::sigmoid, [](long double x) { return 1 / (1 + std::exp(-x)); }, -700, all, 3},
    {Fn::softplus, [](long double x) { return std::max(x, 0.0L) + std::log1p(std::exp(-std::fabs(x))); }, -700, all, 4},
};

TEST(DoubleMath, stays_within_its_bounds) {
  for (simd::Isa isa : every_isa) {
    if (isa > simd::widest()) continue;
    for (const Function& f : swept) {
      const std::vector<double> x = sweep(f.low, f.high), y = evaluate(f.fn, x, isa);
      long double worst = 0;
      double at = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const long double exact = f.exact(x[i]);
        const long double error =
            std::fabs(exact) > all ? (y[i] == infinity ? 0 : INFINITY) : std::fabs(y[i] - exact) / ulp(exact);
        if (!(error <= worst)) worst = error, at = x[i];
      }
      printf("  %s: %.2f ulp at %g\n", std::string(info(f.fn).name).c_str(), static_cast<double>(worst), at);
      EXPECT_LE(worst, f.bound) << info(f.fn).name << " at " << at;
    }
  }
}

TEST(DoubleMath, hands_nan_on_and_keeps_the_limits) {
  for (simd::Isa isa : every_isa) {
    if (isa > simd::widest()) continue;
    const auto at = [&](Fn fn, double x) { return evaluate(fn, {x}, isa)[0]; };
    for (Fn fn : {Fn::exp, Fn::log, Fn::tanh, Fn::elu, Fn::softplus})
      EXPECT_TRUE(std::isnan(at(fn, std::nan("")))) << info(fn).name;
    EXPECT_EQ(at(Fn::exp, -infinity), 0);
    EXPECT_EQ(at(Fn::exp, infinity), infinity);
    EXPECT_EQ(at(Fn::exp, 0), 1);
    EXPECT_EQ(at(Fn::log, 0), -infinity);
    EXPECT_EQ(at(Fn::log, 1), 0);
    EXPECT_EQ(at(Fn::log, infinity), infinity);
    EXPECT_TRUE(std::isnan(at(Fn::log, -1)));
    EXPECT_EQ(at(Fn::tanh, infinity), 1);
    EXPECT_EQ(at(Fn::tanh, -infinity), -1);
    EXPECT_TRUE(std::signbit(at(Fn::tanh, -0.0)));
    EXPECT_EQ(at(Fn::elu, -infinity), -1);
    EXPECT_EQ(at(Fn::softplus, infinity), infinity);
  }
}

TEST(DoubleMath, gives_powers_of_floats_to_a_unit) {
  std::vector<float> a, b;
  for (uint32_t u = 1; u < 0x7f800000; u += 1'000'003)
    for (float e : {-2.5f, -1.0f, 0.0f, 0.5f, 1.7f, 2.0f, 3.0f, 8.0f, -41.0f, 1e-8f, 16777217.0f, 3e9f, -1e30f})
      for (float sign : {1.0f, -1.0f}) a.push_back(sign * std::bit_cast<float>(u)), b.push_back(e);
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (float x : {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, inf, -inf, nan})
    for (float y : {0.0f, -0.0f, 1.0f, -1.0f, 3.0f, -3.0f, 0.5f, -0.5f, inf, -inf, nan}) a.push_back(x), b.push_back(y);
  Program p;
  const Ref x = p.input(DType::f32), y = p.input(DType::f32);
  p.output(p.call(Fn::pow, x, y));
  for (simd::Isa isa : every_isa) {
    if (isa > simd::widest()) continue;
    const std::vector<float> found = evaluate<float>(p, {a, b}, isa);
    for (size_t i = 0; i < a.size(); ++i) {
      const double exact = std::pow(static_cast<double>(a[i]), static_cast<double>(b[i]));
      const auto rounded = static_cast<float>(exact);
      if (std::isnan(rounded)) {
        ASSERT_TRUE(std::isnan(found[i])) << a[i] << " ^ " << b[i] << " is " << found[i];
        continue;
      }
      ASSERT_TRUE(found[i] == rounded || found[i] == std::nextafter(rounded, inf) || found[i] == std::nextafter(rounded, -inf))
          << a[i] << " ^ " << b[i] << " is " << found[i] << ", not " << rounded;
      ASSERT_EQ(std::signbit(found[i]), std::signbit(rounded)) << a[i] << " ^ " << b[i];
    }
  }
}

TEST(DoubleMath, divides_integers_as_the_processor_does) {
  const auto held = [&]<class T>(T, DType type) {
    std::vector<T> a, b;
    constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
    std::vector<T> values = {0,
                             1,
                             2,
                             3,
                             7,
                             10,
                             100,
                             least,
                             static_cast<T>(least + 1),
                             most,
                             static_cast<T>(most - 1),
                             static_cast<T>(-1),
                             static_cast<T>(-7),
                             static_cast<T>(most / 2),
                             static_cast<T>(most / 3)};
    uint64_t state = 12345;
    for (int i = 0; i < 300; ++i)
      state = state * 6364136223846793005u + 1442695040888963407u, values.push_back(static_cast<T>(state >> (33 - i % 32)));
    for (T x : values)
      for (T y : values) a.push_back(x), b.push_back(y);
    for (Fn fn : {Fn::div, Fn::mod, Fn::fmod}) {
      Program p;
      const Ref x = p.input(type), y = p.input(type);
      p.output(p.call(fn, x, y));
      for (simd::Isa isa : every_isa) {
        if (isa > simd::widest()) continue;
        const Evaluator e(p, isa);
        std::vector<T> found(a.size());
        std::vector<uint64_t> scratch(static_cast<size_t>(e.scratch()) / 8 + 8);
        const Operand in[] = {{a.data(), 1}, {b.data(), 1}};
        void* out = found.data();
        e.run(static_cast<int64_t>(a.size()), in, {&out, 1}, scratch.data());
        for (size_t i = 0; i < a.size(); ++i) {
          const int64_t u = static_cast<int64_t>(a[i]), v = static_cast<int64_t>(b[i]);
          int64_t exact = v == 0 ? 0 : fn == Fn::div ? u / v : u % v;
          if (fn == Fn::mod && exact != 0 && (exact < 0) != (v < 0)) exact += v;
          ASSERT_EQ(found[i], static_cast<T>(exact)) << info(fn).name << " of " << u << " and " << v << " in " << name(type);
        }
      }
    }
  };
  held(int8_t{}, DType::i8), held(uint8_t{}, DType::u8), held(int16_t{}, DType::i16), held(uint16_t{}, DType::u16);
  held(int32_t{}, DType::i32), held(uint32_t{}, DType::u32);
}

}  // namespace
}  // namespace smelt::expr
