// Windows and mel filters on the processor against the references.
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;

TEST(WindowTactics, agree_over_sizes_and_types) {
  for (const char* op : {"HannWindow", "HammingWindow", "BlackmanWindow"})
    for (const DType type : {DType::f32, DType::f64})
      for (const int64_t periodic : {0, 1})
        for (const int64_t size : {1, 2, 255, 256, 257, 70'000})
          for (const int threads : {1, 3}) {
            Trial t;
            t.node.op = op;
            t.node.attrs = {{"periodic", periodic}, {"output_datatype", static_cast<int64_t>(type)}};
            t.add(Tensor::scalar(size), true);
            t.result(type, {size});
            EXPECT_THAT(check(t, type == DType::f64 ? 1e-14 : 1e-6, threads), ElementsAre("cpu")) << op << size << periodic;
          }
}

TEST(MelTactics, agree_over_sizes) {
  for (const DType type : {DType::f32, DType::f64})
    for (const int64_t bins : {1, 8, 80}) {
      Trial t;
      t.node.op = "MelWeightMatrix";
      t.node.attrs = {{"output_datatype", static_cast<int64_t>(type)}};
      t.add(Tensor::scalar(bins), true);
      t.add(Tensor::scalar(int64_t{64}), true);
      t.add(Tensor::scalar(int64_t{8000}), false);
      t.add(Tensor::scalar(20.0f), false);
      t.add(Tensor::scalar(4000.0f), false);
      t.result(type, {33, bins});
      EXPECT_THAT(check(t, 1e-7), ElementsAre("cpu")) << bins;
    }
}

}  // namespace
}  // namespace smelt::ops
