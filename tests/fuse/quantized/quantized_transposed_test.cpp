// Transposed convolutions between Quantize and Dequantize, and Quantize before data movement.
#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "support/builder.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

const SymShape image{2, 4, 3, 5}, larger{2, 6, 6, 10};

enum class Bias { none, constant, integers };

/// ConvTranspose "up" of 4 channels to 6, windows of 2 x 2 side by side → QuantizeLinear "q".
struct Transposed : Builder {
  ValueId y;
  explicit Transposed(bool per_channel = true, Bias bias = Bias::integers, DType bits = DType::u8) {
    const ValueId zero = scalar(bits == DType::u8 ? 9 : -4, bits);
    const ValueId x = node("dx", "DequantizeLinear", {input("x", image, bits), scalar(0.05), zero}, image);
    const ValueId ws = per_channel ? weights("ws", {6}, DType::f32, 0.01) : scalar(0.02);
    const ValueId w = node("dw", "DequantizeLinear", {weights("w", {4, 6, 2, 2}, DType::i8, 20), ws}, {4, 6, 2, 2}, DType::f32,
                           {{"axis", int64_t{1}}});
    std::vector<ValueId> inputs{x, w};
    if (bias == Bias::constant) inputs.push_back(weights("b", {6}));
    if (bias == Bias::integers)
      inputs.push_back(node("db", "DequantizeLinear", {weights("b", {6}, DType::i32, 300), scalar(0.001)}, {6}));
    y = node("up", "ConvTranspose", inputs, larger, DType::f32, {{"strides", std::vector<int64_t>{2, 2}}});
    output(node("q", "QuantizeLinear", {y, scalar(0.03), scalar(7, DType::u8)}, larger, DType::u8));
  }
};

TEST(QuantizedTransposed, becomes_a_convolution_whose_channels_move) {
  for (const bool per_channel : {true, false})
    for (const Bias bias : {Bias::none, Bias::constant, Bias::integers})
      for (const DType bits : {DType::u8, DType::i8}) {
        SCOPED_TRACE(fmt::format("{} {} {}", per_channel, static_cast<int>(bias), name(bits)));
        Transposed b(per_channel, bias, bits);
        EXPECT_EQ(matches(rewrite_and_compare(b.g, {"quantized_transposed"}), "quantized_transposed"), 1u);
        EXPECT_EQ(count(b.g, "ConvTranspose"), 0u);
        EXPECT_EQ(only(b.g, "DepthToSpace", onnx_domain).get_int("blocksize", 0), 2);
      }
}

TEST(QuantizedTransposed, runs_in_integers_from_end_to_end) {
  Transposed b;
  run(b.g);
  EXPECT_EQ(b.g.live_nodes(), 2u);
  EXPECT_EQ(b.g.value(only(b.g, "QLinearConv").out()).type, DType::u8);
  EXPECT_EQ(count(b.g, "DepthToSpace"), 1u);
}

TEST(QuantizedTransposed, leaves_other_windows_alone) {
  const auto with = [](const std::string& attr, const Attribute& value) {
    Transposed b;
    b.g.edit(b["up"]).attrs[attr] = value;
    return verdict(b, quantized_transposed, "up");
  };
  EXPECT_EQ(with("strides", std::vector<int64_t>{1, 1}), "wrong_attribute by up");
  EXPECT_EQ(with("strides", std::vector<int64_t>{2, 3}), "wrong_attribute by up");
  EXPECT_EQ(with("pads", std::vector<int64_t>{0, 1, 0, 0}), "wrong_attribute by up");
  EXPECT_EQ(with("output_padding", std::vector<int64_t>{1, 0}), "wrong_attribute by up");
  EXPECT_EQ(with("output_shape", std::vector<int64_t>{6, 10}), "wrong_attribute by up");
  EXPECT_EQ(with("dilations", std::vector<int64_t>{2, 2}), "wrong_attribute by up");
  EXPECT_EQ(with("group", int64_t{2}), "wrong_attribute by up");
  EXPECT_EQ(with("auto_pad", std::string("SAME_UPPER")), "wrong_attribute by up");
}

TEST(QuantizedTransposed, leaves_what_is_computed_alone) {
  Transposed b;
  b.g.set_input(b["dw"], 0, b.input("given", {4, 6, 2, 2}, DType::i8));
  EXPECT_EQ(verdict(b, quantized_transposed, "up"), "not_constant by dw");
  Transposed c;
  c.g.set_input(c["up"], 2, c.node("made", "Relu", {c.input("bias", {6})}, {6}));
  EXPECT_EQ(verdict(c, quantized_transposed, "up"), "not_constant by made");
  Transposed d;
  d.g.edit(d["dw"]).attrs["axis"] = int64_t{0};
  EXPECT_EQ(verdict(d, quantized_transposed, "up"), "wrong_axis by dw");
}

/// Relu "relu" → DepthToSpace "move" → QuantizeLinear "q"; `again`: of bytes, dequantized before it is quantised.
struct MovedLast : Builder {
  ValueId moved;
  explicit MovedLast(bool again = false) {
    const SymShape deep{2, 8, 3, 5}, wide{2, 2, 6, 10};
    ValueId x = node("relu", "Relu", {input("x", deep)}, deep);
    if (again) x = node("first", "QuantizeLinear", {x, scalar(0.03), scalar(2, DType::u8)}, deep, DType::u8);
    x = moved = node("move", "DepthToSpace", {x}, wide, again ? DType::u8 : DType::f32, {{"blocksize", int64_t{2}}});
    if (again) x = node("d", "DequantizeLinear", {x, scalar(0.03), scalar(2, DType::u8)}, wide);
    output(node("q", "QuantizeLinear", {x, scalar(0.02), scalar(5, DType::u8)}, wide, DType::u8));
  }
};

TEST(QuantizeBeforeMove, moves_bytes) {
  for (const bool again : {false, true}) {
    MovedLast b(again);
    EXPECT_EQ(matches(rewrite_and_compare(b.g, {"quantize_before_move"}), "quantize_before_move"), 1u);
    EXPECT_EQ(b.g.node(b["move"]).out(), b.g.outputs()[0]);
    EXPECT_EQ(b.g.value(b.g.node(b["move"]).in(0)).type, DType::u8);
  }
}

TEST(QuantizeBeforeMove, passes_a_view_between_a_mean_and_its_bytes) {
  Builder b;
  const ValueId mean = b.node("mean", "ReduceMean", {b.input("x", image), b.ints({2, 3})}, {2, 4, 1, 1});
  const ValueId flat = b.node("flat", "Reshape", {mean, b.ints({2, 4})}, {2, 4});
  b.output(b.node("q", "QuantizeLinear", {flat, b.scalar(0.02), b.scalar(3, DType::u8)}, {2, 4}, DType::u8));
  run(b.g);
  EXPECT_EQ(b.g.live_nodes(), 2u);
  EXPECT_EQ(b.g.value(only(b.g, "Reduce").out()).type, DType::u8);
}

/// bytes → Reshape → DequantizeLinear → Gelu → Mul by a number → QuantizeLinear, as a product's quantised result meets its activation.
TEST(QuantizeBeforeMove, takes_what_is_computed_between_along) {
  for (const SymShape& number : {SymShape{}, SymShape{1, 1, 1}}) {
    Builder b;
    const SymShape flat{6, 8}, wide{2, 3, 8};
    const ValueId relu = b.node("relu", "Relu", {b.input("x", flat)}, flat);
    const ValueId bytes = b.node("first", "QuantizeLinear", {relu, b.scalar(0.03), b.scalar(2, DType::u8)}, flat, DType::u8);
    const ValueId moved = b.node("move", "Reshape", {bytes, b.ints({2, 3, 8})}, wide, DType::u8);
    const ValueId floats = b.node("d", "DequantizeLinear", {moved, b.scalar(0.03), b.scalar(2, DType::u8)}, wide);
    const ValueId gelu = b.node("gelu", "Gelu", {floats}, wide);
    const ValueId by = number.empty() ? b.scalar(0.5) : b.weights("number", {1, 1, 1});
    const ValueId scaled = b.node("mul", "Mul", {by, gelu}, wide);
    b.output(b.node("q", "QuantizeLinear", {scaled, b.scalar(0.02), b.scalar(5, DType::u8)}, wide, DType::u8));
    if (!number.empty()) {
      EXPECT_EQ(verdict(b, quantize_before_move, "q"), "wrong_rank by mul") << "it would give the product a third axis";
      continue;
    }
    EXPECT_EQ(matches(rewrite_and_compare(b.g, {"quantize_before_move"}), "quantize_before_move"), 1u);
    EXPECT_EQ(b.g.node(b["move"]).out(), b.g.outputs()[0]);
  }
}

TEST(QuantizeBeforeMove, stays_where_something_else_reads_the_numbers) {
  MovedLast b;
  b.output(b.node("other", "Relu", {b.moved}, {2, 2, 6, 10}));
  EXPECT_EQ(verdict(b, quantize_before_move, "q"), "extra_reader by other");
  MovedLast c;
  c.output(c.moved);
  EXPECT_EQ(verdict(c, quantize_before_move, "q"), "graph_output by move");
}

TEST(QuantizeBeforeMove, asks_for_no_rank_and_refuses_only_behind_a_move) {
  MovedLast b;
  b.g.set_shape(b.g.node(b["relu"]).out(), std::nullopt);
  EXPECT_EQ(verdict(b, quantize_before_move, "q"), "matched") << "a scale's axes are not the result's";
  const ValueId scales = b.weights("scales", {8}), zeros = b.g.add_constant("zeros", Tensor::zeros(DType::u8, {8}));
  b.output(b.node("each", "QuantizeLinear", {b.g.node(b["relu"]).out(), scales, zeros}, {2, 8, 3, 5}, DType::u8,
                  {{"axis", int64_t{1}}}));
  EXPECT_EQ(verdict(b, quantize_before_move, "each"), "not here") << "a scale for each channel, and nothing is moved before";
}

TEST(QuantizeBeforeMove, stays_behind_what_is_given) {
  MovedLast b;
  b.g.set_input(b["move"], 0, b.input("given", {2, 8, 3, 5}));
  EXPECT_EQ(verdict(b, quantize_before_move, "q"), "not here");
}

}  // namespace
}  // namespace smelt::fuse
