// Generated reductions against the processor's reference.
#include "gpu/gpu_batch.h"

namespace smelt::ops {
namespace {

Trial trial(const std::string& op, Tensor x, std::vector<int64_t> axes, bool keepdims = true) {
  Trial t;
  t.node.op = op;
  t.node.attrs["keepdims"] = int64_t{keepdims};
  t.add(std::move(x), false);
  if (op.starts_with("Arg")) {
    t.node.attrs["axis"] = axes[0];
  } else {
    const auto count = static_cast<int64_t>(axes.size());
    t.add(Tensor::of<int64_t>({count}, axes), true);
  }
  const Tensor y = expected(t);
  t.result(y.type(), y.shape());
  return t;
}

double tolerance(DType t) {
  return t == DType::f16 ? 1.0 / 1024 : t == DType::bf16 ? 1.0 / 128 : t == DType::f32 ? 3e-6 : t == DType::f64 ? 1e-13 : 0;
}

class GpuReduce : public GpuBatch {};

TEST_F(GpuReduce, rows_and_columns_of_every_width_and_type) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8, DType::i8})
    for (const Shape& shape : {Shape{1, 1}, {3, 7}, {33, 100}, {130, 1000}, {2, 4099}})
      for (const int64_t axis : {0, 1})
        expect(trial(bits(type) == 8 ? "ReduceMax" : "ReduceSum", random_tensor(type, shape, 1, -3, 5), {axis}), tolerance(type));
}

TEST_F(GpuReduce, every_operator) {
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                         "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"})
    for (const DType type : {DType::f32, DType::f16})
      for (const std::vector<int64_t>& axes : {std::vector<int64_t>{-1}, {0}, {1}, {0, 2}, {0, 1, 2}, {-3, -1}})
        expect(trial(op, random_tensor(type, {5, 12, 17}, 2, 0.5, 1.5), axes), 4 * tolerance(type));
}

TEST_F(GpuReduce, few_results_are_split_over_blocks) {
  for (const DType type : {DType::f32, DType::bf16}) {
    expect(trial("ReduceSum", random_tensor(type, {1 << 20}, 3, -1, 1), {0}), 1e-4);
    expect(trial("ReduceMean", random_tensor(type, {50000, 24}, 3, 1, 2), {0}), tolerance(type));
    expect(trial("ReduceLogSumExp", random_tensor(type, {3, 200001}, 3, -20, 20), {1}), tolerance(type));
    expect(trial("ReduceMax", random_tensor(type, {70000, 1}, 3, -9, 9), {0}, false), 0);
  }
  expect(trial("ArgMax", random_tensor(DType::f32, {4, 300000}, 3, -9, 9), {1}), 0);
  expect(trial("ArgMin", random_tensor(DType::f32, {300000, 5}, 3, -9, 9), {0}), 0);
}

TEST_F(GpuReduce, the_first_or_last_of_equal_places) {
  for (const char* op : {"ArgMax", "ArgMin"})
    for (const int64_t last : {0, 1})
      for (const DType type : {DType::f32, DType::f16, DType::i32, DType::u8, DType::f64, DType::i64})
        for (const int64_t axis : {0, 1, -1}) {
          Trial t = trial(op, random_tensor(type, {9, 70, 33}, 4, 0, 3.99).cast(DType::i32).cast(type), {axis}, axis != 1);
          t.node.attrs["select_last_index"] = last;
          expect(std::move(t), 0);
        }
}

TEST_F(GpuReduce, nan_and_infinity) {
  Tensor x = random_tensor(DType::f32, {6, 100}, 5, -1, 1);
  x.data<float>()[130] = NAN;
  x.data<float>()[250] = INFINITY;
  x.data<float>()[350] = -INFINITY;
  for (int i = 400; i < 500; ++i) x.data<float>()[i] = -INFINITY;
  for (const char* op : {"ReduceMax", "ReduceMin", "ReduceSum", "ReduceLogSumExp", "ArgMax", "ArgMin"})
    for (const int64_t axis : {0, 1}) {
      Trial t = trial(op, x, {axis});
      const Tensor want = expected(t);
      for (const Candidate& c : (t.bound.node = &t.node, offer(t.bound, gpu_machine()).candidates)) {
        const std::vector<double> got = run_on_gpu(t, c)[0].to_doubles(), w = want.to_doubles();
        for (size_t i = 0; i < w.size(); ++i)
          EXPECT_TRUE(std::isnan(w[i]) ? std::isnan(got[i]) : got[i] == w[i] || std::abs(got[i] - w[i]) < 1e-5)
              << op << ' ' << c.config << ' ' << i << ": " << got[i] << ", expected " << w[i];
      }
    }
}

TEST_F(GpuReduce, nothing_to_reduce_and_no_results) {
  expect(trial("ReduceSum", Tensor::empty(DType::f32, {3, 0, 4}), {1}), 0);
  expect(trial("ReduceMax", Tensor::empty(DType::i8, {3, 0}), {1}), 0);
  expect(trial("ReduceSum", Tensor::empty(DType::f32, {0, 5}), {1}), 0);
}

TEST_F(GpuReduce, channels_last_means_and_slices) {
  for (const Layout layout : {Layout::plain, Layout::nhwc})
    for (const DType type : {DType::f16, DType::f32})
      for (const Shape& shape : {Shape{1, 72, 28, 28}, {2, 960, 7, 7}, {3, 5, 9, 1}}) {
        Trial t;
        t.node.op = "GlobalAveragePool";
        t.add(random_tensor(type, shape, 6, -1, 3), false, layout);
        t.result(type, {shape[0], shape[1], 1, 1}, layout);
        expect(std::move(t), tolerance(type));
      }
  Trial t = trial("ReduceSum", random_tensor(DType::f16, {6, 40, 8}, 7, -1, 1), {1});
  t.bound.inputs[0].strides = {41 * 8, 8, 1};
  t.bound.inputs[0].alignment = 2;
  expect(std::move(t), tolerance(DType::f16));
}

/// ai.smelt's Reduce, without its programs.
Trial fused_mean(std::vector<int64_t> axes, int64_t inputs_before) {
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "Reduce";
  t.node.attrs["kind"] = std::string("mean");
  t.node.attrs["axes"] = std::move(axes);
  t.node.attrs["keepdims"] = int64_t{1};
  t.node.attrs["inputs_before"] = inputs_before;
  return t;
}

TEST_F(GpuReduce, programs_before_and_after) {
  Trial t = fused_mean({1, 2}, 2);
  t.node.attrs["post"] =
      std::string("(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = mul(in0, %2):f32; %4 = cast(%3):f16; return %4 }");
  t.node.program =
      expr::Program::parse("(in0:f16, in1:f32) { %2 = cast(in0):f32; %3 = sub(%2, in1):f32; %4 = mul(%3, %3):f32; return %4 }");
  t.add(random_tensor(DType::f16, {4, 30, 64}, 1, -1, 1), false);
  t.add(random_tensor(DType::f32, {64}, 2, -1, 1), false);
  t.add(random_tensor(DType::f16, {4, 1, 1}, 3, 1, 2), false);
  t.result(DType::f16, {4, 1, 1});
  expect(std::move(t), tolerance(DType::f16));
}

TEST_F(GpuReduce, bytes_to_bytes) {
  for (const Layout layout : {Layout::plain, Layout::nhwc})
    for (const Shape& shape : {Shape{1, 72, 8, 16}, {3, 960, 8, 8}, {2, 5, 4, 2}}) {  // sums and means are exact
      Trial t = fused_mean({2, 3}, 1);
      t.node.attrs["post"] = std::string(
          "(in0:f32) { %1 = const(0.3):f32; %2 = div(in0, %1):f32; %3 = round(%2):f32; %4 = const(9):f32; %5 = add(%3, %4):f32; "
          "%6 = const(0):f32; %7 = const(255):f32; %8 = clip(%5, %6, %7):f32; %9 = cast(%8):u8; return %9 }");
      t.node.program = expr::Program::parse(
          "(in0:u8) { %1 = cast(in0):f32; %2 = const(3):f32; %3 = sub(%1, %2):f32; %4 = const(0.5):f32; "
          "%5 = mul(%3, %4):f32; return %5 }");
      t.add(random_tensor(DType::u8, shape, 1, 0, 255), false, layout);
      t.result(DType::u8, {shape[0], shape[1], 1, 1});
      expect(std::move(t), 0);
    }
}

}  // namespace
}  // namespace smelt::ops
