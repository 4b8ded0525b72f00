// Convolutions by Hopper's own instructions against the processor's reference: random windows, strides and slices, each by one
// configuration chosen at random; every tile; images concatenated or not. Each kernel runs twice, and both runs must agree bit for bit.
#include <fmt/core.h>

#include <atomic>
#include <future>
#include <set>
#include <thread>

#include "dice.h"
#include "gpu_trial.h"
#include "ops/conv/cuda_hopper_windows.h"
#include "product_trial.h"

namespace smelt::ops {
namespace {

using matmul::HopperConfig;

struct Convolution {
  DType type = DType::f16;
  Shape x, w;
  std::vector<int64_t> strides = {1, 1}, pads = {0, 0, 0, 0}, dilations = {1, 1};
  bool residual = false;
  std::vector<int64_t> channels;  // of each of several inputs, w[1] together; none: x has all
  Shape x_strides;                // of a slice, in elements
};

Trial trial(const Convolution& c) {
  Trial t;
  const std::string_view name = smelt::name(c.type);
  t.node.domain = smelt_domain;
  t.node.op = "Conv";
  t.node.attrs["segments"] = std::max<int64_t>(1, std::ssize(c.channels));
  t.node.attrs["strides"] = c.strides;
  t.node.attrs["pads"] = c.pads;
  t.node.attrs["dilations"] = c.dilations;
  Shape x = c.x;
  for (size_t i = 0; i < std::max<size_t>(1, c.channels.size()); ++i) {
    if (!c.channels.empty()) x[1] = c.channels[i];
    t.add(random_tensor(c.type, x, 10 + static_cast<uint32_t>(i), -1, 1), false, Layout::nhwc);
  }
  t.bound.inputs[0].strides = c.x_strides;
  t.add(random_tensor(c.type, c.w, 2, -1, 1), true);
  t.add(random_tensor(c.type, {c.w[0]}, 3), true);
  Node plain = t.node;
  plain.outputs.push_back(static_cast<ValueId>(101));
  const Shape y = evaluate(plain, t.inputs)[0].shape();
  if (c.residual) {
    const std::string half = fmt::format(
        "(in0:f32, in1:{0}) {{ %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = relu(%3):f32; %5 = cast(%4):{0}; return %5 }}",
        name);
    t.node.program = expr::Program::parse(
        c.type == DType::f32 ? "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = relu(%2):f32; return %3 }" : half);
    t.add(random_tensor(c.type, y, 4), false, Layout::nhwc);
  }
  t.result(c.type, y, Layout::nhwc);
  t.bound.node = &t.node;
  return t;
}

/// Sums in float, and one unit in the last place of the result's type.
double tolerance(const Convolution& c) {
  const int64_t k = elements(c.w) / c.w[0];
  if (c.type == DType::f32) return 2 * off_in_tf32;
  return (c.type == DType::f16 ? 1.0 / 1024 : 1.0 / 128) + 4e-7 * std::sqrt(static_cast<double>(k) + 1);
}

/// Some 10 million products at most, so that the reference is soon done.
Convolution random_case(Dice& dice) {
  Convolution c;
  c.type = dice.below(3) ? DType::f16 : DType::bf16;
  const int64_t kh = dice.one_of({1, 3, 3, 3, 2, 5, 7}), kw = dice.below(4) == 0 ? dice.one_of({1, 2, 3, 7}) : kh;
  const int64_t channels = dice.one_of({8, 16, 24, 32, 40, 64, 64, 72, 96, 128, 160, 256, 320});
  c.dilations = {dice.one_of({1, 1, 1, 2, 5}), dice.one_of({1, 1, 1, 3})};
  c.strides = {dice.one_of({1, 1, 2, 2, 3, 8}), dice.one_of({1, 1, 2, 2, 5, 7})};
  c.pads = {dice.below(kh + 1), dice.below(kw + 1), dice.below(kh + 1), dice.below(kw + 1)};
  const int64_t most = dice.below(3) ? 12 : 40;
  const auto extent = [&](int64_t taps, int64_t dilation, int64_t begin, int64_t end) {
    return std::max<int64_t>(1, (taps - 1) * dilation + 1 - begin - end) + dice.below(most);
  };
  const int64_t h = extent(kh, c.dilations[0], c.pads[0], c.pads[2]), w = extent(kw, c.dilations[1], c.pads[1], c.pads[3]);
  c.x = {1 + dice.below(4), channels, h, w};
  const int64_t filters = 10'000'000 / (c.x[0] * h * w * channels * kh * kw) * c.strides[0] * c.strides[1] + 8;
  c.w = {std::min(filters, dice.below(3) == 0 ? 1 + dice.below(150) : dice.one_of({16, 64, 64, 96, 128, 192, 256, 320})),
         channels, kh, kw};
  c.residual = dice.below(2) != 0;
  if (dice.below(4) == 0) {
    int64_t left = channels;
    while (left > 0 && c.channels.size() < 7) {
      c.channels.push_back(8 * (1 + dice.below(left / 8)));
      left -= c.channels.back();
    }
    if (left > 0) c.channels.push_back(left);
  } else if (dice.below(3) == 0) {  // some of a wider image's channels, rows and columns
    const int64_t pixel = channels + 8 * dice.below(4), row = pixel * (w + dice.below(3));
    c.x_strides = {row * (h + dice.below(3)), 1, row, pixel};
  }
  return c;
}

/// Along three axes, some of them so that it is one of images.
Convolution random_volume(Dice& dice) {
  Convolution c;
  c.type = dice.one_of({0, 1, 2}) == 0 ? DType::bf16 : dice.below(4) ? DType::f16 : DType::f32;
  const int64_t channels = dice.one_of({8, 16, 24, 40, 64, 64, 72, 96, 128, 160});
  c.x = {1 + dice.below(3), channels}, c.w = {0, channels};
  c.strides.clear(), c.dilations.clear();
  std::vector<int64_t> ends;
  c.pads.clear();
  const int64_t flat = dice.below(6);  // 0: planes of their own; 1: pixels of their own
  for (int64_t a = 0; a < 3; ++a) {
    const bool own = (flat == 0 && a == 0) || (flat == 1 && a > 0);
    const int64_t taps = own ? 1 : dice.one_of({1, 2, 3, 3, 3, 4}), dilation = dice.one_of({1, 1, 1, 2});
    c.strides.push_back(own ? 1 : dice.one_of({1, 1, 2, 2, 3, 8}));
    c.dilations.push_back(dilation);
    c.pads.push_back(own ? 0 : dice.below(taps + 1));
    ends.push_back(own ? 0 : dice.below(taps + 1));
    c.w.push_back(taps);
    c.x.push_back(std::max<int64_t>(1, (taps - 1) * dilation + 1 - c.pads.back() - ends.back()) + dice.below(a == 0 ? 5 : 9));
  }
  c.pads.insert(c.pads.end(), ends.begin(), ends.end());
  const int64_t filters = 10'000'000 / (elements(c.x) * c.w[2] * c.w[3] * c.w[4]) + 8;
  c.w[0] = std::min(filters, dice.below(3) == 0 ? 1 + dice.below(150) : dice.one_of({16, 64, 64, 96, 128, 192}));
  c.residual = dice.below(2) != 0;
  if (channels % 16 == 0 && dice.below(4) == 0) {
    c.channels = {channels / 2, channels / 2};
  } else if (dice.below(3) == 0) {  // a part of a wider volume
    const int64_t pixel = channels + 8 * dice.below(4), row = pixel * (c.x[4] + dice.below(3)),
                  plane = row * (c.x[3] + dice.below(3));
    c.x_strides = {plane * (c.x[2] + dice.below(3)), 1, plane, row, pixel};
  }
  return c;
}

struct Prepared {
  Convolution convolution;
  Trial trial;
  std::string name, refused;
  std::unique_ptr<Kernel> kernel;
  Tensor want;
};

/// The kernels of `choose(configurations)`, prepared.
void prepare(Prepared& p, const std::function<const HopperConfig&(const std::vector<HopperConfig>&)>& choose,
             int multiprocessors) {
  Machine machine;
  const auto gpu = std::make_shared<Gpu>(*test_gpu());
  gpu->info.multiprocessors = multiprocessors;
  gpu->tf32 = p.convolution.type == DType::f32;
  machine.gpu = gpu;
  const auto made = conv::gpu_request(p.trial.bound, machine);
  conv::GpuRequest r = **made;
  const auto found = conv::windows_problem(r);
  if (!found) {
    p.refused = found.refusal().text;
    return;
  }
  const auto product = conv::windows_product(r, *found);
  const auto configs = conv::windows_configs(*found, product, *gpu);
  if (!configs) {
    p.refused = configs.refusal().text;
    return;
  }
  const HopperConfig& c = choose(*configs);
  p.name += " " + conv::print(r.problem) + " " + c.print();
  p.kernel = conv::hopper_conv(r, *found, product, c);
}

/// All of `problems`, side by side.
template <class F> std::vector<Prepared> all_prepared(uint32_t problems, F&& one) {
  std::vector<Prepared> all(problems);
  std::atomic<uint32_t> next = 0;
  std::vector<std::future<void>> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.push_back(std::async(std::launch::async, [&] {
      for (uint32_t at; (at = next++) < problems;) one(all[at], at);
    }));
  for (std::future<void>& t : threads) t.get();
  return all;
}

/// The trial of its convolution, a kernel of any tile on one of so many blocks, and what it has to give.
void prepare_random(Prepared& p, uint32_t seed, Dice& dice, std::initializer_list<int64_t> blocks) {
  p.trial = trial(p.convolution);
  p.trial.bound.node = &p.trial.node;
  p.name = fmt::format("seed {}:", seed);
  prepare(
      p,
      [&](const auto& configs) -> const HopperConfig& { return configs[static_cast<size_t>(dice.below(std::ssize(configs)))]; },
      static_cast<int>(dice.one_of(blocks)));
  if (p.kernel) p.want = evaluate(p.trial.node, p.trial.inputs)[0];
}

class GpuHopperConv : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test_gpu()->info.major != 9) GTEST_SKIP() << "wgmma is Hopper's alone";
  }
  /// How many ran.
  static size_t expect(std::vector<Prepared>& all) {
    size_t ran = 0, wrong = 0;
    for (Prepared& p : all) {
      if (!p.kernel) continue;
      ++ran;
      SCOPED_TRACE(p.name);
      const double apart = error(run_on_gpu(p.trial, *p.kernel)[0], p.want);
      EXPECT_LE(apart, tolerance(p.convolution));
      if (apart > tolerance(p.convolution) && ++wrong == 12) break;
    }
    return ran;
  }
};

TEST_F(GpuHopperConv, agrees_on_500_random_problems) {
  constexpr uint32_t problems = 500;
  auto all = all_prepared(problems, [](Prepared& p, uint32_t seed) {
    Dice dice(seed);
    p.convolution = random_case(dice);
    prepare_random(p, seed, dice, {1, 4, 132, 132});
  });
  EXPECT_GE(expect(all), problems * 9 / 10);
}

TEST_F(GpuHopperConv, agrees_on_300_random_volumes) {
  constexpr uint32_t problems = 300;
  auto all = all_prepared(problems, [](Prepared& p, uint32_t seed) {
    Dice dice(4000 + seed);
    p.convolution = random_volume(dice);
    prepare_random(p, seed, dice, {1, 4, 132, 132});
  });
  for (const Prepared& p : all) EXPECT_TRUE(p.kernel) << p.refused;
  EXPECT_EQ(expect(all), problems);
}

/// Corners of -16 and 15, taps up to 30 behind the first, steps of 8, along each axis.
TEST_F(GpuHopperConv, takes_volumes_at_the_bounds_of_tensor_maps) {
  std::vector<Convolution> cases;
  for (size_t axis = 0; axis < 3; ++axis)
    for (int64_t bound = 0; bound < 4; ++bound) {
      Convolution c{.x = {2, 72, 5, 6, 7}, .w = {40, 72, 2, 2, 2}, .strides = {1, 1, 1}, .pads = {1, 0, 1, 0, 1, 1}};
      c.dilations = {1, 1, 1};
      int64_t &begin = c.pads[axis], &end = c.pads[axis + 3], &extent = c.x[axis + 2];
      if (bound == 0) begin = 16;                                                 // the first corner is -16
      if (bound == 1) begin = 0, end = 16;                                        // the last one 15
      if (bound == 2) extent = 35, c.dilations[axis] = 30, begin = 14, end = 15;  // taps 30 apart
      if (bound == 3) extent = 35, c.strides[axis] = 8;
      cases.push_back(c);
    }
  auto all = all_prepared(static_cast<uint32_t>(cases.size()), [&](Prepared& p, uint32_t at) {
    Dice dice(at);
    p.convolution = cases[at];
    prepare_random(p, at, dice, {1, 132});
  });
  for (const Prepared& p : all) EXPECT_TRUE(p.kernel) << p.refused;
  EXPECT_EQ(expect(all), cases.size());
}

TEST_F(GpuHopperConv, rounds_floats_to_tf32) {
  constexpr uint32_t problems = 150;
  auto all = all_prepared(problems, [](Prepared& p, uint32_t seed) {
    Dice dice(2000 + seed);
    p.convolution = random_case(dice);
    p.convolution.type = DType::f32;
    prepare_random(p, seed, dice, {1, 4, 132});
  });
  EXPECT_GE(expect(all), problems * 9 / 10);
}

/// Images and weights of 8 bits, results of 16.
TEST_F(GpuHopperConv, multiplies_floats_of_8_bits) {
  constexpr uint32_t problems = 120;
  auto all = all_prepared(problems, [](Prepared& p, uint32_t seed) {
    Dice dice(3000 + seed);
    Convolution& c = p.convolution;
    c = random_case(dice);
    c.type = DType::f16, c.residual = false, c.channels.clear(), c.x_strides.clear();
    c.x[1] = c.w[1] = dice.one_of({16, 48, 64, 128, 144, 256});
    Trial& t = p.trial;
    t.node.domain = smelt_domain;
    t.node.op = "Conv";
    t.node.attrs["strides"] = c.strides;
    t.node.attrs["pads"] = c.pads;
    t.node.attrs["dilations"] = c.dilations;
    t.node.program =
        expr::Program::parse("(in0:f32, in1:f32) { %2 = mul(in0, in1):f32; %3 = relu(%2):f32; %4 = cast(%3):f16; return %4 }");
    t.add(random_tensor(DType::f8e4m3fn, c.x, 1, -1, 1), false, Layout::nhwc);
    t.add(random_tensor(DType::f8e4m3fn, c.w, 2, -1, 1), true);
    t.add(Tensor{}, false);
    t.add(random_tensor(DType::f32, {c.w[0], 1, 1}, 3, 0.5, 1.5), true);
    Node plain = t.node;
    plain.outputs.push_back(static_cast<ValueId>(101));
    p.want = evaluate(plain, t.inputs)[0];
    t.result(DType::f16, p.want.shape(), Layout::nhwc);
    t.bound.node = &t.node;
    p.name = fmt::format("seed {}:", seed);
    prepare(
        p,
        [&](const auto& configs) -> const HopperConfig& { return configs[static_cast<size_t>(dice.below(std::ssize(configs)))]; },
        static_cast<int>(dice.one_of({1, 4, 132, 132})));
  });
  for (const Prepared& p : all) EXPECT_TRUE(p.kernel) << p.refused;
  EXPECT_GE(expect(all), problems * 9 / 10);
}

TEST_F(GpuHopperConv, agrees_where_windows_slide) {
  constexpr uint32_t problems = 300;
  auto all = all_prepared(problems, [](Prepared& p, uint32_t seed) {
    Dice dice(1000 + seed);
    p.convolution = random_case(dice);
    for (size_t a = 0; a < 2; ++a)
      if (p.convolution.strides[a] > 2 || p.convolution.dilations[a] > 1) p.convolution.strides[a] = 1;
    p.convolution.w[0] = 8 * dice.one_of({1, 8, 8, 9, 12, 16, 24});
    p.trial = trial(p.convolution);
    p.trial.bound.node = &p.trial.node;
    p.name = fmt::format("seed {}:", seed);
    bool slides = false;
    prepare(
        p,
        [&](const std::vector<HopperConfig>& configs) -> const HopperConfig& {
          std::vector<size_t> slide;
          for (size_t i = 0; i < configs.size(); ++i)
            if (configs[i].lines > 0) slide.push_back(i);
          slides = !slide.empty();
          return configs[slide.empty() ? 0 : slide[static_cast<size_t>(dice.below(std::ssize(slide)))]];
        },
        static_cast<int>(dice.one_of({1, 4, 132})));
    if (!slides) p.kernel = nullptr;  // 1 x 1, or few windows
    if (p.kernel) p.want = evaluate(p.trial.node, p.trial.inputs)[0];
  });
  EXPECT_GE(expect(all), problems / 5);
}

TEST_F(GpuHopperConv, every_tile_on_extents_that_they_do_not_divide) {
  struct Problem {
    Convolution c;
    size_t tiles;
  };
  const Problem problems[] = {
      {{.x = {3, 136, 13, 9}, .w = {328, 136, 3, 3}, .pads = {1, 1, 1, 1}, .residual = true}, 30},
      {{.type = DType::bf16, .x = {2, 72, 21, 17}, .w = {200, 72, 2, 3}, .strides = {2, 1}, .pads = {0, 2, 1, 0}}, 25},
      {{.x = {1, 512, 7, 7}, .w = {512, 512, 3, 3}, .pads = {1, 1, 1, 1}}, 3},
      {{.x = {1, 264, 5, 3}, .w = {136, 264, 1, 1}}, 2}};
  // Every tile on one of the problems, few of them in every patch and with every split: each is a compilation of seconds.
  using Way = std::tuple<int64_t, int64_t, int64_t, bool, bool, bool, int64_t, int64_t, int64_t>;
  std::set<Way> taken;
  for (const auto& [c, tiles] : problems) {
    Prepared probe;
    probe.trial = trial(c);
    probe.trial.bound.node = &probe.trial.node;
    const Tensor want = evaluate(probe.trial.node, probe.trial.inputs)[0];
    std::vector<HopperConfig> each;
    prepare(
        probe,
        [&](const auto& configs) -> const HopperConfig& {
          std::set<Way> met;
          for (const HopperConfig& k : configs) {
            const bool each_way = k.swap ? k.tile_m == 56 : k.tile_m == 128 && k.tile_n == 128;
            const Way way{k.tile_m,
                          k.tile_n,
                          k.groups,
                          k.swap,
                          k.alternate,
                          k.lines > 0,
                          each_way ? k.splits : 1,
                          each_way ? k.across : 1,
                          each_way ? k.down : 1};
            if (!met.insert(way).second || taken.contains(way) || (&c == &problems[0].c && met.size() % 2 == 0)) continue;
            taken.insert(way);
            each.push_back(k);
          }
          return configs[0];
        },
        132);
    ASSERT_EQ(probe.refused, "");
    auto all = all_prepared(static_cast<uint32_t>(each.size()), [&](Prepared& p, uint32_t at) {
      p.convolution = c;
      p.trial = trial(c);
      p.trial.bound.node = &p.trial.node;
      prepare(
          p, [&](const auto&) -> const HopperConfig& { return each[at]; }, 132);
      p.want = want;
    });
    EXPECT_GE(expect(all), tiles);
  }
}

}  // namespace
}  // namespace smelt::ops
