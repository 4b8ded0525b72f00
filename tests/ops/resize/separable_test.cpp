// Linear and cubic resizing of any rank, axes and float type, and GridSample, on the processor against the reference.
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using ::testing::Contains;

Trial resize(const std::string& mode, DType type, const Shape& x, const std::vector<float>& scales, double low = -1,
             double high = 1) {
  Trial t;
  t.node.op = "Resize";
  t.node.opset = 19;
  t.node.attrs["mode"] = mode;
  t.add(random_tensor(type, x, 3, low, high), false);
  t.add(Tensor(), true);
  t.add(Tensor::of<float>({static_cast<int64_t>(scales.size())}, scales), true);
  const Tensor y = expected(t);
  t.result(y.type(), y.shape());
  return t;
}

TEST(Separable, takes_any_rank_axes_and_float_type) {
  for (const char* mode : {"linear", "cubic"}) {
    for (DType type : {DType::f32, DType::f16, DType::bf16}) {
      const double tolerance = type == DType::f32 ? 2e-6 : type == DType::f16 ? 2e-3 : 1e-2;
      Trial line = resize(mode, type, {2, 3, 40}, {1, 1, 2.5f});
      EXPECT_THAT(check(line, tolerance), Contains("cpu"));
      Trial channels = resize(mode, type, {2, 6, 9, 5}, {1, 1.5f, 0.5f, 1});
      EXPECT_THAT(check(channels, tolerance), Contains("cpu"));
      Trial image = resize(mode, type, {2, 3, 9, 11}, {1, 1, 2, 3});
      EXPECT_THAT(check(image, tolerance), Contains("cpu"));
    }
  }
  Trial volume = resize("linear", DType::f32, {1, 2, 5, 6, 7}, {1, 1, 2, 0.5f, 3});
  EXPECT_THAT(check(volume, 2e-6), Contains("cpu"));
}

TEST(Separable, integers_are_those_of_the_reference) {
  for (const char* mode : {"linear", "cubic"}) {
    for (DType type : {DType::u8, DType::i8, DType::i16, DType::u16, DType::i32, DType::u32}) {
      Trial image = resize(mode, type, {2, 3, 9, 11}, {1, 1, 2, 1.3f}, is_signed(type) ? -120 : 0, 120);
      EXPECT_THAT(check(image, 0), Contains("cpu"));
      Trial line = resize(mode, type, {2, 3, 40}, {1, 1, 0.4f}, 0, 120);
      EXPECT_THAT(check(line, 0), Contains("cpu"));
    }
  }
}

TEST(Separable, nearest_takes_any_rank_layout_and_type) {
  for (DType type : {DType::f32, DType::f16, DType::u8, DType::i64}) {
    Trial line = resize("nearest", type, {2, 3, 40}, {1, 1, 2.5f});
    EXPECT_THAT(check(line, 0), Contains("cpu"));
    Trial volume = resize("nearest", type, {1, 2, 5, 6, 7}, {1, 2, 2, 0.5f, 3});
    EXPECT_THAT(check(volume, 0), Contains("cpu"));
  }
}

// Rows of a few elements are looked up place by place, planes of them at once where those are not too large.
TEST(Separable, nearest_repeats_rows_of_a_few_elements) {
  const auto agrees = [](Trial t) { EXPECT_THAT(check(t, 0), Contains("cpu")); };
  for (DType type : {DType::f32, DType::u8, DType::f64})
    for (int64_t lines : {5, 127, 3000}) {
      for (float more : {1.5f, 2.0f, 3.4f}) agrees(resize("nearest", type, {2, 3, lines, 3}, {1, 1, more, 1.7f}));
      agrees(resize("nearest", type, {lines, 2, 3, 2}, {1, 1, 2, 2}));
    }
}

TEST(GridSampleTactics, take_every_mode_padding_and_rank) {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (int64_t align : {0, 1}) {
        for (const bool volume : {false, true}) {
          if (volume && mode[0] == 'c') continue;
          for (int64_t channels : {3, 19})  // one by one, side by side
            for (DType type : {DType::f32, DType::f16, DType::f64}) {
              Trial t;
              t.node.op = "GridSample";
              t.node.opset = 20;
              t.node.attrs = {{"mode", std::string(mode)}, {"padding_mode", std::string(padding)}, {"align_corners", align}};
              t.add(random_tensor(type, volume ? Shape{2, channels, 4, 5, 6} : Shape{2, channels, 9, 11}, 1), false);
              t.add(random_tensor(type, volume ? Shape{2, 3, 7, 5, 3} : Shape{2, 13, 17, 2}, 2, -1.4, 1.4), false);
              const Tensor y = expected(t);
              t.result(y.type(), y.shape());
              EXPECT_THAT(check(t, type == DType::f16 ? 2e-3 : 1e-5), Contains("cpu"))
                  << mode << ' ' << padding << ' ' << align << ' ' << channels << name(type);
            }
        }
      }
    }
  }
}

}  // namespace
}  // namespace smelt::ops
