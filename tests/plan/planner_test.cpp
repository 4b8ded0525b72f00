// A planner by itself: segments with kernels and memory, for a target that no executor stands behind.
#include "plan/planner.h"

#include <algorithm>

#include "ops/core/machine.h"
#include "support/graphs.h"

namespace smelt::plan {

using namespace test;

namespace {

Planner planner(Graph g, Target target = {}, const Options& options = quick()) {
  return {std::move(g),
          std::make_shared<Context>(ops::this_machine(options.threads), options, std::move(target), tune::Cache::in_memory())};
}

TEST(Planner, gives_every_step_that_is_left_its_kernel_and_every_buffer_its_place) {
  const Planner p = planner(random_graph(7));
  const PlannedSegment planned = p.first(p.fixed_shapes().value());
  EXPECT_FALSE(planned.after);
  EXPECT_FALSE(planned.segment.steps.empty());
  for (const Step& step : planned.segment.steps) EXPECT_EQ(step.kernel != nullptr, step.kind == StepKind::kernel);
  for (const Buffer& b : planned.segment.buffers) {
    if (b.kind != BufferKind::arena || b.last < 0) continue;
    EXPECT_LE(b.offset + b.bytes, planned.segment.arena);
  }
}

TEST(Planner, knows_fixed_shapes_where_no_input_has_a_symbolic_extent) {
  EXPECT_TRUE(planner(attention_block(DType::f32)).fixed_shapes());
  EXPECT_FALSE(planner(symbolic_graph()).fixed_shapes());
}

TEST(Planner, stops_where_a_size_depends_on_data_and_goes_on_when_it_is_known) {
  const Planner p = planner(counting_graph());
  const std::vector<Shape> inputs{{20}};
  const PlannedSegment first = p.first(inputs);
  ASSERT_TRUE(first.after);
  ASSERT_EQ(first.data_dependent.size(), 1u);
  Environment env = *first.after;
  env.set(first.data_dependent[0], DType::i64, {1, 3});
  const PlannedSegment next = p.next(std::move(env));
  EXPECT_FALSE(next.after);
  EXPECT_EQ(next.known_outputs.size(), 1u) << "the count of the elements, a shape";
}

TEST(Planner, aligns_the_arena_as_the_target_says) {
  const Planner p = planner(random_graph(7), {.is_host = false, .block_alignment = 256, .caller_alignment = 16});
  const PlannedSegment planned = p.first(p.fixed_shapes().value());
  for (const Buffer& b : planned.segment.buffers) {
    if (b.kind != BufferKind::arena || b.last < 0) continue;
    EXPECT_EQ(b.offset % 256, 0);
  }
  for (const Port& input : planned.segment.externals) EXPECT_EQ(planned.segment.tensor(input.tensor).alignment, 16);
}

TEST(Planner, takes_kernels_of_a_segment_for_other_sizes_where_a_step_is_the_same) {
  const Planner p = planner(symbolic_graph());
  const std::vector<Shape> sizes{{2, 3, 4}};
  const PlannedSegment before = p.first(sizes);
  const PlannedSegment again = p.first(sizes, Measure::yes, {}, &before.segment);
  ASSERT_EQ(again.segment.steps.size(), before.segment.steps.size());
  for (size_t i = 0; i < again.segment.steps.size(); ++i)
    EXPECT_EQ(again.segment.steps[i].kernel, before.segment.steps[i].kernel);
}

}  // namespace
}  // namespace smelt::plan
