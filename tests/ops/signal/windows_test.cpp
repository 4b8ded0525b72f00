#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

TEST(Windows, are_symmetric_or_periodic) {
  expect_near(run("HannWindow", {i64({}, {5})}, {{"periodic", int64_t{0}}}), {5}, {0, 0.5, 1, 0.5, 0});
  expect_near(run("HannWindow", {i64({}, {4})}), {4}, {0, 0.5, 1, 0.5});
  expect_near(run("HammingWindow", {i64({}, {2})}), {2}, {4.0 / 46, 1});
  expect_near(run("BlackmanWindow", {i64({}, {2})}, {{"output_datatype", static_cast<int64_t>(DType::f64)}}), {2}, {0, 1});
}

TEST(MelWeightMatrix, has_triangles_that_peak_at_one) {
  const Tensor y = run("MelWeightMatrix", {i64({}, {4}), i64({}, {64}), i64({}, {8000}), f32({}, {0}), f32({}, {4000})});
  ASSERT_EQ(y.shape(), (Shape{33, 4}));
  for (int64_t k = 0; k < 4; ++k) {
    double largest = 0;
    for (int64_t row = 0; row < 33; ++row) largest = std::max(largest, y.to_doubles()[static_cast<size_t>(row * 4 + k)]);
    EXPECT_DOUBLE_EQ(largest, 1);
  }
}

TEST(MelWeightMatrix, bands_beyond_the_spectrum_are_zeros_and_end) {
  const auto band = [](float low, float high) {
    return run("MelWeightMatrix", {i64({}, {3}), i64({}, {8}), i64({}, {8000}), f32({}, {low}), f32({}, {high})});
  };
  for (const auto& [low, high] : {std::pair{1e30f, 3e38f}, std::pair{1e9f, 2e9f}, std::pair{-690.f, -600.f}}) {
    const Tensor y = band(low, high);
    ASSERT_EQ(y.shape(), (Shape{5, 3}));
    for (const double v : y.to_doubles()) EXPECT_EQ(v, 0) << low;
  }
  EXPECT_EQ(band(0, 3e38f).shape(), (Shape{5, 3}));
  EXPECT_EQ(band(3e38f, 0).shape(), (Shape{5, 3}));
}

TEST(MelWeightMatrix, refuses_frequencies_that_have_no_logarithm) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float odd : {inf, -inf, -700.f, -1e30f, std::numeric_limits<float>::quiet_NaN()})
    for (const bool high : {false, true})
      expect_error(high ? "upper_edge_hertz" : "lower_edge_hertz", [&] {
        run("MelWeightMatrix",
            {i64({}, {3}), i64({}, {8}), i64({}, {8000}), f32({}, {high ? 0 : odd}), f32({}, {high ? odd : 4000})});
      });
}

}  // namespace
}  // namespace smelt::ops::test
