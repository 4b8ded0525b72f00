#include <random>

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

/// Random extents, of images that lie channels-last: a row of taps is columns of one product, and few channels are sums of turned lines.
TEST(TransposedConvTactics, agree_on_channels_last_images_of_any_extents) {
  std::mt19937 draw(20);
  const auto of = [&](std::initializer_list<int64_t> all) { return all.begin()[draw() % all.size()]; };
  int rows = 0;
  for (int i = 0; i < 60; ++i) {
    const Shape w = {of({1, 2, 3, 16, 24, 70, 400}), of({1, 1, 2, 3, 5, 9, 17}), of({1, 2, 3}), of({1, 2, 3, 4})};
    const Shape x = {of({1, 3}), w[0], of({1, 4, 7}), of({1, 5, 15, 16, 33, 67, 300})};
    Trial t;
    t.node.op = "ConvTranspose";
    t.node.attrs["strides"] = std::vector<int64_t>{w[2], w[3]};
    t.add(random_tensor(DType::f32, x, 1), false, Layout::nhwc);
    t.add(random_tensor(DType::f32, w, 2), true);
    if (draw() % 2) t.add(random_tensor(DType::f32, {w[1]}, 3), true);
    const Shape y = {x[0], w[1], x[2] * w[2], x[3] * w[3]};
    const bool is_slice = draw() % 3 == 0, is_plain = !is_slice && draw() % 3 == 0;
    t.result(DType::f32, y, is_plain ? Layout::plain : Layout::nhwc);
    if (is_slice) t.bound.outputs[0].strides = {y[2] * y[3] * 29, 1, y[3] * 29, 29};
    SCOPED_TRACE(to_string(x) + to_string(w) + (is_slice ? " slice" : is_plain ? " plain" : ""));
    const int threads = draw() % 2 ? 1 : 3;
    const bool reads_products = testing::Value(check(t, 1e-5, threads), testing::Contains("avx2"));
    EXPECT_TRUE(reads_products || (is_plain && w[1] > 1));
    const Offer o = offer(t.bound, Machine{});
    const bool is_in_rows = std::ranges::any_of(o.candidates, [](const Candidate& c) { return c.config == "rows"; });
    EXPECT_TRUE(is_in_rows || is_slice || w[0] == 1);
    rows += is_in_rows;
  }
  EXPECT_GT(rows, 25);
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
