// Det on the processor against the reference.
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

TEST(DetTactics, agree_over_types_and_sizes) {
  for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const Shape& x : {Shape{1, 1}, Shape{2, 2}, Shape{5, 3, 3}, Shape{2, 40, 13, 13}})
      for (const int threads : {1, 3}) {
        Trial t;
        t.node.op = "Det";
        Tensor m = random_tensor(type, x, 3);
        if (x.size() == 3) std::memset(m.raw(), 0, static_cast<size_t>(m.nbytes() / 5));  // a matrix of zeros
        t.add(m, false);
        t.result(type, Shape(x.begin(), x.end() - 2));
        EXPECT_THAT(check(t, type == DType::f64 ? 1e-12 : 1e-6, threads), testing::ElementsAre("cpu"))
            << name(type) << to_string(x);
      }
}

}  // namespace
}  // namespace smelt::ops
