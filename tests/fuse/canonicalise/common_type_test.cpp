// Operators whose floats are of several types, in the widest.
#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "support/builder.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

/// x → BatchNormalization "norm" with parameters of those types → output
struct Norm : Builder {
  Norm(DType x, DType scale, DType mean, bool constant) {
    const auto parameter = [&](const char* name, DType type) {
      return constant ? weights(name, {4}, type) : input(name, {4}, type);
    };
    const ValueId in = input("x", {2, 4, 3, 3}, x), by = parameter("scale", scale), bias = parameter("bias", scale),
                  at = parameter("mean", mean);
    const ValueId variance = this->constant("variance", Tensor::of<float>({4}, std::vector<float>{1, 2, 3, 4}).cast(mean));
    output(node("norm", "BatchNormalization", {in, by, bias, at, variance}, {2, 4, 3, 3}, x));
  }
};

TEST(CommonType, computes_in_the_widest_and_hands_on_in_the_models_type) {
  for (const bool constant : {false, true})
    for (const auto& [x, scale, mean] :
         {std::tuple{DType::f64, DType::f32, DType::f32}, std::tuple{DType::f32, DType::f64, DType::f32},
          std::tuple{DType::f16, DType::f32, DType::f64}}) {
      Norm b(x, scale, mean, constant);
      const Graph before = clone(b.g);
      EXPECT_EQ(matches(run_only(b.g, "common_type"), "common_type"), 1u);
      verify(b.g);
      const Node& n = b.g.node(b["norm"]);
      for (const ValueId v : n.inputs) EXPECT_EQ(b.g.value(v).type, DType::f64);
      EXPECT_EQ(b.g.value(b.g.outputs()[0]).type, x);
      EXPECT_EQ(b.g.value(b.g.outputs()[0]).name, before.value(before.outputs()[0]).name);
      expect_same_outputs(before, b.g);
      EXPECT_EQ(matches(run_only(b.g, "common_type"), "common_type"), 0u) << "once";
    }
}

TEST(CommonType, takes_attention_whose_values_are_of_another_type) {
  for (const auto& [q, v, wide] : {std::tuple{DType::f32, DType::f16, DType::f32}, std::tuple{DType::f16, DType::f32, DType::f32},
                                   std::tuple{DType::f32, DType::f64, DType::f64}}) {
    Builder b;
    const ValueId query = b.input("q", {1, 2, 5, 8}, q), key = b.input("k", {1, 2, 6, 8}, q),
                  value = b.input("v", {1, 2, 6, 8}, v);
    b.output(b.node("attention", "Attention", {query, key, value}, {1, 2, 5, 8}, q));
    const Graph before = clone(b.g);
    EXPECT_EQ(matches(run_only(b.g, "common_type"), "common_type"), 1u);
    for (const ValueId x : b.g.node(b["attention"]).inputs) EXPECT_EQ(b.g.value(x).type, wide);
    EXPECT_EQ(b.g.value(b.g.outputs()[0]).type, q);
    expect_same_outputs(before, b.g);
  }
}

TEST(CommonType, leaves_one_type_and_parameters_of_f32_beside_16_bits) {
  EXPECT_EQ(verdict(Norm(DType::f32, DType::f32, DType::f32, true), common_type, "norm"), "not here");
  EXPECT_EQ(verdict(Norm(DType::f64, DType::f64, DType::f64, true), common_type, "norm"), "not here");
  EXPECT_EQ(verdict(Norm(DType::f16, DType::f32, DType::f32, true), common_type, "norm"), "not here");
}

}  // namespace
}  // namespace smelt::fuse
