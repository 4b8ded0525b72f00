// The taps that an output meets and the pixels under them, as the kernel for groups of few channels and transposed convolutions walks
// over them (src/kernels/conv/grouped.h), against the definition. No GPU is needed; tests/gpu/grouped_conv_test.cpp holds the kernel to the
// reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ops/conv/cuda_grouped.h"

namespace smelt::ops::conv {
namespace {

using Taps = std::vector<std::pair<int64_t, int64_t>>;  // (tap, pixel), pixels inside of the image alone

Taps walked(const Problem& p, int64_t o) {
  const kernels::GroupedAxis a = grouped_axis(p, 0);
  const auto begin = p.transposed ? kernels::grouped_begin<true>(a, static_cast<int32_t>(o))
                                  : kernels::grouped_begin<false>(a, static_cast<int32_t>(o));
  Taps all;
  int32_t at = begin.at;
  for (int32_t tap = begin.tap; tap < a.taps; tap += a.tap_step, at += a.pixel_step)
    if (at >= 0 && at < a.in) all.emplace_back(tap, at);
  return all;
}

Taps defined(const Problem& p, int64_t o) {
  Taps all;
  for (int64_t tap = 0; tap < p.w[2]; ++tap) {
    int64_t at = p.transposed ? o + p.pad_begin[0] - tap * p.dilation[0] : o * p.stride[0] - p.pad_begin[0] + tap * p.dilation[0];
    if (p.transposed && (at < 0 || at % p.stride[0] != 0)) continue;
    if (p.transposed) at /= p.stride[0];
    if (at >= 0 && at < p.x[0].shape[2]) all.emplace_back(tap, at);
  }
  return all;
}

TEST(GroupedTaps, are_those_of_the_definition) {
  int met = 0;
  for (const bool transposed : {false, true})
    for (const int64_t in : {1, 2, 7})
      for (const int64_t taps : {1, 2, 3, 5, 8})
        for (int64_t stride = 1; stride <= 6; ++stride)
          for (int64_t dilation = 1; dilation <= 6; ++dilation)
            for (const int64_t pad : {0, 1, 4, 9}) {
              Problem p;
              p.transposed = transposed;
              p.x = {{{1, 4, in}}};
              p.w = {4, 1, taps};
              p.stride = {stride}, p.dilation = {dilation}, p.pad_begin = {pad};
              for (int64_t o = 0; o < 40; ++o) {
                const Taps want = defined(p, o);
                met += static_cast<int>(want.size());
                ASSERT_EQ(walked(p, o), want) << fmt::format("{} in {} taps {} stride {} dilation {} pad {} at {}", transposed,
                                                             in, taps, stride, dilation, pad, o);
              }
            }
  EXPECT_GT(met, 10000);
}

}  // namespace
}  // namespace smelt::ops::conv
