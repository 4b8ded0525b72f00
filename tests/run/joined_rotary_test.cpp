// Queries and keys are turned by one kernel where both have the same tables; no GPU is needed.
#include <algorithm>

#include "device/cuda/compiler.h"
#include "run/plan.h"
#include "support/graphs.h"

namespace smelt::run {

using namespace test;

namespace {

enum class Tables { same, own };
enum class Readers { none, of_the_first_between };

/// Both x in the form of ai.smelt, the keys of fewer heads.
Graph rotary(Tables tables, Readers readers, int64_t interleaved_keys) {
  Builder b;
  const SymShape queries = to_sym({2, 8, 40, 64}), keys = to_sym({2, 2, 40, 64}), table = to_sym({40, 32});
  const auto turned = [&](const std::string& name, ValueId x, const SymShape& shape, ValueId cos, ValueId sin,
                          int64_t interleaved) {
    return b.node(name, "RotaryEmbedding", {x, cos, sin}, shape, DType::f16, {{"interleaved", interleaved}}, smelt_domain);
  };
  const auto input = [&](const std::string& name, const SymShape& shape) { return b.input(name, shape, DType::f16); };
  const ValueId cos = input("cos", table), sin = input("sin", table);
  const ValueId q = turned("turn_q", input("q", queries), queries, cos, sin, 0);
  b.output(q);
  ValueId k = input("k", keys);
  if (readers == Readers::of_the_first_between) {
    const ValueId most = b.node("most", "ReduceMax", {q}, to_sym({1, 1, 1, 1}), DType::f16, {{"keepdims", int64_t{1}}});
    k = b.node("shifted", "Add", {k, most}, keys, DType::f16);
  }
  b.output(turned("turn_k", k, keys, cos, tables == Tables::same ? sin : input("other", table), interleaved_keys));
  return std::move(b.g);
}

size_t joined(Graph g) {
  Options o = quick();
  o.skip.clear();
  o.arch = "sm_90a";
  const auto plan = Plan::build(std::move(g), o);
  return static_cast<size_t>(
      std::ranges::count_if(plan->steps(), [](const StepInfo& s) { return s.problem.starts_with("ai.smelt.JoinedRotary:"); }));
}

TEST(JoinedRotary, is_one_kernel_by_the_same_tables_alone) {
  if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  EXPECT_EQ(joined(rotary(Tables::same, Readers::none, 0)), 1u);
  EXPECT_EQ(joined(rotary(Tables::own, Readers::none, 0)), 0u);
  EXPECT_EQ(joined(rotary(Tables::same, Readers::of_the_first_between, 0)), 0u) << "keys that depend on the queries";
  EXPECT_EQ(joined(rotary(Tables::same, Readers::none, 1)), 0u) << "pairs that lie otherwise";
}

}  // namespace
}  // namespace smelt::run
