// Whether a region of channels-last images stays plain, by timings that the cache holds already.
#include "plan/layout_regions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "ops/core/machine.h"
#include "plan/layout_costs.h"
#include "plan/layouts.h"
#include "plan/shapes.h"
#include "support/graphs.h"

namespace smelt::plan {

using namespace test;

namespace {

/// Two convolutions, one behind the other, along one axis.
Graph two_convolutions() {
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
  Graph graph;
  std::vector<NodeId> order = graph.topological();
  Segment segment;
  explicit Planned(Graph g = two_convolutions()) : graph(std::move(g)) {
    Environment env(graph, order);
    const Value& x = graph.value(graph.inputs()[0]);
    env.set(graph.inputs()[0], x.type, to_shape(*x.shape));
    segment = plan_segment(graph, order, env, false);
  }
};

/// Microseconds of a candidate of a problem.
using World = std::function<double(const ops::Offer&, const ops::Candidate&, bool plain)>;

/// Enters what the segment's kernels take in that world; the result: their problems.
std::vector<std::string> enter(tune::Cache& cache, const Segment& s, const ops::Machine& machine, bool plain,
                               const World& world) {
  std::vector<std::string> problems;
  for (const Step& step : s.steps) {
    if (step.kind != StepKind::kernel) continue;
    const ops::Offer offer = ops::offer(bound_node(s, step, nullptr), machine);
    problems.push_back(offer.problem);
    tune::CacheEntry entry{{offer.problem, tune::device_text(machine), machine.versions}, 3, {}};
    for (const ops::Candidate& c : offer.candidates) {
      const double us = world(offer, c, plain);
      entry.timings.push_back({c.tactic, c.config, us, us, us, us, us, 5});
    }
    cache.keep(std::move(entry));
  }
  return problems;
}

/// What the segment's kernels take one by one.
double total_us(const Segment& s, tune::Tuner& tuner) {
  double total = 0;
  for (const Step& step : s.steps) {
    if (step.kind != StepKind::kernel) continue;
    const ops::BoundNode node = bound_node(s, step, nullptr);
    total += tuner.time_us(node, ops::offer(node, tuner.machine()));
  }
  return total;
}

struct Decided {
  std::set<NodeId> plain;                // nodes
  double all_plain_us, all_last_us, us;  // of the graph with plain images alone, with channels-last ones, and as decided
};

/// What is decided for a graph whose images are one region, in a world where a race gives `race_factor` times the sums for
/// channels-last images.
Decided decided(Graph graph, const World& world, int level = 1, double race_factor = 1) {
  const ops::Machine machine = ops::this_machine(1);
  const auto cache = tune::Cache::in_memory();
  tune::Tuner tuner(machine, level, {}, cache);
  const Planned planned(std::move(graph));
  Segment channels_last = planned.segment;
  assign_layouts(channels_last, tuner);
  EXPECT_GT(channels_last.steps.size(), planned.segment.steps.size()) << "no image was reordered";
  const auto last = enter(*cache, channels_last, machine, false, world),
             plain = enter(*cache, planned.segment, machine, true, world);
  Decided d{{}, total_us(planned.segment, tuner), race_factor * total_us(channels_last, tuner), 0};
  tune::CacheEntry race{{layout_race(last, plain), tune::device_text(machine), machine.versions}, 3, {}};
  for (const auto& [way, us] : {std::pair("channels-last", d.all_last_us), std::pair("plain", d.all_plain_us)})
    race.timings.push_back({way, "", us, us, us, us, us, 5});
  cache->keep(std::move(race));
  LayoutChoices choices;
  const bool changes = choices.decide(channels_last, planned.segment, tuner, nullptr);
  d.plain = choices.plain();
  d.us = d.plain.empty() ? d.all_last_us : d.all_plain_us;
  EXPECT_EQ(changes, !d.plain.empty());
  EXPECT_FALSE(choices.decide(channels_last, planned.segment, tuner, nullptr)) << "a region is decided once";
  EXPECT_EQ(tuner.stats().measured, 0);
  Segment laid_out = planned.segment;
  assign_layouts(laid_out, tuner, d.plain);
  choices.tell(laid_out, tuner);
  for (const Step& step : laid_out.steps) {
    if (step.kind != StepKind::kernel) continue;
    EXPECT_TRUE(step.region) << step.node->op;
    if (!step.region) continue;
    EXPECT_EQ(step.region->runs_plain, !d.plain.empty());
    EXPECT_GT(step.region->channels_last_us, 0);
  }
  return d;
}

/// The nodes that stay plain where plain kernels take `plain_us` each, and all others 10 µs.
std::set<NodeId> decided(double plain_us, double race_factor = 1) {
  const World world = [&](const ops::Offer&, const ops::Candidate&, bool plain) { return plain ? plain_us : 10; };
  return decided(two_convolutions(), world, 1, race_factor).plain;
}

TEST(LayoutRegions, stay_plain_where_that_is_clearly_faster_reorders_included) {
  EXPECT_EQ(decided(12).size(), 2u);  // two convolutions and two reorders take 40 µs, two plain convolutions 24 µs
}

TEST(LayoutRegions, are_channels_last_where_that_is_faster_or_about_the_same) {
  EXPECT_TRUE(decided(30).empty());
  EXPECT_TRUE(decided(19.8).empty());
}

TEST(LayoutRegions, race_where_the_sums_of_their_steps_are_close) {
  EXPECT_TRUE(decided(19, 0.9).empty());
  EXPECT_EQ(decided(21, 1.1).size(), 2u);
}

TEST(LayoutRegions, race_though_plain_images_win_by_the_sums) {
  EXPECT_EQ(decided(12).size(), 2u);
  EXPECT_TRUE(decided(12, 0.6).empty());  // 24 µs one by one, and one behind the other against 24
}

TEST(LayoutRegions, take_more_to_stay_plain_by_a_race_beside_other_work_or_by_sums_alone) {
  using By = LayoutTimes::By;
  EXPECT_TRUE(plain_wins({10, 9.7, By::race}));
  EXPECT_FALSE(plain_wins({10, 9.9, By::race}));
  EXPECT_FALSE(plain_wins({10, 8.5, By::race_under_load}));
  EXPECT_TRUE(plain_wins({10, 7.9, By::race_under_load}));
  EXPECT_FALSE(plain_wins({10, 8.5, By::sums}));
  EXPECT_TRUE(plain_wins({10, 8.2, By::sums}));
}

/// A chain of convolutions, activations and poolings of an image, or along one axis.
Graph chain(std::mt19937& random) {
  const auto draw = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(1, most)(random); };
  const size_t axes = static_cast<size_t>(draw(2));
  Shape shape{1, draw(24), 6 + draw(20)};
  if (axes == 2) shape.push_back(6 + draw(20));
  Builder b;
  ValueId at = b.input("x", to_sym(shape));
  const auto add = [&](const std::string& op, std::vector<ValueId> inputs, std::map<std::string, Attribute> attributes = {}) {
    at = b.node("n" + std::to_string(b.g.node_count()), op, std::move(inputs), to_sym(shape), DType::f32, std::move(attributes));
  };
  const auto convolve = [&](int64_t to) {
    const int64_t window = draw(2) == 1 ? 1 : 3;
    Shape w{to, shape[1]};
    w.resize(2 + axes, window);
    shape[1] = to;
    add("Conv", {at, b.constant("w" + std::to_string(b.g.node_count()), random_tensor(w, 1))},
        {{"pads", std::vector<int64_t>(2 * axes, window / 2)}});
  };
  convolve(1 + draw(40));
  for (int64_t more = draw(4); more > 0; --more) {
    switch (draw(axes == 2 ? 3 : 2)) {
      case 1: convolve(1 + draw(40)); break;
      case 2: add("Relu", {at}); break;
      default:
        add("MaxPool", {at}, {{"kernel_shape", std::vector<int64_t>(axes, 3)}, {"pads", std::vector<int64_t>(2 * axes, 1)}});
    }
  }
  b.g.add_output(at);
  return std::move(b.g);
}

/// In worlds of random times, where kernels that reorder take no less than what they reorder around, and estimates are not wrong
/// beyond all measure.
TEST(LayoutRegions, are_never_slower_than_plain_images) {
  int kept = 0, refused = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const World world = [seed](const ops::Offer& offer, const ops::Candidate& c, bool plain) {
      const double share =
          static_cast<double>(std::hash<std::string>()(offer.problem + c.tactic + c.config + std::to_string(seed)) % 1000) / 1000;
      if (!plain) return 1 + 9 * share;
      if (c.config.ends_with("reordered")) return 10 + 10 * share;
      const auto best = std::ranges::min_element(offer.candidates, {}, &ops::Candidate::estimate_us);
      return c.estimate_us > 3 * best->estimate_us ? 100.0 : 1 + 19 * share;
    };
    SCOPED_TRACE("seed " + std::to_string(seed));
    const double factor = std::uniform_real_distribution(0.8, 1.25)(random);
    const Decided d = decided(chain(random), world, 1 + static_cast<int>(seed % 3), factor);
    EXPECT_LE(d.us, 1.03 * d.all_plain_us);
    ++(d.plain.empty() ? kept : refused);
  }
  EXPECT_GT(kept, 5);
  EXPECT_GT(refused, 5);
}

TEST(LayoutRegions, are_decided_by_estimates_without_measuring) {
  const ops::Machine machine = ops::this_machine(1);
  tune::Tuner tuner(machine, 0, {}, tune::Cache::in_memory());
  Planned planned;
  Segment channels_last = planned.segment;
  assign_layouts(channels_last, tuner);
  LayoutChoices choices;
  EXPECT_FALSE(choices.decide(channels_last, planned.segment, tuner, nullptr)) << "some microseconds are not worth it";
  choices.tell(channels_last, tuner);
  for (const Step& step : channels_last.steps) {
    if (!step.region) continue;
    EXPECT_EQ(step.region->found, "estimated");
    EXPECT_GT(step.region->channels_last_us, 0);
    EXPECT_FALSE(step.region->runs_plain);
  }
  EXPECT_TRUE(std::ranges::any_of(channels_last.steps, [](const Step& step) { return step.region != nullptr; }));
}

TEST(LayoutRegions, estimates_have_to_differ_by_far) {
  using By = LayoutTimes::By;
  const auto wins = [](double channels_last, double plain, By by) { return plain_wins({channels_last, plain, by}); };
  EXPECT_TRUE(wins(100, 45, By::estimates));
  EXPECT_FALSE(wins(100, 55, By::estimates));
  EXPECT_FALSE(wins(30, 12, By::estimates)) << "less than 20 microseconds are saved";
  EXPECT_TRUE(wins(30, 12, By::sums));
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
