// An attention writes the caches that it reads where that is estimated to take less than copying them before it; no GPU is needed.
#include <algorithm>

#include "device/cuda/compiler.h"
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

}  // namespace
}  // namespace smelt::run
