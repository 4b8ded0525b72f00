#include <gtest/gtest.h>

#include "fuse/rewrites/rewrites.h"
#include "support/builder.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

/// DequantizeLinear(x) and DequantizeLinear(y), each of its own scale → Concat → Conv "conv" by DequantizeLinear(w)
struct Joined : Builder {
  ValueId x, y;

  explicit Joined(int64_t axis = 1, std::map<std::string, Attribute> attrs = {}, DType second = DType::u8) {
    x = input("x", {1, 4, 8, 8}, DType::u8);
    y = input("y", {1, 6, 8, 8}, second);
    const ValueId dx = node("dx", "DequantizeLinear", {x, scalar(0.5), scalar(3, DType::u8)}, {1, 4, 8, 8});
    const ValueId dy = node("dy", "DequantizeLinear", {y, scalar(0.25)}, {1, 6, 8, 8});
    const ValueId both = node("both", "Concat", {dx, dy}, {1, 10, 8, 8}, DType::f32, {{"axis", axis}});
    const int64_t channels = attrs.contains("group") ? 5 : 10;
    const ValueId dw =
        node("dw", "DequantizeLinear", {weights("w", {4, channels, 1, 1}, DType::i8, 20), scalar(0.1)}, {4, channels, 1, 1});
    const ValueId bias = weights("bias", {4}, DType::f32, 1);
    output(node("conv", "Conv", {both, dw, bias}, {1, 4, 8, 8}, DType::f32, std::move(attrs)));
  }
};

TEST(QuantizedConcatConv, reads_the_integers_each_with_its_scale) {
  Joined b;
  apply_match(b, quantized_concat_conv, "conv");
  const Node& made = b.g.node(b["conv"]);
  EXPECT_TRUE(made.is("QLinearConv", smelt_domain));
  EXPECT_EQ(made.get_int("segments", 1), 2);
  EXPECT_EQ(made.in(0), b.x);
  EXPECT_EQ(made.in(1), b.y);
  EXPECT_EQ(b.g.value(made.in(4)).constant.to_doubles(), (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(b.g.value(made.in(5)).constant.to_doubles(), (std::vector<double>{3, 0}));
}

TEST(QuantizedConcatConv, stays_apart_where_the_types_differ) {
  Joined b(1, {}, DType::i8);
  EXPECT_EQ(verdict(b, quantized_concat_conv, "conv"), "wrong_type by dy");
}

TEST(QuantizedConcatConv, stays_apart_in_groups) {
  Joined b(1, {{"group", int64_t{2}}});
  EXPECT_EQ(verdict(b, quantized_concat_conv, "conv"), "wrong_attribute by conv");
}

}  // namespace
}  // namespace smelt::fuse
