// RoiAlign on the processor against the reference.
#include "ops/tactic_check.h"
#include "smelt/error.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;

Trial roi_align(DType type, const std::string& mode, const std::string& transformation, int64_t sampling, int64_t channels = 4) {
  Trial t;
  t.node.op = "RoiAlign";
  t.node.opset = 16;
  t.node.attrs = {{"mode", mode},
                  {"coordinate_transformation_mode", transformation},
                  {"sampling_ratio", sampling},
                  {"output_height", int64_t{3}},
                  {"output_width", int64_t{5}},
                  {"spatial_scale", 0.5f}};
  t.add(random_tensor(type, {2, channels, 20, 24}, 1), false);
  Tensor regions = Tensor::empty(DType::f32, {7, 4});
  for (int64_t i = 0; i < 28; ++i) regions.data<float>()[i] = static_cast<float>(i % 4 < 2 ? i : 20 + i) - 3.3f;
  t.add(regions.cast(type), false);
  t.add(Tensor::of<int64_t>({7}, {0, 1, 1, 0, 0, 1, 0}), false);
  t.result(type, {7, channels, 3, 5});
  return t;
}

TEST(RoiAlignTactics, average_and_take_the_largest_of_samples) {
  for (const char* mode : {"avg", "max"})
    for (const char* transformation : {"half_pixel", "output_half_pixel"})
      for (int64_t sampling : {0, 2, 200})
        for (DType type : {DType::f32, DType::f16, DType::f64})
          for (int64_t channels : {4, 37}) {  // one by one; side by side where there are samples enough
            Trial t = roi_align(type, mode, transformation, sampling, channels);
            EXPECT_THAT(check(t, type == DType::f16 ? 2e-3 : 1e-5), ElementsAre("cpu"));
          }
}

TEST(RoiAlignTactics, name_a_region_that_takes_too_many_samples) {
  Trial t = roi_align(DType::f32, "avg", "half_pixel", 0);
  t.inputs[1].data<float>()[2] = 1e9f;
  t.bound.node = &t.node;
  const Offer o = offer(t.bound, {.threads = 2});
  ASSERT_EQ(o.candidates[0].tactic, "cpu");
  EXPECT_THAT([&] { run(t, o.candidates[0]); }, testing::ThrowsMessage<Error>(testing::HasSubstr("set sampling_ratio")));
}

TEST(MaxRoiPoolTactics, agree_over_types_sizes_and_regions) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f64})
    for (const Shape& pooled : {Shape{1, 1}, Shape{3, 5}, Shape{7, 7}})
      for (const int threads : {1, 3}) {
        Trial t;
        t.node.op = "MaxRoiPool";
        t.node.attrs = {{"pooled_shape", pooled}, {"spatial_scale", 0.5f}};
        Tensor x = random_tensor(DType::f32, {2, 5, 20, 24}, 1);
        x.data<float>()[30] = std::numeric_limits<float>::quiet_NaN();
        t.add(x.cast(type), false);
        const std::vector<float> regions{0, 0,  0,  46, 38, 1, 3, 5, 30, 20, 0, -9, -9, 90, 90,
                                         1, 60, 60, 70, 70, 0, 8, 8, 8,  8,  1, 30, 30, 4,  4};
        t.add(Tensor::of<float>({6, 5}, regions).cast(type), false);
        t.result(type, {6, 5, pooled[0], pooled[1]});
        EXPECT_THAT(check(t, 0, threads), ElementsAre("cpu")) << name(type) << to_string(pooled);
      }
}

}  // namespace
}  // namespace smelt::ops
