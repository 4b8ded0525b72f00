#include <map>

#include "ops/conv/conv_case.h"

namespace smelt::ops {
namespace {

TEST(WinogradConv, takes_every_size_of_image_and_padding) {
  const ConvCase cases[] = {
      one({1, 8, 3, 3}, {1, 8, 3, 3}),                             // one output
      one({2, 9, 4, 5}, {17, 9, 3, 3}, {1, 1}, {0, 1, 2, 0}),      // pads of its own on every side
      one({1, 520, 5, 6}, {70, 520, 3, 3}, {1, 1}, {1, 1, 1, 1}),  // channels in two parts, outputs in two slices
      one({1, 64, 57, 39}, {64, 64, 3, 3}, {1, 1}, {1, 1, 1, 1}),  // more tiles than a block holds
      one({3, 16, 31, 30}, {40, 16, 3, 3}, {1, 1}, {2, 2, 2, 2}),  // tiles of several images in one block
  };
  for (const ConvCase& c : cases) {
    Trial t = trial(c);
    const Tensor want = sums(c, t);
    t.result(DType::f32, want.shape(), Layout::nhwc);
    EXPECT_THAT(agree(t, want, 3e-6), testing::Contains("winograd"));
  }
}

TEST(WinogradConv, is_as_exact_as_the_direct_form) {
  const ConvCase c = one({1, 256, 14, 14}, {64, 256, 3, 3}, {1, 1}, {1, 1, 1, 1});
  Trial t = trial(c);
  const std::vector<double> want = sums(c, t).to_doubles();
  t.result(DType::f32, {1, 64, 14, 14}, Layout::nhwc);
  t.bound.node = &t.node;
  Machine machine;
  machine.threads = 2;
  const Offer o = offer(t.bound, machine);
  std::map<std::string, double> squares;
  for (const Candidate& c : o.candidates) {
    const std::vector<double> got = run(t, c).to_doubles();
    for (size_t i = 0; i < want.size(); ++i) squares[c.tactic] += (got[i] - want[i]) * (got[i] - want[i]);
  }
  EXPECT_LE(squares.at("winograd"), 4 * squares.at("avx2"));  // twice the error, as every fused form is allowed
}

TEST(WinogradConv, leaves_other_windows_strides_and_types) {
  ConvCase dilated = one({1, 16, 12, 12}, {16, 16, 3, 3});
  dilated.dilation = {2, 2};
  ConvCase half = one({1, 16, 12, 12}, {16, 16, 3, 3});
  half.type = DType::f16;
  for (const ConvCase& c : {one({1, 16, 12, 12}, {16, 16, 5, 5}), one({1, 16, 12, 12}, {16, 16, 3, 3}, {2, 2}),
                            one({1, 4, 12, 12}, {16, 4, 3, 3}), dilated, half}) {
    Trial t = trial(c);
    t.result(c.type, sums(c, t).shape(), Layout::nhwc);
    t.bound.node = &t.node;
    Machine machine;
    machine.threads = 2;
    for (const Candidate& candidate : offer(t.bound, machine).candidates) EXPECT_NE(candidate.tactic, "winograd");
  }
}

}  // namespace
}  // namespace smelt::ops
