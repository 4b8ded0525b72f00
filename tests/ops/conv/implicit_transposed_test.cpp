// Transposed convolutions as the implicit product has them, a batch for each phase of the strides: its windows and packed weights on the
// host, as src/kernels/conv/implicit.cuh goes over them, against the reference; and what it refuses. No GPU is needed.
// tests/gpu/conv_test.cpp holds the kernel to the reference.
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

struct Transposed {
  Shape x, w;
  std::vector<int64_t> strides, pads, more = {};  // more: output_padding
  std::vector<int64_t> dilations = {};
};

Trial trial(const Transposed& c) {
  Trial t;
  t.node.op = "ConvTranspose";
  t.node.attrs = {{"strides", c.strides}, {"pads", c.pads}};
  if (!c.more.empty()) t.node.attrs["output_padding"] = c.more;
  if (!c.dilations.empty()) t.node.attrs["dilations"] = c.dilations;
  t.add(random_tensor(DType::f32, c.x, 1, -1, 1), false, Layout::nhwc);
  t.add(random_tensor(DType::f32, c.w, 2, -1, 1), true);
  t.result(DType::f32, expected(t).shape(), Layout::nhwc);
  return t;
}

/// Where the epilogue puts result `m` of a phase's row: from y as it has it, [N, (D, SD,) H, SH, W, SW, M].
int64_t place_of(const BoundTensor& y, int64_t phase, int64_t row, int64_t m) {
  int64_t place = m * y.strides.back();
  for (size_t a = y.shape.size() - 1; a-- > 0;) {
    int64_t& at = a > 0 && a % 2 == 0 ? phase : row;
    place += at % y.shape[a] * y.strides[a];
    at /= y.shape[a];
  }
  EXPECT_EQ(phase + row, 0);
  return place;
}

/// y's memory as the kernel leaves it; where it writes nothing, or twice, NaN.
std::vector<double> by_phases(const GpuRequest& r, const ImplicitProblem& p, const Tensor& image, int64_t elements_there) {
  constexpr int64_t tile = 16;
  const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
  const Tensor weights = implicit_weights(r.weight().constant, p, tile);
  const std::vector<double> w = weights.to_doubles(), x = image.to_doubles();
  const int64_t channels = p.segments[0].channels, k = p.k(tile), span = k / p.tap_count();
  const AlongAxis axes[] = {p.depth.value_or(AlongAxis{}), p.along(p.axes() - 2), p.along(p.axes() - 1)};
  matmul::CudaConfig config;
  config.tile_m = config.tile_n = config.tile_k = tile;
  const ImplicitArguments args = implicit_arguments(p, config);
  const int32_t all_taps[] = {args.all_taps_d, args.all_taps[0], args.all_taps[1]};
  const CudaEpilogue epilogue = implicit_epilogue(r, p);
  EXPECT_EQ(epilogue.rows(), p.pixels());
  EXPECT_EQ(epilogue.batches(), p.batches());
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> memory(static_cast<size_t>(elements_there), none);
  for (int64_t batch = 0; batch < p.batches(); ++batch)
    for (int64_t row = 0; row < p.pixels(); ++row) {
      std::vector<double> sums(static_cast<size_t>(p.m));
      for (int64_t tap = 0; tap < p.tap_count(); ++tap) {
        int64_t of_batch = batch, of_row = row, of_tap = tap, from = 0, step = 1;
        bool inside = true, lacking = false;
        for (size_t a = 3; a-- > 0;) {
          const AlongAxis& axis = axes[a];
          const int64_t begin =
              kernels::implicit_first<true>(narrow(of_row % axis.out), narrow(axis.stride), narrow(axis.pad), narrow(axis.taps),
                                            narrow(axis.dilation), narrow(of_batch % axis.stride));
          const int64_t at = begin + of_tap % axis.taps * axis.dilation;
          inside = inside && at >= 0 && at < axis.in;
          lacking = lacking || (of_tap % axis.taps == 0 && kernels::lacks_first_tap(narrow(axis.stride), narrow(axis.pad),
                                                                                    all_taps[a], narrow(of_batch % axis.stride)));
          from += at * step;
          step *= axis.in;
          of_batch /= axis.stride, of_row /= axis.out, of_tap /= axis.taps;
        }
        // What is read is multiplied by a tap of the filter: a zero would make no number of infinity.
        for (int64_t i = 0; i < p.m * channels; ++i)
          EXPECT_EQ(w[static_cast<size_t>((batch * p.m + i / channels) * k + tap * span + i % channels)] == 0, lacking);
        if (!inside || lacking) continue;
        for (int64_t m = 0; m < p.m; ++m)  // of_row: the image
          for (int64_t c = 0; c < channels; ++c)
            sums[static_cast<size_t>(m)] += x[static_cast<size_t>((of_row * channels + c) * step + from)] *
                                            w[static_cast<size_t>((batch * p.m + m) * k + tap * span + c)];
      }
      for (int64_t m = 0; m < p.m; ++m) {
        double& there = memory.at(static_cast<size_t>(place_of(epilogue.output(), batch, row, m)));
        there = std::isnan(there) ? sums[static_cast<size_t>(m)] : none;
      }
    }
  return memory;
}

/// A random one, of 1 to 3 axes; `more` is what its strides leave over, or as many pixels as it takes to be whole phases.
Transposed random_case(std::mt19937& random, size_t axes, bool whole) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint32_t>(n)); };
  Transposed c{.x = {1 + below(2), 1 + below(20)}};
  c.w = {c.x[1], 1 + below(9)};
  std::vector<int64_t> ends;
  for (size_t a = 0; a < axes; ++a) {
    const int64_t taps = 1 + below(5), stride = 1 + below(axes == 1 ? 8 : 3), dilation = 1 + (below(3) == 0 ? below(3) : 0);
    const int64_t in = 1 + below(6), begin = below(taps), end = below(taps);
    int64_t more = below(stride);
    const int64_t rest = (in - 1) * stride + (taps - 1) * dilation + 1 - begin - end;
    if (whole) more = (stride - rest % stride) % stride;
    if (rest + more < 1) return random_case(random, axes, whole);
    c.strides.push_back(stride), c.pads.push_back(begin), ends.push_back(end), c.more.push_back(more);
    c.dilations.push_back(dilation), c.w.push_back(taps), c.x.push_back(in);
  }
  c.pads.insert(c.pads.end(), ends.begin(), ends.end());
  return c;
}

/// y dense in either layout, or a slice of a larger tensor.
void lay_out(BoundTensor& y, int form) {
  y.layout = form == 1 ? Layout::plain : Layout::nhwc;
  if (form < 2) return;
  BoundTensor whole = y;
  for (size_t a = 1; a < whole.shape.size(); ++a) whole.shape[a] += form - 1;
  y.strides = memory_strides(whole);
}

TEST(ImplicitTransposed, phases_write_each_element_of_the_result_once_and_nothing_else) {
  std::mt19937 random(3);
  int taken = 0;
  for (int i = 0; i < 400; ++i) {
    const Transposed c = random_case(random, 1 + static_cast<size_t>(i) % 3, i % 4 != 0);
    SCOPED_TRACE(fmt::format("{}: {} by {} strides {} pads {} dilations {} more {}", i, to_string(c.x), to_string(c.w),
                             fmt::join(c.strides, ","), fmt::join(c.pads, ","), fmt::join(c.dilations, ","),
                             fmt::join(c.more, ",")));
    Trial t = trial(c);
    lay_out(t.bound.outputs[0], i % 5);
    GpuRequest r = request(t);
    const auto p = implicit_problem(r);
    if (!p) continue;
    ++taken;
    const BoundTensor& y = t.bound.outputs[0];
    const int64_t there = storage_bytes(y) / bytes(y.type, 1);
    std::vector<double> want(static_cast<size_t>(there), std::numeric_limits<double>::quiet_NaN());
    const std::vector<double> logical = expected(t).to_doubles();
    const Shape steps = memory_strides(y);
    Shape at(y.shape.size(), 0);
    size_t element = 0;
    do {
      int64_t place = 0;
      for (size_t a = 0; a < at.size(); ++a) place += at[a] * steps[a];
      want[static_cast<size_t>(place)] = logical[element++];
    } while (advance(at, y.shape));
    const std::vector<double> got = by_phases(r, *p, t.inputs[0], there);
    for (size_t e = 0; e < want.size(); ++e) {
      ASSERT_EQ(std::isnan(got[e]), std::isnan(want[e])) << e;
      if (std::isfinite(want[e])) {
        ASSERT_NEAR(got[e], want[e], 1e-3) << e;
      }
    }
  }
  EXPECT_GT(taken, 200);
}

TEST(ImplicitTransposed, refuse_phases_that_are_not_alike) {
  const auto refusal = [](const Transposed& c) {
    Trial t = trial(c);
    GpuRequest r = request(t);
    const auto found = implicit_problem(r);
    return found ? "taken" : found.refusal().text;
  };
  EXPECT_EQ(refusal({.x = {1, 16, 7, 7}, .w = {16, 8, 4, 4}, .strides = {2, 2}, .pads = {1, 1, 1, 1}}), "taken");
  EXPECT_EQ(refusal({.x = {1, 16, 7, 7}, .w = {16, 8, 3, 3}, .strides = {2, 2}, .pads = {1, 1, 1, 1}, .more = {1, 1}}), "taken");
  EXPECT_EQ(refusal({.x = {1, 16, 7, 7}, .w = {16, 8, 3, 3}, .strides = {2, 2}, .pads = {1, 1, 1, 1}}),
            "a transposed convolution to 13 pixels along axis 2, expected a multiple of its stride 2");
  EXPECT_EQ(refusal({.x = {1, 16, 7}, .w = {16, 8, 4}, .strides = {1}, .pads = {0, 0}, .dilations = {2}}), "taken");
  EXPECT_EQ(refusal({.x = {1, 16, 7}, .w = {16, 8, 4}, .strides = {2}, .pads = {0, 0}, .more = {1}, .dilations = {2}}),
            "phases: a stride of 2 and a dilation of 2");
}

}  // namespace
}  // namespace smelt::ops::conv
