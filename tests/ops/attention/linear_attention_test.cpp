// LinearAttention on the processor against the reference.
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;

struct Heads {
  int64_t queries, keys, values, key_size, value_size;
};

Trial linear(const std::string& rule, const Heads& h, int64_t batch, int64_t steps, bool past, bool wide_gates, bool keeps) {
  Trial t;
  t.node.op = "LinearAttention";
  t.node.domain = microsoft_domain;
  t.node.attrs = {{"update_rule", rule}, {"q_num_heads", h.queries}, {"kv_num_heads", h.values}};
  const bool gated = rule.starts_with("gated"), delta = rule.ends_with("delta");
  t.add(random_tensor(DType::f32, {batch, steps, h.queries * h.key_size}, 1), false);
  t.add(random_tensor(DType::f32, {batch, steps, h.keys * h.key_size}, 2, -0.2, 0.2), false);
  t.add(random_tensor(DType::f32, {batch, steps, h.values * h.value_size}, 3), false);
  t.add(past ? random_tensor(DType::f32, {batch, h.values, h.key_size, h.value_size}, 4) : Tensor(), false);
  t.add(gated ? random_tensor(DType::f32, {batch, steps, h.values * (wide_gates ? h.key_size : 1)}, 5, -2, 0) : Tensor(), false);
  t.add(delta ? random_tensor(DType::f32, {batch, steps, wide_gates ? h.values : 1}, 6, 0, 0.5) : Tensor(), false);
  t.result(DType::f32, {batch, steps, std::max(h.queries, h.values) * h.value_size});
  if (keeps) t.result(DType::f32, {batch, h.values, h.key_size, h.value_size});
  return t;
}

TEST(LinearAttention, has_a_kernel_for_every_rule_and_heads_of_every_kind) {
  for (const char* rule : {"linear", "gated", "delta", "gated_delta"})
    for (const Heads& h :
         {Heads{4, 4, 4, 16, 64}, Heads{4, 2, 2, 9, 37}, Heads{2, 2, 4, 5, 130}, Heads{1, 1, 1, 1, 1}, Heads{6, 1, 3, 8, 7}})
      for (const bool some : {false, true})
        for (const int threads : {1, 3}) {
          Trial t = linear(rule, h, 2, some ? 5 : 1, some, some, threads == 1);
          EXPECT_THAT(check(t, 2e-5, threads), ElementsAre("cpu")) << rule << ' ' << h.queries << ' ' << h.value_size;
        }
}

TEST(LinearAttention, keeps_its_state) {
  Trial t = linear("gated_delta", {4, 2, 2, 9, 37}, 2, 7, true, true, true);
  t.bound.node = &t.node;
  const std::vector<Tensor> want = evaluate(t.node, t.inputs);
  const Offer o = offer(t.bound, Machine{});
  ASSERT_EQ(o.candidates[0].tactic, "cpu");
  const std::vector<Tensor> got = Prepared(t, o.candidates[0]).run(t.inputs);
  for (size_t i = 0; i < 2; ++i) EXPECT_LE(error(got[i], want[i]), 2e-5) << i;
}

}  // namespace
}  // namespace smelt::ops
