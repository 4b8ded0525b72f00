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

/// A sample's value in a bin of the region that `between` gives along one axis, as the definition has it: no pixel twice, no sums ahead.
double sampled(const Tensor& x, double row, double column, bool largest) {
  const int64_t height = x.shape()[2], width = x.shape()[3];
  if (!(row >= -1 && row <= static_cast<double>(height) && column >= -1 && column <= static_cast<double>(width))) return 0;
  const auto split = [](double v, int64_t extent) {
    v = std::clamp(v, 0.0, static_cast<double>(extent - 1));
    return std::pair{static_cast<int64_t>(v), v - std::floor(v)};
  };
  const auto [r, down] = split(row, height);
  const auto [c, across] = split(column, width);
  const auto at = [&](int64_t i, int64_t k) {
    return static_cast<double>(x.data<float>()[std::min(i, height - 1) * width + std::min(k, width - 1)]);
  };
  const double parts[] = {(1 - down) * (1 - across) * at(r, c), (1 - down) * across * at(r, c + 1),
                          down * (1 - across) * at(r + 1, c), down * across * at(r + 1, c + 1)};
  return largest ? *std::ranges::max_element(parts) : parts[0] + parts[1] + parts[2] + parts[3];
}

TEST(RoiAlign, many_samples_of_few_pixels_are_those_of_the_definition) {
  Tensor x = ramp({1, 1, 5, 7});
  for (int64_t i = 0; i < 35; ++i) x.data<float>()[i] = static_cast<float>(i * i % 13) / 4 - 1.2f;
  constexpr int64_t n = 60, bins = 2;
  for (const bool largest : {false, true})
    for (const auto& [x0, y0, x1, y1] :
         {std::array{0.3f, 0.9f, 6.f, 4.4f}, std::array{-4.f, -3.f, 3.f, 2.2f}, std::array{5.f, 4.f, 1.f, 0.5f},
          std::array{2.5f, 2.5f, 2.5f, 2.5f}, std::array{3.f, 2.f, 30.f, 20.f}, std::array{40.f, 40.f, 50.f, 50.f}}) {
      std::vector<double> want;
      for (int64_t bin = 0; bin < bins * bins; ++bin) {
        double sum = 0, most = -INFINITY;
        for (int64_t i = 0; i < n * n; ++i) {
          const auto place = [](float low, float high, int64_t of_bin, int64_t of_sample) {
            const double size = (static_cast<double>(high) - static_cast<double>(low)) / bins;
            return static_cast<double>(low) - 0.5 + static_cast<double>(of_bin) * size +
                   (static_cast<double>(of_sample) + 0.5) * size / n;
          };
          const double v = sampled(x, place(y0, y1, bin / bins, i / n), place(x0, x1, bin % bins, i % n), largest);
          sum += v, most = std::max(most, v);
        }
        want.push_back(largest ? most : sum / (n * n));
      }
      const Tensor y = run("RoiAlign", {x, f32({1, 4}, {x0, y0, x1, y1}), i64({1}, {0})},
                           {{"sampling_ratio", n},
                            {"output_height", bins},
                            {"output_width", bins},
                            {"mode", std::string(largest ? "max" : "avg")}});
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_NEAR(static_cast<double>(y.data<float>()[i]), want[i], 1e-6) << largest << " " << x0 << " " << y0 << " bin " << i;
    }
}

TEST(RoiAlign, as_many_samples_as_can_be_asked_for_take_no_longer_than_the_pixels) {
  const Tensor x = Tensor::zeros(DType::f32, {1, 1, 4, 4}), roi = f32({1, 4}, {0, 0, 3, 3});
  for (const int64_t n : {int64_t{1} << 32, INT64_MAX})
    expect_error("sampling_ratio is", [&] { run("RoiAlign", {x, roi, i64({1}, {0})}, {{"sampling_ratio", n}}); });
  for (const char* mode : {"avg", "max"})
    EXPECT_EQ(run("RoiAlign", {x, roi, i64({1}, {0})},
                  {{"sampling_ratio", int64_t{1} << 16}, {"mode", std::string(mode)}, {"output_height", int64_t{100}}})
                  .shape(),
              (Shape{1, 1, 100, 1}));
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
