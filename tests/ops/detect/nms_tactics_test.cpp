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

/// Scores of either sign, zeros of both, infinities and ties; as many boxes as are looked at in one turn and in several.
TEST(NonMaxSuppression, takes_the_boxes_of_the_reference_whatever_their_scores) {
  std::mt19937 random(9);
  const float inf = std::numeric_limits<float>::infinity(), odd[] = {0.0f, -0.0f, inf, -inf, std::nanf(""), 1e-42f, -1e-42f};
  for (int i = 0; i < 120; ++i) {
    const int64_t classes = 1 + static_cast<int64_t>(random() % 3),
                  count = 1 + static_cast<int64_t>(random() % (i % 4 ? 200 : 2500));
    std::vector<Tensor> in = image(1, classes, count, random());
    const float spread = i % 2 ? 1 : 30;  // few that overlap: more are taken
    for (float& v : in[0].span<float>()) v *= spread;
    if (i % 2 == 0)
      for (int64_t b = 0; b < count; ++b)
        for (int k = 2; k < 4; ++k) in[0].data<float>()[4 * b + k] = in[0].data<float>()[4 * b + k - 2] + 1;
    for (float& s : in[1].span<float>())
      s = random() % 20 == 0 ? odd[random() % std::size(odd)] : i % 3 ? s - 0.5f : s * static_cast<float>(random() % 1000);
    in.push_back(Tensor::of<int64_t>({1}, {static_cast<int64_t>(random() % 3 ? random() % 100 : random() % 3000)}));
    in.push_back(Tensor::of<float>({1}, {static_cast<float>(random() % 10) / 10}));
    if (i % 5) in.push_back(Tensor::of<float>({1}, {i % 5 == 1 ? -inf : static_cast<float>(random() % 10) / 10 - 0.5f}));
    SCOPED_TRACE(fmt::format("{} classes of {} boxes", classes, count));
    EXPECT_THAT(agreeing(named("NonMaxSuppression"), in, 1, 2), ElementsAre("cpu", "reference"));
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
