// Generated normalisation kernels against the processor's reference.
#include "gpu/gpu_trial.h"

namespace smelt::ops {
namespace {

struct Norm {
  std::string kind = "rms";
  DType type = DType::f32, parameters = DType::f32;
  Shape shape;
  bool residual = false, sum = false, gamma = true, beta = false;
  std::string program;
  std::vector<Tensor> operands;
  int64_t axis = -1;
};

Trial trial(const Norm& n, uint32_t seed) {
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "Norm";
  t.node.attrs["kind"] = n.kind;
  t.node.attrs["axis"] = n.axis;
  t.node.attrs["epsilon"] = 1e-5f;
  const auto axis = static_cast<size_t>(n.axis < 0 ? n.axis + static_cast<int64_t>(n.shape.size()) : n.axis);
  const Shape row(n.shape.begin() + static_cast<std::ptrdiff_t>(axis), n.shape.end());
  t.add(random_tensor(n.type, n.shape, seed, -3, 5), false);
  t.add(n.residual ? random_tensor(n.type, n.shape, seed + 1, -2, 2) : Tensor(), false);
  t.add(n.gamma ? random_tensor(n.parameters, row, seed + 2, 0.5, 1.5) : Tensor(), false);
  t.add(n.beta ? random_tensor(n.parameters, row, seed + 3, -1, 1) : Tensor(), false);
  for (const Tensor& o : n.operands) t.add(o, false);
  DType out = n.type;
  if (!n.program.empty()) {
    t.node.program = expr::Program::parse(n.program);
    out = t.node.program->type(t.node.program->outputs()[0]);
  }
  t.result(out, n.shape);
  if (n.sum) t.result(n.type, n.shape);
  return t;
}

// The reference adds a row up in float, one element after the other.
double tolerance(DType t) { return t == DType::f32 ? 3e-6 : t == DType::f16 ? 1.0 / 1024 : 1.0 / 128; }

void expect(const Norm& n, uint32_t seed = 1) {
  Trial t = trial(n, seed);
  EXPECT_FALSE(check_on_gpu(t, tolerance(n.type)).empty()) << n.kind << ' ' << to_string(n.shape);
}

TEST(GpuNorm, every_width_and_type) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    for (const char* kind : {"rms", "layer"})
      for (const int64_t width : {1, 3, 7, 64, 100, 1000, 1024, 4096, 4099, 5120})
        for (const int64_t rows : {1, 2, 37})
          expect({.kind = kind, .type = type, .parameters = type, .shape = {rows, width}, .beta = *kind == 'l'});
}

TEST(GpuNorm, one_long_row) {
  expect({.type = DType::bf16, .parameters = DType::bf16, .shape = {1, 65536}});
  expect({.kind = "layer", .type = DType::f32, .shape = {2, 32768}, .beta = true});
}

TEST(GpuNorm, adds_a_residual_and_writes_the_sum) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    for (const bool sum : {false, true})
      expect({.type = type, .parameters = type, .shape = {3, 5, 768}, .residual = true, .sum = sum});
}

TEST(GpuNorm, parameters_of_another_type_and_none) {
  expect({.type = DType::f16, .parameters = DType::f32, .shape = {9, 512}});
  expect({.kind = "layer", .type = DType::bf16, .parameters = DType::f32, .shape = {9, 512}, .beta = true});
  expect({.kind = "layer", .type = DType::f32, .shape = {9, 130}, .gamma = false});
}

TEST(GpuNorm, several_axes_are_a_row) {
  expect({.kind = "layer", .type = DType::f32, .shape = {4, 6, 10, 8}, .beta = true, .axis = 2});
}

TEST(GpuNorm, modulates_and_quantizes_what_it_normalised) {
  // DiT's modulation: (1 + scale) * n + shift, a scale and a shift for each image.
  expect({.kind = "layer",
          .type = DType::f16,
          .shape = {2, 16, 1152},
          .gamma = false,
          .program =
              "(in0:f32, in1:f16, in2:f16) { %3 = cast(in1):f32; %4 = const(1):f32; %5 = add(%3, %4):f32; %6 = mul(in0, %5):f32; "
              "%7 = cast(in2):f32; %8 = add(%6, %7):f32; %9 = cast(%8):f16; return %9 }",
          .operands = {random_tensor(DType::f16, {2, 1, 1152}, 5), random_tensor(DType::f16, {2, 1, 1152}, 6)}});
  Norm q{.type = DType::f32, .shape = {8, 320},
         .program = "(in0:f32) { %1 = const(20):f32; %2 = mul(in0, %1):f32; %3 = round(%2):f32; %4 = cast(%3):i8; return %4 }"};
  Trial t = trial(q, 3);
  EXPECT_FALSE(check_on_gpu(t, 1.0 / 127).empty());   // one quantum where a product lies at a half
}

TEST(GpuNorm, rows_that_begin_anywhere) {
  for (const int64_t alignment : {16, 4, 2}) {
    Trial t = trial({.type = DType::f16, .parameters = DType::f16, .shape = {5, 256}}, 1);
    for (BoundTensor* b : {&t.bound.inputs[0], &t.bound.inputs[2], &t.bound.outputs[0]}) b->alignment = alignment;
    EXPECT_FALSE(check_on_gpu(t, tolerance(DType::f16)).empty());
  }
  Trial t = trial({.type = DType::f16, .parameters = DType::f16, .shape = {5, 256}}, 1);
  t.bound.inputs[0].strides = {259, 1};
  EXPECT_FALSE(check_on_gpu(t, tolerance(DType::f16)).empty());
}

TEST(GpuNorm, onnx_operators) {
  for (const char* op : {"LayerNormalization", "RMSNormalization"}) {
    Trial t;
    t.node.op = op;
    t.add(random_tensor(DType::f32, {6, 200}, 1), false);
    t.add(random_tensor(DType::f32, {200}, 2), false);
    t.result(DType::f32, {6, 200});
    EXPECT_FALSE(check_on_gpu(t, 1e-6).empty()) << op;
  }
}

}  // namespace
}  // namespace smelt::ops
