// MaxUnpool on the processor against the reference: indices in order, mixed, repeated and out of range; output shapes of other extents.
#include <algorithm>
#include <numeric>

#include "ops/tactic_check.h"
#include "smelt/error.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;

Trial unpool(DType type, const Shape& x, std::vector<int64_t> indices, const Shape& output) {
  Trial t;
  t.node.op = "MaxUnpool";
  t.node.attrs = {{"kernel_shape", Shape{2, 2}}, {"strides", Shape{2, 2}}};
  t.add(random_tensor(type, x, 3), false);
  t.add(Tensor::of<int64_t>(x, indices), false);
  const Shape own{x[0], x[1], 2 * x[2], 2 * x[3]};
  if (!output.empty()) t.add(Tensor::of<int64_t>({4}, output), true);
  t.result(type, output.empty() ? own : output);
  return t;
}

TEST(UnpoolTactics, agree_over_types_orders_and_shapes) {
  const Shape x{2, 16, 16, 24};
  std::vector<int64_t> ordered(static_cast<size_t>(elements(x)));
  for (size_t i = 0; i < ordered.size(); ++i) ordered[i] = static_cast<int64_t>(4 * i + i % 3);
  std::vector<int64_t> mixed = ordered, repeated = ordered;
  std::ranges::shuffle(mixed, std::mt19937(1));
  for (int64_t& i : repeated) i = i / 64 * 64;
  for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const auto& indices : {ordered, mixed, repeated})
      for (const Shape& output : {Shape{}, Shape{2, 16, 40, 50}, Shape{2, 16, 30, 20}})
        for (const int threads : {1, 3}) {
          Trial t = unpool(type, x, indices, output);
          EXPECT_THAT(check(t, 0, threads), ElementsAre("cpu"));
        }
}

TEST(UnpoolTactics, refuse_an_index_that_is_none) {
  for (const int64_t wrong : {int64_t{-1}, int64_t{16}}) {
    Trial t = unpool(DType::f32, {1, 1, 2, 2}, {0, 5, wrong, 8}, {});
    t.bound.node = &t.node;
    const Offer o = offer(t.bound, {.threads = 2});
    ASSERT_EQ(o.candidates[0].tactic, "cpu");
    EXPECT_THAT([&] { run(t, o.candidates[0]); }, testing::ThrowsMessage<Error>(testing::HasSubstr("outside the unpooled")));
  }
}

}  // namespace
}  // namespace smelt::ops
