// Whether a region of channels-last images stays plain, by timings that the cache holds already.
#include "plan/layout_regions.h"

#include <gtest/gtest.h>

#include "ops/core/machine.h"
#include "plan/layouts.h"
#include "plan/shapes.h"
#include "support/graphs.h"

namespace smelt::plan {

using namespace test;

namespace {

/// Two convolutions, one behind the other, along one axis.
Graph convolutions() {
  Builder b;
  const ValueId x = b.input("x", to_sym({1, 16, 40}));
  const std::map<std::string, Attribute> same = {{"pads", std::vector<int64_t>{1, 1}}};
  const ValueId first =
      b.node("first", "Conv", {x, b.constant("w1", random_tensor({24, 16, 3}, 1))}, to_sym({1, 24, 40}), DType::f32, same);
  const ValueId second =
      b.node("second", "Conv", {first, b.constant("w2", random_tensor({8, 24, 3}, 2))}, to_sym({1, 8, 40}), DType::f32, same);
  b.g.add_output(second);
  return std::move(b.g);
}

struct Planned {
  Graph graph = convolutions();
  std::vector<NodeId> order = graph.topological();
  Segment segment;
  Planned() {
    Environment env(graph, order);
    env.set(graph.inputs()[0], DType::f32, {1, 16, 40});
    segment = plan_segment(graph, order, env, false);
  }
};

/// Enters the same time for every candidate of the segment's kernels.
void enter(tune::Cache& cache, const Segment& s, const ops::Machine& machine, double us) {
  for (const Step& step : s.steps) {
    const ops::Offer offer = ops::offer(bound_node(s, step, nullptr), machine);
    tune::CacheEntry entry{{offer.problem, tune::device_text(machine), machine.versions}, 2, {}};
    for (const ops::Candidate& c : offer.candidates) entry.timings.push_back({c.tactic, c.config, us, us, us, us, us, 5});
    cache.keep(std::move(entry));
  }
}

/// The nodes that stay plain where plain kernels take `plain_us` each, and all others 10 µs.
std::set<NodeId> decided(double plain_us) {
  const ops::Machine machine = ops::this_machine(1);
  const auto cache = tune::Cache::in_memory();
  tune::Tuner tuner(machine, 1, {}, cache);
  Planned planned;
  Segment channels_last = planned.segment;
  assign_layouts(channels_last, tuner);
  EXPECT_GT(channels_last.steps.size(), planned.segment.steps.size()) << "no image was reordered";
  enter(*cache, channels_last, machine, 10);
  enter(*cache, planned.segment, machine, plain_us);
  LayoutChoices choices;
  const bool changes = choices.decide(channels_last, planned.segment, tuner, nullptr);
  EXPECT_EQ(changes, !choices.plain().empty());
  EXPECT_FALSE(choices.decide(channels_last, planned.segment, tuner, nullptr)) << "a region is decided once";
  EXPECT_EQ(tuner.stats().measured, 0);
  return choices.plain();
}

TEST(LayoutRegions, stay_plain_where_that_is_clearly_faster_reorders_included) {
  EXPECT_EQ(decided(12).size(), 2u);  // two convolutions and two reorders take 40 µs, two plain convolutions 24 µs
}

TEST(LayoutRegions, are_channels_last_where_that_is_faster_or_about_the_same) {
  EXPECT_TRUE(decided(30).empty());
  EXPECT_TRUE(decided(19.5).empty());
}

TEST(LayoutRegions, are_not_decided_without_measuring) {
  const ops::Machine machine = ops::this_machine(1);
  tune::Tuner tuner(machine, 0, {}, tune::Cache::in_memory());
  Planned planned;
  Segment channels_last = planned.segment;
  assign_layouts(channels_last, tuner);
  LayoutChoices choices;
  EXPECT_FALSE(choices.decide(channels_last, planned.segment, tuner, nullptr));
}

TEST(LayoutRegions, that_stay_plain_have_no_reorders) {
  const ops::Machine machine = ops::this_machine(1);
  const tune::Tuner tuner(machine, 0, {}, tune::Cache::in_memory());
  Planned planned;
  const std::set<NodeId> all(planned.order.begin(), planned.order.end());
  assign_layouts(planned.segment, tuner, all);
  EXPECT_EQ(planned.segment.steps.size(), 2u);
}

}  // namespace
}  // namespace smelt::plan
