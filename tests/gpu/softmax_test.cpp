// Softmax and LogSoftmax against the processor's reference.
#include "gpu/gpu_batch.h"

namespace smelt::ops {
namespace {

Trial trial(const std::string& op, Tensor x, int64_t axis, int opset = 13) {
  Trial t;
  t.node.op = op;
  t.node.opset = opset;
  t.node.attrs["axis"] = axis;
  const DType type = x.type();
  const Shape shape = x.shape();
  t.add(std::move(x), false);
  t.result(type, shape);
  return t;
}

double tolerance(DType t) { return t == DType::f16 ? 1.0 / 1024 : t == DType::bf16 ? 1.0 / 128 : t == DType::f32 ? 2e-6 : 1e-13; }

class GpuSoftmax : public GpuBatch {};

TEST_F(GpuSoftmax, rows_of_every_width_and_type) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f64})
    for (const char* op : {"Softmax", "LogSoftmax"})
      for (const int64_t width : {1, 3, 8, 91, 197, 1000, 4096, 4099, 40000})
        for (const int64_t rows : {1, 5}) {
          Trial t = trial(op, random_tensor(type, {rows, width}, 1, -6, 6), -1);
          expect(std::move(t), tolerance(type));
        }
}

TEST_F(GpuSoftmax, any_axis_of_any_layout) {
  for (const DType type : {DType::f32, DType::f16})
    for (const char* op : {"Softmax", "LogSoftmax"})
      for (const int64_t axis : {0, 1, 2, -1})
        for (const Layout layout : {Layout::plain, Layout::nhwc}) {
          Trial t = trial(op, random_tensor(type, {2, 24, 9, 5}, 2, -4, 4), axis);
          t.bound.inputs[0].layout = t.bound.outputs[0].layout = layout;
          expect(std::move(t), tolerance(type));
        }
  Trial t = trial("Softmax", random_tensor(DType::f32, {7, 3000, 65}, 2, -4, 4), 1);
  expect(std::move(t), 2e-6);
}

TEST_F(GpuSoftmax, one_long_row_by_several_blocks) {
  for (const DType type : {DType::f32, DType::bf16}) {
    Trial t = trial("Softmax", random_tensor(type, {1, 300000}, 3, -8, 8), -1);
    expect(std::move(t), tolerance(type));
  }
}

TEST_F(GpuSoftmax, axes_that_are_flattened_before_opset_13) {
  for (const int64_t axis : {0, 1, 2, 3}) {
    Trial t = trial("Softmax", random_tensor(DType::f32, {3, 4, 5}, 4, -4, 4), axis, 11);
    expect(std::move(t), 2e-6);
  }
}

TEST_F(GpuSoftmax, infinities_nan_and_slices) {
  Tensor x = random_tensor(DType::f32, {5, 64}, 5, -1, 1);
  for (int i = 0; i < 64; ++i) x.data<float>()[64 + i] = -INFINITY;
  x.data<float>()[130] = INFINITY;
  x.data<float>()[200] = NAN;
  x.data<float>()[260] = -INFINITY;
  for (const char* op : {"Softmax", "LogSoftmax"})
    for (const int64_t axis : {0, 1}) {
      Trial t = trial(op, x, axis);
      const std::vector<double> want = expected(t).to_doubles();
      for (const Candidate& c : (t.bound.node = &t.node, offer(t.bound, gpu_machine()).candidates)) {
        const std::vector<double> got = run_on_gpu(t, c)[0].to_doubles();
        for (size_t i = 0; i < want.size(); ++i)
          EXPECT_TRUE(std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i] || std::abs(got[i] - want[i]) < 1e-5)
              << op << ' ' << c.config << " at " << i << ": " << got[i] << ", expected " << want[i];
      }
    }
  Trial t = trial("Softmax", random_tensor(DType::f16, {6, 96}, 6, -3, 3), -1);
  t.bound.inputs[0].strides = {99, 1};
  t.bound.inputs[0].alignment = t.bound.outputs[0].alignment = 2;
  expect(std::move(t), tolerance(DType::f16));
}

/// Of 8 bits: the same but where a probability lies between two integers, which sums in another order put on the other side.
TEST_F(GpuSoftmax, of_bytes_between_their_scales) {
  for (const DType x : {DType::u8, DType::i8})
    for (const DType y : {DType::u8, DType::i8})
      for (const int64_t width : {1, 3, 16, 91, 197, 384, 1000, 4096, 40000}) {
        Trial t;
        t.node.op = "QLinearSoftmax";
        t.node.domain = microsoft_domain;
        t.node.attrs["axis"] = int64_t{-1};
        t.node.attrs["opset"] = int64_t{13};
        t.add(x == DType::u8 ? random_tensor(x, {2, 7, width}, 1, 0, 255.99) : random_tensor(x, {2, 7, width}, 1, -128, 127.99),
              false);
        t.add(Tensor::scalar(0.03f), true);
        t.add(Tensor::scalar<int64_t>(x == DType::u8 ? 121 : -4).cast(x), true);
        t.add(Tensor::scalar(width < 100 ? 1.f / 255 : 1.f / 4000), true);
        t.add(Tensor::scalar<int64_t>(y == DType::u8 ? 0 : -128).cast(y), true);
        t.result(y, {2, 7, width});
        const std::vector<double> want = expected(t).to_doubles();
        t.bound.node = &t.node;
        const Offer o = offer(t.bound, gpu_machine());
        size_t kernels = 0;
        for (const Candidate& c : o.candidates) {
          if (c.tactic != "cuda") continue;
          ++kernels;
          const std::vector<double> got = run_on_gpu(t, c)[0].to_doubles();
          size_t apart = 0;
          for (size_t i = 0; i < want.size(); ++i) {
            EXPECT_LE(std::abs(got[i] - want[i]), 1) << o.problem << ' ' << c.config << " at " << i;
            apart += got[i] != want[i] ? 1 : 0;
          }
          EXPECT_LE(apart, 1 + want.size() / 1000) << o.problem << ' ' << c.config;
        }
        EXPECT_GT(kernels, 0u);
      }
}

}  // namespace
}  // namespace smelt::ops
