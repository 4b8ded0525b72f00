// Convolutions of 16-bit floats in f32.
#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "support/builder.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

/// x → Conv "conv" → Relu "relu" → MaxPool "pool" → Add "add" of the pool and "late", which no convolution made → output; the relu is
/// an output too.
struct Images : Builder {
  ValueId relu;
  explicit Images(DType type = DType::f16) {
    const ValueId x = input("x", {1, 3, 8, 8}, type), late = input("late", {1, 4, 4, 4}, type);
    const ValueId conv = node("conv", "Conv", {x, weights("w", {4, 3, 3, 3}, type), weights("b", {4}, type)}, {1, 4, 8, 8}, type,
                              {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
    relu = node("relu", "Relu", {conv}, {1, 4, 8, 8}, type);
    const ValueId pool = node("pool", "MaxPool", {relu}, {1, 4, 4, 4}, type,
                              {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}});
    output(node("add", "Add", {pool, late}, {1, 4, 4, 4}, type));
    output(relu);
  }
};

TEST(WidenConvolutions, widens_what_lies_between_and_hands_on_in_the_models_type) {
  for (DType type : {DType::f16, DType::bf16}) {
    Images b(type);
    const Graph before = clone(b.g);
    const Ledger ledger = run_only(b.g, "widen_convolutions");
    verify(b.g);
    EXPECT_EQ(matches(ledger, "widen_convolutions"), 1u);
    for (const char* name : {"conv", "relu", "pool"}) EXPECT_EQ(b.g.value(b.g.node(b[name]).out()).type, DType::f32) << name;
    EXPECT_EQ(b.g.constant(b["conv"], 1).type(), DType::f32);
    EXPECT_EQ(b.g.value(b.g.node(b["add"]).out()).type, type) << "one of its operands is no convolution's";
    EXPECT_EQ(count(b.g, "Cast"), 3u) << "x, the pool for the sum, the relu as a result";
    EXPECT_EQ(b.g.value(b.g.outputs()[1]).type, type);
    EXPECT_EQ(b.g.value(b.g.outputs()[1]).name, before.value(before.outputs()[1]).name);
    expect_same_outputs(before, b.g);
    EXPECT_EQ(matches(run_only(b.g, "widen_convolutions"), "widen_convolutions"), 0u) << "once";
  }
}

TEST(WidenConvolutions, depends_on_the_machine) {
  for (const auto& [widened, type, expected] : {std::tuple{WidenedFloats::none, DType::f16, 0u},
                                                {WidenedFloats::f16, DType::f16, 1u},
                                                {WidenedFloats::f16, DType::bf16, 0u},
                                                {WidenedFloats::f16_and_bf16, DType::bf16, 1u}}) {
    Images b(type);
    EXPECT_EQ(matches(run(b.g, {.widened = widened}), "widen_convolutions"), expected) << name(type);
  }
}

TEST(WidenConvolutions, leaves_f32_and_convolutions_that_become_integers) {
  Images f32(DType::f32);
  EXPECT_EQ(verdict(f32, widen_convolutions, "conv"), "not here");
  Builder b;
  const ValueId q = b.input("q", {1, 3, 8, 8}, DType::u8);
  const ValueId x = b.node("dequantize", "DequantizeLinear", {q, b.scalar(0.1, DType::f16)}, {1, 3, 8, 8}, DType::f16);
  b.output(b.node("conv", "Conv", {x, b.weights("w", {4, 3, 1, 1}, DType::f16)}, {1, 4, 8, 8}, DType::f16));
  EXPECT_EQ(verdict(b, widen_convolutions, "conv"), "wrong_producer by conv");
}

TEST(WidenConvolutions, leaves_more_weights_than_memory_should_hold_twice) {
  Builder b;
  const ValueId x = b.input("x", {1, 8192, 1, 1}, DType::f16);
  b.output(
      b.node("conv", "Conv", {x, b.constant("w", Tensor::zeros(DType::f16, {8200, 8192, 1, 1}))}, {1, 8200, 1, 1}, DType::f16));
  EXPECT_EQ(verdict(b, widen_convolutions, "conv"), "not_profitable by conv");
}

}  // namespace
}  // namespace smelt::fuse
