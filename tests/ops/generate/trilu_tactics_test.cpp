// Trilu on the processor against the reference.
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;

TEST(Trilu, of_many_small_matrices_and_of_few_large_ones) {
  for (const DType type : {DType::i64, DType::f32, DType::f16, DType::u8})
    for (const Shape& shape : {Shape{4097, 2, 2}, Shape{700, 3, 5}, Shape{9, 1, 7}, Shape{65, 2, 8, 8}, Shape{301, 13, 1},
                               Shape{9, 17, 17}, Shape{5, 64, 63}, Shape{3, 50, 70}})
      for (const int64_t k : {-100, -2, -1, 0, 1, 3, 100})
        for (const int64_t upper : {0, 1}) {
          if (elements(shape) > 20'000 && k % 2 != 0) continue;
          Trial t;
          t.node.op = "Trilu";
          t.node.attrs["upper"] = upper;
          t.node.opset = 20;
          t.add(random_tensor(type, shape, 1, 0, 99), false);
          t.add(Tensor::scalar<int64_t>(k), false);
          t.result(type, shape);
          EXPECT_THAT(check(t, 0, 1 + static_cast<int>(shape[0] % 3)), ElementsAre("cpu")) << to_string(shape) << k << upper;
        }
}

}  // namespace
}  // namespace smelt::ops
