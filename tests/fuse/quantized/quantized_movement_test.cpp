// Movement between Dequantize and Quantize, and numbers that no operator in 8 bits took.
#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "support/builder.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

const SymShape image{1, 4, 8, 8};

struct Moved : Builder {
  ValueId x, s, z;
  Moved() {
    x = input("x", image, DType::u8);
    s = scalar(0.5), z = scalar(3, DType::u8);
    const ValueId d = node("d", "DequantizeLinear", {x, s, z}, image);
    const ValueId p = node("pool", "MaxPool", {d}, {1, 4, 4, 4}, DType::f32, {{"kernel_shape", std::vector<int64_t>{2, 2}}});
    output(node("q", "QuantizeLinear", {p, s, z}, {1, 4, 4, 4}, DType::u8));
  }
};

TEST(QuantizedMovement, moves_the_integers) {
  Moved b;
  apply_match(b, quantized_movement, "q");
  EXPECT_EQ(b.g.node(b["pool"]).in(0), b.x);
  EXPECT_EQ(b.g.value(b.g.node(b["pool"]).out()).type, DType::u8);
}

TEST(QuantizedMovement, knows_equal_constants) {
  Moved b;
  b.g.set_inputs(b["q"], {b.g.node(b["pool"]).out(), b.scalar(0.5), b.scalar(3, DType::u8)});
  EXPECT_EQ(verdict(b, quantized_movement, "q"), "matched");
}

TEST(QuantizedMovement, stays_apart_when_the_scales_differ) {
  Moved b;
  b.g.set_input(b["q"], 1, b.scalar(0.25));
  EXPECT_EQ(verdict(b, quantized_movement, "q"), "wrong_value by d");
}

TEST(QuantizedMovement, stays_apart_when_something_else_reads_the_numbers) {
  Moved b;
  b.output(b.node("other", "Relu", {b.g.node(b["pool"]).out()}, {1, 4, 4, 4}));
  EXPECT_EQ(verdict(b, quantized_movement, "q"), "extra_reader by other");
}

struct Parted : Builder {
  ValueId x, a, b;
  explicit Parted(double second_scale = 0.5) {
    x = input("x", image, DType::u8);
    const ValueId s = scalar(0.5), z = scalar(3, DType::u8);
    const ValueId d = node("d", "DequantizeLinear", {x, s, z}, image);
    const SymShape half{1, 4, 4, 8};
    a = g.add_value("a", DType::f32, half), b = g.add_value("b", DType::f32, half);
    g.sources().push_back({"split", "Split", {}});
    g.add_node({.op = "Split",
                .name = "split",
                .inputs = {d},
                .outputs = {a, b},
                .attrs = {{"axis", int64_t{2}}, {"num_outputs", int64_t{2}}}});
    output(node("first", "QuantizeLinear", {a, s, z}, half, DType::u8));
    output(node("second", "QuantizeLinear", {b, second_scale == 0.5 ? s : scalar(second_scale), z}, half, DType::u8));
  }
};

TEST(QuantizedMovement, splits_integers_where_each_part_is_quantized_alike) {
  for (const char* found_at : {"first", "second"}) {
    Parted b;
    apply_match(b, quantized_movement, found_at);
    EXPECT_EQ(b.g.node(b["split"]).in(0), b.x);
    EXPECT_EQ(count(b.g, "QuantizeLinear"), 0u);
    for (ValueId part : b.g.outputs()) EXPECT_EQ(b.g.value(part).type, DType::u8);
  }
  Parted whole;
  rewrite_and_compare(whole.g, {"quantized_movement"});
}

TEST(QuantizedMovement, a_split_stays_where_a_part_is_quantized_otherwise_or_read_as_numbers) {
  Parted other(0.25);
  EXPECT_EQ(verdict(other, quantized_movement, "first"), "wrong_value by d");
  Parted read;
  read.output(read.node("other", "Relu", {read.b}, {1, 4, 4, 8}));
  EXPECT_EQ(verdict(read, quantized_movement, "first"), "extra_reader by other");
}

/// An image of 8 bits with a line of numbers around it, between Dequantize and Quantize.
struct Padded : Builder {
  ValueId d, pads;
  explicit Padded(const std::string& mode, std::optional<double> by = {}, bool computed = false) {
    const ValueId x = input("x", image, DType::u8), s = scalar(0.5), z = scalar(3, DType::u8);
    d = node("d", "DequantizeLinear", {x, s, z}, image);
    pads = ints({0, 0, 1, 1, 0, 0, 1, 1});
    std::vector<ValueId> inputs{d, pads};
    if (computed)
      inputs.push_back(input("by", {}));
    else if (by)
      inputs.push_back(scalar(*by));
    const SymShape larger{1, 4, 10, 10};
    const ValueId p = node("pad", "Pad", inputs, larger, DType::f32, {{"mode", mode}});
    output(node("q", "QuantizeLinear", {p, s, z}, larger, DType::u8));
  }
};

TEST(QuantizedMovement, pads_integers_by_what_the_constant_is_quantised_to) {
  for (const char* mode : {"constant", "edge", "reflect"})
    for (const std::optional<double> by :
         {std::optional<double>{}, std::optional(0.0), std::optional(2.6), std::optional(-1e30)}) {
      Padded b(mode, by);
      rewrite_and_compare(b.g, {"quantized_movement", "dead_code"});
      EXPECT_EQ(count(b.g, "DequantizeLinear"), 0u) << mode;
    }
}

TEST(QuantizedMovement, stays_apart_from_padding_by_a_computed_number) {
  Padded b("constant", {}, true);
  EXPECT_EQ(verdict(b, quantized_movement, "q"), "not_constant by pad");
}

TEST(QuantizedMovement, a_pair_that_cancels_disappears) {
  Builder b;
  const ValueId x = b.input("x", image, DType::u8), s = b.scalar(0.5), z = b.scalar(3, DType::u8);
  const ValueId r = b.node("r", "MaxPool", {x}, image, DType::u8, {{"kernel_shape", std::vector<int64_t>{1, 1}}});
  const ValueId d = b.node("d", "DequantizeLinear", {r, s, z}, image);
  b.output(b.node("q", "QuantizeLinear", {d, s, z}, image, DType::u8));
  run(b.g);
  EXPECT_EQ(b.g.live_nodes(), 1u);
}

TEST(FoldDequantized, keeps_numbers_that_no_int8_operator_took) {
  Builder b;
  const ValueId w = b.node("w", "DequantizeLinear", {b.weights("q", {4}, DType::i8, 20), b.scalar(0.5)}, {4});
  b.output(b.node("y", "Add", {b.input("x", {4}), w}, {4}));
  apply_match(b, fold_dequantized, "w");
  EXPECT_TRUE(b.g.value(w).is_constant());
}

TEST(FoldDequantized, does_not_blow_up) {
  Builder b;
  const ValueId w = b.constant("q", Tensor::zeros(DType::i8, {20 << 20}));
  b.output(b.node("y", "DequantizeLinear", {w, b.scalar(0.5)}, {20 << 20}));
  EXPECT_EQ(verdict(b, fold_dequantized, "y"), "too_large by y");
}

}  // namespace
}  // namespace smelt::fuse
