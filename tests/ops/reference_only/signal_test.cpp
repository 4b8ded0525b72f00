#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

TEST(DFT, of_an_impulse_is_flat) { expect_near(run("DFT", {f32({1, 4, 1}, {1, 0, 0, 0})}), {1, 4, 2}, {1, 0, 1, 0, 1, 0, 1, 0}); }

TEST(DFT, one_sided_is_the_first_half_and_its_inverse_the_real_signal) {
  const Tensor x = f32({1, 5, 1}, {1, 2, 3, 4, 7});
  const Tensor half = run("DFT", {x}, {{"onesided", int64_t{1}}});
  EXPECT_EQ(half.shape(), (Shape{1, 3, 2}));
  expect_near(run("DFT", {half, i64({}, {5})}, {{"onesided", int64_t{1}}, {"inverse", int64_t{1}}}), {1, 5, 1}, {1, 2, 3, 4, 7});
}

TEST(DFT, transforms_any_axis_and_pads_to_its_length) {
  const Tensor x = f32({2, 1, 1}, {1, 1});
  expect_near(run("DFT", {x, i64({}, {4}), i64({}, {0})}), {4, 1, 2}, {2, 0, 1, -1, 0, 0, 1, 1});
  expect_error("the axis is the last", [&] { run("DFT", {x, Tensor(), i64({}, {2})}); });
}

TEST(STFT, transforms_windowed_frames) {
  const Tensor y = run("STFT", {f32({1, 4, 1}, {1, 2, 3, 4}), i64({}, {2}), f32({2}, {1, 1})});
  expect_near(y, {1, 2, 2, 2}, {3, 0, -1, 0, 7, 0, -1, 0});
}

TEST(STFT, refuses_a_window_without_an_axis) {
  expect_error("fewer axes", [] { run("STFT", {f32({1, 4, 1}, {1, 2, 3, 4}), i64({}, {2}), f32({}, {1})}); });
}

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

}  // namespace
}  // namespace smelt::ops::test
