// Generated pointwise kernels against the processor's evaluator.
#include <cmath>
#include <random>

#include "expr/cpu.h"
#include "gpu/gpu_trial.h"

namespace smelt::ops {
namespace {

Trial fused(const std::string& program, std::vector<Tensor> inputs, const std::vector<Shape>& outputs) {
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "Pointwise";
  t.node.program = expr::Program::parse(program);
  for (Tensor& x : inputs) t.add(std::move(x), false);
  const auto& p = *t.node.program;
  for (size_t i = 0; i < outputs.size(); ++i) t.result(p.type(p.outputs()[i]), outputs[i]);
  return t;
}

TEST(GpuPointwise, every_function_agrees_with_the_processors) {
  uint32_t seed = 1;
  for (const DType type : {DType::f32, DType::f64, DType::i8, DType::i16, DType::i32, DType::i64, DType::u8, DType::u16,
                           DType::u32, DType::u64, DType::boolean}) {
    for (const expr::Fn fn : expr::functions()) {
      if (!expr::accepts(fn, type)) continue;
      const expr::FnInfo& f = expr::info(fn);
      SCOPED_TRACE(std::string(f.name) + " of " + std::string(name(type)));
      expr::Program p;
      std::vector<Tensor> inputs;
      std::vector<expr::Ref> args;
      for (int i = 0; i < f.arity; ++i) {
        const DType of = f.name == "select" && i == 0 ? DType::boolean : type;
        args.push_back(p.input(of));
        const double low = is_signed(of) || is_float(of) ? -4 : 0, high = of == DType::boolean ? 1.99 : 4;
        inputs.push_back(random_tensor(of, {1003}, seed++, low, high));
      }
      p.output(f.arity == 1   ? p.call(fn, args[0])
               : f.arity == 2 ? p.call(fn, args[0], args[1])
                              : p.call(fn, args[0], args[1], args[2]));
      Trial t = fused(p.print(), inputs, {{1003}});
      // CUDA's functions are within a few units in the last place; integers and what is exact in IEEE arithmetic are equal.
      const double tolerance = type == DType::f32 ? 2e-6 : type == DType::f64 ? 1e-14 : 0;
      EXPECT_FALSE(check_on_gpu(t, tolerance).empty());
    }
  }
}

/// Sums, products and gates of dequantized bytes, quantized again, take fewer instructions (expr/bytes.h). The first byte is read, or is what a
/// float is quantized to.
TEST(GpuPointwise, what_is_made_of_bytes_has_the_processors_bits_of_all_pairs) {
  std::mt19937 random(3);
  for (const bool reads : {true, false})
    for (const DType type : {DType::u8, DType::i8})
      for (const char* what : {"add", "mul", "hard_swish", "scaled"})
        for (int i = 0; i < 4; ++i) {
          SCOPED_TRACE(fmt::format("{} of {}, {}, {}", what, name(type), reads, i));
          const int low = type == DType::i8 ? -128 : 0;
          const auto scale = [&](expr::Program& p) {
            return p.constant(DType::f32, std::exp2(std::uniform_real_distribution<double>(-9, 1)(random)));
          };
          const auto zero = [&] { return std::uniform_int_distribution<int>(0, 255)(random) + low; };
          expr::Program p;
          const expr::Ref x = p.input(reads ? type : DType::f32), y = p.input(type);
          const auto quantize = [&](expr::Ref v, int z) {
            const expr::Ref moved = p.call(expr::Fn::add, p.call(expr::Fn::round, v), p.constant(DType::f32, z));
            return p.cast(p.call(expr::Fn::clip, moved, p.constant(DType::f32, low), p.constant(DType::f32, low + 255)), type);
          };
          const auto less = [&](expr::Ref byte, int z) {
            return p.cast(p.call(expr::Fn::sub, p.cast(byte, DType::i32), p.constant(DType::i32, z)), DType::f32);
          };
          const int z = zero();
          const expr::Ref a = p.call(expr::Fn::mul, less(reads ? x : quantize(x, z), z), scale(p));
          const expr::Ref b = p.call(expr::Fn::mul, less(y, zero()), scale(p));
          const std::string_view form = what;
          const expr::Ref made = form == "add"          ? p.call(expr::Fn::add, a, b)
                                 : form == "mul"        ? p.call(expr::Fn::mul, a, b)
                                 : form == "hard_swish" ? p.call(expr::Fn::hard_swish, a)
                                                        : a;
          p.output(quantize(p.call(expr::Fn::div, made, scale(p)), zero()));
          Tensor in0 = Tensor::empty(reads ? type : DType::f32, {65536}), in1 = Tensor::empty(type, {65536});
          for (int64_t k = 0; k < 65536; ++k) {
            static_cast<uint8_t*>(in1.raw())[k] = static_cast<uint8_t>(k >> 8);
            if (reads)
              static_cast<uint8_t*>(in0.raw())[k] = static_cast<uint8_t>(k);
            else  // beyond both ends, halves and what is no number
              in0.data<float>()[k] =
                  (k & 255) == 255 ? NAN : static_cast<float>((k & 255) * 4 - 510) / 2 + 0.25f * static_cast<float>(k >> 14);
          }
          Trial t = fused(p.print(), {in0, in1}, {{65536}});
          EXPECT_FALSE(check_on_gpu(t, 0).empty());
        }
}

TEST(GpuPointwise, every_conversion_gives_the_processors_bits) {
  const std::vector<DType> types{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,  DType::i16,    DType::i32,
                                 DType::i64, DType::u8,  DType::u16, DType::u32,  DType::u64, DType::boolean};
  for (const DType from : types) {
    for (const DType to : types) {
      SCOPED_TRACE(std::string(name(from)) + " to " + std::string(name(to)));
      const bool whole = !is_float(from);
      Tensor x = random_tensor(from, {517}, 7, is_signed(from) || is_float(from) ? -300 : 0,
                               from == DType::boolean ? 1.99
                               : whole                ? 120
                                                      : 300);
      if (from == DType::f32) {
        const std::vector<float> special{0.f, -0.f, NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 65504.f, 65520.f, 1e-8f, 0.5f, 1.5f};
        std::copy(special.begin(), special.end(), x.data<float>());
      }
      const expr::Program p = expr::conversion(from, to);
      Trial t = fused(p.print(), {x}, {{517}});
      // The evaluator, not ONNX's Cast: out of range saturates here.
      Tensor want = Tensor::empty(to, {517});
      const expr::Evaluator evaluator(p);
      std::vector<uint8_t> scratch(static_cast<size_t>(evaluator.scratch()) + 64);
      const expr::Operand operand{x.raw(), 1};
      void* out = want.raw();
      evaluator.run(517, std::span(&operand, 1), std::span(&out, 1), aligned(scratch));
      EXPECT_FALSE(agree_on_gpu(t, {want}, 0).empty());
    }
  }
}

TEST(GpuPointwise, broadcasts_and_takes_every_width) {
  const std::string add =
      "(in0:f16, in1:f16) { %2 = cast(in0):f32; %3 = cast(in1):f32; %4 = add(%2, %3):f32; %5 = cast(%4):f16; return %5 }";
  const std::vector<std::pair<Shape, Shape>> shapes{
      {{7, 64}, {64}},     {{7, 65}, {65}},        {{7, 65}, {7, 1}}, {{3, 5, 8}, {3, 1, 8}},
      {{1}, {1}},          {{1, 1, 1000}, {1}},    {{129}, {129}},    {{2, 3, 4, 5, 6}, {3, 1, 5, 1}},
      {{4, 1024}, {4, 1}}, {{1025, 3}, {1025, 3}}, {{0, 4}, {4}},     {{5, 12}, {1, 12}}};
  uint32_t seed = 1;
  for (const auto& [a, b] : shapes) {
    Trial t = fused(add, {random_tensor(DType::f16, a, seed++), random_tensor(DType::f16, b, seed++)}, {a});
    EXPECT_FALSE(check_on_gpu(t, 0).empty());
    Trial swapped = fused(add, {random_tensor(DType::f16, b, seed++), random_tensor(DType::f16, a, seed++)}, {a});
    EXPECT_FALSE(check_on_gpu(swapped, 0).empty());
  }
}

TEST(GpuPointwise, reads_and_writes_slices_and_layouts) {
  const std::string twice = "(in0:f32, in1:f32) { %2 = mul(in0, in1):f32; return %2 }";
  uint32_t seed = 1;
  for (const Layout layout : {Layout::plain, Layout::nhwc}) {
    for (const int64_t alignment : {256, 16, 4}) {
      for (const bool strided : {false, true}) {
        const Shape shape{2, 12, 5, 7};
        Trial t =
            fused(twice, {random_tensor(DType::f32, shape, seed++), random_tensor(DType::f32, {12, 1, 1}, seed++)}, {shape});
        t.bound.inputs[0].layout = t.bound.outputs[0].layout = layout;
        for (BoundTensor* b : {&t.bound.inputs[0], &t.bound.outputs[0]}) {
          b->alignment = alignment;
          if (strided) {  // every other channel's room is someone else's
            Shape s = memory_strides(*b);
            for (int64_t& step : s)
              if (step > 1) step *= 2;
            b->strides = s;
          }
        }
        EXPECT_FALSE(check_on_gpu(t, 0).empty());
      }
    }
  }
}

TEST(GpuPointwise, writes_several_outputs_of_different_types) {
  Trial t = fused(
      "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = cast(%3):f16; %5 = less(in0, %2):bool; return %3, "
      "%4, %5 }",
      {random_tensor(DType::f32, {33, 40}, 1), random_tensor(DType::f16, {33, 40}, 2)}, {{33, 40}, {33, 40}, {33, 40}});
  EXPECT_FALSE(check_on_gpu(t, 0).empty());
}

}  // namespace
}  // namespace smelt::ops
