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

TEST(MaxRoiPool, takes_the_largest_of_each_bin_in_whole_pixels) {
  expect_near(run("MaxRoiPool", {ramp({1, 1, 4, 4}), f32({1, 5}, {0, 0, 0, 3, 3})}, {{"pooled_shape", Ints{2, 2}}}), {1, 1, 2, 2},
              {5, 7, 13, 15});
}

}  // namespace
}  // namespace smelt::ops::test
