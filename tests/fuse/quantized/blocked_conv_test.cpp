#include <gtest/gtest.h>

#include "fuse/rewrites/rewrites.h"
#include "support/builder.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

/// A convolution of 8-bit integers between blocks of 32 channels: [1, 2, 6, 5, 32] to [1, 3, 6, 5, 32].
struct Blocks : Builder {
  ValueId x, y, between;
  explicit Blocks(bool image = true, bool result = true) {
    const SymShape plain{1, 64, 6, 5}, made{1, 96, 6, 5};
    x = input("x", {1, 2, 6, 5, 32}, DType::u8);
    const auto perm = [](std::vector<int64_t> p) { return std::map<std::string, Attribute>{{"perm", std::move(p)}}; };
    const ValueId turned = image ? node("turned", "Transpose", {x}, {1, 2, 32, 6, 5}, DType::u8, perm({0, 1, 4, 2, 3}))
                                 : node("turned", "Transpose", {x}, {1, 32, 2, 6, 5}, DType::u8, perm({0, 4, 1, 2, 3}));
    const ValueId flat = node("flat", "Reshape", {turned, ints({1, 64, 6, 5})}, plain, DType::u8);
    const ValueId d = node("d", "DequantizeLinear", {flat, scalar(0.5), scalar(3, DType::u8)}, plain);
    const ValueId dw =
        node("dw", "DequantizeLinear", {weights("w", {96, 64, 3, 3}, DType::i8, 20), scalar(0.01)}, {96, 64, 3, 3});
    const ValueId c = node("conv", "Conv", {d, dw, weights("bias", {96}, DType::f32, 1)}, made, DType::f32,
                           {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
    const ValueId relu = node("relu", "Relu", {c}, made);
    between = node("q", "QuantizeLinear", {relu, scalar(2), scalar(7, DType::u8)}, made, DType::u8);
    const ValueId apart = node("apart", "Reshape", {between, ints({1, 3, 32, 6, 5})}, {1, 3, 32, 6, 5}, DType::u8);
    y = result ? node("back", "Transpose", {apart}, {1, 3, 6, 5, 32}, DType::u8, perm({0, 1, 3, 4, 2}))
               : node("back", "Transpose", {apart}, {1, 32, 3, 6, 5}, DType::u8, perm({0, 2, 1, 3, 4}));
    output(y);
  }
  /// In integers, up to the result's: within a quantum of the floats.
  void quantize() {
    apply_match(*this, quantized_conv, "conv");
    apply_match(g, qlinear_epilogue(g, (*this)["conv"]));
  }
};

TEST(BlockedConv, reads_and_writes_blocks_in_place) {
  Blocks b;
  b.quantize();
  rewrite_and_compare(b.g, {"blocked_conv", "dead_code"});
  const Node& made = only(b.g, "QLinearConv");
  EXPECT_EQ(made.get_int("blocked", 0), 1);
  EXPECT_EQ(made.in(0), b.x);
  EXPECT_EQ(made.out(), b.y);
  EXPECT_EQ(b.g.live_nodes(), 1u);
}

TEST(BlockedConv, stays_where_the_image_or_the_result_is_in_another_order) {
  for (const bool image : {false, true}) {
    Blocks b(image, !image);
    b.quantize();
    EXPECT_EQ(rejection(rewrite_and_compare(b.g, {"blocked_conv"}), "blocked_conv"), image ? "wrong_reader" : "not looked at");
  }
}

TEST(BlockedConv, stays_where_the_plain_result_has_another_reader) {
  Blocks b;
  b.output(b.between);
  b.quantize();
  EXPECT_EQ(rejection(rewrite_and_compare(b.g, {"blocked_conv"}), "blocked_conv"), "wrong_reader");
}

TEST(BlockedConv, stays_apart_over_one_axis) {
  Builder b;
  const ValueId x = b.input("x", {1, 2, 6, 32}, DType::u8);
  const ValueId turned =
      b.node("turned", "Transpose", {x}, {1, 2, 32, 6}, DType::u8, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  const ValueId flat = b.node("flat", "Reshape", {turned, b.ints({1, 64, 6})}, {1, 64, 6}, DType::u8);
  const ValueId d = b.node("d", "DequantizeLinear", {flat, b.scalar(0.5), b.scalar(3, DType::u8)}, {1, 64, 6});
  const ValueId dw = b.node("dw", "DequantizeLinear", {b.weights("w", {32, 64, 1}, DType::i8, 20), b.scalar(0.01)}, {32, 64, 1});
  b.output(b.node("conv", "Conv", {d, dw}, {1, 32, 6}));
  apply_match(b, quantized_conv, "conv");
  EXPECT_EQ(verdict(b, blocked_conv, "conv"), "wrong_rank by conv");
}

}  // namespace
}  // namespace smelt::fuse
