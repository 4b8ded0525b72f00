// Nodes that do not fit their inputs, which import cannot see while a shape or a constant is still to be found: every rewrite
// leaves them as they are, for running to report.
#include <gmock/gmock.h>

#include <functional>

#include "fuse/rewrites/rewrites.h"
#include "support/builder.h"

namespace smelt::fuse {
namespace {

using Ints = std::vector<int64_t>;
constexpr int64_t huge = INT64_MAX;

const SymShape image{1, 4, 8, 8};

struct Case {
  const char* name;
  std::function<void(Builder&)> build;
};

/// y = op(x, …) with these attributes, and a Relu behind it.
void one(Builder& b, const std::string& op, std::vector<ValueId> inputs, std::map<std::string, Attribute> attrs,
         SymShape shape = image) {
  b.output(b.node("out", "Relu", {b.node("n", op, std::move(inputs), shape, DType::f32, std::move(attrs))}, shape));
}

const Case cases[] = {
    {"bias_of_too_few_channels",
     [](Builder& b) {
       const ValueId c = b.node("conv", "Conv", {b.input("x", image), b.weights("w", {4, 4, 1, 1}), b.weights("b", {2})}, image);
       one(b, "Add", {c, b.weights("k", {1, 4, 1, 1})}, {});
     }},
    {"normalization_over_a_bias_of_too_few_channels",
     [](Builder& b) {
       const ValueId c = b.node("conv", "Conv", {b.input("x", image), b.weights("w", {4, 4, 1, 1}), b.weights("b", {1})}, image);
       one(b, "BatchNormalization", {c, b.weights("s", {4}), b.weights("o", {4}), b.weights("m", {4}), b.weights("v", {4})}, {});
     }},
    {"more_groups_than_channels",
     [](Builder& b) {
       const ValueId c = b.node("conv", "ConvTranspose", {b.input("x", image), b.weights("w", {4, 1, 1, 1})}, image, DType::f32,
                                {{"group", int64_t{8}}});
       one(b, "Mul", {c, b.weights("k", {1, 8, 1, 1})}, {});
     }},
    {"no_groups",
     [](Builder& b) {
       const ValueId c = b.node("conv", "ConvTranspose", {b.input("x", image), b.weights("w", {4, 4, 1, 1})}, image, DType::f32,
                                {{"group", int64_t{0}}});
       one(b, "Mul", {c, b.weights("k", {1, 4, 1, 1})}, {});
     }},
    {"strides_of_zero",
     [](Builder& b) {
       one(b, "Conv", {b.input("x", image), b.weights("w", {4, 4, 3, 3})},
           {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{0, 0}}});
     }},
    {"strides_for_one_axis",
     [](Builder& b) {
       one(b, "Conv", {b.input("x", image), b.weights("w", {4, 4, 3, 3})},
           {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2}}});
     }},
    {"dilations_that_overflow",
     [](Builder& b) {
       one(b, "Conv", {b.input("x", image), b.weights("w", {4, 4, 3, 3})},
           {{"auto_pad", std::string("SAME_LOWER")}, {"dilations", Ints{huge, huge}}});
     }},
    {"image_of_another_rank",
     [](Builder& b) {
       one(b, "Conv", {b.input("x", {1, 4}), b.weights("w", {4, 4, 3, 3})},
           {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2, 2}}});
     }},
    {"pads_that_overflow",
     [](Builder& b) {
       const ValueId p = b.node("pad", "Pad", {b.input("x", image), b.ints({0, 0, huge, 1, 0, 0, 1, 1})}, image);
       one(b, "Conv", {p, b.weights("w", {4, 4, 3, 3})}, {{"pads", Ints{huge, 1, 1, 1}}});
     }},
    {"pads_for_one_axis",
     [](Builder& b) {
       const ValueId p = b.node("pad", "Pad", {b.input("x", image), b.ints({0, 0, 1, 1, 0, 0, 1, 1})}, image);
       one(b, "Conv", {p, b.weights("w", {4, 4, 3, 3})}, {{"pads", Ints{1, 1}}});
     }},
    {"pads_for_other_axes_than_named",
     [](Builder& b) {
       const ValueId p = b.node("pad", "Pad", {b.input("x", image), b.ints({1, 1}), ValueId::none, b.ints({2, 3})}, image);
       one(b, "Conv", {p, b.weights("w", {4, 4, 3, 3})}, {});
     }},
    {"order_of_axes_that_are_not_there",
     [](Builder& b) {
       const ValueId t = b.node("t", "Transpose", {b.input("x", image)}, image, DType::f32, {{"perm", Ints{0, 1, 2, 3}}});
       one(b, "Transpose", {t}, {{"perm", Ints{7, -9, huge, 2}}});
     }},
    {"order_of_two_axes_of_four",
     [](Builder& b) {
       const ValueId t = b.node("t", "Transpose", {b.input("x", image)}, image, DType::f32, {{"perm", Ints{1, 0}}});
       one(b, "MatMul", {b.input("z", image), t}, {});
     }},
    {"axes_beyond_the_rank",
     [](Builder& b) {
       const SymShape symbolic{Dim(), Dim(), Dim(), Dim()};
       for (const char* op : {"Concat", "Split", "Gather"})
         b.output(
             b.node(op, op, {b.input(std::string("x") + op, image), b.ints({0})}, symbolic, DType::f32, {{"axis", int64_t{9}}}));
       for (const char* op : {"Squeeze", "Unsqueeze", "ReduceSum"})
         b.output(b.node(op, op, {b.input(std::string("x") + op, image), b.ints({9})}, symbolic));
       b.output(b.node("Softmax", "Softmax", {b.input("xs", image)}, symbolic, DType::f32, {{"axis", int64_t{-9}}}));
     }},
    {"slices_with_fewer_ends_than_starts",
     [](Builder& b) {
       const SymShape symbolic{1, 4, Dim(), Dim()};
       b.output(b.node("s", "Slice", {b.input("x", image), b.ints({0, 0}), b.ints({4}), b.ints({2, 3})}, symbolic));
       b.output(b.node("t", "Slice", {b.input("z", image), b.ints({0}), b.ints({4}), b.ints({2}), b.ints({})}, symbolic));
       const ValueId shape = b.node("shape", "Shape", {b.input("q", image)}, {4}, DType::i64);
       b.output(b.node("part", "Slice", {shape, b.ints({0}), b.ints({})}, {Dim()}, DType::i64));
     }},
    {"extents_that_overflow",
     [](Builder& b) {
       const ValueId shape = b.node("shape", "Shape", {b.input("x", {Dim("n"), 4})}, {2}, DType::i64);
       const ValueId big = b.node("mul", "Mul", {b.ints({huge, huge}), b.ints({huge, 2})}, {2}, DType::i64);
       const ValueId sum = b.node("sum", "Add", {big, b.ints({huge, huge})}, {2}, DType::i64);
       b.output(b.node("r", "Reshape", {b.input("z", image), sum}, {Dim(), Dim()}));
       b.output(b.node("s", "Reshape", {b.input("q", image), b.ints({-1, huge, huge})}, {Dim(), Dim(), Dim()}));
       b.output(b.node("u", "Reshape", {b.input("w", image), b.ints({-5, -1})}, {Dim(), Dim()}));
       b.output(b.node("t", "Add", {shape, sum}, {2}, DType::i64));
     }},
    {"fewer_offsets_than_scales",
     [](Builder& b) {
       one(b, "InstanceNormalization", {b.input("x", image), b.weights("g", {4}), b.weights("o", {3})}, {});
     }},
    {"groups_of_another_number_than_scales",
     [](Builder& b) {
       const ValueId r = b.node("split", "Reshape", {b.input("x", image), b.ints({0, 2, -1})}, {1, 2, 128});
       const ValueId n = b.node("norm", "InstanceNormalization", {r, b.weights("g", {3}), b.weights("o", {3})}, {1, 2, 128});
       one(b, "Reshape", {n, b.ints({1, 4, 8, 8})}, {});
     }},
    {"an_axis_reduced_twice",
     [](Builder& b) {
       one(b, "ReduceSum", {b.input("x", image), b.ints({1, -3})}, {}, {1, 1, 8, 8});
     }},
    {"upsampling_without_bounds",
     [](Builder& b) {
       for (float scale : {0.f, -1.f, 1e30f, NAN}) {
         const std::string at = std::to_string(scale);
         const ValueId scales = b.constant("scales" + at, Tensor::of<float>({4}, {1, 1, scale, scale}));
         const ValueId up = b.node("up" + at, "Resize", {b.input("low" + at, {1, 2, 4, 4}), ValueId::none, scales}, {1, 2, 8, 8});
         const ValueId joined =
             b.node("join" + at, "Concat", {up, b.node("c" + at, "Relu", {b.input("x" + at, {1, 2, 8, 8})}, {1, 2, 8, 8})}, image,
                    DType::f32, {{"axis", int64_t{1}}});
         b.output(b.node("conv" + at, "Conv", {joined, b.weights("w" + at, {4, 4, 1, 1})}, image));
       }
     }},
    {"a_bias_with_other_scales_than_its_weights",
     [](Builder& b) {
       const ValueId s = b.scalar(0.1), x = b.node("qx", "DequantizeLinear", {b.input("x", image, DType::u8), s}, image);
       const ValueId w =
           b.node("qw", "DequantizeLinear", {b.constant("w", Tensor::zeros(DType::i8, {4, 4, 1, 1})), b.weights("sw", {4})},
                  {4, 4, 1, 1}, DType::f32, {{"axis", int64_t{0}}});
       const ValueId bias =
           b.node("qb", "DequantizeLinear", {b.constant("b", Tensor::zeros(DType::i32, {2})), b.weights("sb", {2})}, {2},
                  DType::f32, {{"axis", int64_t{0}}});
       one(b, "Conv", {x, w, bias}, {});
     }},
    {"quantized_weights_without_axes",
     [](Builder& b) {
       const ValueId s = b.scalar(0.1), x = b.node("qx", "DequantizeLinear", {b.input("x", image, DType::u8), s}, image);
       const ValueId w = b.node("qw", "DequantizeLinear", {b.constant("w", Tensor::zeros(DType::i8, {})), s}, {});
       one(b, "Conv", {x, w, b.weights("b", {4})}, {});
     }},
};

TEST(Invalid, nodes_that_do_not_fit_stay_as_they_are) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Builder b;
    c.build(b);
    ASSERT_NO_THROW(verify(b.g));
    EXPECT_NO_THROW(run(b.g));
    EXPECT_NO_THROW(verify(b.g));
  }
}

TEST(Invalid, what_does_not_fit_is_a_reason_in_the_ledger) {
  Builder b;
  const ValueId t = b.node("t", "Transpose", {b.input("x", image)}, image, DType::f32, {{"perm", Ints{0, 2, 1, 3}}});
  one(b, "Transpose", {t}, {{"perm", Ints{0, 1, 2, 7}}});
  const Ledger ledger = run_only(b.g, "merge_transposes");
  ASSERT_EQ(ledger.size(), 1u);
  EXPECT_EQ(ledger[0].reason, "unsupported");
  EXPECT_THAT(ledger[0].detail, testing::HasSubstr("axis 7"));
}

}  // namespace
}  // namespace smelt::fuse
