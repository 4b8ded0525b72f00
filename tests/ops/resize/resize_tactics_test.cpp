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

/// Linear or cubic, with scales or sizes.
Trial interpolation(const char* mode, const Shape& x, const Tensor& scales, Layout layout,
                    std::map<std::string, Attribute> attributes = {}) {
  Trial t;
  t.node.op = "Resize";
  t.node.attrs = std::move(attributes);
  t.node.attrs["mode"] = std::string(mode);
  t.add(random_tensor(DType::f32, x, 1, -2, 2), false, layout);
  t.add({}, true);
  t.add(scales.type() == DType::f32 ? scales : Tensor{}, true);
  if (scales.type() != DType::f32) t.add(scales, true);
  t.result(DType::f32, expected(t).shape(), layout);
  return t;
}

TEST(ResizeTactics, interpolate_as_the_reference) {
  const Tensor up = Tensor::of<float>({4}, {1, 1, 2, 3.5f}), down = Tensor::of<float>({4}, {1, 1, 0.5f, 0.3f});
  const Tensor sizes = Tensor::of<int64_t>({4}, {2, 5, 17, 9});
  for (const Layout layout : {Layout::plain, Layout::nhwc})
    for (const char* mode : {"linear", "cubic"})
      for (const char* coordinates : {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"})
        for (const int64_t other : {0, 1}) {  // antialiasing, and taps outside left out
          const std::map<std::string, Attribute> how{
              {"coordinate_transformation_mode", std::string(coordinates)}, {"antialias", other}, {"exclude_outside", other}};
          for (const Tensor& scales : {up, down, sizes}) {
            Trial t = interpolation(mode, {2, 5, 11, 13}, scales, layout, how);
            EXPECT_EQ(check(t, 1e-6), std::vector<std::string>{"cpu"}) << mode << ' ' << coordinates;
          }
        }
}

TEST(ResizeTactics, interpolate_along_one_axis_into_a_slice) {
  Trial t = interpolation("linear", {2, 16, 5, 7}, Tensor::of<float>({4}, {1, 1, 2, 1}), Layout::nhwc);
  t.bound.outputs[0].strides = {10 * 7 * 40, 1, 7 * 40, 40};
  EXPECT_EQ(check(t, 1e-6), std::vector<std::string>{"cpu"});
}

TEST(ResizeTactics, interpolate_infinities_as_the_reference) {
  Trial t = interpolation("linear", {1, 1, 3, 4}, Tensor::of<float>({4}, {1, 1, 2, 2}), Layout::plain,
                          {{"coordinate_transformation_mode", std::string("asymmetric")}});
  t.inputs[0].data<float>()[6] = std::numeric_limits<float>::infinity();
  const Tensor want = expected(t);
  t.bound.node = &t.node;
  EXPECT_EQ(run(t, offer(t.bound, Machine{}).candidates[0]).to_doubles(), want.to_doubles());
}

size_t tactics(Trial& t) {
  t.bound.node = &t.node;
  return offer(t.bound, Machine{}).candidates.size();
}

TEST(ResizeTactics, leave_regions_and_computed_sizes_to_the_reference) {
  const Tensor up = Tensor::of<float>({4}, {1, 1, 2, 2});
  Trial nearest = trial(DType::f32, {1, 4, 5, 7}, {1, 1, 2, 2}, "half_pixel", "floor");
  nearest.bound.inputs[0].layout = nearest.bound.outputs[0].layout = Layout::plain;
  EXPECT_EQ(tactics(nearest), 2u);  // by axes
  Trial channels = interpolation("linear", {1, 4, 5, 7}, Tensor::of<float>({4}, {1, 2, 2, 2}), Layout::plain);
  EXPECT_EQ(tactics(channels), 2u);  // an axis at a time
  Trial wide = interpolation("linear", {1, 4, 5, 7}, up, Layout::plain);
  EXPECT_EQ(tactics(wide), 2u);
  wide.bound.inputs[0].type = wide.bound.outputs[0].type = DType::f64;
  EXPECT_EQ(tactics(wide), 2u);  // an axis at a time, in f64
  Trial computed = interpolation("linear", {1, 4, 5, 7}, up, Layout::plain);
  computed.bound.inputs[2].constant = {};
  EXPECT_EQ(tactics(computed), 1u);
  Trial region = interpolation("linear", {1, 4, 5, 7}, up, Layout::plain);
  region.node.attrs["coordinate_transformation_mode"] = std::string("tf_crop_and_resize");
  EXPECT_EQ(tactics(region), 1u);
}

}  // namespace
}  // namespace smelt::ops
