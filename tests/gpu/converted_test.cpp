// Nodes of types that no kernel of a GPU knows, by its kernels of other types between conversions (ops/registry/converted.h).
#include "ops/registry/converted.h"
#include "gpu/gpu_batch.h"

namespace smelt::ops {
namespace {

/// A batch in which each trial's kernels are those of another type.
class GpuConverted : public GpuBatch {
 protected:
  void expect_converted(Trial t, double tolerance = 0) {
    t.bound.node = &t.node;
    const Offer o = offer(t.bound, gpu_machine());
    ASSERT_FALSE(o.candidates.empty());
    for (const Candidate& c : o.candidates) EXPECT_TRUE(is_converted(c.config)) << o.problem << ' ' << c.config;
    expect(std::move(t), tolerance);
  }
};

Trial one_hot(DType indices, DType values, int64_t axis) {
  Trial t = node_trial(
      "OneHot",
      {random_tensor(indices, {5, 7}, 1, -9, 9), Tensor::of<int64_t>({}, {6}), Tensor::of<double>({2}, {-3, 4}).cast(values)},
      {{"axis", axis}});
  return t;
}

TEST_F(GpuConverted, indices_of_16_bit_floats) {
  for (const DType indices : {DType::f16, DType::bf16})
    for (const DType values : {DType::f32, DType::i64, DType::i8})
      for (const int64_t axis : {-1, 0, 1}) expect_converted(one_hot(indices, values, axis));
}

TEST_F(GpuConverted, values_that_are_computed_and_lie_anywhere) {
  Trial t = one_hot(DType::f16, DType::f16, 1);
  t.bound.inputs[0].alignment = t.bound.outputs[0].alignment = 2;
  expect_converted(std::move(t));
  Trial computed = one_hot(DType::f16, DType::f16, 1);
  computed.bound.inputs[2].constant = {};
  expect_converted(std::move(computed));
}

TEST_F(GpuConverted, images_of_integers_are_sampled_as_doubles) {
  for (const DType type : {DType::i8, DType::u8, DType::i32, DType::u64})
    for (const char* mode : {"linear", "nearest"}) {
      Trial t = node_trial("GridSample",
                           {random_tensor(type, {2, 3, 6, 7}, 1, is_signed(type) ? -100 : 0, 120),
                            random_tensor(DType::f32, {2, 4, 5, 2}, 2, -1.3, 1.3)},
                           {{"mode", std::string(mode)}});
      expect_converted(std::move(t), 0);
    }
}

}  // namespace
}  // namespace smelt::ops
