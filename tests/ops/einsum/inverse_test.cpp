// Inverse on the processor against the reference.
#include "ops/tactic_check.h"
#include "smelt/error.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;

/// Random matrices, of which `pivots` have no large diagonal.
Trial inverse(DType type, int64_t count, int64_t n, bool pivots) {
  Tensor x = random_tensor(DType::f64, {count, n, n}, static_cast<uint32_t>(n), -1, 1);
  for (int64_t i = 0; i < count * n; ++i) {
    const int64_t at = pivots ? (i % n + 1) % n : i % n;  // a cycle of rows
    x.data<double>()[i * n + at] += static_cast<double>(n) + 1;
  }
  Trial t;
  t.node.op = "Inverse";
  t.node.domain = microsoft_domain;
  t.add(x.cast(type), false);
  t.result(type, {count, n, n});
  return t;
}

TEST(Inverse, of_any_size_and_type) {
  for (const auto& [type, tolerance] : {std::pair(DType::f32, 1e-6), std::pair(DType::f64, 1e-13), std::pair(DType::f16, 2e-3)})
    for (const int64_t n : {1, 2, 3, 4, 5, 8, 33, 64})
      for (const bool pivots : {false, true})
        for (const int64_t count : {1, 7}) {
          Trial t = inverse(type, count, n, pivots);
          EXPECT_THAT(check(t, tolerance, 3), ElementsAre("cpu")) << n;
        }
}

TEST(Inverse, says_which_matrix_has_none) {
  Trial t = inverse(DType::f32, 3, 4, false);
  std::fill_n(t.inputs[0].data<float>() + 32, 4, 0.0f);
  t.bound.node = &t.node;
  const Offer o = offer(t.bound, Machine{});
  EXPECT_THAT([&] { run(t, o.candidates[0]); }, testing::ThrowsMessage<Error>(testing::HasSubstr("matrix 2 has no inverse")));
}

}  // namespace
}  // namespace smelt::ops
