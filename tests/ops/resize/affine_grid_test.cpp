// AffineGrid on the processor against the reference.
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;

TEST(AffineGridTactics, agree_over_types_axes_and_corners) {
  for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const Shape& size :
         {Shape{2, 3, 5, 7}, Shape{1, 1, 1, 1}, Shape{3, 2, 64, 33}, Shape{2, 1, 3, 4, 5}, Shape{1, 1, 6, 1, 24}})
      for (const int64_t corners : {0, 1})
        for (const int threads : {1, 3}) {
          Trial t;
          t.node.op = "AffineGrid";
          t.node.attrs = {{"align_corners", corners}};
          const auto rank = static_cast<int64_t>(size.size()) - 2;
          t.add(random_tensor(type, {size[0], rank, rank + 1}, 4), false);
          t.add(Tensor::of<int64_t>({rank + 2}, size), true);
          Shape y{size[0]};
          y.insert(y.end(), size.begin() + 2, size.end());
          y.push_back(rank);
          t.result(type, y);
          const double tolerance = type == DType::f64 ? 1e-14 : type == DType::f32 ? 1e-6 : 8e-3;
          EXPECT_THAT(check(t, tolerance, threads), ElementsAre("cpu")) << name(type) << to_string(y);
        }
}

}  // namespace
}  // namespace smelt::ops
