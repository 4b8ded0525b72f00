// Graphs that a rewrite takes, and the same with one thing changed that must stop it: the whole pipeline runs, and the ledger
// has the right reason and the node to blame.
#include <gmock/gmock.h>

#include <cmath>

#include "support/builder.h"

namespace smelt::fuse {
namespace {

const SymShape image{1, 4, 8, 8}, joined{1, 8, 8, 8}, tokens{2, 6, 8}, row{2, 6, 1}, heads{2, 4, 6, 8}, scores{2, 4, 6, 6};

std::map<std::string, Attribute> same_size() { return {{"pads", std::vector<int64_t>{1, 1, 1, 1}}}; }
std::map<std::string, Attribute> axis(int64_t a) { return {{"axis", a}}; }

/// A reader that no rewrite of convolutions or products takes in.
ValueId pool(Builder& b, const std::string& name, ValueId v) {
  return b.node(name, "MaxPool", {v}, *b.g.value(v).shape, DType::f32, {{"kernel_shape", std::vector<int64_t>{1, 1}}});
}

ValueId conv(Builder& b, const std::string& name, ValueId x, int64_t channels = 4) {
  return b.node(name, "Conv", {x, b.weights("w", {4, channels, 3, 3}), b.weights("b", {4})}, image, DType::f32, same_size());
}

ValueId dequantized(Builder& b, const std::string& name, ValueId x, const SymShape& shape, double scale = 0.5) {
  return b.node(name, "DequantizeLinear", {x, b.scalar(scale), b.scalar(3, b.g.value(x).type)}, shape);
}

// --- the originals -------------------------------------------------------------------------------------------------

Builder normalized_conv() {
  Builder b;
  const ValueId c = conv(b, "conv", b.input("x", image));
  const ValueId scale = b.weights("scale", {4}), shift = b.weights("shift", {4}), mean = b.weights("mean", {4});
  const ValueId variance = b.constant("var", Tensor::of<float>({4}, {1, 2, 3, 4}));
  b.output(pool(b, "end", b.node("norm", "BatchNormalization", {c, scale, shift, mean, variance}, image)));
  return b;
}

Builder residual_conv() {
  Builder b;
  const ValueId x = b.input("x", image);
  const ValueId sum = b.node("sum", "Add", {conv(b, "conv", x), pool(b, "skip", x)}, image);
  b.output(b.node("relu", "Relu", {sum}, image));
  return b;
}

Builder biased_conv() {
  Builder b;
  b.output(pool(b, "end", b.node("bias", "Add", {conv(b, "conv", b.input("x", image)), b.weights("c", {4, 1, 1})}, image)));
  return b;
}

Builder padded_conv() {
  Builder b;
  const ValueId x = b.input("x", {1, 4, 6, 6});
  b.output(conv(b, "conv", b.node("pad", "Pad", {x, b.ints({0, 0, 1, 1, 0, 0, 1, 1}), b.scalar(0)}, image)));
  return b;
}

Builder joined_conv() {
  Builder b;
  const ValueId a = conv(b, "a", b.input("x", image)), c = conv(b, "c", b.input("y", image));
  b.output(conv(b, "conv", b.node("join", "Concat", {a, c}, joined, DType::f32, axis(1)), 8));
  return b;
}

Builder quantized_conv() {
  Builder b;
  const ValueId x = dequantized(b, "dx", b.input("x", image, DType::u8), image);
  const ValueId w = b.node("dw", "DequantizeLinear", {b.weights("w", {4, 4, 1, 1}, DType::i8, 20), b.weights("ws", {4})},
                           {4, 4, 1, 1}, DType::f32, axis(0));
  const ValueId r = b.node("relu", "Relu", {b.node("conv", "Conv", {x, w}, image)}, image);
  b.output(b.node("q", "QuantizeLinear", {r, b.scalar(2), b.scalar(7, DType::u8)}, image, DType::u8));
  return b;
}

Builder quantized_product() {
  Builder b;
  const ValueId a = dequantized(b, "da", b.input("a", {8, 32}, DType::u8), {8, 32});
  const ValueId w = b.node("dw", "DequantizeLinear", {b.weights("w", {32, 16}, DType::i8, 20), b.weights("ws", {16})}, {32, 16},
                           DType::f32, axis(1));
  b.output(b.node("product", "MatMul", {a, w}, {8, 16}));
  return b;
}

Builder quantized_concat() {
  Builder b;
  const ValueId a = dequantized(b, "da", b.input("a", image, DType::u8), image);
  const ValueId c = dequantized(b, "dc", b.input("c", image, DType::u8), image);
  const ValueId j = b.node("join", "Concat", {a, c}, joined, DType::f32, axis(1));
  b.output(b.node("q", "QuantizeLinear", {j, b.scalar(0.5), b.scalar(3, DType::u8)}, joined, DType::u8));
  return b;
}

Builder gelu() {
  Builder b;
  const ValueId x = b.input("x", tokens), root = b.constant("root", Tensor::scalar(static_cast<float>(std::sqrt(2.0))));
  const ValueId e = b.node("erf", "Erf", {b.node("div", "Div", {x, root}, tokens)}, tokens);
  const ValueId half = b.node("half", "Mul", {x, b.scalar(0.5)}, tokens);
  b.output(b.node("y", "Mul", {half, b.node("plus", "Add", {e, b.scalar(1)}, tokens)}, tokens));
  return b;
}

Builder silu() {
  Builder b;
  const ValueId x = b.input("x", tokens);
  b.output(b.node("y", "Mul", {x, b.node("sigmoid", "Sigmoid", {x}, tokens)}, tokens));
  return b;
}

Builder rms_norm() {
  Builder b;
  const ValueId x = b.input("x", tokens);
  const ValueId mean = b.node("mean", "ReduceMean", {b.node("square", "Pow", {x, b.scalar(2)}, tokens), b.ints({-1})}, row);
  const ValueId root = b.node("root", "Sqrt", {b.node("eps", "Add", {mean, b.scalar(1e-6)}, row)}, row);
  const ValueId n = b.node("n", "Mul", {x, b.node("inverse", "Reciprocal", {root}, row)}, tokens);
  b.output(b.node("y", "Mul", {n, b.weights("gamma", {8}, DType::f32, 1)}, tokens));
  return b;
}

Builder attention() {
  Builder b;
  const ValueId q = b.input("q", heads), k = b.input("k", {2, 4, 8, 6}), v = b.input("v", heads);
  const ValueId s = b.node("scale", "Mul", {b.node("qk", "MatMul", {q, k}, scores), b.scalar(0.25)}, scores);
  b.output(b.node("y", "MatMul", {b.node("softmax", "Softmax", {s}, scores, DType::f32, axis(-1)), v}, heads));
  return b;
}

Builder linear() {
  Builder b;
  const ValueId p = b.node("product", "MatMul", {b.input("x", tokens), b.weights("w", {8, 8})}, tokens);
  b.output(b.node("relu", "Relu", {b.node("bias", "Add", {p, b.weights("b", {8})}, tokens)}, tokens));
  return b;
}

Builder widened() {
  Builder b;
  const ValueId x = b.input("x", tokens, DType::f16);
  b.output(pool(b, "end", b.node("second", "Cast", {b.node("first", "Cast", {x}, tokens)}, tokens, DType::f64)));
  return b;
}

// --- the mutations -------------------------------------------------------------------------------------------------

ValueId out(const Builder& b, const char* name) { return b.g.node(b[name]).out(); }

template <auto name> void read_twice(Builder& b) {
  b.output(b.node("other", "Softmax", {out(b, name)}, *b.g.value(out(b, name)).shape));
}
template <auto name> void is_an_output(Builder& b) { b.output(out(b, name)); }
/// Input i of the node comes through another one.
template <auto name, size_t i, auto op> void through(Builder& b) {
  const ValueId v = b.g.node(b[name]).in(i);
  b.g.set_input(b[name], i, b.node("between", op, {v}, *b.g.value(v).shape, b.g.value(v).type));
}
/// Input i of the node is computed from a new graph input.
template <auto name, size_t i> void computed(Builder& b) {
  const Value v = b.g.value(b.g.node(b[name]).in(i));
  b.g.set_input(b[name], i, b.node("maker", "Neg", {b.input("given", *v.shape, v.type)}, *v.shape, v.type));
}

constexpr char conv_[] = "conv", norm_[] = "norm", sum_[] = "sum", pad_[] = "pad", join_[] = "join", dx_[] = "dx", dw_[] = "dw",
               q_[] = "q", erf_[] = "erf", sigmoid_[] = "sigmoid", mean_[] = "mean", qk_[] = "qk", scale_[] = "scale",
               product_[] = "product", a_[] = "a", bias_[] = "bias", square_[] = "square", eps_[] = "eps", softmax_[] = "softmax";
constexpr char identity_[] = "Identity", softmax_op[] = "Softmax", neg_[] = "Neg";

struct Mutation {
  const char* name;
  Builder (*original)();
  const char* rewrite;
  void (*mutate)(Builder&);
  const char* reason;
  const char* blocker;
  Options options = {};
};

const Mutation mutations[] = {
    {"batch_norm_of_a_convolution_with_a_second_reader", normalized_conv, "fold_batch_norm", read_twice<conv_>, "extra_reader",
     "other"},
    {"batch_norm_of_a_graph_output", normalized_conv, "fold_batch_norm", is_an_output<conv_>, "graph_output", "conv"},
    {"batch_norm_with_a_computed_mean", normalized_conv, "fold_batch_norm", computed<norm_, 3>, "not_constant", "maker"},
    {"batch_norm_of_computed_weights", normalized_conv, "fold_batch_norm", computed<conv_, 1>, "not_constant", "maker"},
    {"batch_norm_in_training", normalized_conv, "fold_batch_norm",
     [](Builder& b) { b.g.edit(b["norm"]).attrs["training_mode"] = int64_t{1}; }, "wrong_attribute", "norm"},
    {"batch_norm_after_something_else", normalized_conv, "fold_batch_norm", through<norm_, 0, softmax_op>, "wrong_producer",
     "between"},
    {"residual_of_a_convolution_with_a_second_reader", residual_conv, "conv_epilogue", read_twice<conv_>, "extra_reader",
     "other"},
    {"residual_of_a_graph_output", residual_conv, "conv_epilogue", is_an_output<conv_>, "graph_output", "conv"},
    {"residual_after_something_not_pointwise", residual_conv, "conv_epilogue", through<sum_, 0, softmax_op>, "wrong_reader",
     "between"},
    {"residual_that_enlarges_the_result", residual_conv, "conv_epilogue",
     [](Builder& b) {
       b.g.set_input(b["sum"], 1, b.input("large", {3, 4, 8, 8}));
       for (const char* n : {"sum", "relu"}) b.g.set_shape(out(b, n), SymShape{3, 4, 8, 8});
     },
     "wrong_shape", "sum"},
    {"residual_of_unknown_rank", residual_conv, "conv_epilogue",
     [](Builder& b) {
       const ValueId r = b.input("unknown", {});
       b.g.set_shape(r, std::nullopt);
       b.g.set_input(b["sum"], 1, r);
     },
     "unknown_shape", "sum"},
    {"bias_of_the_wrong_rank", biased_conv, "conv_bias",
     [](Builder& b) {
       b.g.set_input(b["bias"], 1, b.weights("flat", {4}));
       for (const char* n : {"conv", "bias", "end"}) b.g.set_shape(out(b, n), SymShape{1, 4, 8, 4});
     },
     "wrong_rank", "bias"},
    {"bias_over_the_image", biased_conv, "conv_bias",
     [](Builder& b) {
       b.g.set_input(b["bias"], 1, b.weights("flat", {8, 8}));
     },
     "wrong_shape", "bias"},
    {"bias_of_computed_weights", biased_conv, "conv_bias", computed<conv_, 1>, "not_constant", "maker"},
    {"padding_that_reflects", padded_conv, "pad_into_conv",
     [](Builder& b) { b.g.edit(b["pad"]).attrs["mode"] = std::string("reflect"); }, "wrong_attribute", "pad"},
    {"padding_with_ones", padded_conv, "pad_into_conv", [](Builder& b) { b.g.set_input(b["pad"], 2, b.scalar(1)); },
     "wrong_value", "pad"},
    {"padding_of_channels", padded_conv, "pad_into_conv",
     [](Builder& b) {
       b.g.set_input(b["pad"], 1, b.ints({0, 1, 1, 1, 0, 0, 1, 1}));
     },
     "wrong_axis", "pad"},
    {"padding_by_a_computed_amount", padded_conv, "pad_into_conv", computed<pad_, 1>, "not_constant", "maker"},
    {"padding_that_something_else_reads", padded_conv, "pad_into_conv", read_twice<pad_>, "extra_reader", "other"},
    {"concat_of_a_graph_output", joined_conv, "concat_in_place", is_an_output<a_>, "graph_output", "a"},
    {"concat_of_a_graph_input",
     joined_conv,
     "concat_in_place",
     [](Builder& b) { b.g.set_input(b["join"], 1, b.input("given", image)); },
     "wrong_producer",
     "join",
     {.skip = {"concat_conv"}}},
    {"concat_of_the_same_value_twice",
     joined_conv,
     "concat_in_place",
     [](Builder& b) { b.g.set_input(b["join"], 1, out(b, "a")); },
     "extra_reader",
     "join",
     {.skip = {"concat_conv"}}},
    {"concat_along_another_axis",
     joined_conv,
     "concat_conv",
     [](Builder& b) {
       b.g.edit(b["join"]).attrs = axis(2);
       b.g.set_shape(out(b, "join"), SymShape{1, 4, 16, 8});
     },
     "wrong_axis",
     "join",
     {.concat = ConcatForm::segments}},
    {"concat_with_a_second_reader",
     joined_conv,
     "concat_conv",
     read_twice<join_>,
     "extra_reader",
     "other",
     {.concat = ConcatForm::segments}},
    {"concat_for_a_grouped_convolution",
     joined_conv,
     "concat_conv",
     [](Builder& b) { b.g.edit(b["conv"]).attrs["group"] = int64_t{2}; },
     "wrong_attribute",
     "conv",
     {.concat = ConcatForm::segments}},
    {"concat_of_unknown_channels",
     joined_conv,
     "concat_conv",
     [](Builder& b) {
       b.g.set_input(b["join"], 1, b.input("given", {1, Dim("c"), 8, 8}));
     },
     "unknown_shape",
     "join",
     {.concat = ConcatForm::segments}},
    {"another_scale_before_the_concat", quantized_concat, "quantized_movement",
     [](Builder& b) { b.g.set_input(b["dc"], 1, b.scalar(0.25)); }, "wrong_value", "dc"},
    {"one_input_of_the_concat_not_quantized", quantized_concat, "quantized_movement",
     [](Builder& b) { b.g.set_input(b["join"], 1, b.input("real", image)); }, "wrong_producer", ""},
    {"a_neg_between_dequantize_and_conv", quantized_conv, "quantized_conv", through<conv_, 0, neg_>, "wrong_producer", "between"},
    {"an_identity_between_when_identities_stay",
     quantized_conv,
     "quantized_conv",
     through<conv_, 0, identity_>,
     "wrong_producer",
     "between",
     {.skip = {"remove_identity", "merge_duplicates", "pointwise_region"}}},
    {"weights_scaled_along_their_inputs", quantized_conv, "quantized_conv", [](Builder& b) { b.g.edit(b["dw"]).attrs = axis(1); },
     "wrong_axis", "dw"},
    {"sixteen_bit_activations", quantized_conv, "quantized_conv",
     [](Builder& b) {
       b.g.set_inputs(b["dx"], {b.input("wide", image, DType::i16), b.scalar(0.5)});
     },
     "wrong_type", "dx"},
    {"computed_int8_weights", quantized_conv, "quantized_conv",
     [](Builder& b) {
       b.g.set_input(b["dw"], 0, b.input("given", {4, 4, 1, 1}, DType::i8));
     },
     "not_constant", "dw"},
    {"scales_along_the_products_depth", quantized_product, "quantized_matmul",
     [](Builder& b) {
       b.g.set_input(b["dw"], 1, b.weights("rows", {32}));
       b.g.edit(b["dw"]).attrs = axis(0);
     },
     "wrong_axis", "dw"},
    {"gelu_with_another_constant", gelu, "recognise_gelu", [](Builder& b) { b.g.set_input(b["plus"], 1, b.scalar(1.1)); },
     "wrong_value", "y"},
    {"gelu_whose_erf_is_read_elsewhere", gelu, "recognise_gelu", read_twice<erf_>, "extra_reader", "other"},
    {"gelu_whose_erf_is_a_graph_output", gelu, "recognise_gelu", is_an_output<erf_>, "graph_output", "erf"},
    {"silu_whose_sigmoid_is_a_graph_output", silu, "recognise_silu", is_an_output<sigmoid_>, "graph_output", "sigmoid"},
    {"silu_whose_sigmoid_is_read_elsewhere", silu, "recognise_silu", read_twice<sigmoid_>, "extra_reader", "other"},
    {"silu_that_gates_another_value", silu, "recognise_silu",
     [](Builder& b) { b.g.set_input(b["y"], 0, b.input("gate", tokens)); }, "wrong_reader", "y"},
    {"rms_norm_along_another_axis", rms_norm, "recognise_rms_norm",
     [](Builder& b) {
       b.g.set_input(b["mean"], 1, b.ints({1}));
       for (const char* n : {"mean", "eps", "root", "inverse"}) b.g.set_shape(out(b, n), SymShape{2, 1, 8});
     },
     "wrong_axis", "mean"},
    {"rms_norm_whose_mean_is_read_elsewhere", rms_norm, "recognise_rms_norm", read_twice<mean_>, "extra_reader", "other"},
    {"rms_norm_with_a_computed_epsilon", rms_norm, "recognise_rms_norm", computed<eps_, 1>, "not_constant", "maker"},
    {"attention_along_another_axis", attention, "attention", [](Builder& b) { b.g.edit(b["softmax"]).attrs = axis(2); },
     "wrong_axis", "softmax"},
    {"attention_whose_scores_are_a_graph_output", attention, "attention", is_an_output<scale_>, "graph_output", "scale"},
    {"attention_whose_weights_are_read_elsewhere", attention, "attention", read_twice<softmax_>, "extra_reader", "other"},
    {"product_with_a_second_reader", linear, "matmul_epilogue", read_twice<product_>, "extra_reader", "other"},
    {"product_that_is_a_graph_output", linear, "matmul_epilogue", is_an_output<product_>, "graph_output", "product"},
    {"addend_that_enlarges_the_product", linear, "matmul_epilogue",
     [](Builder& b) {
       b.g.set_input(b["bias"], 1, b.input("large", {3, 2, 6, 8}));
       for (const char* n : {"bias", "relu"}) b.g.set_shape(out(b, n), SymShape{3, 2, 6, 8});
     },
     "wrong_shape", "bias"},
    {"a_cast_that_narrows", widened, "merge_casts", [](Builder& b) { b.g.set_type(b.g.inputs()[0], DType::i64); }, "wrong_type",
     "first"},
};

class Mutated : public testing::TestWithParam<Mutation> {};

/// How many nodes of the model the rewrite takes in.
size_t taken(const Ledger& ledger, std::string_view rewrite) {
  size_t n = 0;
  for (const Entry& e : ledger) n += e.matched && e.rewrite == rewrite ? e.nodes.size() : 0;
  return n;
}

TEST_P(Mutated, is_rejected_with_the_reason_and_the_original_is_not) {
  const Mutation& m = GetParam();
  Builder original = m.original();
  verify(original.g);
  const size_t before = taken(run(original.g, m.options), m.rewrite);
  EXPECT_GE(before, 1u) << "the original is not taken";

  Builder mutated = m.original();
  m.mutate(mutated);
  verify(mutated.g);
  const Ledger ledger = run(mutated.g, m.options);
  EXPECT_LT(taken(ledger, m.rewrite), before);
  std::string seen;
  bool found = false;
  for (const Entry& e : ledger) {
    if (e.rewrite != m.rewrite) continue;
    found |= !e.matched && e.reason == m.reason && e.blocker == m.blocker;
    seen += "\n  " + (e.matched ? "matched" : e.reason + " by '" + e.blocker + "': " + e.detail);
    if (!e.matched) {
      EXPECT_FALSE(e.detail.empty());
    }
  }
  EXPECT_TRUE(found) << "expected " << m.reason << " by '" << m.blocker << "', found:" << seen;
}

INSTANTIATE_TEST_SUITE_P(Graphs, Mutated, testing::ValuesIn(mutations),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace smelt::fuse
