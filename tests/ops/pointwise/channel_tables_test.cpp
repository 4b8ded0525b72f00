// Chains of bytes and of a channel's constants, which become a table for each channel.
#include "ops/pointwise/channel_tables.h"

#include <fmt/format.h>

#include <random>

#include "base/value_of.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

/// Instructions of the expression language as text.
class Text {
 public:
  explicit Text(int inputs) : next_(inputs) {}
  std::string line(const std::string& what) {
    text_ += fmt::format("%{} = {}; ", next_, what);
    return fmt::format("%{}", next_++);
  }
  std::string call(const char* fn, const std::string& a, const std::string& b = "") {
    return line(b.empty() ? fmt::format("{}({}):f32", fn, a) : fmt::format("{}({}, {}):f32", fn, a, b));
  }
  std::string number(double v) { return line(fmt::format("const({}):f32", v)); }
  std::string dequantized(const std::string& q, double scale, int zero) {
    const std::string z = line(fmt::format("const({}):i32", zero)), wide = line("cast(" + q + "):i32");
    const std::string f = line("cast(" + line("sub(" + wide + ", " + z + "):i32") + "):f32");
    return call("mul", f, number(scale));
  }
  std::string quantized(const std::string& x, double scale, int zero) {
    const std::string s = number(scale), r = call("round", call("div", x, s)), z = number(zero), v = call("add", r, z);
    const std::string low = number(0), high = number(255);
    return line("cast(" + line("clip(" + v + ", " + low + ", " + high + "):f32") + "):u8");
  }
  std::string program(const std::string& inputs, const std::string& results) const {
    return "(" + inputs + ") { " + text_ + "return " + results + " }";
  }

 private:
  int next_;
  std::string text_;
};

/// in0 times in1, plus in2 (a channel's), each step in 8 bits; then GELU; with in3 (bytes) it is added before.
std::string scaled_gelu(bool adds, bool two_results = false) {
  Text t(adds ? 4 : 3);
  std::string v = t.quantized(t.call("mul", t.dequantized("in0", 0.02, 128), "in1"), 0.03, 120);
  v = t.quantized(t.call("add", t.dequantized(v, 0.03, 120), "in2"), 0.04, 110);
  if (adds) v = t.quantized(t.call("add", t.dequantized(v, 0.04, 110), t.dequantized("in3", 0.02, 100)), 0.05, 100);
  const std::string y = t.quantized(t.call("gelu", t.dequantized(v, 0.05, 100)), 0.02, 10);
  return t.program(adds ? "in0:u8, in1:f32, in2:f32, in3:u8" : "in0:u8, in1:f32, in2:f32", two_results ? y + ", " + v : y);
}

Trial trial(const std::string& program, const Shape& x, const Shape& channels, bool constant, size_t results = 1) {
  Trial t;
  t.node.op = "Pointwise";
  t.node.domain = smelt_domain;
  t.compute(program, DType::u8);
  t.add(random_tensor(DType::u8, x, 1, 0, 255.99), false);
  t.add(random_tensor(DType::f32, channels, 2, -2, 2), constant);
  t.add(random_tensor(DType::f32, channels, 3, -3, 3), constant);
  if (value_of(t.node.program, "the test's program").input_count() > 3) t.add(random_tensor(DType::u8, x, 4, 0, 255.99), false);
  for (size_t i = 0; i < results; ++i) t.result(DType::u8, x);
  return t;
}

PointwiseProblem problem_of(const Trial& t) {
  PointwiseProblem p{value_of(t.node.program, "the test's program"), t.bound.outputs[0].shape};
  for (size_t i = 0; i < t.bound.inputs.size(); ++i) {
    p.present.push_back(i);
    p.constants.push_back(t.bound.inputs[i].constant);
    p.strides.push_back(broadcast_strides(t.bound.inputs[i], p.shape.size()));
    p.alignments.push_back(64);
  }
  for (const BoundTensor& y : t.bound.outputs) p.strides.push_back(memory_strides(y)), p.alignments.push_back(64);
  return p;
}

TEST(ChannelTables, give_what_the_loops_give) {
  struct Case {
    Shape x, channels;
    bool has_tables;
  };
  const Case cases[] = {
      {{1, 5, 1200}, {5, 1}, true},    {{3, 4, 40, 31}, {4, 1, 1}, true},
      {{2, 3, 2100}, {2, 3, 1}, true}, {{6, 1, 70, 80}, {6, 1, 1, 1}, true},
      {{1, 7, 50}, {7, 1}, false},     {{1, 5, 300}, {5, 1}, true},
      {{1, 5, 250}, {5, 1}, false},    {{1, 200, 16}, {16}, false},
      {{4, 3, 5000}, {4, 1, 1}, true}, {{1, 3000}, {1}, false},
      {{2, 70, 1030}, {70, 1}, true},
  };
  for (const Case& c : cases)
    for (const bool adds : {false, true})
      for (const size_t results : {1, 2}) {
        Trial t = trial(scaled_gelu(adds, results == 2), c.x, c.channels, true, results);
        SCOPED_TRACE(to_string(c.x) + to_string(c.channels));
        EXPECT_EQ(ChannelTables::match(problem_of(t)).has_value(), c.has_tables);
        for (const int threads : {1, 3}) EXPECT_THAT(check(t, 0, threads), testing::Contains("cpu"));
      }
}

TEST(ChannelTables, leave_what_is_computed_to_the_loops) {
  Trial t = trial(scaled_gelu(false), {1, 5, 1200}, {5, 1}, false);
  EXPECT_FALSE(ChannelTables::match(problem_of(t)).has_value());
  EXPECT_THAT(check(t, 0), testing::Contains("cpu"));
}

TEST(ChannelTables, leave_one_look_up_and_no_constant_to_read) {
  const Trial t = trial(scaled_gelu(false), {1, 5, 1200}, {5, 1}, true);
  const auto found = ChannelTables::match(problem_of(t));
  const ChannelTables& tables = value_of(found, "tables of five channels");
  EXPECT_EQ(tables.rest().program.print(), "(in0:u8) { return in0 }");
  EXPECT_EQ(tables.rest().present, std::vector<size_t>{0});
  const auto made = tables.make();
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].bytes->size(), 5u * 256);
}

/// Any chain of functions with channels' constants in it.
TEST(ChannelTables, agree_over_drawn_chains) {
  std::mt19937 draw(11);
  const auto pick = [&](int n) { return static_cast<int>(draw() % static_cast<uint32_t>(n)); };
  const char *one[] = {"gelu", "silu", "erf", "hard_swish", "sigmoid", "tanh", "relu", "exp", "abs"},
             *two[] = {"add", "mul", "sub", "max"};
  for (int i = 0; i < 60; ++i) {
    Text t(3);
    std::string q = "in0";
    for (int step = 1 + pick(3); step > 0; --step) {
      std::string v = t.dequantized(q, 0.01 * (1 + pick(9)), pick(256));
      for (int k = pick(4); k > 0; --k)
        v = pick(2) ? t.call(one[pick(std::size(one))], v) : t.call(two[pick(std::size(two))], v, pick(2) ? "in1" : "in2");
      q = t.quantized(v, 0.01 * (1 + pick(9)), pick(256));
    }
    const std::string program = t.program("in0:u8, in1:f32, in2:f32", q);
    Trial trial = ops::trial(program, {1 + pick(2), 1 + pick(4), 1024 + pick(900)}, {1, 1, 1}, true);
    trial.inputs[1] = random_tensor(DType::f32, {trial.bound.inputs[0].shape[1], 1}, 5, -2, 2);
    trial.bound.inputs[1].shape = trial.inputs[1].shape(), trial.bound.inputs[1].constant = trial.inputs[1];
    SCOPED_TRACE(program);
    EXPECT_THAT(check(trial, 0, 1 + pick(2)), testing::Contains("cpu"));
  }
}

}  // namespace
}  // namespace smelt::ops
