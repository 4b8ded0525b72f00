// Products by Hopper's own instructions of other types than 16-bit floats: floats as tf32, and floats of 8 bits.
#include "hopper_gemm.h"

namespace smelt::ops::hopper {
namespace {

TEST_F(GpuHopperGemm, floats_rounded_to_tf32) {
  const auto all = [](const HopperConfig&) { return true; };
  const std::string residual =
      "(in0:f32, in1:f32, in2:f32) { %3 = add(in0, in1):f32; %4 = add(%3, in2):f32; %5 = relu(%4):f32; return %5 }";
  for (const int64_t m : {331, 40, 7})
    for (const int64_t k : {456, 77, 64 * 29 + 8})
      for (const int64_t n : {328, 75}) {
        const Shape y{m, n};
        Product g{.type = DType::f32, .a = {m, k}, .b = {k, n}, .y = y, .k = k};
        if (n == 328) g.program = residual, g.operands = {random_tensor(DType::f32, {n}, 3), random_tensor(DType::f32, y, 4)};
        Trial constant = trial(g);
        if (k % 4 != 0) constant.bound.inputs[0].strides = {80, 1};
        constant.bound.inputs[1].constant = constant.inputs[1];
        EXPECT_GE(expect(constant, k, all, few / 2), 2u);
        if (k % 4 != 0) continue;
        g.b = {n, k}, g.trans_b = true;
        Trial computed = trial(g);
        EXPECT_GE(expect(computed, k, all, few / 2), 2u);
      }
}

/// A product of 8-bit floats, scaled by column, its weights constant or along K.
Trial eight_bits(int64_t m, int64_t k, int64_t n, bool trans_b, DType y) {
  const std::string program = fmt::format("(in0:f32, in1:f32) {{ %2 = mul(in0, in1):f32; %3 = relu(%2):f32{} }}",
                                          y == DType::f32 ? "; return %3" : "; %4 = cast(%3):f16; return %4");
  Trial t = trial({.type = DType::f8e4m3fn,
                   .a = {m, k},
                   .b = trans_b ? Shape{n, k} : Shape{k, n},
                   .trans_b = trans_b,
                   .y = {m, n},
                   .program = program,
                   .operands = {random_tensor(DType::f32, {n}, 3, 0.5, 1.5)},
                   .k = k});
  if (!trans_b) t.bound.inputs[1].constant = t.inputs[1];
  return t;
}

TEST_F(GpuHopperGemm, floats_of_8_bits) {
  const auto all = [](const HopperConfig&) { return true; };
  for (const bool trans_b : {false, true})
    for (const DType y : {DType::f16, DType::f32})
      for (const int64_t m : {331, 40, 7})
        for (const int64_t k : {464, 128 * 29 + 16}) {
          Trial t = eight_bits(m, k, trans_b ? 200 : 203, trans_b, y);
          EXPECT_GE(expect(t, k, all, few / 2), 2u);
        }
}

/// Of numbers of one sign, sums that tensor cores go on with lose a part of each product.
TEST_F(GpuHopperGemm, long_sums_of_floats_of_8_bits) {
  Trial t = eight_bits(130, 16384, 136, false, DType::f32);
  t.inputs[0] = random_tensor(DType::f8e4m3fn, {130, 16384}, 5, 0.5, 1);
  t.inputs[1] = random_tensor(DType::f8e4m3fn, {16384, 136}, 6, 0.5, 1);
  t.bound.inputs[1].constant = t.inputs[1];
  const Tensor want = evaluate(t.node, t.inputs)[0];
  const auto p = matmul::cuda_problem(t.bound);
  ASSERT_TRUE(p);
  const auto configs = matmul::hopper_configs(*p, *test_gpu());
  ASSERT_TRUE(configs);
  for (size_t i = 0; i < std::min<size_t>(3, configs->size()); ++i) {
    const Tensor got = run_on_gpu(t, *hopper_product(*p, (*configs)[i], *test_gpu()))[0];
    double worst = 0;
    for (int64_t j = 0; j < want.size(); ++j)
      worst = std::max(worst, std::abs(got.data<float>()[j] / static_cast<double>(want.data<float>()[j]) - 1));
    EXPECT_LE(worst, 1.0 / 2048) << (*configs)[i].print();  // summed by tensor cores alone they are off by some 3%
  }
}

}  // namespace
}  // namespace smelt::ops::hopper
