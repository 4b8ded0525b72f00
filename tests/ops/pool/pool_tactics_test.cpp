#include "ops/pool/problem.h"
#include "ops/tactic_check.h"
#include "smelt/error.h"

namespace smelt::ops {
namespace {

struct Case {
  const char* op;
  Shape x;
  std::vector<int64_t> kernel, strides = {1, 1}, pads = {0, 0, 0, 0}, dilations = {1, 1};
  int64_t ceil = 0, include_pad = 0;
};

Trial trial(const Case& c, DType type = DType::f32) {
  Trial t;
  t.node.op = c.op;
  t.node.attrs["kernel_shape"] = c.kernel;
  t.node.attrs["strides"] = c.strides;
  t.node.attrs["pads"] = c.pads;
  if (t.node.op == "MaxPool") t.node.attrs["dilations"] = c.dilations;
  t.node.attrs["ceil_mode"] = c.ceil;
  if (t.node.op == "AveragePool") t.node.attrs["count_include_pad"] = c.include_pad;
  t.add(random_tensor(type, c.x, 1), false, Layout::nhwc);
  t.result(type, expected(t).shape(), Layout::nhwc);
  return t;
}

TEST(PoolTactics, agree_with_the_reference_on_every_listed_window) {
  std::vector<Case> cases;
  for (const char* op : {"MaxPool", "AveragePool"}) {
    cases.push_back({op, {1, 20, 12, 13}, {3, 3}, {2, 2}, {1, 1, 1, 1}});
    cases.push_back({op, {2, 7, 8, 9}, {2, 2}, {2, 2}});
    cases.push_back({op, {1, 3, 5, 5}, {5, 5}});
    cases.push_back({op, {1, 33, 7, 7}, {2, 3}, {3, 1}, {0, 1, 1, 0}});
    cases.push_back({op, {1, 33, 7, 7}, {3, 3}, {2, 2}, {0, 0, 0, 0}, {1, 1}, 1});
  }
  Case padded{"AveragePool", {1, 20, 12, 13}, {3, 3}, {2, 2}, {1, 1, 1, 1}};
  padded.include_pad = 1;
  cases.push_back(padded);
  cases.push_back({"MaxPool", {1, 9, 11, 12}, {3, 2}, {1, 2}, {0, 0, 0, 0}, {2, 3}});
  cases.push_back({"MaxPool", {2, 300, 6, 5}, {2, 2}, {2, 2}});
  cases.push_back({"AveragePool", {2, 300, 6, 5}, {2, 2}, {2, 2}});
  for (const char* op : {"MaxPool", "AveragePool"}) {  // along one axis, and three
    cases.push_back({op, {2, 20, 31}, {3}, {2}, {1, 1}, {1}});
    cases.push_back({op, {1, 7, 9}, {9}, {1}, {0, 0}, {1}});
    cases.push_back({op, {1, 5, 90}, {4}, {1}, {2, 1}, {1}});
    cases.push_back({op, {2, 18, 6, 5, 7}, {3, 2, 3}, {2, 1, 2}, {1, 0, 1, 1, 1, 0}, {1, 1, 1}});
    cases.push_back({op, {1, 3, 3, 4, 4}, {3, 4, 4}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}});
  }
  cases.push_back({"MaxPool", {1, 16, 7, 8, 9}, {2, 2, 2}, {1, 2, 1}, {0, 0, 0, 0, 0, 0}, {2, 1, 3}});
  for (const Case& c : cases) {
    Trial t = trial(c);
    EXPECT_THAT(check(t, 2e-7), testing::Contains("cpu")) << c.op << to_string(c.x);
    const bool mean = std::string(c.op) == "AveragePool";
    Trial f16 = trial(c, DType::f16), bf16 = trial(c, DType::bf16);
    EXPECT_THAT(check(f16, mean ? 0x1p-11 : 0), testing::Contains("cpu")) << "f16 " << c.op << to_string(c.x);
    EXPECT_THAT(check(bf16, mean ? 0x1p-8 : 0), testing::Contains("cpu")) << "bf16 " << c.op << to_string(c.x);
  }
}

TEST(PoolTactics, global_pools_and_means_over_space) {
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool", "ReduceMean"}) {
    for (const Shape& x : {Shape{1, 40, 7, 7}, Shape{3, 5, 4, 9}, Shape{1, 17, 1, 30}}) {
      Trial t;
      t.node.op = op;
      t.add(random_tensor(DType::f32, x, 1), false, Layout::nhwc);
      if (t.node.op == "ReduceMean") t.add(Tensor::of<int64_t>({2}, {-1, 2}), true);
      t.result(DType::f32, {x[0], x[1], 1, 1});
      EXPECT_THAT(check(t, 3e-7), testing::Contains("cpu")) << op << to_string(x);
    }
  }
}

TEST(PoolTactics, write_slices_of_wider_images) {
  for (const DType type : {DType::f32, DType::f16}) {
    Trial t = trial({"MaxPool", {2, 12, 6, 8}, {2, 2}, {2, 2}}, type);
    t.bound.outputs[0].strides = {3 * 4 * 40, 1, 4 * 40, 40};
    t.bound.inputs[0].strides = {6 * 8 * 15, 1, 8 * 15, 15};
    EXPECT_EQ(check(t, 0), std::vector<std::string>{"cpu"}) << name(type);
  }
}

TEST(PoolTactics, onednn_takes_means_of_channels_last_images) {
  for (int64_t include : {0, 1}) {
    for (int64_t ceil : {0, 1}) {
      if (include && ceil) continue;  // a last window may reach beyond the padding, where the mean counts nothing
      Trial t;
      t.node.op = "AveragePool";
      t.node.attrs["kernel_shape"] = std::vector<int64_t>{3, 2};
      t.node.attrs["strides"] = std::vector<int64_t>{2, 3};
      t.node.attrs["pads"] = std::vector<int64_t>{1, 0, 1, 1};
      t.node.attrs["count_include_pad"] = include;
      t.node.attrs["ceil_mode"] = ceil;
      t.add(random_tensor(DType::f32, {2, 24, 8, 11}, 1), false, Layout::nhwc);
      t.result(DType::f32, expected(t).shape(), Layout::nhwc);
      EXPECT_THAT(check(t, 3e-7), testing::Contains("onednn"));
    }
  }
}

TEST(PoolTactics, keep_a_nan_of_the_image) {
  Trial t = trial({"MaxPool", {1, 9, 4, 4}, {2, 2}, {2, 2}});
  t.inputs[0].data<float>()[5] = std::nanf("");
  EXPECT_EQ(check(t, 0), std::vector<std::string>{"cpu"});
  Trial half = trial({"MaxPool", {1, 9, 4, 4}, {2, 2}, {2, 2}}, DType::f16);
  static_cast<uint16_t*>(half.inputs[0].raw())[5] = 0x7e00;
  EXPECT_EQ(check(half, 0), std::vector<std::string>{"cpu"});
}

TEST(PoolTactics, reorder_plain_images_and_leave_other_axes_to_the_reductions) {
  Trial plain = trial({"MaxPool", {1, 12, 6, 8}, {2, 2}, {2, 2}});
  plain.bound.inputs[0].layout = plain.bound.outputs[0].layout = Layout::plain;
  EXPECT_EQ(check(plain, 0), (std::vector<std::string>{"cpu", "cpu", "cpu"}));  // rows; planes side by side; reordered
  Trial channels;
  channels.node.op = "ReduceMean";
  channels.add(random_tensor(DType::f32, {1, 12, 6, 8}, 1), false);
  channels.add(Tensor::of<int64_t>({1}, {1}), true);
  channels.result(DType::f32, {1, 1, 6, 8});
  EXPECT_EQ(check(channels, 3e-7), std::vector<std::string>{"cpu"});
}

TEST(PoolProblem, prints_kind_type_shape_window_and_layouts) {
  pool::Problem p;
  p.x = {1, 64, 112, 112};
  p.y = {1, 64, 56, 56};
  p.window = {{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}};
  EXPECT_EQ(pool::print(p), "pool:max:f32:1x64x112x112:k3x3s2x2p1x1-1x1d1x1>56x56:nhwc");
  p.kind = pool::Kind::mean_inside;
  p.to = Layout::plain;
  EXPECT_EQ(pool::print(p), "pool:mean-inside:f32:1x64x112x112:k3x3s2x2p1x1-1x1d1x1>56x56:nhwc>plain");
}

}  // namespace
}  // namespace smelt::ops
