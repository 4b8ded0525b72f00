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
  EXPECT_THAT(check(t, 1e-6), testing::AllOf(testing::Contains("avx2"), testing::Each("avx2")));  // and with the bias as a pass
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

/// Windows that strides divide, and others, along one to three axes: channels beyond a vector's and a block's, rows too short for a kernel's.
TEST(TransposedConvTactics, agree_on_strides_that_divide_windows) {
  std::mt19937 draw(7);
  const auto of = [&](std::initializer_list<int64_t> all) { return all.begin()[draw() % all.size()]; };
  const std::pair<int64_t, int64_t> forms[] = {{2, 2}, {4, 2}, {8, 4}, {6, 3}, {3, 2}, {5, 4}, {8, 8}, {6, 6}, {4, 4}};
  for (const size_t axes : {1, 2, 3})
    for (const auto& [window, stride] : forms)
      for (const int64_t channels : {16, 64, 73, 129}) {
        const DType type = of({0, 0, 1}) ? DType::f16 : DType::f32;
        const int64_t outputs = of({17, 32, 70});
        Shape x{of({1, 2}), channels}, w{channels, outputs}, y{x[0], outputs};
        for (size_t a = 0; a < axes; ++a) {
          x.push_back(of({1, 2, 3, axes < 3 ? 17 : 5}));
          w.push_back(window);
          y.push_back((x.back() - 1) * stride + window);
        }
        Trial t;
        if (type == DType::f32 && draw() % 2) {
          t.node.domain = smelt_domain;
          t.node.program = expr::Program::parse("(in0:f32) { %1 = relu(in0):f32; return %1 }");
        }
        t.node.op = "ConvTranspose";
        t.node.attrs["strides"] = std::vector<int64_t>(axes, stride);
        t.add(random_tensor(type, x, 1), false, Layout::nhwc);
        t.add(random_tensor(type, w, 2), true);
        t.add(random_tensor(type, {outputs}, 3), true);
        t.result(type, y, Layout::nhwc);
        SCOPED_TRACE(to_string(x) + to_string(w) + " by " + std::to_string(stride));
        EXPECT_FALSE(check(t, type == DType::f16 ? 2e-3 : 1e-5).empty());
      }
}

/// In every kernel's own way, or as a pass of its own behind a kernel that takes none.
TEST(TransposedConvTactics, agree_on_what_follows) {
  const char* const programs[] = {
      "(in0:f32) { %1 = relu(in0):f32; return %1 }",
      "(in0:f32) { %1 = silu(in0):f32; return %1 }",
      "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = relu(%2):f32; return %3 }",
      "(in0:f32, in1:f32) { %2 = mul(in0, in1):f32; %3 = const(0.1):f32; %4 = leaky_relu(%2, %3):f32; return %4 }",
  };
  for (const bool side_by_side : {true, false})
    for (const int64_t group : {1, 4})
      for (const Layout layout : {Layout::nhwc, Layout::plain})
        for (const std::string program : programs)
          for (const bool by_channel : {false, true}) {
            const bool reads = program.find("in1") != std::string::npos;
            if (by_channel && !reads) continue;
            Trial t;
            t.node.op = "ConvTranspose";
            t.node.domain = smelt_domain;
            t.node.program = expr::Program::parse(program);
            t.node.attrs["strides"] = std::vector<int64_t>{2, 2};
            t.node.attrs["group"] = group;
            if (!side_by_side) t.node.attrs["pads"] = std::vector<int64_t>{1, 1, 1, 1};
            const Shape y{2, 3 * group, 10, 12};
            t.add(random_tensor(DType::f32, {2, 8, 5, 6}, 1), false, layout);
            t.add(random_tensor(DType::f32, {8, 3, side_by_side ? 2 : 4, side_by_side ? 2 : 4}, 2), true);
            t.add(random_tensor(DType::f32, {y[1]}, 3), true);
            if (reads) t.add(random_tensor(DType::f32, by_channel ? Shape{y[1], 1, 1} : y, 4), by_channel, layout);
            t.result(DType::f32, y, layout);
            SCOPED_TRACE(program + (side_by_side ? " side by side " : " ") + std::string(name(layout)) +
                         (by_channel ? " by channel" : ""));
            EXPECT_FALSE(check(t, 1e-5).empty());
          }
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
