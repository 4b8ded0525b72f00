#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

Trial trial(DType type, const Shape& x, const std::vector<float>& scales, const char* coordinates, const char* rounding) {
  Trial t;
  t.node.op = "Resize";
  t.node.attrs["mode"] = std::string("nearest");
  t.node.attrs["coordinate_transformation_mode"] = std::string(coordinates);
  t.node.attrs["nearest_mode"] = std::string(rounding);
  t.add(random_tensor(type, x, 1, 0, 100), false, Layout::nhwc);
  t.add({}, true);
  t.add(Tensor::of<float>({4}, scales), true);
  t.result(type, expected(t).shape(), Layout::nhwc);
  return t;
}

TEST(ResizeTactics, nearest_copies_the_reference_s_pixels) {
  for (DType type : {DType::u8, DType::f32, DType::f16}) {
    for (const Shape& x : {Shape{1, 32, 5, 7}, Shape{2, 3, 6, 4}, Shape{1, 130, 3, 3}}) {
      for (const char* coordinates : {"half_pixel", "asymmetric", "align_corners"}) {
        for (const char* rounding : {"round_prefer_floor", "ceil"}) {
          Trial t = trial(type, x, {1, 1, 2, 3.5f}, coordinates, rounding);
          EXPECT_EQ(check(t, 0), std::vector<std::string>{"cpu"});
        }
      }
    }
  }
}

TEST(ResizeTactics, nearest_writes_a_slice) {
  Trial t = trial(DType::u8, {2, 16, 5, 7}, {1, 1, 2, 2}, "asymmetric", "floor");
  t.bound.outputs[0].strides = {10 * 14 * 40, 1, 14 * 40, 40};
  EXPECT_EQ(check(t, 0), std::vector<std::string>{"cpu"});
}

TEST(ResizeTactics, leave_interpolation_and_computed_sizes_to_the_reference) {
  Trial t = trial(DType::f32, {1, 4, 5, 7}, {1, 1, 2, 2}, "half_pixel", "floor");
  t.bound.node = &t.node;
  t.bound.inputs[0].layout = t.bound.outputs[0].layout = Layout::plain;
  const auto tactics = [&] { return offer(t.bound, Machine{}).candidates.size(); };
  EXPECT_EQ(tactics(), 1u);  // plain images
  t.node.attrs["mode"] = std::string("linear");
  EXPECT_EQ(tactics(), 1u);
}

}  // namespace
}  // namespace smelt::ops
