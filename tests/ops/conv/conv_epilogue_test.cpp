#include "ops/conv/conv_case.h"

namespace smelt::ops {
namespace {

using expr::Fn;
using expr::Program;

double largest(const Tensor& t) {
  double most = 0;
  for (double v : t.to_doubles()) most = std::max(most, std::abs(v));
  return most;
}

/// y = f(sums, operand) for a program of one operand.
void check_program(const ConvCase& c, const Program& p, Tensor operand, bool constant, double (*f)(double, double)) {
  Trial t = trial(c);
  const Tensor base = sums(c, t);
  const Shape shape = base.shape();
  Tensor want = base.clone();
  t.node.program = p;
  if (operand.valid()) {
    const Tensor wide = operand.cast(DType::f64);
    for (int64_t i = 0; i < want.size(); ++i) {
      const int64_t channel = i / (shape[2] * shape[3]) % shape[1], image = i / (shape[1] * shape[2] * shape[3]);
      const int64_t at = wide.size() == want.size() ? i
                         : wide.size() == shape[1]  ? channel
                         : wide.size() == 1         ? 0
                                                    : image * shape[1] + channel;
      want.data<double>()[i] = f(want.data<double>()[i], wide.data<double>()[at]);
    }
    t.add(operand, constant, operand.rank() == 4 && !constant ? Layout::nhwc : Layout::plain);
  } else {
    for (double& v : want.span<double>()) v = f(v, 0);
  }
  t.result(DType::f32, shape, Layout::nhwc);
  // The program may shrink the values (clip), but not the sums' rounding.
  EXPECT_FALSE(agree(t, want, 2e-6 * std::max(1.0, largest(base) / largest(want))).empty());
}

double relu(double v) { return std::max(v, 0.0); }

TEST(ConvEpilogue, apply_every_kind_of_epilogue) {
  const ConvCase c = one({2, 20, 9, 8}, {27, 20, 3, 3}, {1, 1}, {1, 1, 1, 1});
  const ConvCase deep = one({2, 400, 5, 4}, {27, 400, 1, 1});
  for (const ConvCase& at : {c, deep}) {
    const Shape y = at.x[0][2] == 9 ? Shape{2, 27, 9, 8} : Shape{2, 27, 5, 4};
    Program p;
    p.output(p.call(Fn::relu, p.input(DType::f32)));
    check_program(at, p, {}, false, [](double a, double) { return relu(a); });
    p = {};
    p.output(p.call(Fn::hard_swish, p.input(DType::f32)));
    check_program(at, p, {}, false, [](double a, double) { return a * std::min(std::max(a / 6 + 0.5, 0.0), 1.0); });
    p = {};
    const expr::Ref sum = p.input(DType::f32), low = p.constant(DType::f32, -0.25), high = p.constant(DType::f32, 1.5);
    p.output(p.call(Fn::clip, sum, low, high));
    check_program(at, p, {}, false, [](double a, double) { return std::min(std::max(a, -0.25), 1.5); });
    p = {};
    expr::Ref swish = p.call(Fn::hard_swish, p.input(DType::f32));
    p.output(p.call(Fn::add, p.call(Fn::mul, swish, p.constant(DType::f32, 0.75)), p.constant(DType::f32, -0.125)));
    check_program(at, p, {}, false,
                  [](double a, double) { return a * std::min(std::max(a / 6 + 0.5, 0.0), 1.0) * 0.75 - 0.125; });
    p = {};
    expr::Ref x = p.input(DType::f32);
    p.output(p.call(Fn::add, p.constant(DType::f32, 0.5), p.call(Fn::relu, x)));
    check_program(at, p, {}, false, [](double a, double) { return relu(a) + 0.5; });
    p = {};
    x = p.input(DType::f32);
    p.output(p.call(Fn::mul, p.constant(DType::f32, -3), x));
    check_program(at, p, {}, false, [](double a, double) { return a * -3; });
    p = {};
    p.output(p.call(Fn::gelu, p.input(DType::f32)));
    check_program(at, p, {}, false, [](double a, double) { return a * 0.5 * (1 + std::erf(a / std::sqrt(2.0))); });
    p = {};
    expr::Ref a = p.input(DType::f32), b = p.input(DType::f32);
    p.output(p.call(Fn::relu, p.call(Fn::add, b, a)));
    check_program(at, p, random_tensor(DType::f32, y, 7), false, [](double s, double r) { return relu(s + r); });
    check_program(at, p, random_tensor(DType::f32, {27, 1, 1}, 8), true, [](double s, double r) { return relu(s + r); });
    p = {};
    a = p.input(DType::f32), b = p.input(DType::f32);
    p.output(p.call(Fn::mul, a, b));
    check_program(at, p, random_tensor(DType::f32, {2, 27, 1, 1}, 9), false, [](double s, double r) { return s * r; });
    check_program(at, p, random_tensor(DType::f32, {1}, 10), true, [](double s, double r) { return s * r; });
  }
}

TEST(ConvEpilogue, offer_a_program_apart_from_the_convolution) {
  const std::string gelu = "(in0:f32) { %1 = gelu(in0):f32; return %1 }";
  Trial t = along_axes({1, 16, 20, 20}, {32, 16, 3, 3}, 1, DType::f32, Layout::nhwc, gelu, {});
  EXPECT_FALSE(check(t, 2e-6).empty());
  const Offer o = offer(t.bound, Machine{});
  EXPECT_TRUE(std::ranges::any_of(o.candidates, [](const Candidate& c) { return c.config.ends_with("program apart"); }));
}

/// What a plan for other extents asks for: candidates by their names, those with copies or a pass around them among them.
TEST(ConvEpilogue, offer_each_candidate_alone_where_it_is_asked_for) {
  const std::string gelu = "(in0:f32) { %1 = gelu(in0):f32; return %1 }";
  for (const Layout layout : {Layout::plain, Layout::nhwc}) {
    Trial t = along_axes({1, 16, 20, 20}, {32, 16, 3, 3}, 1, DType::f32, layout, gelu, {});
    t.bound.node = &t.node;
    const Offer all = offer(t.bound, Machine{});
    for (const Candidate& c : all.candidates) {
      SCOPED_TRACE(c.tactic + " " + c.config);
      const ChosenTactic only{c.tactic, c.config};
      const Offer one = offer(t.bound, Machine{}, {&only});
      EXPECT_EQ(one.problem, all.problem);
      EXPECT_EQ(std::ranges::count_if(one.candidates,
                                      [&](const Candidate& o) {
                                        return ChosenTactic{o.tactic, o.config} == only;
                                      }),
                1);
    }
  }
}

}  // namespace
}  // namespace smelt::ops
