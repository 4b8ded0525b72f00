// GridSample's taps of many places together, against the reference.
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using ::testing::Contains;

Trial grid(DType type, const Shape& x, Shape places, std::map<std::string, Attribute> attrs, double reach) {
  Trial t;
  t.node.op = "GridSample";
  t.node.opset = 20;
  t.node.attrs = std::move(attrs);
  t.add(random_tensor(type, x, 1), false);
  Shape y = {x[0], x[1]};
  y.insert(y.end(), places.begin(), places.end());
  places.insert(places.begin(), x[0]);
  places.push_back(std::ssize(x) - 2);
  Tensor at = random_tensor(DType::f32, places, 2, -reach, reach);
  // Edges, halves, and numbers that are none.
  const float odd[] = {-1, 1, 0, 1e30f, -1e30f, INFINITY, -INFINITY, NAN, 0.5f, -3, 1.0000001f};
  for (size_t i = 0; i < std::size(odd); ++i)
    if (const int64_t place = static_cast<int64_t>(i) * 7; place < at.size()) at.data<float>()[place] = odd[i];
  t.add(at, false);
  t.result(type, y);
  return t;
}

TEST(GridSample, agrees_over_axes_modes_and_paddings) {
  for (const auto& [x, places] :
       {std::pair(Shape{2, 1, 9, 10, 7}, Shape{5, 6, 7}), std::pair(Shape{1, 3, 4, 1, 5}, Shape{3, 9, 11}),
        std::pair(Shape{2, 2, 13, 17}, Shape{20, 21}), std::pair(Shape{1, 40, 9, 8}, Shape{17, 9}),
        std::pair(Shape{2, 3, 50}, Shape{133}), std::pair(Shape{1, 1, 1, 1}, Shape{1, 3})})
    for (const char* mode : {"nearest", "linear", "cubic"})
      for (const char* padding : {"zeros", "border", "reflection"})
        for (const int64_t align : {0, 1}) {
          if (x.size() == 5 && *mode == 'c') continue;
          for (const double reach : {1.1, 4.0}) {
            Trial t =
                grid(DType::f32, x, places,
                     {{"mode", std::string(mode)}, {"padding_mode", std::string(padding)}, {"align_corners", align}}, reach);
            EXPECT_THAT(check(t, 2e-6, 2), Contains("cpu")) << mode << ' ' << padding << ' ' << align << to_string(x);
          }
        }
}

/// A pixel that has no weight is not read: what is no number there does not spread.
TEST(GridSample, leaves_pixels_without_weight_out) {
  for (const char* mode : {"nearest", "linear"}) {
    Trial t = grid(DType::f32, {1, 1, 4, 4}, {1, 16}, {{"mode", std::string(mode)}, {"align_corners", int64_t{1}}}, 1);
    for (int64_t i = 0; i < 16; ++i) {
      t.inputs[0].data<float>()[i] = i % 3 == 0 ? NAN : static_cast<float>(i);
      t.inputs[1].data<float>()[2 * i] = static_cast<float>(i % 4) / 1.5f - 1;
      t.inputs[1].data<float>()[2 * i + 1] = static_cast<float>(i / 4) / 1.5f - 1;
    }
    EXPECT_THAT(check(t, 1e-5), Contains("cpu")) << mode;
  }
}

}  // namespace
}  // namespace smelt::ops
