// The cost model of Hopper's products against what was measured: the fastest candidate stands among the first, so that a tuning
// level which measures few finds it.
#include <span>

#include "ops/cuda/gpu.h"
#include "ops/tactic_check.h"

namespace smelt::ops::matmul {
namespace {

/// A product and its fastest candidates. `what`: the activation or residual behind the bias, of f16 unless a type stands before it;
/// "i32", "i8": of 8-bit integers, their sums or these scaled by column.
struct Measured {
  std::string_view what;
  int64_t m, n, k;
  std::string_view fastest;
};

/// Products of floats, from bench/results: gpu-hopper-gemm-2026-11-25, gpu-gemm-2026-11-26-types, -27 and -28, of an H100 and an H200. What is
/// named is the fastest of a run; where runs differ, of each. Left out are runs before the tiles of today were there, those in which
/// kept weights were zeros, and what builds chose for models, since they prefer what the model ranks first.
constexpr Measured measured[] = {
    {"relu", 48, 4608, 4096, "48x64x64 swap w g1 s15 b1 k1, 48x64x64 swap w g1 s7 b2 c3"},
    {"relu", 48, 4096, 4096, "48x64x64 swap w g1 s7 b2 c2, 48x64x64 swap w g1 s16 b1 c2"},
    {"relu", 48, 4096, 13696, "48x64x64 swap w g1 s7 b2 c2"},
    {"relu", 2, 4608, 4096, "8x64x64 swap g1 s12 b2 k1, 8x128x64 swap g2 s12 b1 c3"},
    {"relu", 2, 4096, 4096, "8x64x64 swap g1 s12 b2 k1, 8x128x64 swap g2 s12 b1 c3"},
    {"relu", 2, 4096, 13696, "8x64x64 swap g1 s12 b2 k1, 16x32x64 swap w g1 s24 b1 k1"},
    {"relu", 34, 4096, 4096, "40x64x64 swap w g1 s8 b2 c2, 40x64x64 swap w g1 s17 b1 c2"},
    {"relu", 34, 4096, 11008, "40x64x64 swap w g1 s8 b2 c2, 40x64x64 swap w g1 s17 b1 c2"},
    {"relu", 2, 4096, 11008, "8x64x64 swap g1 s12 b2 k1, 8x64x64 swap g1 s12 b2 c2"},
    {"relu", 2, 4096, 40000, "8x64x64 swap g1 s12 b2 k1, 16x32x64 swap w g1 s24 b1 k1"},
    {"relu", 2, 4096, 44032, "8x64x64 swap g1 s12 b2 k1, 16x32x64 swap w g1 s24 b1 k1"},
    {"relu", 2, 1024, 40000, "8x64x64 swap g1 s12 b2 c4, 8x128x64 swap g2 s12 b1 c8, 8x128x64 swap g2 s12 b1 c6"},
    {"relu", 2, 1024, 4000, "8x64x64 swap g1 s12 b2 c4, 8x64x64 swap g1 s12 b2 c6, 8x128x64 swap g2 s12 b1 c6"},
    {"relu", 512, 4608, 1152, "128x144x64 t g2 s6 b1 k1, 128x144x64 t g2 +b s6 b1 k1"},
    {"relu", 512, 1152, 4608, "128x96x64 t g2 +b4 s8 b1 c2, 128x96x64 t g2 +a +b s8 b1 c2"},
    {"relu", 512, 3456, 1152, "128x112x64 t g2 s6 b1 k1, 128x112x64 t g2 +b s6 b1 k1"},
    {"relu", 512, 1152, 1152,
     "64x80x64 t g1 s12 b1 k1, 64x96x64 t g1 +a4 s10 b1 k1, 64x96x64 t g1 +b s10 b1 k1, 64x96x64 t g1 +b4 s10 b1 k1"},
    {"relu", 3072, 3072, 768,
     "128x192x64 g2a r240 +b s5 b1p k1, 128x192x64 g2a r240 +b s4 b1p k1 y, 128x192x64 g2a r240 +a s5 b1p k1, 128x192x64 g2a "
     "r240 +a s4 b1p k1 y"},
    {"relu", 3072, 768, 3072, "192x96x64 t g3 +a s5 b1 k1, 192x96x64 t g3 +b s5 b1 k1"},
    {"relu", 197, 3072, 768, "64x96x64 t g1 s10 b1 k1, 64x128x64 g1 +b4 s9 b1 k1"},
    {"relu", 4096, 1408, 512,
     "128x176x64 t g2a r240 +b s5 b1p k1, 128x176x64 t g2a r240 s5 b1p k1 y, 128x176x64 g2a r240 s5 b1p k1"},
    {"relu", 4096, 512, 1408, "128x128x64 g2 s6 b1 k1, 128x128x64 g2 +a s6 b1 k1"},
    {"relu", 4096, 32000, 512, "128x192x64 g2a r240 +b s5 b1p k1, 128x192x64 g2a r240 +b s4 b1p k1 y"},
    {"relu", 2048, 2048, 2048, "128x256x64 g2 +b s4 b1 k1"},
    {"relu", 4096, 4096, 4096, "256x176x64 g2 r240 +a s3 b1p k1, 128x256x64 g2 +b s4 b1p k1, 256x128x64 g2 +a s4 b1p k1"},
    {"relu", 8192, 8192, 8192, "128x192x64 g2a r240 +b s5 b1p k1"},
    {"relu", 4096, 4096, 11008, "128x256x64 g2 +b s4 b1p k1"},
    {"relu", 16, 4096, 4096, "16x64x64 swap w g1 s10 b2 k1"},
    {"relu", 24, 4096, 4096, "24x64x64 swap w g1 s10 b2 c2"},
    {"relu", 64, 4096, 4096, "64x64x64 swap w g1 s6 b2 c2"},
    {"relu", 1, 768, 3072, "8x64x64 swap g1 s12 b2 c6"},
    {"relu", 16, 1024, 1024, "16x64x64 swap w g1 s11 b2 c4"},
    {"relu", 256, 1024, 1024, "64x64x64 g1 s12 b1 c2"},
    {"gelu", 2, 1024, 40000, "8x64x64 swap g1 s12 b2 c4, 8x128x64 swap g2 s12 b1 c6"},
    {"gelu", 2, 1024, 4000, "8x64x64 swap g1 s12 b2 c4, 8x64x64 swap g1 s12 b2 c5"},
    {"gelu", 512, 4608, 1152, "128x144x64 t g2 s6 b1 k1, 128x144x64 t g2 +b s6 b1 k1"},
    {"gelu", 512, 1152, 4608, "128x96x64 t g2 +b4 s8 b1 c2, 128x96x64 t g2 +a +b s8 b1 c2"},
    {"gelu", 512, 3456, 1152, "128x112x64 g2 s6 b1 k1, 128x112x64 t g2 s6 b1 k1"},
    {"gelu", 512, 1152, 1152, "64x80x64 t g1 s12 b1 k1, 64x72x64 t g1 s12 b1 k1, 64x96x64 t g1 +b4 s10 b1 k1"},
    {"gelu", 3072, 3072, 768,
     "128x144x64 t g2a r240 +b s6 b1p k1, 128x192x64 g2a r240 s4 b1p k1 y, 128x144x64 t g2a r240 +b s5 b1p k1 y"},
    {"gelu", 3072, 768, 3072, "192x96x64 g3 +b s5 b1 k1, 192x96x64 t g3 +a s5 b1 k1"},
    {"gelu", 197, 3072, 768, "64x96x64 t g1 s10 b1 k1, 64x128x64 g1 +b4 s9 b1 k1"},
    {"gelu", 4096, 1408, 512,
     "128x176x64 t g2a r240 s5 b1p k1, 128x176x64 t g2a r240 +a s5 b1p k1 y, 128x176x64 t g2a r240 s5 b1p k1 y"},
    {"gelu", 4096, 512, 1408, "128x128x64 g2 s6 b1 k1"},
    {"gelu", 4096, 32000, 512, "128x192x64 g2a r240 +b s5 b1p k1, 128x192x64 g2a r240 +b s4 b1p k1 y"},
    {"gelu_erf", 48, 4608, 4096, "48x64x64 swap w g1 s15 b1 k1"},
    {"gelu_erf", 48, 4096, 4096, "48x64x64 swap w g1 s7 b2 c2"},
    {"gelu_erf", 48, 4096, 13696, "48x64x64 swap w g1 s7 b2 c2"},
    {"gelu_erf", 2, 4608, 4096, "8x64x64 swap g1 s12 b2 k1"},
    {"gelu_erf", 2, 4096, 4096, "8x64x64 swap g1 s12 b2 k1"},
    {"gelu_erf", 2, 4096, 13696, "8x64x64 swap g1 s12 b2 k1"},
    {"gelu_erf", 34, 4096, 4096, "40x64x64 swap w g1 s8 b2 c2"},
    {"gelu_erf", 34, 4096, 11008, "40x64x64 swap w g1 s8 b2 c2"},
    {"gelu_erf", 2, 4096, 11008, "8x64x64 swap g1 s12 b2 k1"},
    {"gelu_erf", 2, 4096, 40000, "8x64x64 swap g1 s12 b2 k1"},
    {"gelu_erf", 2, 4096, 44032, "8x256x64 swap g2 s6 b1 c3"},
    {"gelu_erf", 2, 1024, 40000, "8x64x64 swap g1 s12 b2 c4"},
    {"gelu_erf", 2, 1024, 4000, "8x64x64 swap g1 s12 b2 c4"},
    {"gelu_erf", 512, 4608, 1152, "128x144x64 t g2 s6 b1 k1"},
    {"gelu_erf", 512, 1152, 4608, "128x96x64 t g2 +b4 s8 b1 c2"},
    {"gelu_erf", 512, 3456, 1152, "128x112x64 g2 s6 b1 k1"},
    {"gelu_erf", 512, 1152, 1152, "64x80x64 t g1 s12 b1 k1"},
    {"gelu_erf", 3072, 3072, 768, "192x128x64 g3 s5 b1p k1, 128x144x64 t g2a r240 s5 b1p k1 y"},
    {"gelu_erf", 3072, 768, 3072, "192x96x64 t g3 +a s5 b1 k1, 128x160x64 t g2 +b s5 b1 k1"},
    {"gelu_erf", 197, 3072, 768, "64x96x64 t g1 s10 b1 k1"},
    {"gelu_erf", 4096, 512, 1408, "128x128x64 g2 s6 b1 k1"},
    {"gelu_erf", 4096, 32000, 512, "128x176x64 t g2a r240 +b s5 b1p k1, 128x176x64 t g2a r240 +b s5 b1p k1 y"},
    {"residual", 48, 4608, 4096, "48x64x64 swap w g1 s15 b1 k1"},
    {"residual", 48, 4096, 4096, "48x64x64 swap w g1 s7 b2 c2"},
    {"residual", 48, 4096, 13696, "48x64x64 swap w g1 s7 b2 c2"},
    {"residual", 2, 4608, 4096, "8x64x64 swap g1 s12 b2 k1"},
    {"residual", 2, 4096, 4096, "8x64x64 swap g1 s12 b2 k1"},
    {"residual", 2, 4096, 13696, "8x64x64 swap g1 s12 b2 k1"},
    {"residual", 34, 4096, 4096, "40x64x64 swap w g1 s8 b2 c2"},
    {"residual", 34, 4096, 11008, "40x64x64 swap w g1 s8 b2 c2"},
    {"residual", 2, 4096, 11008, "8x64x64 swap g1 s12 b2 k1"},
    {"residual", 2, 4096, 40000, "8x256x64 swap g2 s6 b1 c3"},
    {"residual", 2, 4096, 44032, "8x256x64 swap g2 s6 b1 c3"},
    {"residual", 2, 1024, 40000, "8x64x64 swap g1 s12 b2 c4, 8x128x64 swap g2 s12 b1 c8"},
    {"residual", 2, 1024, 4000, "8x64x64 swap g1 s12 b2 c5, 8x64x64 swap g1 s12 b2 c6"},
    {"residual", 512, 4608, 1152, "128x144x64 t g2 s5 b1 k1"},
    {"residual", 512, 1152, 4608, "128x96x64 t g2 +a +b s8 b1 c2"},
    {"residual", 512, 3456, 1152, "128x112x64 t g2 s6 b1 k1"},
    {"residual", 512, 1152, 1152, "64x72x64 t g1 s12 b1 k1"},
    {"residual", 3072, 3072, 768, "128x192x64 g2a r240 +a s4 b1p k1, 128x144x64 t g2a r240 +b s5 b1p k1 y"},
    {"residual", 3072, 768, 3072, "192x96x64 t g3 s4 b1 k1, 192x96x64 t g3 +a s4 b1 k1"},
    {"residual", 197, 3072, 768, "64x96x64 t g1 s10 b1 k1"},
    {"residual", 4096, 1408, 512, "128x176x64 t g2a r240 s4 b1p k1, 128x176x64 t g2a r240 s4 b1p k1 y"},
    {"residual", 4096, 512, 1408, "128x128x64 g2 +b s6 b1 k1"},
    {"residual", 4096, 32000, 512, "128x192x64 g2a r240 +b s4 b1p k1, 128x192x64 g2a r240 +b s4 b1p k1 y"},
    {"bf16:relu", 512, 4608, 1152, "128x144x64 t g2 s6 b1 k1"},
    {"bf16:relu", 512, 1152, 4608, "128x96x64 t g2 +b4 s8 b1 c2"},
    {"bf16:relu", 3072, 768, 3072, "192x96x64 t g3 +a s5 b1 k1"},
    {"bf16:relu", 2048, 2048, 2048, "128x256x64 g2 +b s4 b1 k1"},
    {"bf16:relu", 4096, 4096, 4096, "256x176x64 g2 r240 +a s3 b1p k1"},
    {"bf16:relu", 8192, 8192, 8192, "128x192x64 g2a r240 +b s5 b1p k1"},
    {"bf16:relu", 4096, 4096, 11008, "256x128x64 g2 +a s4 b1p k1"},
    {"f32:relu", 512, 4608, 1152, "128x144x32 t g2 s6 b1 k1"},
    {"f32:relu", 3072, 3072, 768, "128x192x32 t g2a r240 +b s5 b1p k1"},
    {"f32:relu", 3072, 768, 3072, "192x96x32 t g3 s6 b1 k1"},
    {"f32:relu", 197, 3072, 768, "64x128x32 t g1 +b4 s9 b1 k1"},
    {"f32:relu", 2048, 2048, 2048, "128x256x32 t g2 +a s4 b1 k1"},
    {"f32:relu", 4096, 4096, 4096, "128x208x32 t g2 +b s5 b1p k1"},
    {"f8e4m3fn:relu", 3072, 3072, 768, "192x96x128 t g3 s6 b1p k1"},
    {"f8e4m3fn:relu", 3072, 768, 3072, "128x160x128 t g2 r240 s6 b1 k1"},
    {"f8e4m3fn:relu", 2048, 2048, 2048, "192x96x128 t g3 s6 b1p k1"},
    {"f8e4m3fn:relu", 4096, 4096, 4096, "128x208x128 t g2 r240 +a s5 b1p k1"},
    {"f8e4m3fn:relu", 8192, 8192, 8192, "128x192x128 t g2 r240 +b s5 b1p k1"},
    {"f8e4m3fn:relu", 4096, 4096, 11008, "128x208x128 t g2 r240 +b s5 b1p k1"},
    {"f8e4m3fn:relu", 48, 4096, 4096, "48x64x128 swap g1 s7 b2 c2"},
};

/// Of 8-bit integers, the same. Their ends have changed since: other tiles may be the fastest.
constexpr Measured measured_integers[] = {
    {"i32", 512, 4608, 1152, "64x144x128 g1 s4 b2 k1"},
    {"i32", 2048, 2048, 2048, "128x128x128 g2a s7 b1p k1"},
    {"i32", 8192, 8192, 8192, "192x144x128 g3 +a s5 b1p k1"},
    {"i32", 48, 4096, 4096, "48x64x128 swap g1 s7 b2 c2"},
    {"i32", 2, 4096, 4096, "8x256x128 swap g2 s6 b1 c4"},
    {"i32", 512, 1152, 4608, "64x96x128 g1 +b4 s11 b1 k1"},
    {"i8", 512, 4608, 1152, "128x160x128 g2 +b4 s6 b1 k1"},
    {"i8", 2048, 2048, 2048, "128x128x128 g2a s7 b1p k1, 128x256x128 g2 s4 b1 k1"},
    {"i8", 4096, 4096, 4096, "256x128x128 g2 +a s4 b1p k1"},
    {"i8", 8192, 8192, 8192, "192x160x128 g3 +a s5 b1 k1"},
    {"i8", 48, 4096, 4096, "48x64x128 swap g1 s7 b2 c2"},
    {"i8", 2, 4096, 4096, "8x256x128 swap g2 s6 b1 c4"},
    {"i8", 512, 1152, 4608, "128x96x128 g2 +b4 s8 b1 c2"},
};

/// What follows a product of floats: a bias, then a residual of the result's shape or an activation.
expr::Program program(std::string_view kind, DType result) {
  const bool residual = kind == "residual";
  expr::Program p;
  const expr::Ref sum = p.input(DType::f32), bias = p.input(result), other = residual ? p.input(result) : bias;
  const expr::Ref biased = p.call(expr::Fn::add, sum, p.cast(bias, DType::f32));
  expr::Ref y = biased;
  if (residual) y = p.call(expr::Fn::add, biased, p.cast(other, DType::f32));
  if (kind == "relu") y = p.call(expr::Fn::relu, biased);
  if (kind == "gelu") y = p.call(expr::Fn::gelu_tanh, biased);
  if (kind == "gelu_erf") y = p.call(expr::Fn::gelu, biased);
  p.output(p.cast(y, result));
  return p;
}

Trial of_floats(const Measured& c) {
  const size_t colon = c.what.find(':');
  const std::string_view kind = colon == c.what.npos ? c.what : c.what.substr(colon + 1);
  const DType type = colon == c.what.npos ? DType::f16 : *parse_dtype(c.what.substr(0, colon));
  const DType result = type == DType::f8e4m3fn ? DType::f16 : type;
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "MatMul";
  t.node.program = program(kind, result);
  t.bound.inputs = {{type, {c.m, c.k}}, {type, {c.k, c.n}}, {result, {c.n}}};
  t.bound.inputs[1].constant = Tensor::empty(type, {c.k, c.n});
  if (kind == "residual") t.bound.inputs.push_back({result, {c.m, c.n}});
  t.result(result, {c.m, c.n});
  return t;
}

Trial of_integers(const Measured& c) {
  const bool sums = c.what == "i32";
  Trial t;
  t.node.op = sums ? "MatMulInteger" : "QLinearMatMul";
  const Tensor weights = Tensor::zeros(DType::i8, {c.k, c.n}), zero = Tensor::scalar<int8_t>(0);
  t.bound.inputs = {{DType::i8, {c.m, c.k}}};
  const auto constant = [&](const Tensor& value) {
    t.bound.inputs.push_back({value.type(), value.shape()});
    t.bound.inputs.back().constant = value;
  };
  if (!sums) constant(Tensor::scalar(0.02f)), constant(zero);
  constant(weights);
  if (!sums) constant(Tensor::zeros(DType::f32, {c.n})), constant(zero), constant(Tensor::scalar(0.5f)), constant(zero);
  t.result(sums ? DType::i32 : DType::i8, {c.m, c.n});
  return t;
}

struct Place {
  size_t at, of;  // from 0; `of` where none of the fastest is offered
};

/// The place of the first of the fastest among those offered.
Place place(const Measured& c) {
  Trial t = c.what == "i32" || c.what == "i8" ? of_integers(c) : of_floats(c);
  for (size_t i = 0; i < t.bound.inputs.size(); ++i) t.node.inputs.push_back(ValueId(static_cast<int>(i)));
  t.bound.node = &t.node;
  Gpu gpu = *gpu_of_arch("sm_90a");
  gpu.tf32 = true;
  Machine machine;
  machine.gpu = std::make_shared<const Gpu>(gpu);
  Place place{0, 0};
  bool found = false;
  for (const Candidate& candidate : offer(t.bound, machine).candidates) {
    if (candidate.tactic != "hopper") continue;
    ++place.of;
    for (size_t begin = 0; begin < c.fastest.size();) {
      const size_t end = std::min(c.fastest.find(", ", begin), c.fastest.size());
      found = found || c.fastest.substr(begin, end - begin) == candidate.config;
      begin = end + 2;
    }
    place.at += found ? 0 : 1;
  }
  return place;
}

/// How many are among the first eight.
size_t among_the_first(std::span<const Measured> all) {
  size_t found = 0;
  for (const Measured& c : all) {
    const auto [at, of] = place(c);
    found += at < 8 ? 1 : 0;
    if (at >= 8) fmt::print("{} {} {} {}: {} is only number {} of {}\n", c.what, c.m, c.n, c.k, c.fastest, at + 1, of);
  }
  return found;
}

TEST(HopperProductRanks, have_what_was_the_fastest_among_the_first_eight_of_95_in_100) {
  EXPECT_GE(100 * among_the_first(measured), 95 * std::size(measured));
}

TEST(HopperProductRanks, have_the_fastest_of_integers_among_the_first_eight_of_75_in_100) {
  EXPECT_GE(100 * among_the_first(measured_integers), 75 * std::size(measured_integers));
}

}  // namespace
}  // namespace smelt::ops::matmul
