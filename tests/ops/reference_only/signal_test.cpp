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

}  // namespace
}  // namespace smelt::ops::test
