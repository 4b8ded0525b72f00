#include <random>

#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

// Three boxes as corners: the second overlaps the first by 0.6, the third by nothing.
const Tensor boxes = f32({1, 3, 4}, {0, 0, 1, 1, 0, 0.25f, 1, 1.25f, 0, 5, 1, 6});
const Tensor scores = f32({1, 1, 3}, {0.9f, 0.8f, 0.7f});

std::vector<int64_t> selected(const std::vector<Tensor>& in, Attributes attrs = {}) {
  return run("NonMaxSuppression", in, std::move(attrs)).to_ints();
}

TEST(NonMaxSuppression, drops_what_overlaps_a_better_box) {
  EXPECT_EQ(selected({boxes, scores, i64({1}, {3}), f32({1}, {0.5f})}), (Ints{0, 0, 0, 0, 0, 2}));
}

TEST(NonMaxSuppression, keeps_a_box_at_exactly_the_threshold) {
  EXPECT_EQ(selected({boxes, scores, i64({1}, {3}), f32({1}, {0.61f})}).size(), 9u);
}

TEST(NonMaxSuppression, limits_the_number_and_the_score) {
  EXPECT_EQ(selected({boxes, scores, i64({1}, {1}), f32({1}, {0.5f})}), (Ints{0, 0, 0}));
  EXPECT_EQ(selected({boxes, scores, i64({1}, {3}), f32({1}, {0.5f}), f32({1}, {0.75f})}), (Ints{0, 0, 0}));
  EXPECT_EQ(run("NonMaxSuppression", {boxes, scores}).shape(), (Shape{0, 3}));  // the limit's default is 0
}

TEST(NonMaxSuppression, corners_come_in_any_order_and_centres_on_request) {
  EXPECT_EQ(selected({f32({1, 2, 4}, {1, 1, 0, 0, 0, 0, 1, 1}), f32({1, 1, 2}, {0.5f, 0.6f}), i64({}, {9}), f32({}, {0.5f})}),
            (Ints{0, 0, 1}));
  EXPECT_EQ(selected({f32({1, 2, 4}, {0.5f, 0.5f, 1, 1, 0.5f, 0.5f, 1, 1}), f32({1, 1, 2}, {0.5f, 0.6f}), i64({}, {9}),
                      f32({}, {0.5f})},
                     {{"center_point_box", int64_t{1}}}),
            (Ints{0, 0, 1}));
}

TEST(NonMaxSuppression, ignores_nan_scores) {
  EXPECT_EQ(selected({f32({1, 1, 4}, {0, 0, 1, 1}), f32({1, 1, 1}, {NAN}), i64({}, {9})}).size(), 0u);
}

/// The greedy choice, box by box.
std::vector<int64_t> taken_one_by_one(const std::vector<float>& corners, int64_t count, double threshold) {
  std::vector<int64_t> taken;
  const auto at = [&](int64_t i, int64_t side) { return static_cast<double>(corners[static_cast<size_t>(i * 4 + side)]); };
  const auto area = [&](int64_t i) { return (at(i, 2) - at(i, 0)) * (at(i, 3) - at(i, 1)); };
  for (int64_t i = 0; i < count; ++i) {
    bool free = true;
    for (int64_t j : taken) {
      const double h = std::min(at(i, 2), at(j, 2)) - std::max(at(i, 0), at(j, 0));
      const double w = std::min(at(i, 3), at(j, 3)) - std::max(at(i, 1), at(j, 1));
      if (h > 0 && w > 0 && h * w / (area(i) + area(j) - h * w) > threshold) free = false;
    }
    if (free) taken.push_back(i);
  }
  return taken;
}

TEST(NonMaxSuppression, takes_what_a_comparison_of_every_pair_takes) {
  constexpr int64_t count = 700;
  std::mt19937 random(1);
  for (const double threshold : {0.0, 0.3, 0.55, 0.9}) {
    std::vector<float> corners, falling;
    for (int64_t i = 0; i < count; ++i) {
      // On a grid, so that many overlap by exactly the same.
      const float y = static_cast<float>(random() % 40), x = static_cast<float>(random() % 40);
      corners.insert(corners.end(), {y, x, y + static_cast<float>(random() % 8), x + static_cast<float>(random() % 8)});
      falling.push_back(static_cast<float>(count - i));
    }
    const std::vector<int64_t> got = selected(
        {f32({1, count, 4}, corners), f32({1, 1, count}, falling), i64({1}, {count}), f32({1}, {static_cast<float>(threshold)})});
    std::vector<int64_t> want;
    for (int64_t i : taken_one_by_one(corners, count, static_cast<double>(static_cast<float>(threshold))))
      want.insert(want.end(), {0, 0, i});
    EXPECT_EQ(got, want) << threshold;
  }
}

TEST(RoiAlign, averages_interpolated_samples) {
  const Tensor x = ramp({1, 1, 4, 4});
  expect_near(run("RoiAlign", {x, f32({1, 4}, {0, 0, 4, 4}), i64({1}, {0})},
                  {{"output_height", int64_t{2}}, {"output_width", int64_t{2}}, {"sampling_ratio", int64_t{2}}}),
              {1, 1, 2, 2}, {2.5, 4.5, 10.5, 12.5});
}

TEST(RoiAlign, the_older_form_shifts_nothing_and_takes_regions_of_at_least_one_pixel) {
  const Tensor x = ramp({1, 1, 4, 4});
  const Attributes old{{"coordinate_transformation_mode", std::string("output_half_pixel")}, {"sampling_ratio", int64_t{1}}};
  expect_near(run("RoiAlign", {x, f32({1, 4}, {1, 1, 1, 1}), i64({1}, {0})}, old), {1, 1, 1, 1}, {7.5});  // sampled at (1.5, 1.5)
}

TEST(RoiAlign, rejects_an_item_that_is_not_there) {
  expect_error("batch_indices has 1", [] { run("RoiAlign", {ramp({1, 1, 2, 2}), f32({1, 4}, {0, 0, 1, 1}), i64({1}, {1})}); });
}

TEST(RoiAlign, refuses_more_samples_than_it_can_list) {
  const Tensor x = Tensor::zeros(DType::f32, {1, 1, 4, 4}), roi = f32({1, 4}, {0, 0, 3, 3});
  for (const int64_t n : {int64_t{1} << 32, INT64_MAX})
    expect_error("sampling_ratio is", [&] { run("RoiAlign", {x, roi, i64({1}, {0})}, {{"sampling_ratio", n}}); });
  expect_error("samples", [&] { run("RoiAlign", {x, roi, i64({1}, {0})}, {{"sampling_ratio", int64_t{1} << 16}}); });
  EXPECT_EQ(run("RoiAlign", {x, roi, i64({1}, {0})}, {{"sampling_ratio", int64_t{100}}}).shape(), (Shape{1, 1, 1, 1}));
}

TEST(RoiAlign, refuses_maps_without_pixels) {
  const Tensor roi = f32({1, 4}, {0, 0, 3, 3});
  for (const Shape& s : {Shape{1, 1, 0, 4}, Shape{1, 1, 4, 0}})
    expect_error("no pixels", [&] { run("RoiAlign", {Tensor::zeros(DType::f32, s), roi, i64({1}, {0})}); });
  EXPECT_EQ(run("RoiAlign", {Tensor::zeros(DType::f32, {1, 1, 0, 4}), f32({0, 4}, {}), i64({0}, {})}).shape(),
            (Shape{0, 1, 1, 1}));
}

TEST(MaxRoiPool, takes_the_largest_of_each_bin_in_whole_pixels) {
  expect_near(run("MaxRoiPool", {ramp({1, 1, 4, 4}), f32({1, 5}, {0, 0, 0, 3, 3})}, {{"pooled_shape", Ints{2, 2}}}), {1, 1, 2, 2},
              {5, 7, 13, 15});
}

}  // namespace
}  // namespace smelt::ops::test
