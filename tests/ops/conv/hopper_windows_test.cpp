// What a convolution tells Hopper's tensor maps in im2col mode, and the walk over K that its kernel has, against an emulation of what
// such a map copies: no GPU is needed. tests/gpu/hopper_conv_test.cpp holds the kernels to the reference.
#include <random>

#include "kernels/conv/walked.h"
#include "ops/conv/cuda_hopper_windows.h"
#include "ops/conv/cuda_outside.h"
#include "ops/conv/gpu_request_case.h"
#include "ops/conv/int8_problem.h"
#include "ops/conv/quantized_conv_case.h"
#include "ops/conv/window_boxes.h"

namespace smelt::ops::conv {
namespace {

struct Windows {
  Shape x, w;
  std::vector<int64_t> strides = {1, 1}, pads = {0, 0, 0, 0}, dilations = {1, 1};
  DType type = DType::f16;
  Shape x_strides = {};
  int64_t group = 1;
};

Trial trial(const Windows& c, Layout layout = Layout::nhwc) {
  Trial t;
  t.node.op = "Conv";
  t.node.attrs["strides"] = c.strides;
  t.node.attrs["pads"] = c.pads;
  t.node.attrs["dilations"] = c.dilations;
  t.node.attrs["group"] = c.group;
  t.node.inputs = {ValueId(0), ValueId(1)};
  t.bound.inputs = {{c.type, c.x, layout, c.x_strides, {}}, {c.type, c.w, Layout::plain, {}, {}}};
  t.bound.inputs[1].constant = Tensor::zeros(c.type, c.w);
  Shape y = {c.x[0], c.w[0]};
  for (size_t a = 0; a < 2; ++a)
    y.push_back((c.x[2 + a] + c.pads[a] + c.pads[2 + a] - (c.w[2 + a] - 1) * c.dilations[a] - 1) / c.strides[a] + 1);
  t.result(c.type, y, Layout::nhwc);
  return t;
}

std::string refusal_of(const Windows& c, std::string_view arch = "sm_90a", Layout layout = Layout::nhwc) {
  Trial t = trial(c, layout);
  GpuRequest r = request(t, arch);
  const auto found = windows_problem(r);
  return found ? "taken" : found.refusal().text;
}

/// Every copy of a tile of `pixels` windows, at every step of K, has the pixels that the windows' definition says.
void expect_walk(const WindowsProblem& p, const Windows& c, int64_t pixels) {
  const kernels::HopperWindows<2> w = hopper_windows<2>(p);
  const WindowMap map(p, p.segments[0], pixels);
  const uint32_t chunks[] = {hopper_chunks(p, p.segments[0])};
  const int64_t steps = c.w[2] * c.w[3] * chunks[0];
  for (int64_t first = 0; first < p.pixels(); first += pixels) {
    const int64_t column = first % p.out_width, row = first / p.out_width % p.out_height,
                  image = first / p.out_width / p.out_height;
    kernels::HopperWalk<2> walk(w, chunks, 1, 0);
    for (int64_t step = 0; step < steps; ++step, walk.advance(w, chunks)) {
      const kernels::HopperWalk<2> there(w, chunks, 1, static_cast<uint32_t>(step));  // where a split of K begins
      ASSERT_TRUE(there.chunk == walk.chunk && std::ranges::equal(there.offset, walk.offset));
      const int64_t tap = step / chunks[0], kh = tap / c.w[3], kw = tap % c.w[3];
      ASSERT_EQ(walk.chunk, step % chunks[0]);
      const auto box = copied(map, {column * w.stride[1] + w.first[1], row * w.stride[0] + w.first[0]}, image,
                              {walk.offset[1], walk.offset[0]});
      for (int64_t i = 0; i < pixels; ++i) {
        const int64_t at = first + i, ow = at % p.out_width, oh = at / p.out_width % p.out_height,
                      n = at / p.out_width / p.out_height;
        const int64_t h = oh * c.strides[0] + kh * c.dilations[0] - c.pads[0],
                      x = ow * c.strides[1] + kw * c.dilations[1] - c.pads[1];
        const bool inside = n < c.x[0] && h >= 0 && h < c.x[2] && x >= 0 && x < c.x[3];
        ASSERT_EQ(box[static_cast<size_t>(i)], (inside ? Pixel{n, 0, h, x} : Pixel{}))
            << "pixel " << at << ", tap " << kh << " " << kw;
      }
    }
  }
}

TEST(HopperWindows, copy_what_the_definition_of_windows_says) {
  std::mt19937 random(5);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint32_t>(n)); };
  int taken = 0;
  for (int i = 0; i < 300; ++i) {
    Windows c;
    const int64_t kh = 1 + below(4), kw = 1 + below(4);
    c.strides = {1 + below(i % 3 ? 2 : 8), 1 + below(i % 3 ? 2 : 8)};
    c.dilations = {1 + below(3), 1 + below(3)};
    c.pads = {below(kh + 1), below(kw + 1), below(kh + 1), below(kw + 1)};
    const auto extent = [&](int64_t taps, size_t a) {
      return std::max<int64_t>(1, (taps - 1) * c.dilations[a] + 1 - c.pads[a] - c.pads[a + 2]) + below(9);
    };
    c.x = {1 + below(3), 8 * (1 + below(20)), extent(kh, 0), extent(kw, 1)};
    c.w = {8, c.x[1], kh, kw};
    SCOPED_TRACE(i);
    Trial t = trial(c);
    GpuRequest r = request(t);
    const auto p = windows_problem(r);
    ASSERT_TRUE(p) << p.refusal().text;
    ++taken;
    expect_walk(*p, c, 8 * (1 + below(9)));
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(taken, 300);
}

/// A buffer of the windows that slide has the pixels of every tap of every window of y.
void expect_slide(const WindowsProblem& p, const Windows& c, int64_t pixels) {
  const auto all = sliding_windows(p);
  if (!all) return;
  const kernels::SlidingWindows w = sliding_argument(p, *all);
  const int64_t height = all->out_height, width = all->out_width;
  const WindowMap map(*all, p.segments[0], pixels + sliding_reach(w));
  int64_t seen = 0;
  for (int64_t first = 0; first < all->pixels(); first += pixels) {
    const int64_t column = first % width, row = first / width % height, image = first / width / height;
    std::vector<std::vector<Pixel>> boxes;  // of the phases
    for (uint32_t phase = 0; phase < w.phases(0) * w.phases(1); ++phase)
      boxes.push_back(copied(map, {column * w.stride[1] + w.first[1], row * w.stride[0] + w.first[0]}, image,
                             {phase % w.phases(1), phase / w.phases(1)}));
    for (int64_t i = 0; i < pixels; ++i) {
      const int64_t at = first + i, ow = at % width, oh = at / width % height, n = at / width / height;
      if (n >= c.x[0] || oh >= p.out_height || ow >= p.out_width) continue;
      ++seen;
      for (int64_t kh = 0; kh < c.w[2]; ++kh)
        for (int64_t kw = 0; kw < c.w[3]; ++kw) {
          const int64_t h = oh * c.strides[0] + kh * c.dilations[0] - c.pads[0],
                        x = ow * c.strides[1] + kw * c.dilations[1] - c.pads[1];
          const bool inside = h >= 0 && h < c.x[2] && x >= 0 && x < c.x[3];
          const auto& box = boxes[static_cast<size_t>(kh % w.stride[0] * w.phases(1) + kw % w.stride[1])];
          ASSERT_EQ(box[static_cast<size_t>(i + kh / w.stride[0] * w.step[0] + kw / w.stride[1] * w.step[1])],
                    (inside ? Pixel{n, 0, h, x} : Pixel{}))
              << "window " << oh << " " << ow << ", tap " << kh << " " << kw;
        }
    }
  }
  EXPECT_EQ(seen, p.pixels());
}

TEST(HopperWindows, slide_over_images_whose_padding_is_there_once) {
  std::mt19937 random(6);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint32_t>(n)); };
  int slide = 0;
  for (int i = 0; i < 300; ++i) {
    Windows c;
    const int64_t kh = 1 + below(5), kw = 1 + below(5);
    c.strides = {1 + below(2), 1 + below(2)};
    c.dilations = {c.strides[0] == 2 ? 1 : 1 + below(3), c.strides[1] == 2 ? 1 : 1 + below(3)};
    c.pads = {below(kh + 1), below(kw + 1), below(kh + 1), below(kw + 1)};
    const auto extent = [&](int64_t taps, size_t a) {
      return std::max<int64_t>(1, (taps - 1) * c.dilations[a] + 1 - c.pads[a] - c.pads[a + 2]) + 14 + below(9);
    };
    c.x = {1 + below(3), 8, extent(kh, 0), extent(kw, 1)};
    c.w = {8, 8, kh, kw};
    SCOPED_TRACE(i);
    Trial t = trial(c);
    GpuRequest r = request(t);
    const auto p = windows_problem(r);
    ASSERT_TRUE(p) << p.refusal().text;
    slide += sliding_windows(*p).has_value();
    expect_slide(*p, c, 8 * (1 + below(9)));
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(slide, 100);
}

/// Σ x · w over what copies and weights have at each step of K is the convolution's sum, with lines in the order of channels or of lanes.
/// Of 144 channels three lines of 64 bytes take less than two of 128, of 112 one of 128 as much as two.
class HopperWeights : public testing::TestWithParam<std::pair<int64_t, int64_t>> {};
INSTANTIATE_TEST_SUITE_P(Lines, HopperWeights, testing::Values(std::pair{144, 64}, std::pair{112, 128}, std::pair{48, 64}));

TEST_P(HopperWeights, lie_as_the_walk_reads_them) {
  const auto [channels, expected_line] = GetParam();
  QuantizedCase c{
      .x = {2, channels, 4, 5}, .w = {32, channels, 3, 2}, .pads = {1, 1, 0, 1}, .strides = {2, 1}, .w_type = DType::u8};
  Trial t = quantized_trial(c);
  set_weights(t, random_bytes(DType::u8, c.w, 7), 128);
  t.inputs[2] = t.bound.inputs[2].constant = Tensor::scalar<uint8_t>(0);
  t.bound.node = &t.node;
  GpuRequest r = **int8_gpu_request(*int8_request(t.bound, 1), gpu_of_arch("sm_90a"));
  const auto p = windows_problem(r);
  ASSERT_TRUE(p) << p.refusal().text;
  const kernels::HopperWindows<2> w = hopper_windows<2>(*p);
  const uint32_t chunks[] = {hopper_chunks(*p, p->segments[0])};
  const int64_t line = p->line(), steps = p->taps[0] * p->taps[1] * chunks[0];
  ASSERT_EQ(line, expected_line);
  const WindowMap map(*p, p->segments[0], p->pixels());
  const uint8_t *x = t.inputs[0].data<uint8_t>(), *weights = t.inputs[3].data<uint8_t>();
  const auto product = windows_product(r, *p);
  ASSERT_EQ(product.k, steps * line);
  const auto configs = windows_configs(*p, product, *r.gpu);
  ASSERT_TRUE(configs) << configs.refusal().text;
  for (const auto& config : *configs) {
    ASSERT_EQ(config.steps, line) << config.print();
    ASSERT_EQ(config.stage_bytes(product) % (8 * line), 0) << config.print();
  }
  for (const auto& [width, paired] : {std::pair<int64_t, bool>{0, false}, {8, false}, {16, false}, {0, true}}) {
    const Tensor packed = windows_weights(r, *p, width, paired);
    ASSERT_EQ(packed.shape(), (Shape{windows_lines(*p, width), steps * line}));
    for (int64_t l = 0; l < packed.shape()[0]; ++l) {
      const int64_t part = 4 * width, m = paired       ? l / 16 * 16 + kernels::paired_channel(static_cast<int>(l % 16))
                                          : width == 0 ? l
                                                       : l / part * part + kernels::walked_channel(static_cast<int>(l % part),
                                                                                                   static_cast<int>(width));
      if (m >= p->m) continue;
      std::vector<int64_t> sums(static_cast<size_t>(p->pixels())), want = sums;
      kernels::HopperWalk<2> walk(w, chunks, 1, 0);
      for (int64_t step = 0; step < steps; ++step, walk.advance(w, chunks)) {
        const auto box = copied(map, {w.first[1], w.first[0]}, 0, {walk.offset[1], walk.offset[0]});
        for (size_t i = 0; i < box.size(); ++i)
          for (int64_t e = 0; e < line; ++e) {
            const int64_t channel = walk.chunk * line + e;
            if (box[i].image < 0 || channel >= c.x[1]) continue;
            const int64_t pixel = ((box[i].image * c.x[1] + channel) * c.x[2] + box[i].row) * c.x[3] + box[i].column;
            sums[i] += int64_t{x[pixel]} * packed.data<int8_t>()[(l * steps + step) * line + e];
          }
      }
      for (int64_t i = 0; i < p->pixels(); ++i)
        for (int64_t k = 0; k < c.w[1] * c.w[2] * c.w[3]; ++k) {
          const int64_t channel = k / (c.w[2] * c.w[3]), kh = k / c.w[3] % c.w[2], kw = k % c.w[3];
          const int64_t n = i / p->out_width / p->out_height, h = i / p->out_width % p->out_height * 2 + kh - 1,
                        v = i % p->out_width + kw - 1;
          if (h < 0 || h >= c.x[2] || v < 0 || v >= c.x[3]) continue;
          want[static_cast<size_t>(i)] +=
              int64_t{x[((n * c.x[1] + channel) * c.x[2] + h) * c.x[3] + v]} * (weights[m * c.w[1] * c.w[2] * c.w[3] + k] - 128);
        }
      ASSERT_EQ(sums, want) << "width " << width << ", line " << l;
    }
  }
}

/// Σ w over the taps of each window that lie outside of the image, times the image's zero point, at every pixel and channel.
TEST(HopperWindows, what_sums_lack_of_pixels_outside_is_in_the_table) {
  std::mt19937 random(9);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint32_t>(n)); };
  int64_t lacking = 0, whole = 0;
  for (int i = 0; i < 100; ++i) {
    const int64_t kh = 1 + below(5), kw = 1 + below(5);
    QuantizedCase c{.x = {2, 16, 0, 0}, .w = {1 + below(40), 16, kh, kw}, .w_type = i % 2 ? DType::i8 : DType::u8};
    c.strides = {1 + below(3), 1 + below(3)};
    c.dilations = {1 + below(3), 1 + below(3)};
    c.pads = {below(kh + 2), below(kw + 2), below(kh + 2), below(kw + 2)};
    const auto extent = [&](int64_t taps, size_t a) {
      return std::max<int64_t>(1, (taps - 1) * c.dilations[a] + 1 - c.pads[a] - c.pads[a + 2]) + below(9);
    };
    c.x[2] = extent(kh, 0), c.x[3] = extent(kw, 1);
    SCOPED_TRACE(i);
    Trial t = quantized_trial(c);
    const int32_t zero = 1 + static_cast<int32_t>(below(255));
    const auto [w, less] = set_zero_point(t, c, static_cast<uint32_t>(i), zero);
    GpuRequest r = **int8_gpu_request(*int8_request(t.bound, 1), gpu_of_arch("sm_90a"));
    const auto p = windows_problem(r);
    ASSERT_TRUE(p) << p.refusal().text;
    const Tensor table = outside_table(r, *p, zero);
    ASSERT_EQ(table.size(), outside_elements(*p));
    const int32_t* const numbers = table.data<int32_t>();
    const std::vector<double> weights = w.to_doubles();
    for (int64_t h = 0; h < p->out_height; ++h)
      for (int64_t v = 0; v < p->out_width; ++v) {
        const int32_t begin = numbers[h * p->out_width + v];
        ASSERT_TRUE(begin == -1 || (begin % 16 == 0 && begin + (p->m + 15) / 16 * 16 <= table.size()));
        ++(begin == -1 ? whole : lacking);
        for (int64_t m = 0; m < p->m; ++m) {
          double want = 0;
          for (int64_t k = 0; k < 16 * kh * kw; ++k) {
            const int64_t y = h * c.strides[0] + k / kw % kh * c.dilations[0] - c.pads[0],
                          x = v * c.strides[1] + k % kw * c.dilations[1] - c.pads[1];
            if (y < 0 || y >= c.x[2] || x < 0 || x >= c.x[3])
              want += weights[static_cast<size_t>(m * 16 * kh * kw + k)] - static_cast<double>(less);
          }
          ASSERT_EQ(begin == -1 ? 0 : numbers[begin + m], want * zero) << "pixel " << h << " " << v << ", channel " << m;
        }
      }
    // The program over the sums reads it beside what all windows lack.
    const std::span places(numbers, static_cast<size_t>(p->out_height * p->out_width));
    if (std::ranges::any_of(places, [](int32_t b) { return b != -1; })) {
      EXPECT_TRUE(std::ranges::any_of(r.operands, &EpilogueOperand::by_index));
    }
  }
  EXPECT_GT(lacking, 500);
  EXPECT_GT(whole, 200);
}

TEST(HopperWindows, describe_slices_by_their_strides) {
  Windows c{.x = {2, 72, 5, 6}, .w = {8, 72, 3, 3}, .pads = {1, 0, 0, 2}};
  c.x_strides = {96 * 8 * 7, 1, 96 * 8, 96};
  Trial t = trial(c);
  GpuRequest r = request(t);
  const auto p = windows_problem(r);
  ASSERT_TRUE(p);
  const WindowMap m(*p, p->segments[0], 192);
  EXPECT_EQ(m.rank, 4u);
  EXPECT_THAT(m.extents, testing::ElementsAre(72, 6, 5, 2, 0));
  EXPECT_THAT(m.steps, testing::ElementsAre(96 * 2, 96 * 8 * 2, 96 * 8 * 7 * 2, 0));
  EXPECT_THAT(m.first, testing::ElementsAre(0, -1, 0));
  EXPECT_THAT(m.last, testing::ElementsAre(0, -2, 0));
  EXPECT_EQ(m.channels, 64u);
  EXPECT_EQ(m.pixels, 192u);
  EXPECT_EQ(hopper_chunks(*p, p->segments[0]), 2u);
}

TEST(HopperWindows, of_one_pixel_side_by_side_are_a_matrix) {
  const auto matrix = [](const Windows& c) {
    Trial t = trial(c);
    GpuRequest r = request(t);
    return windows_problem(r)->matrix;
  };
  EXPECT_TRUE(matrix({.x = {2, 64, 5, 6}, .w = {8, 64, 1, 1}}));
  EXPECT_FALSE(matrix({.x = {2, 64, 5, 6}, .w = {8, 64, 1, 1}, .strides = {2, 1}}));
  EXPECT_FALSE(matrix({.x = {2, 64, 5, 6}, .w = {8, 64, 1, 1}, .pads = {0, 0, 1, 0}}));
  EXPECT_TRUE(matrix({.x = {2, 64, 5, 6}, .w = {8, 64, 1, 1}, .x_strides = {30 * 80, 1, 6 * 80, 80}}));
  EXPECT_FALSE(matrix({.x = {2, 64, 5, 6}, .w = {8, 64, 1, 1}, .x_strides = {56 * 64, 1, 7 * 64, 64}}));
}

TEST(HopperWindows, are_refused_with_the_number_that_a_tensor_map_does_not_take) {
  const Windows good{.x = {1, 64, 9, 9}, .w = {64, 64, 3, 3}};
  const auto with = [&](auto&& change) {
    Windows c = good;
    change(c);
    return refusal_of(c);
  };
  EXPECT_EQ(refusal_of(good), "taken");
  EXPECT_EQ(refusal_of(good, "sm_80"), "wgmma is Hopper's alone (9.0), this is 8.0");
  EXPECT_EQ(refusal_of(good, "sm_100a"), "wgmma is Hopper's alone (9.0), this is 10.0");
  EXPECT_EQ(refusal_of(good, "sm_90a", Layout::plain), "input 0, whose channels do not lie side by side");
  EXPECT_EQ(with([](Windows& c) { c.type = DType::f32; }), "a convolution of f32 that may not be rounded to tf32");
  EXPECT_EQ(with([](Windows& c) { c.x[1] = c.w[1] = 12; }),
            "copies of 8 bytes, tensor maps want 16: the channels of a pixel, or its strides");
  EXPECT_EQ(with([](Windows& c) { c.strides = {1, 9}; }), "windows 9 columns apart, tensor maps take steps of 8");
  EXPECT_EQ(with([](Windows& c) {
              c.x[2] = 400, c.dilations = {128, 1}, c.pads = {127, 0, 129, 0};
            }),
            "taps 256 rows apart, tensor maps take 255");
  EXPECT_EQ(with([](Windows& c) {
              c.x[2] = 400, c.dilations = {65, 1};
            }),
            "windows begin 0 to -130 rows from the image's, tensor maps take -128 to 127");
  EXPECT_EQ(with([](Windows& c) { c.x[2] = 400, c.dilations = {64, 1}; }), "taken");
  EXPECT_EQ(with([](Windows& c) {
              c.pads = {0, 130, 0, 0};
            }),
            "windows begin -130 to -2 columns from the image's, tensor maps take -128 to 127");
}

}  // namespace
}  // namespace smelt::ops::conv
