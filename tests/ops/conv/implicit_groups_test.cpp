// Convolutions of several groups as the implicit product has them, a batch for each group: packed weights, the
// channels that a batch reads and where its results go, on the host against the reference. No GPU is needed; tests/gpu/conv_test.cpp holds
// the kernel to the reference.
#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <random>

#include "ops/conv/cuda_implicit_problem.h"
#include "ops/conv/gpu_request_case.h"
#include "ops/core/strides.h"
#include "ops/core/window.h"

namespace smelt::ops::conv {
namespace {

struct Grouped {
  int64_t groups = 1, channels = 1, outputs = 1;  // of a group
  Shape image = {5, 4}, window = {3, 3};
  std::vector<int64_t> strides = {1, 1};
  DType type = DType::f32;
  int64_t batch = 1;
};

Trial trial(const Grouped& c) {
  Trial t;
  t.node.op = "Conv";
  t.node.attrs = {{"group", c.groups}, {"strides", c.strides}};
  std::vector<int64_t> pads;
  for (int side = 0; side < 2; ++side)
    for (const int64_t taps : c.window) pads.push_back(taps / 2);
  t.node.attrs["pads"] = pads;
  Shape x{c.batch, c.groups * c.channels}, w{c.groups * c.outputs, c.channels};
  x.insert(x.end(), c.image.begin(), c.image.end());
  w.insert(w.end(), c.window.begin(), c.window.end());
  t.add(random_tensor(c.type, x, 1, -1, 1), false, Layout::nhwc);
  t.add(random_tensor(c.type, w, 2, -1, 1), true);
  t.add(random_tensor(c.type, {c.groups * c.outputs}, 3, -1, 1), true);
  t.result(c.type, expected(t).shape(), Layout::nhwc);
  return t;
}

/// y's memory as the kernel leaves it, less the bias; NaN where it writes nothing, or twice.
std::vector<double> by_batches(const GpuRequest& r, const ImplicitProblem& p, const Tensor& image, int64_t elements_there) {
  constexpr int64_t tile = 16;
  const std::vector<double> w = implicit_weights(r.weight().constant, p, tile).to_doubles(), logical = image.to_doubles();
  const ImageSegment& segment = p.segments[0];
  const int64_t channels = segment.channels, k = p.k(tile), span = k / p.tap_count();
  const int64_t pixels = elements(spatial_of(image.shape())), all_channels = image.shape()[1];
  std::vector<double> x(logical.size());  // channels last
  for (size_t i = 0; i < x.size(); ++i) {
    const auto at = static_cast<int64_t>(i), pixel = at / all_channels;
    x[i] = logical[static_cast<size_t>((pixel / pixels * all_channels + at % all_channels) * pixels + pixel % pixels)];
  }
  const AlongAxis axes[] = {p.depth.value_or(AlongAxis{}), p.along(p.axes() - 2), p.along(p.axes() - 1)};
  const CudaEpilogue epilogue = implicit_epilogue(r, p);
  EXPECT_EQ(epilogue.rows(), p.pixels());
  EXPECT_EQ(epilogue.batches(), p.batches());
  EXPECT_EQ(epilogue.columns(), p.m);
  BoundTensor y = epilogue.output();  // [N, (groups,) M, …]
  Shape steps = memory_strides(y);
  if (p.groups == 1) y.shape.insert(y.shape.begin() + 1, 1), steps.insert(steps.begin() + 1, 0);
  const int64_t steps_of_x[] = {segment.plane, segment.row, segment.pixel};
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> memory(static_cast<size_t>(elements_there), none);
  for (int64_t batch = 0; batch < p.batches(); ++batch)
    for (int64_t row = 0; row < p.pixels(); ++row) {
      std::vector<double> sums(static_cast<size_t>(p.m));
      for (int64_t tap = 0; tap < p.tap_count(); ++tap) {
        int64_t of_row = row, of_tap = tap, from = batch * channels;
        bool inside = true;
        for (size_t a = 3; a-- > 0;) {
          const AlongAxis& axis = axes[a];
          const int64_t at = of_row % axis.out * axis.stride - axis.pad + of_tap % axis.taps * axis.dilation;
          inside = inside && at >= 0 && at < axis.in;
          from += at * steps_of_x[a];
          of_row /= axis.out, of_tap /= axis.taps;
        }
        if (!inside) continue;
        for (int64_t m = 0; m < p.m; ++m)  // of_row: the image
          for (int64_t c = 0; c < channels; ++c)
            sums[static_cast<size_t>(m)] += x[static_cast<size_t>(from + of_row * segment.image + c)] *
                                            w[static_cast<size_t>((batch * p.m + m) * k + tap * span + c)];
      }
      for (int64_t m = 0; m < p.m; ++m) {
        int64_t place = batch * steps[1] + m * steps[2], rest = row;
        for (size_t a = y.shape.size(); a-- > 0;) {
          if (a == 1 || a == 2) continue;
          place += rest % y.shape[a] * steps[a];
          rest /= y.shape[a];
        }
        double& there = memory.at(static_cast<size_t>(place));
        there = std::isnan(there) ? sums[static_cast<size_t>(m)] : none;
      }
    }
  return memory;
}

TEST(ImplicitGroups, write_each_element_of_the_result_once_and_nothing_else) {
  std::mt19937 draw(11);
  const auto of = [&](std::initializer_list<int64_t> all) { return all.begin()[draw() % all.size()]; };
  int side_by_side = 0;
  for (int i = 0; i < 240; ++i) {
    const bool few = i >= 120;  // channels to a group, several of which make a batch
    Grouped c{.groups = of({2, 3, 4, 6, 8, 32}),
              .channels = few ? of({1, 2, 3, 4, 5, 8}) : of({8, 9, 12, 20, 33}),
              .outputs = of({1, 2, 4, 7, 16}),
              .image = {},
              .window = {},
              .strides = {}};
    for (int a = 0; a < 1 + i % 3; ++a)
      c.image.push_back(of({1, 3, 5})), c.window.push_back(of({1, 2, 3})), c.strides.push_back(of({1, 1, 2}));
    c.batch = of({1, 2});
    Trial t = trial(c);
    BoundTensor& y = t.bound.outputs[0];
    if (i % 4 == 1) {
      BoundTensor whole = y;
      for (size_t a = 1; a < whole.shape.size(); ++a) whole.shape[a] += 3;
      y.strides = memory_strides(whole);
    }
    GpuRequest r = request(t);
    const int64_t there = storage_bytes(y) / bytes(y.type, 1);
    const std::vector<double> logical = expected(t).to_doubles(), bias = t.inputs[2].to_doubles();
    SCOPED_TRACE(fmt::format("{}: {} groups of {} to {}, {} by {}", i, c.groups, c.channels, c.outputs, to_string(c.image),
                             to_string(c.window)));
    const int64_t joined = few ? c.groups % 2 == 0 && c.groups * c.channels >= 16 ? c.groups / 2 : c.groups : 1;
    const auto p = implicit_problem(r, Groups::taken, joined);
    if (joined * c.channels < 8) {
      EXPECT_FALSE(p);
      continue;
    }
    ASSERT_TRUE(p) << p.refusal().text;
    side_by_side += joined > 1;
    const std::vector<double> got = by_batches(r, *p, t.inputs[0], there);
    size_t written = 0;
    for (const double v : got) written += !std::isnan(v);
    EXPECT_EQ(written, logical.size());
    const Shape steps = memory_strides(y);
    Shape at(y.shape.size(), 0);
    size_t element = 0;
    do {
      int64_t place = 0;
      for (size_t a = 0; a < at.size(); ++a) place += at[a] * steps[a];
      ASSERT_NEAR(got[static_cast<size_t>(place)] + bias[static_cast<size_t>(at[1])], logical[element++], 1e-3) << place;
    } while (advance(at, y.shape));
  }
  EXPECT_GT(side_by_side, 60);
}

TEST(ImplicitGroups, of_few_channels_and_others_are_refused) {
  const auto refusal = [](const Grouped& c, Groups groups = Groups::taken) {
    Trial t = trial(c);
    const auto found = implicit_problem(request(t), groups);
    return found ? "taken" : found.refusal().text;
  };
  EXPECT_EQ(refusal({.groups = 4, .channels = 8, .outputs = 2}), "taken");
  EXPECT_EQ(refusal({.groups = 4, .channels = 8, .outputs = 2}, Groups::refused), "4 groups; it knows one");
  EXPECT_EQ(refusal({.groups = 4, .channels = 4, .outputs = 4}), "groups of 4 channels, expected at least 8");
}

}  // namespace
}  // namespace smelt::ops::conv
