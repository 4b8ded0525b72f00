#include "ops/conv/conv_case.h"

namespace smelt::ops {
namespace {

TEST(DepthwiseConv, runs_with_every_window_stride_and_border) {
  const auto depthwise = [](Shape x, Shape window, std::vector<int64_t> stride, std::vector<int64_t> pads,
                            std::vector<int64_t> dilation = {1, 1}) {
    ConvCase c = one(x, {x[1], 1, window[0], window[1]}, std::move(stride), std::move(pads));
    c.group = x[1];
    c.dilation = std::move(dilation);
    return c;
  };
  std::vector<ConvCase> cases = {
      depthwise({1, 16, 1, 1}, {5, 5}, {1, 1}, {2, 2, 2, 2}),   // a window larger than the image
      depthwise({1, 9, 4, 3}, {3, 3}, {1, 1}, {4, 4, 4, 4}),    // windows that lie outside altogether
      depthwise({1, 33, 6, 21}, {2, 1}, {2, 1}, {0, 0, 1, 0}),  // no border along a line
      depthwise({2, 24, 11, 40}, {3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}),
      depthwise({1, 40, 9, 30}, {3, 5}, {2, 3}, {1, 0, 0, 3}, {1, 4}),
      depthwise({1, 2, 7, 90}, {1, 31}, {1, 1}, {0, 15, 0, 15}),  // speech models' windows along one axis
  };
  for (int64_t taps : {3, 5, 7})
    for (int64_t stride : {1, 2})
      for (int64_t channels : {8, 19, 48})
        cases.push_back(depthwise({2, channels, 8, 27}, {taps, taps}, {stride, stride}, std::vector<int64_t>(4, taps / 2)));
  for (const ConvCase& c : cases) runs_with_and_without_programs(c);
  // Between the channels of other tensors.
  Trial sliced = trial(cases[3]);
  const Tensor want = sums(cases[3], sliced);
  sliced.result(DType::f32, want.shape(), Layout::nhwc);
  sliced.bound.inputs[0].strides = {11 * 40 * 30, 1, 40 * 30, 30};
  sliced.bound.outputs[0].strides = {11 * 40 * 50, 1, 40 * 50, 50};
  EXPECT_THAT(agree(sliced, want), testing::Contains("avx2"));
}

}  // namespace
}  // namespace smelt::ops
