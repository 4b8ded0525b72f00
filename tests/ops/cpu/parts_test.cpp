// Conversions of types that no program computes in, part by part, against their references.
#include "ops/one_node.h"
#include "ops/tactic_check.h"

namespace smelt::ops::test {
namespace {

constexpr DType narrow[] = {DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz, DType::f8e8m0,
                            DType::f4e2m1,   DType::i4,         DType::u4,     DType::i2,         DType::u2};

/// The same bytes, NaN for NaN, by a kernel that is not the reference.
void expect_kernel(const std::string& op, const std::vector<Tensor>& inputs, const Attributes& attributes, const Tensor& want) {
  Trial t;
  t.node = make_node(op, 0, attributes, 0);
  for (const Tensor& x : inputs) t.add(x, false);
  t.result(want.type(), want.shape());
  t.bound.node = &t.node;
  Machine machine;
  machine.threads = 3;
  machine.isa = "avx2";
  const Offer o = offer(t.bound, machine);
  ASSERT_NE(o.candidates[0].tactic, "reference");
  const Tensor got = run(t, o.candidates[0]);
  const std::vector<double> g = got.to_doubles(), w = want.to_doubles();
  for (size_t i = 0; i < w.size(); ++i)
    ASSERT_TRUE(g[i] == w[i] || (std::isnan(g[i]) && std::isnan(w[i]))) << i << ": " << g[i] << " for " << w[i];
}

Tensor by_reference(const std::string& op, const std::vector<Tensor>& inputs, const Attributes& attributes) {
  return test::run(op, inputs, attributes);
}

TEST(Parts, convert_as_the_reference_does) {
  for (const DType type : narrow)
    for (const DType other : {DType::f32, DType::f16, DType::f64, DType::i8})
      for (const int64_t n : {int64_t{1}, int64_t{7}, int64_t{4096}, int64_t{12289}}) {
        SCOPED_TRACE(testing::Message() << name(type) << ' ' << name(other) << ' ' << n);
        const Tensor x = random_tensor(other, {n}, 1, -9, 9);
        const Attributes down = {{"to", static_cast<int64_t>(type)}}, up = {{"to", static_cast<int64_t>(other)}};
        const Tensor y = by_reference("Cast", {x}, down);
        expect_kernel("Cast", {x}, down, y);
        expect_kernel("Cast", {y}, up, by_reference("Cast", {y}, up));
      }
}

TEST(Parts, keep_what_a_cast_is_told) {
  const Tensor x = random_tensor(DType::f32, {9000}, 1, -1000, 1000);
  for (const int64_t saturate : {0, 1}) {
    const Attributes to = {{"to", static_cast<int64_t>(DType::f8e4m3fn)}, {"saturate", saturate}};
    expect_kernel("Cast", {x}, to, by_reference("Cast", {x}, to));
  }
}

TEST(Parts, quantise_to_narrow_types_by_one_scale) {
  const Tensor x = random_tensor(DType::f32, {3, 3001}, 1, -30, 30), scale = Tensor::scalar(1.7f);
  for (const DType type : {DType::f8e4m3fn, DType::f8e5m2, DType::f4e2m1, DType::i4, DType::u4, DType::i2, DType::u2}) {
    SCOPED_TRACE(name(type));
    const Tensor zero = Tensor::scalar(1.0f).cast(type);
    expect_kernel("QuantizeLinear", {x, scale, zero}, {}, by_reference("QuantizeLinear", {x, scale, zero}, {}));
  }
}

TEST(Parts, dequantise_narrow_types_by_any_scales) {
  for (const DType type : {DType::f8e4m3fn, DType::f8e5m2, DType::f4e2m1, DType::i4, DType::u4, DType::i2, DType::u2})
    for (const DType real : {DType::f32, DType::f16}) {
      SCOPED_TRACE(testing::Message() << name(type) << ' ' << name(real));
      const Tensor x = random_tensor(DType::f32, {4, 6, 10}, 1, -9, 9).cast(type);
      for (const auto& [shape, attributes] :
           {std::pair{Shape{}, Attributes{}}, std::pair{Shape{6}, Attributes{{"axis", int64_t{1}}}},
            std::pair{Shape{4, 3, 10}, Attributes{{"axis", int64_t{1}}, {"block_size", int64_t{2}}}}}) {
        const Tensor scale = random_tensor(real, shape, 2, 0.1, 2), zero = random_tensor(DType::f32, shape, 3, 0, 3).cast(type);
        expect_kernel("DequantizeLinear", {x, scale}, attributes, by_reference("DequantizeLinear", {x, scale}, attributes));
        expect_kernel("DequantizeLinear", {x, scale, zero}, attributes,
                      by_reference("DequantizeLinear", {x, scale, zero}, attributes));
      }
    }
}

}  // namespace
}  // namespace smelt::ops::test
