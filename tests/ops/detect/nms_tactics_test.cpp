// NonMaxSuppression on the processor against its reference: batches, classes, limits, thresholds and equal scores.
#include <random>

#include "ops/found_check.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;

/// Boxes of a quarter of the image's sides; scores of a few values, so that many are equal.
std::vector<Tensor> image(int64_t batches, int64_t classes, int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  const auto number = [&] { return std::uniform_real_distribution<float>(0, 1)(random); };
  Tensor boxes = Tensor::empty(DType::f32, {batches, count, 4}), scores = Tensor::empty(DType::f32, {batches, classes, count});
  for (int64_t i = 0; i < batches * count; ++i) {
    const float y = number(), x = number(), corners[] = {y, x, y + number() / 4, x + number() / 4};
    std::copy_n(corners, 4, boxes.data<float>() + 4 * i);
  }
  for (float& s : scores.span<float>()) s = std::floor(number() * 20) / 20;
  return {boxes, scores};
}

TEST(NonMaxSuppression, agrees_with_the_reference) {
  for (const auto& [batches, classes, count] : {std::tuple{1, 1, 1}, {1, 1, 700}, {2, 5, 60}, {3, 40, 300}}) {
    for (const int64_t centered : {0, 1}) {
      for (const int64_t limit : {1, 7, 1000}) {
        for (const float threshold : {0.0f, 0.3f, 1.0f}) {
          std::vector<Tensor> in = image(batches, classes, count, 8);
          in.push_back(Tensor::of<int64_t>({1}, {limit}));
          in.push_back(Tensor::of<float>({1}, {threshold}));
          in.push_back(Tensor::of<float>({1}, {0.3f}));
          for (const size_t given : {size_t{3}, size_t{4}, size_t{5}}) {
            const std::vector<Tensor> some(in.begin(), in.begin() + static_cast<long>(given));
            EXPECT_THAT(agreeing(named("NonMaxSuppression", {{"center_point_box", centered}}), some, 1, 3),
                        ElementsAre("cpu", "reference"))
                << batches << " " << classes << " " << count << " " << limit << " " << threshold << " " << given;
          }
        }
      }
    }
  }
}

TEST(NonMaxSuppression, leaves_out_scores_that_are_no_numbers) {
  std::vector<Tensor> in = image(1, 2, 50, 3);
  for (int64_t i = 0; i < 100; i += 3) in[1].data<float>()[i] = std::nanf("");
  in.push_back(Tensor::of<int64_t>({1}, {50}));
  EXPECT_THAT(agreeing(named("NonMaxSuppression"), in, 1, 2), ElementsAre("cpu", "reference"));
}

}  // namespace
}  // namespace smelt::ops
