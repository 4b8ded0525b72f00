#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

TEST(TransposedConvTactics, agree_on_windows_side_by_side) {
  Trial t;
  t.node.op = "ConvTranspose";
  t.node.attrs["strides"] = std::vector<int64_t>{2, 2};
  t.add(random_tensor(DType::f32, {1, 20, 5, 6}, 1), false, Layout::nhwc);
  t.add(random_tensor(DType::f32, {20, 11, 2, 2}, 2), true);
  t.add(random_tensor(DType::f32, {11}, 3), true);
  t.result(DType::f32, {1, 11, 10, 12}, Layout::nhwc);
  t.bound.outputs[0].strides = {10 * 12 * 40, 1, 12 * 40, 40};
  EXPECT_EQ(check(t, 1e-6), std::vector<std::string>{"avx2"});
  t.bound.outputs[0].strides.clear();
  EXPECT_GE(check(t, 1e-6).size(), 2u);
}

TEST(TransposedConvTactics, leave_the_indirect_product_to_windows_that_do_not_overlap) {
  Trial t;
  t.node.op = "ConvTranspose";
  t.node.attrs["strides"] = std::vector<int64_t>{2, 2};
  t.node.attrs["pads"] = std::vector<int64_t>{1, 1, 1, 1};
  t.add(random_tensor(DType::f32, {1, 16, 5, 6}, 1), false, Layout::nhwc);
  t.add(random_tensor(DType::f32, {16, 8, 4, 4}, 2), true);
  t.result(DType::f32, {1, 8, 10, 12}, Layout::nhwc);
  EXPECT_THAT(check(t, 1e-6), testing::Not(testing::Contains("avx2")));
}

}  // namespace
}  // namespace smelt::ops
