#include "expr/program.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using testing::Contains;
using testing::Not;

Trial rows(const char* op, Shape x, DType type = DType::f32) {
  Trial t;
  t.node.op = op;
  t.add(random_tensor(type, x, 1, -4, 4), false);
  t.result(type, x);
  return t;
}

TEST(OnednnRows, softmax_is_left_to_the_kernel_that_shows_a_nan_in_the_whole_row) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (const Shape& x : {Shape{3, 17, 29}, Shape{1, 1000}, Shape{70, 8}}) {
      Trial t = rows(op, x);
      EXPECT_THAT(check(t, 2e-6), Not(Contains("onednn"))) << op << to_string(x);
    }
  }
}

TEST(OnednnRows, layer_normalisation_agrees_with_and_without_scale_and_shift) {
  for (int parameters : {1, 2}) {
    Trial t = rows("LayerNormalization", {4, 5, 67});
    for (int i = 0; i < parameters; ++i) t.add(random_tensor(DType::f32, {67}, 2), i == 0);
    EXPECT_THAT(check(t, 3e-6), Contains("onednn"));
  }
}

TEST(OnednnRows, leave_what_onednn_does_not_compute) {
  Trial several = rows("LayerNormalization", {4, 5, 6});
  several.node.attrs["axis"] = int64_t{1};
  several.add(random_tensor(DType::f32, {5, 6}, 2), true);
  EXPECT_THAT(check(several, 3e-6), Not(Contains("onednn")));
  Trial broadcast = rows("LayerNormalization", {4, 5, 6});
  broadcast.add(random_tensor(DType::f32, {1}, 2), true);
  EXPECT_THAT(check(broadcast, 3e-6), Not(Contains("onednn")));
  Trial half = rows("Softmax", {4, 6}, DType::f16);
  EXPECT_THAT(check(half, 1e-3), Not(Contains("onednn")));
}

TEST(OnednnPostOps, chains_of_a_program_run_inside_the_primitive) {
  for (const char* program : {"(in0:f32) { %1 = gelu(in0):f32; return %1 }", "(in0:f32) { %1 = silu(in0):f32; return %1 }",
                              "(in0:f32) { %1 = tanh(in0):f32; %2 = const(0.5):f32; %3 = mul(%1, %2):f32; return %3 }",
                              "(in0:f32) { %1 = const(0.1):f32; %2 = leaky_relu(in0, %1):f32; return %2 }"}) {
    Trial t;
    t.node.domain = smelt_domain;
    t.node.op = "Conv";
    t.node.attrs["segments"] = int64_t{1};
    t.node.attrs["strides"] = std::vector<int64_t>{1, 1};
    t.node.attrs["dilations"] = std::vector<int64_t>{1, 1};
    t.node.attrs["pads"] = std::vector<int64_t>{1, 1, 1, 1};
    t.node.attrs["group"] = int64_t{1};
    t.node.program = expr::Program::parse(program);
    t.add(random_tensor(DType::f32, {1, 16, 9, 7}, 1), false, Layout::nhwc);
    t.add(random_tensor(DType::f32, {24, 16, 3, 3}, 2), true);
    t.add(random_tensor(DType::f32, {24}, 3), true);
    t.result(DType::f32, {1, 24, 9, 7}, Layout::nhwc);
    t.bound.node = &t.node;
    Machine machine;
    machine.threads = 2;
    // The reference takes plain images.
    Trial plain = t;
    plain.bound.inputs[0].layout = plain.bound.outputs[0].layout = Layout::plain;
    const Tensor want = expected(plain);
    int fused = 0;
    for (const Candidate& c : offer(t.bound, machine).candidates) {
      SCOPED_TRACE(c.tactic + " " + c.config);
      fused += c.config.ends_with("+post-ops");
      EXPECT_LE(error(run(t, c), want), 3e-6);
    }
    EXPECT_GE(fused, 1) << program;
  }
}

}  // namespace
}  // namespace smelt::ops
