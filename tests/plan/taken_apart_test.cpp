// What a plan for a GPU takes apart, and the option that leaves it whole.
#include <gtest/gtest.h>

#include "fuse/match/rewrite.h"
#include "plan/context.h"
#include "support/builder.h"
#include "support/graphs.h"

namespace smelt::plan {
namespace {

using fuse::Builder, fuse::count;
using test::for_arch, test::rewriting;

/// y = masks of queries; z = x · w · w · w, by a Loop of three turns.
Graph whole() {
  Builder body;
  const ValueId turn = body.input("i", {}, DType::i64), go = body.input("go", {}, DType::boolean);
  const ValueId before = body.input("before", {2}), w = body.input("w", {2});
  static_cast<void>(turn);
  body.output(go);
  body.output(body.node("times", "Mul", {before, w}, {2}));
  Builder b;
  b.output(b.node("y", "Einsum", {b.input("q", {2, 5, 4}), b.input("f", {2, 4, 3, 6})}, {2, 5, 3, 6}, DType::f32,
                  {{"equation", std::string("bqc,bchw->bqhw")}}));
  b.output(b.node("z", "Loop",
                  {b.constant("three", Tensor::scalar<int64_t>(3)), b.constant("on", Tensor::scalar(true)), b.input("x", {2}),
                   b.input("w", {2})},
                  {2}, DType::f32, {{"body", std::make_shared<Graph>(std::move(body.g))}, {"captured", int64_t{1}}}));
  return std::move(b.g);
}

/// Einsums and Loops that are left.
size_t left(const Options& options) {
  Graph g = whole();
  fuse::run(g, fuse_options(options));
  return count(g, "Einsum") + count(g, "Loop");
}

TEST(TakenApart, loops_and_einsums_of_a_gpus_plan_alone) {
  Options gpu = for_arch("sm_90a");
  EXPECT_EQ(left(gpu), 0u);
  gpu.take_apart = false;
  EXPECT_EQ(left(gpu), 2u);
  EXPECT_EQ(left(rewriting()), 2u);
}

TEST(TakenApart, one_of_them_by_its_name) {
  for (const char* name : {"unroll_loop", "einsum_groups"}) {
    Options gpu = for_arch("sm_90a");
    gpu.skip = {name};
    EXPECT_EQ(left(gpu), 1u);
    Options processor = rewriting();
    processor.skip = {name};
    EXPECT_EQ(left(processor), 2u);
  }
}

}  // namespace
}  // namespace smelt::plan
