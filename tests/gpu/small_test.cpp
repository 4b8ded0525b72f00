// Conversions from and to numbers of 8 bits and fewer, and quantisation, against the processor's references: equal in every bit.
#include <limits>

#include "gpu/gpu_batch.h"

namespace smelt::ops {
namespace {

class GpuSmall : public GpuBatch {};

constexpr DType small[] = {DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz, DType::f4e2m1,
                           DType::i4,       DType::u4,         DType::i2,     DType::u2};

Trial cast(Tensor x, DType to, int64_t saturate = 1) {
  return node_trial("Cast", {std::move(x)}, {{"to", static_cast<int64_t>(to)}, {"saturate", saturate}});
}

TEST_F(GpuSmall, casts_from_and_to_every_type) {
  for (const DType s : small)
    for (const DType wide : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i32, DType::boolean}) {
      const bool natural = is_integer(s) && !is_signed(s);
      expect(cast(random_tensor(wide, {37, 27}, 1, natural || wide == DType::u8 ? 0 : -9, 9), s));
      expect(cast(random_tensor(s, {37, 27}, 1, natural ? 0 : -8, 8), wide));
    }
  for (const DType from : small)
    for (const DType to : small)
      if (is_float(from) && is_float(to) && from != to) expect(cast(random_tensor(from, {501}, 1, -8, 8), to));
  expect(cast(random_tensor(DType::f32, {300}, 1, 0, 1e3), DType::f8e8m0));
  expect(cast(random_tensor(DType::f8e8m0, {300}, 1, 0, 1e3), DType::f32));
}

TEST_F(GpuSmall, rounds_what_is_tiny_and_too_large) {
  const float top = std::numeric_limits<float>::max();
  for (const DType s : {DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz})
    for (const int64_t saturate : {0, 1}) {
      expect(cast(random_tensor(DType::f32, {4000}, 2, -1e-3, 1e-3), s, saturate));
      expect(cast(random_tensor(DType::f64, {4000}, 2, -1e6, 1e6), s, saturate));
      expect(cast(Tensor::of<float>({5}, {top, -top, 0.f, -0.f, std::numeric_limits<float>::quiet_NaN()}), s, saturate));
      expect(cast(Tensor::of<float>({2}, {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}), s,
                  saturate));
    }
}

TEST_F(GpuSmall, quantizes_for_all_for_an_axis_and_in_blocks) {
  for (const DType type : {DType::i8, DType::u8, DType::i16, DType::i4, DType::u4, DType::f8e4m3fn, DType::f8e5m2}) {
    const double low = is_integer(type) && !is_signed(type) ? 0 : -3;
    const auto zero = [&](const Shape& s) { return is_float(type) ? Tensor::zeros(type, s) : random_tensor(type, s, 4, low, 4); };
    const Tensor x = random_tensor(DType::f32, {6, 40, 5}, 1, -9, 9), q = random_tensor(type, {6, 40, 5}, 2, low, 7);
    struct Case {
      Shape scale;
      int64_t axis, block;
    };
    for (const Case& c : {Case{{}, 1, 0}, Case{{40}, 1, 0}, Case{{6}, 0, 0}, Case{{6, 5, 5}, 1, 8}}) {
      const Tensor scale = random_tensor(DType::f32, c.scale, 3, 0.1, 0.9);
      std::map<std::string, Attribute> attributes{{"axis", c.axis}, {"block_size", c.block}};
      expect(node_trial("QuantizeLinear", {x, scale, zero(c.scale)}, attributes));
      expect(node_trial("DequantizeLinear", {q, scale, zero(c.scale)}, attributes), 1e-7);
    }
  }
}

TEST_F(GpuSmall, shifts_numbers_with_a_sign_and_casts_like) {
  for (const DType type : {DType::i8, DType::i16, DType::i32, DType::i64})
    for (const char* direction : {"LEFT", "RIGHT"})
      expect(node_trial("BitShift", {random_tensor(type, {500}, 1, -128, 127), random_tensor(type, {500}, 2, -3, 70)},
                        {{"direction", std::string(direction)}}));
  expect(node_trial("CastLike", {random_tensor(DType::f32, {3, 4}, 1), random_tensor(DType::f16, {7}, 1)}));
  expect(node_trial("Neg", {random_tensor(DType::i32, {3, 4}, 1, -9, 9)}));
}

}  // namespace
}  // namespace smelt::ops
