// Pooling of plain images along one to three axes, of every type and with indices, against the reference.
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using ::testing::Contains;

struct Case {
  std::string op;
  DType type;
  Shape x;
  std::map<std::string, Attribute> attrs;
};

Trial trial(const Case& c) {
  Trial t;
  t.node.op = c.op;
  t.node.attrs = c.attrs;
  t.node.opset = 22;
  t.add(random_tensor(c.type, c.x, 11, -50, 50), false);
  return t;
}

void agrees(const Case& c, double tolerance) {
  SCOPED_TRACE(c.op + " " + std::string(name(c.type)));
  Trial t = trial(c);
  const Tensor y = expected(t);
  t.result(y.type(), y.shape());
  EXPECT_THAT(check(t, tolerance), Contains("cpu"));
}

std::map<std::string, Attribute> window(Shape kernel, Shape stride, Shape pads, Shape dilation = {},
                                        std::map<std::string, Attribute> more = {}) {
  more["kernel_shape"] = std::vector<int64_t>(kernel);
  more["strides"] = std::vector<int64_t>(stride);
  more["pads"] = std::vector<int64_t>(pads);
  if (!dilation.empty()) more["dilations"] = std::vector<int64_t>(dilation);
  return more;
}

TEST(DirectPool, takes_one_to_three_axes_of_every_type) {
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    const double tolerance = type == DType::f64 ? 1e-14 : type == DType::f32 ? 1e-6 : type == DType::f16 ? 2e-3 : 1e-2;
    for (const char* op : {"MaxPool", "AveragePool", "LpPool"}) {
      agrees({op, type, {2, 3, 37}, window({3}, {2}, {1, 1})}, tolerance);
      agrees({op, type, {1, 2, 19}, window({4}, {1}, {2, 0}, {3})}, tolerance);
      agrees({op, type, {2, 3, 13, 17}, window({3, 2}, {2, 1}, {1, 0, 1, 1})}, tolerance);
      agrees({op, type, {1, 2, 7, 9, 11}, window({2, 3, 3}, {1, 2, 2}, {0, 1, 1, 1, 1, 0})}, tolerance);
    }
  }
  for (DType type : {DType::i8, DType::u8}) agrees({"MaxPool", type, {2, 3, 8, 37}, window({3, 3}, {2, 2}, {1, 1, 1, 1})}, 0);
}

TEST(DirectPool, counts_padding_and_partial_windows) {
  for (int64_t counts : {0, 1})
    for (int64_t ceil : {0, 1})
      agrees({"AveragePool",
              DType::f32,
              {2, 3, 20},
              window({3}, {3}, {1, 1}, {}, {{"count_include_pad", counts}, {"ceil_mode", ceil}})},
             1e-6);
}

TEST(DirectPool, takes_norms_of_any_power_and_whole_planes) {
  for (int64_t p : {1, 2, 3, 5}) {
    agrees({"LpPool", DType::f32, {2, 3, 9, 9}, window({3, 3}, {1, 1}, {0, 0, 0, 0}, {}, {{"p", p}})}, 1e-5);
    agrees({"GlobalLpPool", DType::f32, {2, 3, 9, 9, 4}, {{"p", p}}}, 1e-5);
  }
  agrees({"GlobalMaxPool", DType::f32, {2, 3, 100}, {}}, 0);
  agrees({"GlobalAveragePool", DType::f32, {2, 3, 4, 5, 6}, {}}, 1e-6);
}

TEST(DirectPool, keeps_a_nan) {
  Trial t = trial({"MaxPool", DType::f32, {1, 1, 9}, window({3}, {1}, {0, 0})});
  t.inputs[0].data<float>()[4] = std::numeric_limits<float>::quiet_NaN();
  const Tensor y = expected(t);
  t.result(y.type(), y.shape());
  EXPECT_THAT(check(t, 0), Contains("cpu"));
}

}  // namespace
}  // namespace smelt::ops
