// A transposed convolution phase by phase on the processor, each by the reference of the plain convolution that it is, and put where it
// belongs: the reference's result. No GPU is needed; tests/gpu/transposed_conv_test.cpp holds the kernels to it.
#include "ops/conv/phases.h"

#include <fmt/ranges.h>

#include <random>

#include "ops/core/window.h"
#include "ops/tactic_check.h"

namespace smelt::ops::conv {
namespace {

struct Case {
  Shape x, w;
  std::vector<int64_t> strides, pads, output_padding, dilations;
  int64_t group = 1;
};

Trial trial(const Case& c) {
  const std::vector<int64_t> none(c.strides.size(), 0);
  Trial t;
  t.node.op = "ConvTranspose";
  t.node.attrs["strides"] = c.strides;
  if (!c.pads.empty()) t.node.attrs["pads"] = c.pads;
  if (!c.output_padding.empty()) t.node.attrs["output_padding"] = c.output_padding;
  if (!c.dilations.empty()) t.node.attrs["dilations"] = c.dilations;
  t.node.attrs["group"] = c.group;
  t.add(random_tensor(DType::f32, c.x, 1), false);
  t.add(random_tensor(DType::f32, c.w, 2), true);
  t.add(random_tensor(DType::f32, {c.w[1] * c.group}, 3), true);
  t.result(DType::f32, expected(t).shape());
  t.bound.node = &t.node;
  return t;
}

/// The elements of x that a bound tensor has of it, `begin` bytes further on.
Tensor cut(const Tensor& x, const BoundTensor& t, int64_t begin) {
  const Shape &shape = t.shape, from = t.strides.empty() ? strides(x.shape()) : t.strides;
  Tensor part = Tensor::empty(x.type(), shape);
  Shape at(shape.size(), 0);
  int64_t i = 0;
  do {
    int64_t place = begin / 4;
    for (size_t a = 0; a < at.size(); ++a) place += at[a] * from[a];
    part.data<float>()[i++] = x.data<float>()[place];
  } while (advance(at, shape));
  return part;
}

/// y as its phases make it; every element once.
Tensor by_phases(Trial& t, const std::vector<Phase>& phases) {
  const Problem p = problem(t.bound);
  Tensor y = Tensor::empty(DType::f32, p.y);
  std::vector<int> written(static_cast<size_t>(y.size()), 0);
  for (const Phase& phase : phases) {
    const PhaseNode made = phase_node(t.bound, p, phase, arguments(t.node).operands);
    const BoundTensor& to = made.node.outputs[0];
    Node node = *made.own;
    std::vector<Tensor> in;
    for (size_t i = 0; i < t.inputs.size(); ++i)
      in.push_back(i == 1 ? made.node.inputs[1].constant : cut(t.inputs[i], made.node.inputs[i], made.begins[i]));
    const Tensor part = evaluate(node, in)[0];
    EXPECT_EQ(part.shape(), to.shape);
    Shape at(to.shape.size(), 0);
    int64_t i = 0;
    do {
      int64_t place = made.begin / 4;
      for (size_t a = 0; a < at.size(); ++a) place += at[a] * to.strides[a];
      y.data<float>()[place] = part.data<float>()[i++];
      ++written[static_cast<size_t>(place)];
    } while (advance(at, to.shape));
  }
  EXPECT_TRUE(std::ranges::all_of(written, [](int n) { return n == 1; }));
  return y;
}

TEST(ConvPhases, make_what_the_transposed_one_makes) {
  const Case all[] = {
      {{1, 6, 7, 5}, {6, 4, 4, 4}, {2, 2}, {1, 1, 1, 1}, {}, {}},
      {{2, 5, 4, 6}, {5, 3, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {}},
      {{1, 8, 12}, {8, 3, 16}, {8}, {4, 4}, {}, {}},
      {{1, 4, 9}, {4, 2, 7}, {3}, {2, 2}, {1}, {}},
      {{1, 4, 6, 5}, {4, 3, 5, 3}, {1, 1}, {2, 1, 2, 1}, {}, {}},
      {{1, 4, 6, 5}, {4, 3, 3, 3}, {1, 2}, {2, 1, 2, 1}, {}, {2, 1}},
      {{1, 4, 7, 6}, {4, 3, 3, 5}, {2, 3}, {0, 1, 1, 0}, {}, {}},
      {{1, 4, 3, 4, 3}, {4, 2, 2, 4, 4}, {2, 2, 2}, {0, 1, 1, 0, 1, 1}, {}, {}},
      {{1, 12, 5, 4}, {12, 2, 4, 4}, {2, 2}, {1, 1, 1, 1}, {}, {}, 3},
      {{1, 6, 5, 4}, {6, 1, 4, 4}, {2, 2}, {1, 1, 1, 1}, {}, {}, 6},
      {{1, 3, 5, 4}, {3, 2, 2, 2}, {2, 2}, {}, {}, {}},
      {{1, 3, 6}, {3, 2, 4}, {2}, {0, 5}, {}, {}},  // the end is cut off
  };
  for (const Case& c : all) {
    SCOPED_TRACE(to_string(c.x) + " by " + to_string(c.w));
    Trial t = trial(c);
    const auto phases = phases_of(problem(t.bound), 64);
    ASSERT_TRUE(phases) << phases.refusal().text;
    EXPECT_LE(error(by_phases(t, *phases), expected(t)), 1e-6);
  }
}

TEST(ConvPhases, have_their_parts_of_what_a_program_reads) {
  for (const Shape& operand : {Shape{2, 3, 8, 12}, Shape{3, 1, 1}, Shape{2, 3, 1, 1}, Shape{8, 12}, Shape{1, 1, 8, 1}}) {
    SCOPED_TRACE(to_string(operand));
    Trial t = trial({{2, 5, 4, 6}, {5, 3, 4, 3}, {2, 2}, {1, 1, 1, 1}, {0, 1}, {}});
    t.node.domain = smelt_domain;
    t.node.program = expr::Program::parse("(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = relu(%2):f32; return %3 }");
    t.add(random_tensor(DType::f32, operand, 4), false);
    t.bound.node = &t.node;
    const auto phases = phases_of(problem(t.bound), 64);
    ASSERT_TRUE(phases) << phases.refusal().text;
    EXPECT_LE(error(by_phases(t, *phases), expected(t)), 1e-6);
  }
}

TEST(ConvPhases, agree_over_random_extents) {
  std::mt19937 draw(7);
  const auto of = [&](std::initializer_list<int64_t> all) { return all.begin()[draw() % all.size()]; };
  int made = 0;
  for (int i = 0; i < 150; ++i) {
    Case c;
    c.group = of({1, 1, 2});
    c.x = {of({1, 2}), 4}, c.w = {4, of({1, 2, 3})};
    for (const size_t axes = static_cast<size_t>(of({1, 2})); c.strides.size() < axes;) {
      c.x.push_back(of({1, 2, 5, 8}));
      c.w.push_back(of({1, 2, 3, 4, 5, 7}));
      c.strides.push_back(of({1, 2, 3}));
      c.dilations.push_back(c.strides.back() == 1 ? of({1, 2}) : 1);
    }
    for (int side = 0; side < 2; ++side)
      for (size_t a = 0; a < c.strides.size(); ++a) c.pads.push_back(of({0, 0, 1, 2}));
    for (const int64_t s : c.strides) c.output_padding.push_back(s > 1 ? of({0, 1}) : 0);
    SCOPED_TRACE(fmt::format("{} by {} strides {} pads {} {}", to_string(c.x), to_string(c.w), fmt::join(c.strides, ","),
                             fmt::join(c.pads, ","), fmt::join(c.output_padding, ",")));
    bool empty = false;
    for (size_t a = 0; a < c.strides.size(); ++a)
      empty |= (c.x[a + 2] - 1) * c.strides[a] + (c.w[a + 2] - 1) * c.dilations[a] + 1 + c.output_padding[a] <=
               c.pads[a] + c.pads[a + c.strides.size()];
    if (empty) continue;
    Trial t = trial(c);
    const auto phases = phases_of(problem(t.bound), 64);
    if (!phases) continue;
    ++made;
    EXPECT_LE(error(by_phases(t, *phases), expected(t)), 1e-6);
  }
  EXPECT_GT(made, 50);
}

TEST(ConvPhases, say_what_they_do_not_take) {
  const auto why = [](const Case& c, int64_t most = 64) {
    const Trial t = trial(c);
    const auto phases = phases_of(problem(t.bound), most);
    return phases ? std::string("taken") : phases.refusal().text;
  };
  using testing::HasSubstr;
  EXPECT_THAT(why({{1, 2, 4}, {2, 2, 2}, {3}, {}, {}, {}}), HasSubstr("leave gaps"));
  EXPECT_THAT(why({{1, 2, 4}, {2, 2, 3}, {2}, {}, {}, {2}}), HasSubstr("a dilation of 2"));
  EXPECT_THAT(why({{1, 2, 4}, {2, 2, 3}, {2}, {3, 0}, {}, {}}), HasSubstr("cut whole strides off"));
  EXPECT_THAT(why({{1, 2, 4}, {2, 2, 40}, {20}, {}, {}, {}}, 16), HasSubstr("20 of them, expected at most 16"));
}

}  // namespace
}  // namespace smelt::ops::conv
