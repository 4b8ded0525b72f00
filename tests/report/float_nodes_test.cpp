#include "report/float_nodes.h"

#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "support/builder.h"

namespace smelt::report {
namespace {

using testing::HasSubstr;

/// x of 8 bits → Conv "first" in 8 bits; its numbers → Conv "second", whose input nothing quantises → Softmax.
struct HalfQuantized : fuse::Builder {
  const SymShape image{1, 4, 8, 8};
  HalfQuantized() {
    const ValueId x = input("x", image, DType::u8);
    const ValueId dx = node("dx", "DequantizeLinear", {x, scalar(0.5), scalar(3, DType::u8)}, image);
    const ValueId first = node("first", "Conv", {dx, dequantised("a")}, image);
    const ValueId second = node("second", "Conv", {first, dequantised("b")}, image);
    output(node("softmax", "Softmax", {second}, image));
  }
  ValueId dequantised(const std::string& name) {
    return node(name, "DequantizeLinear", {weights(name + "_w", {4, 4, 1, 1}, DType::i8, 20), scalar(0.25)}, {4, 4, 1, 1});
  }
};

TEST(FloatNodes, are_listed_with_their_reason_and_what_they_cost) {
  HalfQuantized b;
  EXPECT_TRUE(is_quantized(b.g));
  const fuse::Ledger ledger = fuse::run(b.g);
  const std::vector<FloatNode> found = float_nodes(b.g, ledger, {.bytes_per_s = 1e9, .launch_us = 5});
  ASSERT_EQ(found.size(), 2u);
  // Its floats: the image before and after, and 16 weights; 3 bytes of each beyond one.
  EXPECT_THAT(found[0].nodes, testing::ElementsAre("second"));
  EXPECT_EQ(found[0].op, "Conv");
  EXPECT_EQ(found[0].reason, "wrong_producer");
  EXPECT_THAT(found[0].detail, HasSubstr("not dequantized"));
  EXPECT_NEAR(found[0].cost_us, 3 * (2 * 256 + 16) / 1e3, 1e-9);
  EXPECT_EQ(found[1].op, "Softmax");
  EXPECT_EQ(found[1].reason, "no_8_bit_form");
}

TEST(FloatNodes, are_not_those_that_move_or_compute_8_bits) {
  fuse::Builder b;
  const SymShape image{1, 4, 8, 8};
  const ValueId s = b.scalar(0.5), z = b.scalar(3, DType::u8), x = b.input("x", image, DType::u8);
  const ValueId d = b.node("d", "DequantizeLinear", {x, s, z}, image);
  const ValueId r = b.node("relu", "Relu", {d}, image);
  b.output(b.node("q", "QuantizeLinear", {r, b.scalar(0.25), z}, image, DType::u8));
  const fuse::Ledger ledger = fuse::run(b.g);
  EXPECT_TRUE(float_nodes(b.g, ledger, {}).empty());
}

TEST(FloatNodes, are_no_matter_of_a_model_of_floats) {
  fuse::Builder b;
  b.output(b.node("relu", "Relu", {b.input("x", {8})}, {8}));
  EXPECT_FALSE(is_quantized(b.g));
}

}  // namespace
}  // namespace smelt::report
