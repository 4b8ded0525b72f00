// What a profiling tool hears of a run: a range a step, named after the plan's node.
#include "support/graphs.h"
#include "support/heard_ranges.h"

namespace smelt::run {

using namespace test;

namespace {

TEST(Ranges, name_the_steps_after_their_nodes) {
  Builder b;
  const ValueId x = b.input("x", to_sym({4, 6}));
  const ValueId c = b.constant("c", random_tensor({6, 6}, 1));
  const ValueId product = b.node("product", "MatMul", {x, c}, to_sym({4, 6}));
  b.output(b.node("normal", "Softmax", {product}, to_sym({4, 6})));
  const auto execution = Plan::build(std::move(b.g), quick())->execution();
  execution->bind(std::vector{random_tensor({4, 6}, 2)});
  ASSERT_TRUE(device::cuda::listen_to_ranges(test::listening));
  test::heard.clear();
  test::deaf = false;
  execution->run();
  test::deaf = true;  // other tests count what a run allocates
  std::vector<std::string> expected;
  for (const StepInfo& s : execution->steps()) {
    expected.push_back("push " + s.name);
    expected.emplace_back("pop");
  }
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(test::heard, expected);
}

}  // namespace
}  // namespace smelt::run
