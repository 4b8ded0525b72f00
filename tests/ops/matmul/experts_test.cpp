// MoE and QMoE on the processor against the reference.
#include "ops/one_store.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Experts {
  int64_t tokens, experts, hidden, inner, k;
};

Trial experts(const std::string& op, const std::string& activation, const Experts& e) {
  Trial t;
  t.node.op = op;
  t.node.domain = microsoft_domain;
  t.node.attrs = {{"activation_type", activation}, {"k", e.k}, {"normalize_routing_weights", e.k % 2}};
  if (activation == "swiglu") {
    t.node.attrs["swiglu_fusion"] = int64_t{1};
    t.node.attrs["activation_alpha"] = 1.5f;
    t.node.attrs["activation_beta"] = 1.0f;
    if (e.k == 2) t.node.attrs["swiglu_limit"] = 2.0f;
  }
  t.add(random_tensor(DType::f32, {e.tokens, e.hidden}, 1), false);
  t.add(random_tensor(DType::f32, {e.tokens, e.experts}, 2, -2, 2), false);
  t.result(DType::f32, {e.tokens, e.hidden});
  return t;
}

Trial of_floats(const std::string& activation, const Experts& e, bool biased, bool constant) {
  Trial t = experts("MoE", activation, e);
  const int64_t wide = e.inner * (activation == "swiglu" ? 2 : 1);
  t.add(random_tensor(DType::f32, {e.experts, wide, e.hidden}, 3, -0.3, 0.3), constant);
  t.add(biased ? random_tensor(DType::f32, {e.experts, wide}, 4) : Tensor(), constant);
  t.add(random_tensor(DType::f32, {e.experts, e.hidden, e.inner}, 5, -0.3, 0.3), constant);
  t.add(biased ? random_tensor(DType::f32, {e.experts, e.hidden}, 6) : Tensor(), constant);
  return t;
}

Trial of_bits(const std::string& activation, const Experts& e, int64_t bits, int64_t block, bool zeros) {
  Trial t = experts("QMoE", activation, e);
  t.node.attrs["expert_weight_bits"] = bits;
  if (block > 0) t.node.attrs["block_size"] = block;
  const int64_t wide = e.inner * (activation == "swiglu" ? 2 : 1);
  const auto bytes = [&](Shape s, uint32_t seed) {
    s.back() = (s.back() * bits + 7) / 8;
    return random_tensor(DType::u8, s, seed, 0, 255.99);
  };
  const auto layer = [&](int64_t n, int64_t k, uint32_t seed) {
    t.add(bytes({e.experts, n, k}, seed), true);
    t.add(random_tensor(DType::f32, block > 0 ? Shape{e.experts, n, k / block} : Shape{e.experts, n}, seed + 1, 0.001, 0.02),
          true);
    t.add(random_tensor(DType::f32, {e.experts, n}, seed + 2), true);
  };
  layer(wide, e.hidden, 10);
  layer(e.hidden, e.inner, 20);
  for (int i = 0; i < 3; ++i) t.add(Tensor(), false);
  if (!zeros) return t;
  t.add(bytes(block > 0 ? Shape{e.experts, wide, e.hidden / block} : Shape{e.experts, wide}, 30), true);
  t.add(bytes(block > 0 ? Shape{e.experts, e.hidden, e.inner / block} : Shape{e.experts, e.hidden}, 31), true);
  return t;
}

TEST(Experts, layers_of_other_widths_and_bits_share_no_form_of_one_constant) {
  // Zero points of 4 bits of 64 rows are as many bytes as those of 8 bits of 32; rows of two blocks of 4 bits as rows of one.
  Trial bits = of_bits("relu", {5, 3, 32, 64, 2}, 8, 0, true);
  bits.node.attrs["fc1_expert_weight_bits"] = int64_t{4};
  bits.inputs[2] = random_tensor(DType::u8, {3, 64, 16}, 40, 0, 255.99);
  bits.bound.inputs[2].shape = {3, 64, 16}, bits.bound.inputs[2].constant = bits.inputs[2];
  bits.inputs[11] = random_tensor(DType::u8, {3, 32}, 41, 0, 255.99);
  bits.bound.inputs[11].shape = {3, 32}, bits.bound.inputs[11].constant = bits.inputs[11];
  Trial blocks = of_bits("swiglu", {5, 3, 64, 32, 2}, 4, 32, true);
  for (Trial* t : {&bits, &blocks}) {
    share(*t, 11, *t, 12);
    WeightStore store;
    const Tensor y = run_sharing(*t, store, "cpu");
    ASSERT_TRUE(y.valid());
    EXPECT_LE(error(y, expected(*t)), 2e-5);
  }
}

TEST(Experts, of_floats_have_a_kernel_for_every_activation) {
  for (const char* activation : {"relu", "gelu", "silu", "identity", "swiglu"})
    for (const Experts& e :
         {Experts{1, 4, 32, 64, 2}, Experts{7, 3, 33, 31, 1}, Experts{40, 4, 64, 130, 3}, Experts{5, 1, 1, 1, 1}})
      for (const bool biased : {false, true})
        for (const int threads : {1, 3}) {
          Trial t = of_floats(activation, e, biased, threads == 1);
          EXPECT_THAT(check(t, 2e-5, threads), ElementsAre("cpu")) << activation << ' ' << e.tokens;
        }
}

TEST(Experts, of_bits_are_read_as_the_model_stored_them) {
  for (const int64_t bits : {2, 4, 8})
    for (const int64_t block : {0, 16, 32, 64})
      for (const bool zeros : {false, true})
        for (const char* activation : {"silu", "swiglu"})
          for (const Experts& e : {Experts{1, 4, 128, 64, 2}, Experts{9, 3, 192, 128, 2}}) {
            Trial t = of_bits(activation, e, bits, block, zeros);
            EXPECT_THAT(check(t, 5e-5, 1 + static_cast<int>(e.tokens % 2)), ElementsAre("cpu")) << bits << ' ' << block;
          }
  Trial rows = of_bits("silu", {5, 3, 100, 60, 2}, 8, 0, false);  // one scale for rows of any length
  EXPECT_THAT(check(rows, 5e-5), ElementsAre("cpu"));
  Trial narrow = of_bits("silu", {30, 3, 300, 53, 2}, 8, 0, false);
  EXPECT_THAT(check(narrow, 5e-5, 2), ElementsAre("cpu"));
  Trial odd = of_bits("silu", {5, 3, 96, 48, 2}, 4, 24, false);
  EXPECT_THAT(check(odd, 0), IsEmpty()) << "blocks of 24 are left to the reference";
}

/// Experts with a few tokens and with many, whose weights are widened first, in one run.
TEST(Experts, of_bits_with_many_tokens_agree_with_those_of_few) {
  for (const int64_t bits : {2, 4, 8})
    for (const int64_t block : {0, 64})
      for (const bool zeros : {false, true})
        for (const char* activation : {"gelu", "swiglu"})
          for (const Experts& e : {Experts{40, 7, 320, 192, 1}, Experts{23, 2, 64, 64, 2}}) {
            Trial t = of_bits(activation, e, bits, block, zeros);
            EXPECT_THAT(check(t, 1e-4, 1 + static_cast<int>(block > 0)), ElementsAre("cpu")) << bits << ' ' << block;
          }
}

}  // namespace
}  // namespace smelt::ops
