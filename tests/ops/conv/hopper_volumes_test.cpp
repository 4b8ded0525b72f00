// Convolutions along three axes as they are told to Hopper's tensor maps: where maps and the walk over K lead, against the definition
// of windows; volumes that are images; the table of what sums lack. No GPU is needed. tests/gpu/hopper_conv_test.cpp holds the kernel to
// the reference.
#include <random>

#include "ops/conv/cuda_outside.h"
#include "ops/conv/int8_problem.h"
#include "ops/conv/quantized_conv_case.h"
#include "ops/conv/volumes_case.h"
#include "ops/conv/window_boxes.h"

namespace smelt::ops::conv {
namespace {

std::string refusal_of(const Volumes& c) {
  Trial t = trial(c);
  GpuRequest r = request(t);
  const auto found = windows_problem(r);
  return found ? "taken" : found.refusal().text;
}

/// Bytes from where the map's tensor begins to the pixel; -1: none.
int64_t address(const WindowMap& m, const Pixel& p) {
  if (p.image < 0) return -1;
  const auto step = [&](size_t axis) { return static_cast<int64_t>(m.steps[axis]); };
  return p.column * step(0) + p.row * step(1) + (m.rank == 5 ? p.plane * step(2) : 0) + p.image * step(m.rank - 2);
}

/// Where windows begin, the outermost axis first, as the pair of a map's place and image.
template <int Axes> std::pair<Place, int64_t> first_window(const kernels::HopperWindows<Axes>& w, int64_t p) {
  int64_t at[3] = {};
  for (int a = Axes - 1; a >= 0; --a) {
    at[a + 3 - Axes] = p % w.out[a].divisor * w.stride[a] + w.first[a];
    p /= w.out[a].divisor;
  }
  return {{at[2], at[1], at[0]}, p};
}

template <int Axes> Place tap_of(const kernels::HopperWalk<Axes>& walk) {
  if constexpr (Axes == 3)
    return {walk.offset[2], walk.offset[1], walk.offset[0]};
  else
    return {walk.offset[1], walk.offset[0]};
}

/// Every copy of a tile of `pixels` windows, at every step of K, has the pixels that the windows' definition says.
template <int Axes> void expect_walk(const WindowsProblem& p, const Volumes& c, int64_t pixels) {
  const kernels::HopperWindows<Axes> w = hopper_windows<Axes>(p);
  const WindowMap map(p, p.segments[0], pixels);
  ASSERT_EQ(map.rank, Axes + 2u);
  const uint32_t chunks[] = {hopper_chunks(p, p.segments[0])};
  const int64_t taps = c.w[2] * c.w[3] * c.w[4];
  const Shape &x = c.x, y = c.y();
  ASSERT_EQ(p.pixels(), y[0] * y[2] * y[3] * y[4]);
  for (int64_t first = 0; first < p.pixels(); first += pixels) {
    const auto [at, image] = first_window(w, first);
    kernels::HopperWalk<Axes> walk(w, chunks, 1, 0);
    for (int64_t step = 0; step < taps * chunks[0]; ++step, walk.advance(w, chunks)) {
      const kernels::HopperWalk<Axes> there(w, chunks, 1, static_cast<uint32_t>(step));  // where a split of K begins
      ASSERT_TRUE(there.chunk == walk.chunk && std::ranges::equal(there.offset, walk.offset));
      ASSERT_EQ(walk.chunk, step % chunks[0]);
      const int64_t tap = step / chunks[0];
      const auto box = copied(map, at, image, tap_of(walk));
      for (int64_t i = 0; i < pixels && first + i < p.pixels(); ++i) {
        const int64_t o = first + i, n = o / (y[4] * y[3] * y[2]);
        const int64_t d = c.along(0, o / (y[4] * y[3]) % y[2], tap / (c.w[3] * c.w[4])),
                      h = c.along(1, o / y[4] % y[3], tap / c.w[4] % c.w[3]), v = c.along(2, o % y[4], tap % c.w[4]);
        const bool inside = d >= 0 && d < x[2] && h >= 0 && h < x[3] && v >= 0 && v < x[4];
        ASSERT_EQ(address(map, box[static_cast<size_t>(i)]), inside ? (((n * x[2] + d) * x[3] + h) * x[4] + v) * x[1] * 2 : -1)
            << "pixel " << o << ", tap " << tap;
      }
    }
    ASSERT_EQ(walk.segment, 1u);
  }
}

TEST(HopperVolumes, copy_what_the_definition_of_windows_says) {
  std::mt19937 random(5);
  int images = 0;
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    const Volumes c = random_volumes(random, 8 * (1 + i % 20), 4, i % 3 ? 2 : 8);
    Trial t = trial(c);
    GpuRequest r = request(t);
    const auto p = windows_problem(r);
    ASSERT_TRUE(p) << p.refusal().text;
    images += !p->depth;
    if (p->depth)
      expect_walk<3>(*p, c, 8 * (1 + i % 9));
    else
      expect_walk<2>(*p, c, 8 * (1 + i % 9));
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(images, 60);
  EXPECT_LE(images, 140);
}

/// Windows of one plane, each its own, and of one pixel of a plane: the maps of images have wider bounds, and their windows slide.
TEST(HopperVolumes, are_images_where_windows_have_one_plane_or_one_pixel_of_it) {
  const auto problem = [](const Volumes& c) {
    Trial t = trial(c);
    GpuRequest r = request(t);
    return *windows_problem(r);
  };
  const WindowsProblem planes = problem({.x = {2, 64, 8, 14, 15}, .w = {64, 64, 1, 3, 3}, .pads = {0, 1, 1, 0, 1, 1}});
  EXPECT_EQ(planes.axes(), 2);
  EXPECT_EQ(planes.n, 16);
  EXPECT_TRUE(sliding_windows(planes));
  const WindowsProblem times =
      problem({.x = {2, 64, 8, 14, 15}, .w = {64, 64, 3, 1, 1}, .strides = {2, 1, 1}, .pads = {1, 0, 0, 1, 0, 0}});
  EXPECT_EQ(times.axes(), 2);
  EXPECT_EQ(times.n, 2);
  EXPECT_EQ(times.out_height, 4);
  EXPECT_EQ(times.in_width, 14 * 15);
  EXPECT_TRUE(problem({.x = {2, 64, 8, 14, 15}, .w = {64, 64, 1, 1, 1}}).matrix);
  EXPECT_EQ(problem({.x = {2, 64, 8, 14, 15}, .w = {64, 64, 1, 3, 3}, .strides = {2, 1, 1}}).axes(), 3);
  // A volume of which some planes, or some rows, are no neighbours in memory.
  const int64_t row = 15 * 64, plane = 14 * row;
  EXPECT_EQ(problem({.x = {2, 64, 8, 14, 15}, .w = {64, 64, 1, 3, 3}, .x_strides = {9 * plane, 1, plane, row, 64}}).axes(), 3);
  EXPECT_EQ(problem({.x = {1, 64, 8, 14, 15}, .w = {64, 64, 1, 3, 3}, .x_strides = {9 * plane, 1, plane, row, 64}}).axes(), 2);
  EXPECT_EQ(
      problem({.x = {2, 64, 8, 14, 15}, .w = {64, 64, 3, 1, 1}, .x_strides = {8 * 16 * row, 1, 16 * row, row + 64, 64}}).axes(),
      3);
  EXPECT_EQ(problem({.x = {2, 64, 8, 14, 15}, .w = {64, 64, 3, 3, 3}}).axes(), 3);
}

QuantizedCase quantized(const Volumes& c, DType weights) {
  QuantizedCase q{.x = c.x, .w = c.w, .w_type = weights};
  q.pads = c.pads, q.strides = c.strides, q.dilations = c.dilations;
  return q;
}

/// Σ w over the taps of each window that lie outside of the volume, times its zero point, at every pixel and channel.
TEST(HopperVolumes, what_sums_lack_of_pixels_outside_is_in_the_table) {
  std::mt19937 random(9);
  int64_t lacking = 0, whole = 0;
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE(i);
    const Volumes v = random_volumes(random, 16, 3);
    QuantizedCase c = quantized(v, i % 2 ? DType::i8 : DType::u8);
    Trial t = quantized_trial(c);
    const int32_t zero = 1 + i * 5;
    const auto [w, less] = set_zero_point(t, c, static_cast<uint32_t>(i), zero);
    GpuRequest r = **int8_gpu_request(*int8_request(t.bound, 1), gpu_of_arch("sm_90a"));
    const auto p = windows_problem(r);
    ASSERT_TRUE(p) << p.refusal().text;
    const Tensor table = outside_table(r, *p, zero);
    ASSERT_EQ(table.size(), outside_elements(*p));
    const int32_t* const numbers = table.data<int32_t>();
    const std::vector<double> weights = w.to_doubles();
    // As the program reads it: the operand's shape broadcast to y's.
    const Shape y = v.y(), places = outside_operand(r, *p).tensor.shape;
    ASSERT_EQ(places.size(), 4u);
    ASSERT_TRUE((places[1] == 1 || places[1] == y[2]) && places[2] == y[3] && places[3] == y[4]);
    const int64_t taps = c.w[2] * c.w[3] * c.w[4];
    for (int64_t o = 0; o < y[2] * y[3] * y[4]; ++o) {
      const int32_t begin = numbers[o % (places[1] * places[2] * places[3])];
      ASSERT_TRUE(begin == -1 || (begin % 16 == 0 && begin + (p->m + 15) / 16 * 16 <= table.size()));
      ++(begin == -1 ? whole : lacking);
      for (int64_t m = 0; m < p->m; ++m) {
        double want = 0;
        for (int64_t k = 0; k < 16 * taps; ++k) {
          const int64_t tap = k % taps, d = v.along(0, o / (y[4] * y[3]), tap / (c.w[3] * c.w[4])),
                        h = v.along(1, o / y[4] % y[3], tap / c.w[4] % c.w[3]), x = v.along(2, o % y[4], tap % c.w[4]);
          if (d < 0 || d >= c.x[2] || h < 0 || h >= c.x[3] || x < 0 || x >= c.x[4])
            want += weights[static_cast<size_t>(m * 16 * taps + k)] - static_cast<double>(less);
        }
        ASSERT_EQ(begin == -1 ? 0 : numbers[begin + m], want * zero) << "pixel " << o << ", channel " << m;
      }
    }
  }
  EXPECT_GT(lacking, 300);
  EXPECT_GT(whole, 100);
}

/// Σ x · w over what copies and weights have at each step of K is the convolution's sum.
TEST(HopperVolumes, weights_lie_as_the_walk_reads_them) {
  Volumes v{.x = {2, 144, 3, 4, 5}, .w = {8, 144, 2, 3, 2}, .strides = {1, 2, 1}, .pads = {1, 1, 1, 0, 0, 1}};
  Trial t = quantized_trial(quantized(v, DType::i8));
  set_weights(t, random_bytes(DType::i8, v.w, 7), 0);
  t.inputs[2] = t.bound.inputs[2].constant = Tensor::scalar<uint8_t>(0);
  t.bound.node = &t.node;
  GpuRequest r = **int8_gpu_request(*int8_request(t.bound, 1), gpu_of_arch("sm_90a"));
  const auto p = windows_problem(r);
  ASSERT_TRUE(p) << p.refusal().text;
  ASSERT_TRUE(p->depth);
  const kernels::HopperWindows<3> w = hopper_windows<3>(*p);
  const uint32_t chunks[] = {hopper_chunks(*p, p->segments[0])};
  const int64_t line = p->line(), steps = p->tap_count() * chunks[0], taps = p->tap_count();
  ASSERT_EQ(windows_product(r, *p).k, steps * line);
  const WindowMap map(*p, p->segments[0], p->pixels());
  const uint8_t* const x = t.inputs[0].data<uint8_t>();
  const int8_t* const weights = t.inputs[3].data<int8_t>();
  const Tensor packed = windows_weights(r, *p, 0);
  ASSERT_EQ(packed.shape(), (Shape{p->m, steps * line}));
  const Shape y = v.y();
  const auto element = [&](int64_t n, int64_t c, int64_t d, int64_t h, int64_t column) {
    return int64_t{x[(((n * v.x[1] + c) * v.x[2] + d) * v.x[3] + h) * v.x[4] + column]};
  };
  for (int64_t m = 0; m < p->m; ++m) {
    std::vector<int64_t> sums(static_cast<size_t>(p->pixels())), want = sums;
    kernels::HopperWalk<3> walk(w, chunks, 1, 0);
    for (int64_t step = 0; step < steps; ++step, walk.advance(w, chunks)) {
      const auto box = copied(map, first_window(w, 0).first, 0, tap_of(walk));
      for (size_t i = 0; i < box.size(); ++i)
        for (int64_t e = 0; e < line; ++e) {
          const int64_t channel = walk.chunk * line + e;
          if (box[i].image < 0 || channel >= v.x[1]) continue;
          sums[i] += element(box[i].image, channel, box[i].plane, box[i].row, box[i].column) *
                     packed.data<int8_t>()[(m * steps + step) * line + e];
        }
    }
    for (int64_t o = 0; o < p->pixels(); ++o)
      for (int64_t k = 0; k < v.w[1] * taps; ++k) {
        const int64_t tap = k % taps, d = v.along(0, o / (y[4] * y[3]) % y[2], tap / (v.w[3] * v.w[4])),
                      h = v.along(1, o / y[4] % y[3], tap / v.w[4] % v.w[3]), c = v.along(2, o % y[4], tap % v.w[4]);
        if (d < 0 || d >= v.x[2] || h < 0 || h >= v.x[3] || c < 0 || c >= v.x[4]) continue;
        want[static_cast<size_t>(o)] += element(o / (y[4] * y[3] * y[2]), k / taps, d, h, c) * weights[m * v.w[1] * taps + k];
      }
    ASSERT_EQ(sums, want) << "channel " << m;
  }
}

TEST(HopperVolumes, are_refused_with_the_number_that_a_tensor_map_does_not_take) {
  const Volumes good{.x = {1, 64, 9, 9, 9}, .w = {64, 64, 3, 3, 3}};
  const auto with = [&](auto&& change) {
    Volumes c = good;
    change(c);
    return refusal_of(c);
  };
  EXPECT_EQ(refusal_of(good), "taken");
  EXPECT_EQ(with([](Volumes& c) { c.strides = {9, 1, 1}; }), "windows 9 planes apart, tensor maps take steps of 8");
  EXPECT_EQ(with([](Volumes& c) { c.pads[1] = 16; }), "taken");
  EXPECT_EQ(with([](Volumes& c) { c.pads[1] = 17; }),
            "windows begin -17 to -2 rows from the image's, tensor maps of volumes take -16 to 15");
  EXPECT_EQ(with([](Volumes& c) { c.pads[3] = 18; }),
            "windows begin 0 to 16 planes from the image's, tensor maps of volumes take -16 to 15");
  EXPECT_EQ(with([](Volumes& c) { c.x[4] = 40, c.dilations = {1, 1, 15}, c.pads = {0, 0, 15, 0, 0, 15}; }), "taken");
  EXPECT_EQ(with([](Volumes& c) {
              c.x[4] = 40, c.dilations = {1, 1, 16}, c.pads = {0, 0, 16, 0, 0, 16};
            }),
            "taps 32 columns apart, tensor maps of volumes take 30");
  // As images they have the bounds of these.
  EXPECT_EQ(with([](Volumes& c) { c.x[4] = 40, c.w[2] = 1, c.dilations = {1, 1, 16}, c.pads = {0, 0, 16, 0, 0, 16}; }), "taken");
}

}  // namespace
}  // namespace smelt::ops::conv
