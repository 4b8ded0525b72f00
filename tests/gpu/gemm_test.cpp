// Matrix products on a GPU: every type, storage and epilogue against the processor's reference, on shapes that no tile divides (each
// kind of tile: gemm_tiles_test.cpp).
#include <fmt/core.h>

#include <set>

#include "gemm_trial.h"

namespace smelt::ops {
namespace {

TEST(GpuGemm, odd_shapes) {
  const int64_t extents[][3] = {{1, 1, 1},      {1, 300, 7},  {2, 3, 5},       {7, 1, 300},    {17, 31, 13},
                                {33, 65, 129},  {64, 64, 64}, {97, 101, 103},  {127, 130, 60}, {128, 257, 211},
                                {197, 299, 64}, {293, 4, 2},  {300, 300, 300}, {2, 256, 3000}};
  for (const DType type : {DType::f16, DType::bf16, DType::f32})
    for (const auto& [m, n, k] : extents) expect({.type = type, .a = {m, k}, .b = {k, n}}, 1);
}

TEST(GpuGemm, either_operand_transposed_at_every_width_of_copies) {
  for (const DType type : {DType::f16, DType::f32})
    for (const int64_t k : {72, 44, 42, 41})
      for (const bool trans_a : {false, true})
        for (const bool trans_b : {false, true}) {
          const int64_t m = k == 41 ? 67 : 64 + k % 8, n = k == 41 ? 81 : 80 + k % 8;
          expect({.type = type,
                  .a = trans_a ? Shape{k, m} : Shape{m, k},
                  .b = trans_b ? Shape{n, k} : Shape{k, n},
                  .trans_a = trans_a,
                  .trans_b = trans_b},
                 1);
        }
}

TEST(GpuGemm, batches_and_their_broadcast) {
  for (const DType type : {DType::f16, DType::f32}) {
    expect({.type = type, .a = {2, 3, 50, 40}, .b = {2, 3, 40, 70}});
    expect({.type = type, .a = {3, 50, 40}, .b = {2, 1, 40, 70}});
    expect({.type = type, .a = {50, 40}, .b = {2, 3, 40, 70}});
    expect({.type = type, .a = {4, 5, 33, 40}, .b = {40, 48}});
    expect({.type = type, .a = {5, 1, 40}, .b = {40, 48}});
    expect({.type = type, .a = {2, 3, 64, 50}, .b = {2, 3, 64, 70}, .trans_a = true});
    expect({.type = type, .a = {2, 3, 64, 50}, .b = {2, 3, 70, 50}, .trans_b = true, .alpha = 0.125});
    expect({.type = type, .a = {3, 40, 50}, .b = {40, 48}, .trans_a = true});
  }
}

TEST(GpuGemm, vectors) {
  expect({.a = {40}, .b = {40, 70}});
  expect({.a = {50, 40}, .b = {40}});
  expect({.a = {40}, .b = {40}});
  expect({.a = {40}, .b = {3, 40, 70}});
  expect({.a = {2, 50, 40},
          .b = {40},
          .program = "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = cast(%3):f16; return %4 }",
          .operands = {random_tensor(DType::f16, {2, 1}, 4)}});
}

TEST(GpuGemm, every_form_of_an_operand) {
  const std::string add =
      "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = relu(%3):f32; %5 = cast(%4):f16; return %5 }";
  for (const Shape& s : {Shape{}, Shape{1}, Shape{72}, Shape{1, 72}, Shape{50, 1}, Shape{50, 72}, Shape{3, 1, 1}, Shape{3, 1, 72},
                         Shape{3, 50, 72}, Shape{2, 1, 50, 1}, Shape{2, 3, 50, 72}}) {
    SCOPED_TRACE(to_string(s));
    expect({.a = {2, 3, 50, 40}, .b = {40, 72}, .program = add, .operands = {random_tensor(DType::f16, s, 5)}});
    expect({.a = {2, 3, 50, 40}, .b = {2, 1, 40, 72}, .program = add, .operands = {random_tensor(DType::f16, s, 5)}}, 1);
  }
  const std::string odd = "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = mul(in0, %2):f32; return %3 }";
  for (const Shape& s : {Shape{71}, Shape{49, 71}, Shape{49, 1}})
    expect({.a = {49, 40}, .b = {40, 71}, .program = odd, .operands = {random_tensor(DType::f16, s, 5)}});
}

TEST(GpuGemm, gated_with_residual_and_several_types) {
  // silu(x) * up + residual, a bias of another type.
  const std::string gated =
      "(in0:f32, in1:f32, in2:bf16, in3:bf16) { %4 = add(in0, in1):f32; %5 = silu(%4):f32; %6 = cast(in2):f32; %7 = mul(%5, "
      "%6):f32; "
      "%8 = cast(in3):f32; %9 = add(%7, %8):f32; %10 = cast(%9):bf16; return %10 }";
  for (const int64_t m : {2, 130})
    expect({.type = DType::bf16,
            .a = {m, 512},
            .b = {512, 136},
            .program = gated,
            .operands = {random_tensor(DType::f32, {136}, 3), random_tensor(DType::bf16, {m, 136}, 4),
                         random_tensor(DType::bf16, {m, 136}, 5)}},
           4);
  const std::string quantized =
      "(in0:f32) { %1 = const(3):f32; %2 = mul(in0, %1):f32; %3 = round(%2):f32; %4 = cast(%3):i8; return %4 }";
  Trial t = gemm_trial({.a = {70, 64}, .b = {64, 90}, .program = quantized});
  EXPECT_FALSE(agree_on_gpu(t, evaluate(t.node, t.inputs), 1.0 / 16).empty());  // one quantum where a sum lies at a half
}

TEST(GpuGemm, cublaslt_fuses_what_it_can_and_leaves_the_rest_to_a_pass) {
  const auto program = [](std::string_view middle, std::string_view last) {
    return fmt::format(
        "(in0:f32, in1:f16, in2:f16) {{ %3 = cast(in1):f32; %4 = add(in0, %3):f32; %5 = cast(in2):f32; {} %9 = cast({}):f16; "
        "return %9 }}",
        middle, last);
  };
  struct Row {
    std::string text;
    bool passes;
  };
  const Row rows[] = {{program("%6 = add(%4, %5):f32; %7 = relu(%6):f32; %8 = abs(%7):f32;", "%7"), false},
                      {program("%6 = add(%4, %5):f32; %7 = gelu_tanh(%6):f32; %8 = abs(%7):f32;", "%7"), false},
                      {program("%6 = add(%4, %5):f32; %7 = gelu(%6):f32; %8 = abs(%7):f32;", "%7"), true},
                      {program("%6 = relu(%4):f32; %7 = add(%6, %5):f32; %8 = abs(%7):f32;", "%7"), true}};
  for (const Row& row : rows) {
    Gemm g{.a = {3, 48, 64},
           .b = {64, 80},
           .program = row.text,
           .operands = {random_tensor(DType::f16, {80}, 4), random_tensor(DType::f16, {3, 48, 80}, 5)}};
    EXPECT_GE(expect(g), 1u);
    Trial t = gemm_trial(g);
    t.bound.node = &t.node;
    for (const Candidate& c : offer(t.bound, gpu_machine()).candidates) {
      if (c.tactic != "cublaslt") continue;
      EXPECT_EQ(c.config.ends_with("+pointwise"), row.passes) << c.config;
    }
  }
}

TEST(GpuGemm, operands_that_begin_anywhere_and_lie_apart) {
  for (const int64_t alignment : {16, 8, 4, 2}) {
    Trial t = gemm_trial({.a = {50, 64}, .b = {64, 80}});
    for (BoundTensor* b : {&t.bound.inputs[0], &t.bound.inputs[1], &t.bound.outputs[0]}) b->alignment = alignment;
    expect_agreement(t, 64, 3);
  }
  Trial rows = gemm_trial({.a = {3, 50, 64}, .b = {64, 80}});
  rows.bound.inputs[0].strides = {64 * 90, 72, 1};
  rows.bound.inputs[1].strides = {88, 1};
  rows.bound.outputs[0].strides = {80 * 60, 88, 1};
  expect_agreement(rows, 64, 3);
  Trial heads =
      gemm_trial({.a = {2, 4, 50, 64}, .b = {2, 4, 60, 64}, .trans_b = true});  // [batch, sequence, heads, 64] seen by heads
  heads.bound.inputs[0].strides = {50 * 256, 64, 256, 1};
  heads.bound.inputs[1].strides = {60 * 256, 64, 256, 1};
  heads.bound.outputs[0].strides = {50 * 4 * 60, 60, 4 * 60, 1};
  expect_agreement(heads, 64, 3);
  Trial apart = gemm_trial({.a = {50, 33}, .b = {33, 40}});  // neither axis side by side
  apart.bound.inputs[0].strides = {33 * 3, 3};
  apart.bound.inputs[1].strides = {2, 90};
  apart.bound.outputs[0].strides = {90, 2};
  expect_agreement(apart, 33, 3);
}

/// By emulation of random operands: 2.3e-7 in parts of 128 steps, 1.6e-7 with four splits of these; 1.2e-6 and 6e-7 in one chain
/// of additions each.
TEST(GpuGemm, deep_sums_in_float_are_no_chain_of_additions) {
  Trial t = gemm_trial({.type = DType::f32, .a = {70, 4608}, .b = {4608, 90}});
  t.bound.node = &t.node;
  const Tensor want = evaluate(t.node, t.inputs)[0];
  const auto found = matmul::cuda_problem(t.bound);
  const auto& p = *found;
  std::set<std::string> seen;
  const auto configs = matmul::product_configs(p, *test_gpu());
  ASSERT_TRUE(configs) << configs.refusal().text;
  for (CudaConfig c : *configs) {
    for (c.splits = 1; c.splits <= 4; c.splits += 3) {
      if (!seen.insert(c.print()).second) continue;
      SCOPED_TRACE(c.print());
      const Candidate candidate{"cuda", c.print(), 0, [&] { return matmul::cuda_product(p, c, *test_gpu()); }};
      EXPECT_LE(rms_error(run_on_gpu(t, candidate)[0], want), 3e-7);
    }
  }
  EXPECT_GE(seen.size(), 12u);
}

/// Products of this length have an error of 3e-7 or less (above); gelu adds a rounding.
TEST(GpuGemm, gelu_in_float_is_as_exact_as_the_product) {
  Trial t = gemm_trial({.type = DType::f32,
                        .a = {70, 256},
                        .b = {256, 96},
                        .program = "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = gelu_tanh(%2):f32; return %3 }",
                        .operands = {random_tensor(DType::f32, {96}, 4)}});
  t.bound.node = &t.node;
  const Tensor want = evaluate(t.node, t.inputs)[0];
  size_t by_cublaslt = 0;
  for (const Candidate& c : offer(t.bound, gpu_machine()).candidates) {
    SCOPED_TRACE(c.tactic + " " + c.config);
    EXPECT_LE(rms_error(run_on_gpu(t, c)[0], want), 4e-7);
    if (c.tactic != "cublaslt") continue;
    ++by_cublaslt;
    EXPECT_TRUE(c.config.ends_with("+pointwise"));
  }
  EXPECT_GE(by_cublaslt, 1u);
}

TEST(GpuGemm, empty_extents) {
  expect({.a = {0, 40}, .b = {40, 8}});
  expect({.a = {4, 0}, .b = {0, 8}});  // zeros
  expect({.a = {0, 4, 8}, .b = {8, 8}});
}

TEST(GpuGemm, onnx_operators) {
  for (const bool trans : {false, true}) {
    Trial t;
    t.node.op = "Gemm";
    t.node.attrs = {{"transB", int64_t{trans}}, {"alpha", 0.5f}, {"beta", 2.0f}};
    t.add(random_tensor(DType::f32, {13, 40}, 1), false);
    t.add(random_tensor(DType::f32, trans ? Shape{19, 40} : Shape{40, 19}, 2), true);
    t.add(random_tensor(DType::f32, {19}, 3), true);
    t.result(DType::f32, {13, 19});
    EXPECT_FALSE(check_on_gpu(t, 2e-6).empty());
  }
}

}  // namespace
}  // namespace smelt::ops
