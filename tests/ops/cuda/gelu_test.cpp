// gelu as products and pointwise kernels compute it on a GPU, against float64: the polynomial is the kernel's own, the instruction
// ex2.approx is anything within the error that NVIDIA gives for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/common/normal_tail.h"

namespace smelt::ops {
namespace {

constexpr double ex2_error = 0x1p-22;  // PTX ISA, ex2.approx.ftz.f32: relative to the result

double exact(double x) { return x * std::erfc(-x / std::sqrt(2.0)) / 2; }

/// smelt_expr::gelu_by_tail, where ex2 is wrong by `wrong`.
float by_tail(float x, double wrong) {
  const float u = std::min(std::fabs(x), 16.0f);
  const double tail = std::exp2(static_cast<double>(kernels::log2_normal_tail(u))) * (1 + wrong);
  return std::fmaf(-u, tail < 0x1p-126 ? 0.0f : static_cast<float>(tail), std::max(x, 0.0f));
}
/// As it was before, and as operators apart compute it.
float by_erf(float x) { return x * 0.5f * (1 + std::erf(x * 0.70710678f)); }

template <class F> void on_a_grid(double from, double to, const F& f) {
  for (double x = from; x < to; x += 1.0 / 8192) f(static_cast<float>(x));
}

TEST(GeluOnGpu, is_as_exact_as_by_erf_where_it_is_large) {
  for (const double wrong : {-ex2_error, 0.0, ex2_error}) {
    double most = 0, most_by_erf = 0;
    on_a_grid(-3, 3, [&](float x) {
      most = std::max(most, std::fabs(by_tail(x, wrong) - exact(x)));
      most_by_erf = std::max(most_by_erf, std::fabs(by_erf(x) - exact(x)));
    });
    EXPECT_LE(most, 2e-7);
    EXPECT_LE(most, 1.1 * most_by_erf);
  }
}

TEST(GeluOnGpu, has_an_error_of_normal_numbers_within_twice_that_by_erf) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<double> wrong(-ex2_error, ex2_error);
  double squares = 0, by_erf_squares = 0;
  for (int i = 0; i < 200'000; ++i) {
    const float x = normal(random);
    squares += std::pow(by_tail(x, wrong(random)) - exact(x), 2), by_erf_squares += std::pow(by_erf(x) - exact(x), 2);
  }
  EXPECT_LE(std::sqrt(squares / by_erf_squares), 2);
}

/// Half a unit in the last place of f16 is 4.9e-4 of a result.
TEST(GeluOnGpu, keeps_its_tail_where_by_erf_is_nothing_but_rounding) {
  double most = 0, most_by_erf = 0;
  on_a_grid(-5, -0.001, [&](float x) {
    most = std::max(most, std::fabs(by_tail(x, ex2_error) / exact(x) - 1));
    most_by_erf = std::max(most_by_erf, std::fabs(by_erf(x) / exact(x) - 1));
  });
  EXPECT_LE(most, 4e-5);
  EXPECT_GE(most_by_erf, 0.01);
  on_a_grid(-100, -5.6, [](float x) { EXPECT_LE(std::fabs(by_tail(x, ex2_error)), 7e-8) << x; });
}

TEST(GeluOnGpu, ends_at_infinity) {
  EXPECT_EQ(by_tail(INFINITY, 0), INFINITY);
  EXPECT_EQ(by_tail(-INFINITY, 0), 0);
  EXPECT_EQ(by_tail(1e30f, 0), 1e30f);
}

}  // namespace
}  // namespace smelt::ops
