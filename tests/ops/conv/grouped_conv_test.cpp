// Convolutions whose groups have several channels: as products of a group's channels each.
#include "ops/conv/conv_case.h"

namespace smelt::ops {
namespace {

TEST(GroupedConv, runs_with_groups_of_any_width) {
  const auto grouped = [](int64_t groups, int64_t in, int64_t out, Shape window = {3, 3}, std::vector<int64_t> stride = {1, 1},
                          Shape image = {7, 10}, int64_t batch = 1) {
    ConvCase c = one({batch, groups * in, image[0], image[1]}, {groups * out, in, window[0], window[1]}, std::move(stride),
                     {window[0] / 2, window[1] / 2, window[0] / 2, window[1] / 2});
    c.group = groups;
    return c;
  };
  ConvCase outside = grouped(3, 5, 7, {5, 3}), dilated = grouped(4, 16, 24, {3, 3}, {1, 2});
  outside.pads = {4, 0, 1, 5};  // windows that lie outside altogether
  dilated.dilation = {2, 3};
  const auto wide = [&](int64_t groups, int64_t in, int64_t out) {
    ConvCase c = grouped(groups, in, out, {3, 3}, {1, 1}, {13, 20});
    c.dilation = {15, 8};
    c.pads = {15, 8, 15, 8};
    return c;
  };
  const ConvCase twelve = grouped(2, 12, 12);
  const std::vector<ConvCase> cases = {outside,
                                       dilated,
                                       twelve,
                                       grouped(6, 8, 8, {3, 3}, {2, 2}, {13, 17}),
                                       grouped(2, 3, 40, {1, 1}),
                                       grouped(5, 1, 3),   // a channel, several results
                                       grouped(2, 33, 1),  // one result of each group
                                       grouped(26, 8, 8, {3, 3}, {1, 1}, {7, 7}, 3),
                                       grouped(3, 350, 20, {1, 1}),                   // parts of K
                                       grouped(4, 48, 48, {1, 31}, {1, 1}, {1, 60}),  // blocks of K, windows along one axis
                                       grouped(2, 24, 600, {1, 1}, {1, 1}, {3, 3}),   // more columns than a task takes
                                       grouped(100, 8, 8, {3, 3}, {1, 1}, {2, 2}),    // more groups than rows
                                       grouped(32, 4, 4),                             // four, two, and no groups as one
                                       grouped(6, 4, 4, {3, 3}, {2, 2}, {9, 11}),
                                       grouped(3, 4, 4),
                                       grouped(8, 4, 4, {7, 7}, {1, 1}, {12, 9}, 2),
                                       grouped(4, 4, 8),
                                       grouped(1, 5, 9),
                                       wide(1, 20, 24),  // dilations under which most taps lie outside
                                       wide(6, 8, 8),
                                       wide(8, 4, 4)};
  for (const ConvCase& c : cases) runs_with_and_without_programs(c);
  // Between the channels of other tensors.
  Trial sliced = trial(twelve);
  const Tensor want = sums(twelve, sliced);
  sliced.result(DType::f32, want.shape(), Layout::nhwc);
  sliced.bound.inputs[0].strides = {7 * 10 * 30, 1, 10 * 30, 30};
  sliced.bound.outputs[0].strides = {7 * 10 * 50, 1, 10 * 50, 50};
  EXPECT_THAT(agree(sliced, want), testing::Contains("avx2"));
}

}  // namespace
}  // namespace smelt::ops
