// Fused nodes that lose against their parts: the timings say so, and the parts compute the same.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "run/execution.h"
#include "support/graphs.h"
#include "support/random.h"
#include "tune/cache.h"

namespace smelt::run {

using namespace test;

namespace {

/// gelu(layer_norm(x · w + b + r)) · mask, with the rows' means beside it.
Graph chain() {
  Builder b;
  const ValueId x = b.input("x", to_sym({24, 48})), r = b.input("r", to_sym({24, 64}));
  const SymShape rows = to_sym({24, 64});
  const ValueId product = b.node("product", "MatMul", {x, b.constant("w", random_tensor({48, 64}, 1))}, rows);
  const ValueId biased = b.node("biased", "Add", {product, b.constant("b", random_tensor({64}, 2))}, rows);
  const ValueId sum = b.node("sum", "Add", {biased, r}, rows);
  const ValueId norm =
      b.node("norm", "LayerNormalization",
             {sum, b.constant("gamma", random_tensor({64}, 3)), b.constant("beta", random_tensor({64}, 4))}, rows);
  const ValueId gelu = b.node("gelu", "Gelu", {norm}, rows);
  const ValueId masked = b.node("masked", "Mul", {gelu, b.constant("mask", random_tensor({24, 1}, 5))}, rows);
  const ValueId squared = b.node("squared", "Mul", {masked, masked}, rows);
  const ValueId mean =
      b.node("mean", "ReduceMean", {squared, b.ints({1})}, to_sym({24, 1}), DType::f32, {{"keepdims", int64_t{1}}});
  const ValueId root = b.node("root", "Sqrt", {mean}, to_sym({24, 1}));
  const ValueId scaled = b.node("scaled", "Div", {masked, root}, rows);
  const ValueId waved = b.node("waved", "Sin", {scaled}, rows);
  b.output(waved);
  b.output(root);
  return std::move(b.g);
}

std::vector<StepInfo> steps_of(const std::shared_ptr<const Plan>& plan, std::span<const Tensor> inputs) {
  ExecutionImpl execution(std::dynamic_pointer_cast<const PlanImpl>(plan));
  execution.bind(inputs);
  return execution.steps();
}

std::vector<Tensor> results_of(const std::shared_ptr<const Plan>& plan, std::span<const Tensor> inputs) {
  ExecutionImpl execution(std::dynamic_pointer_cast<const PlanImpl>(plan));
  execution.bind(inputs);
  execution.run();
  std::vector<Tensor> results;
  for (const Tensor& t : execution.outputs()) results.push_back(t.clone());
  return results;
}

class FusedChoices : public testing::Test {
 protected:
  FusedChoices() : folder_(std::filesystem::path(testing::TempDir()) / ("smelt_fused_choices_" + std::to_string(getpid()))) {}
  ~FusedChoices() override { std::filesystem::remove_all(folder_); }
  /// The cache folder's timings then say that every fused problem of the graph takes `fused_us`, and all its parts together
  /// `apart_us`.
  void time(const Graph& g, std::span<const Tensor> inputs, double fused_us, double apart_us) const {
    std::set<std::string> fused;
    // A node that runs apart already has no step of its own, but a race in the cache; its parts keep their times.
    for (const StepInfo& s : steps_of(Plan::build(clone(g), options()), inputs))
      if (s.part < 0 && s.op.starts_with(smelt_domain)) fused.insert(s.problem);
    const auto cache = tune::Cache::open_or_throw(tune::cache_path(folder_));
    std::vector<tune::CacheEntry> entries = cache->list();
    cache->clear();
    const auto timing = [](const std::string& tactic, const std::string& config, double us) {
      return tune::Timing{tactic, config, us, us, us, us, us, 5};
    };
    constexpr std::array<std::string_view, 2> races = {"fused or apart: ", "fused or in plainest parts: "};
    const auto race_of = [&](const std::string& problem) {
      const auto at = std::ranges::find_if(races, [&](std::string_view race) { return problem.starts_with(race); });
      return at == races.end() ? std::string_view() : *at;
    };
    for (const tune::CacheEntry& e : entries)
      if (const std::string_view race = race_of(e.key.problem); !race.empty()) fused.insert(e.key.problem.substr(race.size()));
    ASSERT_FALSE(entries.empty());
    const tune::CacheKey any = entries.front().key;
    for (tune::CacheEntry& e : entries) {
      if (fused.contains(e.key.problem))
        for (tune::Timing& t : e.timings) t = timing(t.tactic, t.config, fused_us);
      if (race_of(e.key.problem).empty()) cache->keep(std::move(e));
    }
    for (const std::string& problem : fused)
      for (const std::string_view race : races)
        cache->keep({{std::string(race) + problem, any.device, any.versions},
                     3,
                     {timing("fused", "", fused_us), timing("apart", "", apart_us)}});
  }
  const std::filesystem::path& folder() const { return folder_; }
  Options options() const {
    Options o;
    o.tune_new_shapes = true;
    o.tuning_level = 3;  // compares whatever the estimates say
    o.threads = 1;
    o.cache_dir = folder_.string();
    return o;
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(FusedChoices, run_apart_where_the_parts_are_faster_and_compute_the_same) {
  const Graph g = chain();
  const std::vector<Tensor> inputs{random_tensor({24, 48}, 7), random_tensor({24, 64}, 8)};
  time(g, inputs, 1e6, 1);
  const auto plan = Plan::build(clone(g), options());
  const std::vector<StepInfo> steps = steps_of(plan, inputs);
  std::set<std::string> apart;
  for (const StepInfo& s : steps) {
    if (s.part < 0) continue;
    apart.insert(s.name);
    ASSERT_TRUE(s.fused);
    EXPECT_TRUE(s.fused->runs_apart);
    EXPECT_LT(s.fused->apart_us, s.fused->fused_us);
    EXPECT_FALSE(s.sources.empty()) << "a part stands for the fused node's sources";
  }
  EXPECT_GE(apart.size(), 2u) << "the product's and the normalisation's programs are steps of their own";
  const std::vector<Tensor> found = results_of(plan, inputs), expected = ops::evaluate(g, inputs);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) expect_same(found[i], expected[i], 1e-5);
}

TEST_F(FusedChoices, stay_fused_where_the_parts_are_not_clearly_faster) {
  const Graph g = chain();
  const std::vector<Tensor> inputs{random_tensor({24, 48}, 7), random_tensor({24, 64}, 8)};
  time(g, inputs, 100, 98);
  for (const StepInfo& s : steps_of(Plan::build(clone(g), options()), inputs)) EXPECT_LT(s.part, 0) << s.name;
}

TEST_F(FusedChoices, stay_as_they_were_told_apart_by_the_times_of_their_parts) {
  const Graph g = chain();
  const std::vector<Tensor> inputs{random_tensor({24, 48}, 7), random_tensor({24, 64}, 8)};
  time(g, inputs, 100, 98);
  const auto cache = tune::Cache::open_or_throw(tune::cache_path(folder()));
  // Of each problem that is no race, so that the sum of one or more parts decides.
  const auto set = [&](double fused_us, double part_us, bool keep_races) {
    std::set<std::string> fused;
    for (const StepInfo& s : steps_of(Plan::build(clone(g), options()), inputs)) fused.insert(s.problem);
    std::vector<tune::CacheEntry> entries = cache->list();
    cache->clear();
    size_t races = 0;
    for (tune::CacheEntry& e : entries) {
      const bool is_race = e.key.problem.starts_with("fused or");
      races += is_race;
      if (!is_race)
        for (tune::Timing& t : e.timings) {
          const double us = fused.contains(e.key.problem) ? fused_us : part_us;
          t = {t.tactic, t.config, us, us, us, us, us, 5};
        }
      if (!is_race || keep_races) cache->keep(std::move(e));
    }
    return races;
  };
  set(1, 1e6, false);
  const auto are_fused = [&] {
    return std::ranges::all_of(steps_of(Plan::build(clone(g), options()), inputs), [](const StepInfo& s) { return s.part < 0; });
  };
  ASSERT_TRUE(are_fused());
  EXPECT_GE(set(1e6, 1, true), 2u) << "each comparison is kept";
  EXPECT_TRUE(are_fused()) << "a later build decides as the first did";
  set(1e6, 1, false);
  EXPECT_FALSE(are_fused()) << "without them it would not";
}

TEST_F(FusedChoices, are_kept_for_other_shapes) {
  Builder b;
  const SymShape rows = {Dim("n"), 64};
  const ValueId x = b.input("x", {Dim("n"), 48});
  const ValueId product = b.node("product", "MatMul", {x, b.constant("w", random_tensor({48, 64}, 1))}, rows);
  b.output(b.node("active", "Gelu", {product}, rows));
  const Graph g = std::move(b.g);
  const std::vector<Tensor> first{random_tensor({24, 48}, 7)}, second{random_tensor({31, 48}, 8)};
  time(g, first, 1e6, 1);
  ExecutionImpl execution(std::dynamic_pointer_cast<const PlanImpl>(Plan::build(clone(g), options())));
  for (const std::vector<Tensor>* inputs : {&first, &second, &first}) {
    execution.bind(*inputs);
    execution.run();
    EXPECT_TRUE(std::ranges::any_of(execution.steps(), [](const StepInfo& s) { return s.part >= 0; }));
    expect_same(execution.outputs()[0], ops::evaluate(g, *inputs)[0], 1e-5);
  }
}

/// Two convolutions of 8-bit integers behind each other, whose scales come from their images, and a joint of pointwise nodes.
Graph dynamic_convolutions() {
  Builder b;
  const SymShape image = to_sym({1, 32, 12, 12});
  ValueId x = b.input("x", image);
  for (int i = 0; i < 2; ++i) {
    const std::string n = std::to_string(i);
    const ValueId q = b.g.add_value("q" + n, DType::u8, image), scale = b.g.add_value("scale" + n, DType::f32, SymShape{}),
                  zero = b.g.add_value("zero" + n, DType::u8, SymShape{});
    b.g.add_node({.op = "DynamicQuantizeLinear", .name = "quantize" + n, .inputs = {x}, .outputs = {q, scale, zero}});
    const ValueId w = b.constant("w" + n, random_tensor(DType::u8, {32, 32, 3, 3}, 11 + static_cast<uint32_t>(i), 0, 7));
    const ValueId three = b.constant("three" + n, Tensor::scalar(3.0F).cast(DType::u8));
    const ValueId sum =
        b.node("conv" + n, "ConvInteger", {q, w, zero, three}, image, DType::i32, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
    const ValueId real = b.node("real" + n, "Cast", {sum}, image, DType::f32, {{"to", int64_t{1}}});
    const ValueId both = b.node("both" + n, "Mul", {scale, b.constant("ws" + n, Tensor::scalar(0.02F))}, SymShape{});
    const ValueId scaled = b.node("scaled" + n, "Mul", {real, both}, image);
    const ValueId biased = b.node("biased" + n, "Add", {scaled, b.constant("b" + n, random_tensor({1, 32, 1, 1}, 5))}, image);
    x = b.node("active" + n, "Relu", {biased}, image);
  }
  b.output(x);
  return std::move(b.g);
}

TEST_F(FusedChoices, compare_convolutions_in_8_bits_whose_images_lie_channels_last) {
  const Graph g = dynamic_convolutions();
  const std::vector<Tensor> inputs{random_tensor({1, 32, 12, 12}, 7)};
  time(g, inputs, 1e6, 1);
  const auto plan = Plan::build(clone(g), options());
  std::set<std::string> apart;
  for (const StepInfo& s : steps_of(plan, inputs))
    if (s.part >= 0) apart.insert(s.op);
  EXPECT_TRUE(apart.contains("ConvInteger"));
  expect_same(results_of(plan, inputs)[0], ops::evaluate(g, inputs)[0], 1e-4);
}

TEST_F(FusedChoices, have_times_or_a_reason_also_where_nothing_is_measured) {
  for (const Graph& g : {chain(), dynamic_convolutions()}) {
    std::vector<Tensor> inputs;
    for (const ValueId v : g.inputs()) {
      Shape shape;
      for (const Dim& d : *g.value(v).shape) shape.push_back(d.value);
      inputs.push_back(random_tensor(shape, 7));
    }
    Options o = options();
    o.tuning_level = 0;
    size_t fused = 0;
    for (const StepInfo& s : steps_of(Plan::build(clone(g), o), inputs)) {
      if (!s.op.starts_with(smelt_domain) || s.op.ends_with("Reorder")) continue;
      ++fused;
      EXPECT_TRUE(s.fused || std::ranges::any_of(s.others, [](const TacticNote& n) { return n.code == "not_compared"; }))
          << s.problem;
    }
    EXPECT_GE(fused, 2u);
  }
}

}  // namespace
}  // namespace smelt::run
