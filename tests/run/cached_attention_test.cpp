// An attention writes the caches that it reads where that is estimated to take less than copying them before it; no GPU is needed.
#include <algorithm>

#include "device/cuda/compiler.h"
#include "ops/cuda/gpu.h"
#include "plan/planner.h"
#include "run/plan.h"
#include "support/graphs.h"

namespace smelt::run {

using namespace test;

namespace {

struct Decoder {
  int64_t heads = 32, kv_heads = 32, fresh = 1;
  bool read_before = false;  // another reads the present before the attention
};

/// y = attention(relu(q), concat(past, relu(new))), both presents outputs.
Graph decoder(const Decoder& d) {
  constexpr int64_t past = 1024, depth = 128;
  Builder b;
  const SymShape queries = to_sym({2, d.heads, d.fresh, depth}), rows = to_sym({2, d.kv_heads, d.fresh, depth}),
                 before = to_sym({2, d.kv_heads, past, depth}), all = to_sym({2, d.kv_heads, past + d.fresh, depth});
  const auto fresh = [&](const std::string& name, const SymShape& shape) {
    return b.node(name + "_relu", "Relu", {b.input(name, shape, DType::f16)}, shape, DType::f16);
  };
  const ValueId q = fresh("q", queries);
  const auto present = [&](const std::string& name) {
    const ValueId now = fresh(name, rows);
    return b.node("present_" + name, "Concat", {b.input("past_" + name, before, DType::f16), now}, all, DType::f16,
                  {{"axis", int64_t{2}}});
  };
  const ValueId k = present("k"), v = present("v");
  ValueId attended = q;
  if (d.read_before) {
    const ValueId last = b.node("last", "ReduceMax", {k}, to_sym({1, 1, 1, 1}), DType::f16, {{"keepdims", int64_t{1}}});
    attended = b.node("shifted", "Add", {q, last}, queries, DType::f16);
  }
  b.output(b.node("attention", "Attention", {attended, k, v}, queries, DType::f16, {{"scale", 0.1f}}, smelt_domain));
  b.output(k);
  b.output(v);
  return std::move(b.g);
}

/// Steps by what they are: "CachedAttention", "Attention", "reorder" and others.
std::vector<std::string> steps_of(const Decoder& d, const std::string& arch) {
  Options o = quick();
  o.skip.clear();
  o.arch = arch;
  const auto plan = Plan::build(decoder(d), o);
  std::vector<std::string> kinds;
  for (const StepInfo& s : plan->steps()) kinds.push_back(s.problem.substr(0, s.problem.find(':')));
  return kinds;
}
bool has(const std::vector<std::string>& kinds, const std::string& kind) { return std::ranges::count(kinds, kind) > 0; }

class CachedAttention : public testing::Test {
 protected:
  void SetUp() override {
    if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  }
};

TEST_F(CachedAttention, is_one_step_with_its_caches) {
  for (const char* arch : {"sm_80", "sm_90a"})
    for (const int64_t kv_heads : {8, 32}) {
      const auto kinds = steps_of({.kv_heads = kv_heads}, arch);
      EXPECT_TRUE(has(kinds, "ai.smelt.CachedAttention")) << arch;
      EXPECT_FALSE(has(kinds, "reorder")) << arch;
    }
}

TEST_F(CachedAttention, is_apart_where_no_kernel_takes_it) {
  EXPECT_TRUE(has(steps_of({}, "sm_75"), "ai.smelt.Attention")) << "no cp.async";
  EXPECT_TRUE(has(steps_of({.fresh = 300}, "sm_90a"), "ai.smelt.Attention")) << "more rows than a tile has";
  EXPECT_TRUE(has(steps_of({.read_before = true}, "sm_90a"), "ai.smelt.Attention")) << "the cache is read before it";
}

/// A planner for an H100 that need not be there.
plan::Planner planner_of(Graph g) {
  ops::Machine machine;
  machine.gpu = ops::gpu_of_arch("sm_90a");
  Options o = quick();
  o.skip.clear();
  return {std::move(g), std::make_shared<plan::Context>(
                            machine, o, plan::Target{.is_host = false, .block_alignment = 256, .caller_alignment = 256},
                            tune::Cache::in_memory())};
}
bool has_step(const plan::Planner& p, const std::vector<Shape>& inputs, std::string_view op) {
  const plan::PlannedSegment planned = p.first(inputs);
  return std::ranges::any_of(planned.segment.steps, [&](const plan::Step& s) { return s.node && s.node->op == op; });
}

TEST_F(CachedAttention, is_decided_once_but_apart_for_shapes_that_no_kernel_takes) {
  Builder b;
  const Dim fresh("fresh"), past("past"), all("all");
  const SymShape rows{Dim(2), Dim(8), fresh, Dim(64)}, before{Dim(2), Dim(8), past, Dim(64)}, after{Dim(2), Dim(8), all, Dim(64)};
  const auto input = [&](const std::string& name, const SymShape& shape) { return b.input(name, shape, DType::f16); };
  const ValueId q = input("q", rows), k = input("k", rows), v = input("v", rows), past_k = input("past_k", before),
                past_v = input("past_v", before);
  const std::map<std::string, Attribute> along_rows{{"axis", int64_t{2}}};
  const ValueId present_k = b.node("present_k", "Concat", {past_k, k}, after, DType::f16, along_rows);
  const ValueId present_v = b.node("present_v", "Concat", {past_v, v}, after, DType::f16, along_rows);
  b.output(b.node("attention", "Attention", {q, present_k, present_v}, rows, DType::f16, {{"scale", 0.1f}}, smelt_domain));
  b.output(present_k);
  b.output(present_v);
  const plan::Planner p = planner_of(std::move(b.g));
  const auto shapes = [](int64_t fresh_rows, int64_t past_rows) {
    const Shape now{2, 8, fresh_rows, 64}, then{2, 8, past_rows, 64};
    return std::vector<Shape>{now, now, now, then, then};
  };
  EXPECT_TRUE(has_step(p, shapes(1, 2000), "CachedAttention"));
  EXPECT_TRUE(has_step(p, shapes(300, 10), "Attention")) << "more rows than a tile has";
  EXPECT_TRUE(has_step(p, shapes(1, 0), "Attention")) << "there is no past";
  EXPECT_TRUE(has_step(p, shapes(1, 90), "CachedAttention")) << "as it was decided";
}

}  // namespace
}  // namespace smelt::run
