#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

std::string text(const char* s) { return s; }

TEST(Resize, nearest_repeats_pixels) {
  const Tensor x = f32({1, 1, 2, 2}, {1, 2, 3, 4}), scales = f32({4}, {1, 1, 2, 2});
  expect_near(run("Resize", {x, Tensor(), scales}), {1, 1, 4, 4}, {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4});
}

TEST(Resize, nearest_keeps_any_element_type) {
  EXPECT_EQ(run("Resize", {i64({2}, {INT64_MAX, 1}), Tensor(), Tensor(), i64({1}, {3})}).to_ints(),
            (Ints{INT64_MAX, INT64_MAX, 1}));
}

TEST(Resize, linear_follows_its_coordinate_transformation) {
  const Tensor x = f32({1, 2}, {0, 4}), sizes = i64({2}, {1, 4});
  const auto resized = [&](const char* how) {
    return run("Resize", {x, Tensor(), Tensor(), sizes},
               {{"mode", text("linear")}, {"coordinate_transformation_mode", text(how)}});
  };
  expect_near(resized("half_pixel"), {1, 4}, {0, 1, 3, 4});
  expect_near(resized("align_corners"), {1, 4}, {0, 4.0 / 3, 8.0 / 3, 4});
  expect_near(resized("asymmetric"), {1, 4}, {0, 2, 4, 4});
  expect_error("which ONNX does not define", [&] { resized("sideways"); });
}

TEST(Resize, cubic_meets_the_samples_and_antialias_averages_them) {
  const Tensor x = f32({4}, {1, 2, 3, 4});
  expect_near(run("Resize", {x, Tensor(), f32({1}, {1})}, {{"mode", text("cubic")}}), {4}, {1, 2, 3, 4});
  // Halved with a stretched triangle: weights 1/8, 3/8, 3/8, 1/8 around 0.5 and 2.5, the edge repeated.
  expect_near(run("Resize", {x, Tensor(), f32({1}, {0.5f})}, {{"mode", text("linear")}, {"antialias", int64_t{1}}}), {2},
              {(1 + 3 * 1 + 3 * 2 + 3) / 8.0, (2 + 3 * 3 + 3 * 4 + 4) / 8.0});
}

TEST(Resize, exclude_outside_renormalises_the_weights) {
  const Tensor x = f32({2}, {1, 3});
  expect_near(run("Resize", {x, Tensor(), Tensor(), i64({1}, {4})}, {{"mode", text("linear")}, {"exclude_outside", int64_t{1}}}),
              {4}, {1, 1.5, 2.5, 3});
}

TEST(Resize, keeps_the_aspect_ratio_when_asked) {
  const Tensor x = Tensor::zeros(DType::f32, {2, 4});
  EXPECT_EQ(run("Resize", {x, Tensor(), Tensor(), i64({2}, {7, 8})}, {{"keep_aspect_ratio_policy", text("not_larger")}}).shape(),
            (Shape{4, 8}));
  EXPECT_EQ(run("Resize", {x, Tensor(), Tensor(), i64({2}, {7, 8})}, {{"keep_aspect_ratio_policy", text("not_smaller")}}).shape(),
            (Shape{7, 14}));
}

TEST(Resize, outside_the_region_of_interest_it_extrapolates) {
  const Tensor x = f32({2}, {1, 3}), roi = f32({2}, {0, 2});
  const Attributes crop{
      {"mode", text("linear")}, {"coordinate_transformation_mode", text("tf_crop_and_resize")}, {"extrapolation_value", 9.0f}};
  expect_near(run("Resize", {x, roi, Tensor(), i64({1}, {3})}, crop), {3}, {1, 3, 9});
}

TEST(Resize, resizes_only_the_axes_it_names) {
  EXPECT_EQ(run("Resize", {Tensor::zeros(DType::f32, {2, 3}), Tensor(), Tensor(), i64({1}, {6})}, {{"axes", Ints{-1}}}).shape(),
            (Shape{2, 6}));
  expect_error("sizes has 2 elements, expected 1", [] {
    run("Resize", {Tensor::zeros(DType::f32, {2, 3}), Tensor(), Tensor(), i64({2}, {6, 6})}, {{"axes", Ints{1}}});
  });
  expect_error("one of scales and sizes", [] { run("Resize", {Tensor::zeros(DType::f32, {2})}); });
}

const Tensor image = f32({1, 1, 2, 2}, {1, 2, 3, 4});

TEST(GridSample, reads_between_pixels) {
  const Tensor centre = f32({1, 1, 1, 2}, {0, 0});
  expect_near(run("GridSample", {image, centre}), {1, 1, 1, 1}, {2.5});
  expect_near(run("GridSample", {image, f32({1, 1, 1, 2}, {1, -1})}, {{"align_corners", int64_t{1}}}), {1, 1, 1, 1},
              {2});  // x first
}

TEST(GridSample, pads_as_told) {
  const Tensor outside = f32({1, 1, 1, 2}, {-3, -3});
  const auto padded = [&](const char* how) {
    return run("GridSample", {image, outside}, {{"padding_mode", text(how)}, {"align_corners", int64_t{1}}});
  };
  expect_near(padded("zeros"), {1, 1, 1, 1}, {0});
  expect_near(padded("border"), {1, 1, 1, 1}, {1});
  expect_near(padded("reflection"), {1, 1, 1, 1}, {4});
  expect_error("padding_mode is 'mirror'", [&] { padded("mirror"); });
}

TEST(GridSample, nearest_takes_one_pixel) {
  expect_near(
      run("GridSample", {image, f32({1, 1, 1, 2}, {0.6f, 0.4f})}, {{"mode", text("nearest")}, {"align_corners", int64_t{1}}}),
      {1, 1, 1, 1}, {4});
}

TEST(GridSample, refuses_images_without_pixels) {
  const Tensor grid = Tensor::zeros(DType::f32, {1, 2, 2, 2});
  for (const Shape& s : {Shape{1, 1, 0, 3}, Shape{1, 1, 3, 0}})
    for (const char* padding : {"zeros", "border", "reflection"})
      expect_error("no pixels", [&] {
        run("GridSample", {Tensor::zeros(DType::f32, s), grid}, {{"padding_mode", text(padding)}});
      });
}

TEST(Resize, of_places_far_outside_ends) {
  const Tensor x = f32({4}, {1, 2, 3, 4});
  const float far = 9007199254740992.0f;  // 2^53: i + 1 is i from here on
  for (const char* mode : {"nearest", "linear", "cubic"})
    for (const Tensor& roi :
         {f32({2}, {far, 2 * far}), f32({2}, {-far, far}), f32({2}, {3e38f, -3e38f}), f32({2}, {NAN, INFINITY})})
      EXPECT_EQ(run("Resize", {x, roi, Tensor(), i64({1}, {3})},
                    {{"mode", text(mode)}, {"coordinate_transformation_mode", text("tf_crop_and_resize")}})
                    .shape(),
                (Shape{3}));
}

TEST(Resize, makes_nothing_of_nothing_only) {
  const Tensor none = f32({2, 0}, {});
  EXPECT_EQ(run("Resize", {none, Tensor(), Tensor(), i64({2}, {4, 0})}).shape(), (Shape{4, 0}));
  expect_error("empty tensor", [&] { run("Resize", {none, Tensor(), Tensor(), i64({2}, {4, 1})}); });
  expect_error("too large", [&] { run("Resize", {f32({1}, {1}), Tensor(), f32({1}, {INFINITY})}); });
}

TEST(AffineGrid, of_the_identity_lists_pixel_centres) {
  const Tensor identity = f32({1, 2, 3}, {1, 0, 0, 0, 1, 0});
  expect_near(run("AffineGrid", {identity, i64({4}, {1, 1, 1, 2})}), {1, 1, 2, 2}, {-0.5, 0, 0.5, 0});
  expect_near(run("AffineGrid", {identity, i64({4}, {1, 1, 2, 2})}, {{"align_corners", int64_t{1}}}), {1, 2, 2, 2},
              {-1, -1, 1, -1, -1, 1, 1, 1});
}

}  // namespace
}  // namespace smelt::ops::test
