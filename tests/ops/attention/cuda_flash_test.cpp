// What the tensor cores' attention refuses by number: no GPU is needed.
#include <algorithm>

#include "ops/cuda/gpu.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

/// Rows of keys (1) or values (2) so many elements apart; why flash refuses the problem, empty where it does not.
std::string refusal(size_t input, int64_t apart) {
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "Attention";
  t.node.attrs["scale"] = 0.1f;
  const Shape q{1, 1, 64, 64}, kv{1, 1, 2, 64};
  for (const Shape& s : {q, kv, kv}) t.bound.inputs.push_back({DType::f16, s, Layout::plain, {}, {}});
  for (size_t i = 0; i < 3; ++i) t.node.inputs.push_back(ValueId(static_cast<int32_t>(i)));
  t.bound.inputs[input].strides = {2 * apart, 2 * apart, apart, 1};
  t.result(DType::f16, q);
  t.bound.node = &t.node;
  Machine machine;
  machine.gpu = gpu_of_arch("sm_90a");
  for (const RefusedTactic& r : offer(t.bound, machine).refused)
    if (r.why.text.find("flash") != std::string::npos) return r.why.text;
  return "";
}

TEST(FlashAttention, refuses_rows_that_its_32_bits_cannot_step_over) {
  constexpr int64_t most = (int64_t{1} << 31) / 128 / 2;  // 128 rows of f16 are 2^31 bytes
  for (const size_t input : {size_t{1}, size_t{2}}) {
    EXPECT_EQ(refusal(input, most - 8), "");
    for (const int64_t apart : {most, 4 * most, -most})
      EXPECT_NE(refusal(input, apart).find("rows are"), std::string::npos) << apart << ": " << refusal(input, apart);
  }
}

}  // namespace
}  // namespace smelt::ops
