#include "ops/conv/conv_case.h"

namespace smelt::ops {
namespace {

TEST(ConvAxes, run_one_to_three_axes_with_any_program_in_either_layout) {
  const std::string gelu = "(in0:f32) { %1 = gelu(in0):f32; return %1 }",
                    relu_text = "(in0:f32) { %1 = relu(in0):f32; return %1 }";
  const std::string scaled =
      "(in0:f32, in1:f32, in2:f32) { %3 = sigmoid(in0):f32; %4 = mul(%3, in1):f32; %5 = add(%4, in2):f32; return %5 }";
  const std::vector<Shape> images = {{2, 12, 19}, {2, 12, 9, 11}, {2, 12, 5, 7, 6}};
  for (const Shape& x : images) {
    for (int64_t group : {1, 3, 12}) {
      Shape w = {24, 12 / group};
      w.insert(w.end(), x.size() - 2, 3);
      const Shape per_channel = [&] {
        Shape s(x.size() - 1, 1);
        s[0] = -1;
        return s;
      }();
      const Shape like_y(x.size(), -1), row = {-1};
      for (Layout layout : {Layout::plain, Layout::nhwc}) {
        for (const auto& [program, operands] : {std::pair<std::string, std::vector<Shape>>{"", {}},
                                                {gelu, {}},
                                                {relu_text, {}},
                                                {scaled, {per_channel, like_y}},
                                                {scaled, {like_y, row}}}) {
          Trial t = along_axes(x, w, group, DType::f32, layout, program, operands);
          const auto found = check(t, 2e-6);
          EXPECT_TRUE(std::ranges::any_of(found, [](const std::string& tactic) { return tactic != "reference"; }))
              << to_string(x) << " group " << group << " " << name(layout) << " " << program;
        }
      }
    }
  }
}

TEST(ConvAxes, run_half_precision_along_any_number_of_axes) {
  const std::string gelu = "(in0:f32) { %1 = gelu(in0):f32; %2 = cast(%1):f16; return %2 }";
  for (const Shape& x : {Shape{2, 12, 19}, Shape{2, 12, 9, 11}, Shape{2, 12, 5, 7, 6}}) {
    for (int64_t group : {1, 3, 12}) {
      Shape w = {24, 12 / group};
      w.insert(w.end(), x.size() - 2, 3);
      for (Layout layout : {Layout::plain, Layout::nhwc}) {
        Trial t = along_axes(x, w, group, DType::f16, layout, gelu, {});
        const auto found = check(t, 1.0 / 2048);
        EXPECT_TRUE(std::ranges::any_of(found, [](const std::string& tactic) { return tactic != "reference"; }))
            << to_string(x) << " group " << group << " " << name(layout);
      }
    }
  }
}

TEST(ConvAxes, take_weights_and_a_bias_that_are_computed) {
  for (const Shape& x : {Shape{2, 12, 19}, Shape{2, 12, 9, 11}, Shape{2, 12, 5, 7, 6}}) {
    for (int64_t group : {1, 3, 12}) {
      Shape w = {24, 12 / group};
      w.insert(w.end(), x.size() - 2, 3);
      for (DType type : {DType::f32, DType::f16}) {
        for (Layout layout : {Layout::plain, Layout::nhwc}) {
          Trial t = along_axes(x, w, group, type, layout, "", {});
          t.bound.inputs[1].constant = {};
          if (type == DType::f32) t.bound.inputs[2].constant = {};
          const auto found = check(t, type == DType::f32 ? 2e-6 : 1.0 / 2048);
          EXPECT_TRUE(std::ranges::any_of(found, [](const std::string& tactic) { return tactic != "reference"; }))
              << to_string(x) << " group " << group << " " << name(type) << " " << name(layout);
        }
      }
    }
  }
}

TEST(ConvAxes, share_a_problem_between_one_axis_and_an_image_of_one_row) {
  Trial line = along_axes({1, 16, 40}, {32, 16, 3}, 1, DType::f32, Layout::nhwc, "", {});
  Trial image = trial(one({1, 16, 1, 40}, {32, 16, 1, 3}, {1, 2}, {0, 1, 0, 0}));
  image.result(DType::f32, {1, 32, 1, 20}, Layout::nhwc);
  line.bound.node = &line.node;
  image.bound.node = &image.node;
  EXPECT_EQ(offer(line.bound, Machine{}).problem, offer(image.bound, Machine{}).problem);
}

}  // namespace
}  // namespace smelt::ops
