// Shapes that grow turn by turn: the same plans as without what is kept, right results at every turn, and few nodes bound anew.
#include "plan/grown_shapes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ops/core/machine.h"
#include "plan/planner.h"
#include "support/graphs.h"

namespace smelt::plan {

using namespace test;

namespace {

Planner planner(const Graph& g) {
  const Options options = quick();
  auto context = std::make_shared<Context>(ops::this_machine(options.threads), options, Target{}, tune::Cache::in_memory());
  return {clone(g), std::move(context)};
}

/// As greedy decoding writes it: the last row through `layers` products, and what comes of it behind the rows so far. The row is cut
/// by a position that is computed from the rows' shape.
Graph decoder(int layers) {
  Builder b;
  const ValueId kept = b.input("kept", {Dim("k"), Dim(8)});
  const ValueId shape = b.node("shape", "Shape", {kept}, to_sym({2}), DType::i64);
  const ValueId rows = b.node("rows", "Gather", {shape, b.ints({0})}, to_sym({1}), DType::i64);
  const ValueId before = b.node("before", "Sub", {rows, b.ints({1})}, to_sym({1}), DType::i64);
  ValueId x = b.node("last", "Slice", {kept, before, rows, b.ints({0})}, to_sym({1, 8}));
  for (int i = 0; i < layers; ++i) {
    const std::string name = std::to_string(i);
    x = b.node("m" + name, "MatMul", {x, b.weights("w" + name, {8, 8}, DType::f32, 0.4)}, to_sym({1, 8}));
    x = b.node("t" + name, "Tanh", {x}, to_sym({1, 8}));
  }
  b.output(b.node("more", "Concat", {kept, x}, {Dim("j"), Dim(8)}, DType::f32, {{"axis", int64_t{0}}}));
  b.output(b.node("mean", "ReduceMean", {kept}, to_sym({1, 1}), DType::f32, {{"keepdims", int64_t{1}}}));
  return std::move(b.g);
}

/// How many kernels of `now` those before it do not have.
size_t bound_anew(const Segment& now, std::set<const ops::Kernel*>& seen) {
  return static_cast<size_t>(
      std::ranges::count_if(now.steps, [&](const Step& step) { return step.kernel && seen.insert(step.kernel.get()).second; }));
}

TEST(GrownShapes, bind_only_what_depends_on_what_grows) {
  constexpr int layers = 12, turns = 50;
  const Planner p = planner(decoder(layers));
  GrownShapes grown;
  std::vector<PlannedSegment> all;
  std::set<const ops::Kernel*> seen;
  size_t anew = 0, by_growing = 0;
  for (int64_t k = 2; k < 2 + turns; ++k) {
    const std::vector<Shape> shapes = {{k, 8}};
    by_growing += GrownShapes(grown).grow(p.graph(), p.order(), shapes) ? 1 : 0;
    all.push_back(p.first(shapes, Measure::no, {}, all.empty() ? nullptr : &all.back().segment, &grown));
    anew += bound_anew(all.back().segment, seen);
  }
  EXPECT_EQ(by_growing, turns - 1);
  const size_t each = 1;  // the mean of all rows
  EXPECT_LE(anew, 2 * layers + turns * each);
  EXPECT_GE(anew, turns * each);
}

TEST(GrownShapes, hold_for_extents_of_the_same_kind_only) {
  const Planner p = planner(decoder(1));
  GrownShapes grown;
  const auto serves = [&](int64_t k) {
    const std::vector<Shape> shapes = {{k, 8}};
    const bool by_growing = GrownShapes(grown).grow(p.graph(), p.order(), shapes) != nullptr;
    p.first(shapes, Measure::no, {}, nullptr, &grown);
    return by_growing;
  };
  EXPECT_FALSE(serves(1)) << "nothing is kept yet";
  EXPECT_FALSE(serves(2)) << "an extent of 1 became more";
  EXPECT_TRUE(serves(3));
  EXPECT_TRUE(serves(70)) << "by more than one";
  EXPECT_TRUE(serves(2)) << "fewer";
  EXPECT_FALSE(serves(1));
}

TEST(GrownShapes, are_not_kept_where_data_decides_sizes) {
  Builder b;
  const ValueId x = b.input("x", {Dim("n")});
  const ValueId found = b.node("found", "NonZero", {x}, {Dim(1), Dim("f")}, DType::i64);
  b.output(b.node("twice", "Add", {found, found}, {Dim(1), Dim("f")}, DType::i64));
  const Planner p = planner(std::move(b.g));
  GrownShapes grown;
  for (const int64_t n : {4, 5}) {
    const std::vector<Shape> shapes = {{n}};
    EXPECT_TRUE(p.first(shapes, Measure::no, {}, nullptr, &grown).after);
    EXPECT_EQ(GrownShapes(grown).grow(p.graph(), p.order(), shapes), nullptr);
  }
}

}  // namespace
}  // namespace smelt::plan
