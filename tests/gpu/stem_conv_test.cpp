// First layers, whose images and volumes have up to 4 channels, and what is pooled of them, against the processor's reference: random problems of
// floats, and of 8-bit integers to the bit, each by one configuration chosen at random. Kernels run twice, and both runs must agree.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "dice.h"
#include "gpu_trial.h"
#include "ops/conv/quantized_conv_case.h"

namespace smelt::ops {
namespace {

struct Prepared {
  Trial trial;
  std::string name;
  std::unique_ptr<Kernel> kernel;
  Tensor want;
  double tolerance = 0;
};

struct Window {
  std::vector<int64_t> strides, pads, dilations;
  Shape x, w;
};

/// Of a volume: the window of an image's planes with a depth.
Window with_depth(Window c, Dice& dice) {
  const int64_t taps = dice.one_of({1, 2, 3, 3, 5}), dilation = dice.one_of({1, 1, 2}), begin = dice.below(taps + 1),
                end = dice.below(taps + 1);
  const int64_t depth = std::max<int64_t>(1, (taps - 1) * dilation + 1 - begin - end) + dice.below(6);
  c.strides.insert(c.strides.begin(), dice.one_of({1, 1, 2}));
  c.dilations.insert(c.dilations.begin(), dilation);
  c.pads = {begin, c.pads[0], c.pads[1], end, c.pads[2], c.pads[3]};
  c.x.insert(c.x.begin() + 2, depth);
  c.w.insert(c.w.begin() + 2, taps);
  return c;
}

Window random_window(Dice& dice) {
  Window c;
  const int64_t kh = dice.one_of({1, 2, 3, 3, 3, 5, 7, 7}), kw = dice.below(4) == 0 ? dice.one_of({1, 2, 3, 4, 6}) : kh;
  c.strides = {dice.one_of({1, 2, 2, 3, 4}), dice.one_of({1, 2, 2, 3, 4})};
  c.dilations = {dice.one_of({1, 1, 1, 2}), 1};
  c.pads = {dice.below(kh + 1), dice.below(kw + 1), dice.below(kh + 1), dice.below(kw + 1)};
  const auto extent = [&](int64_t taps, int64_t dilation, int64_t begin, int64_t end) {
    return std::max<int64_t>(1, (taps - 1) * dilation + 1 - begin - end) + dice.below(dice.one_of({9, 70}));
  };
  c.x = {1 + dice.below(3), 1 + dice.below(4), extent(kh, c.dilations[0], c.pads[0], c.pads[2]),
         extent(kw, 1, c.pads[1], c.pads[3])};
  c.w = {dice.below(3) == 0 ? 1 + dice.below(100) : dice.one_of({16, 24, 32, 64, 64, 96}), c.x[1], kh, kw};
  return c;
}

/// MaxPool's attributes behind a result of these extents, as StemConv has them.
void add_pool(Node& node, Dice& dice, const Shape& image) {
  const int64_t kh = std::min(image[2], dice.one_of({2, 3, 3})), kw = std::min(image[3], dice.one_of({2, 3, 3}));
  node.op = (node.op.starts_with("Stem") ? "" : "Stem") + node.op;
  node.domain = smelt_domain;
  node.attrs["pool_kernel"] = std::vector<int64_t>{kh, kw};
  node.attrs["pool_strides"] = std::vector<int64_t>{dice.one_of({1, 2, 2}), dice.one_of({1, 2, 2, 3})};
  node.attrs["pool_pads"] = std::vector<int64_t>{dice.below(kh), dice.below(kw), dice.below(kh), dice.below(kw)};
}

void set_window(Node& node, const Window& c) {
  node.attrs["strides"] = c.strides;
  node.attrs["pads"] = c.pads;
  node.attrs["dilations"] = c.dilations;
}

/// What is around the convolution.
struct Around {
  bool pool = false, image = false, depth = false;
};

/// A convolution of floats with bias and relu, and where it is not pooled a residual. An image of bytes or floats is scaled.
void set_floats(Prepared& p, Dice& dice, const Window& c, Around around) {
  Trial& t = p.trial;
  const DType type = dice.below(3) ? DType::f16 : DType::bf16;
  t.node.domain = smelt_domain;
  t.node.op = "Conv";
  set_window(t.node, c);
  Tensor x = random_tensor(type, c.x, 1, -1, 1);
  t.add(x, false, dice.below(3) ? Layout::plain : Layout::nhwc);
  t.add(random_tensor(type, c.w, 2, -1, 1), true);
  t.add(random_tensor(type, {c.w[0]}, 3), true);
  Node plain = t.node;
  plain.outputs.push_back(static_cast<ValueId>(101));
  Shape y = evaluate(plain, t.inputs)[0].shape();
  const std::string_view name = smelt::name(type);
  const bool residual = !around.pool && dice.below(3) == 0;
  t.node.program = expr::Program::parse(
      residual
          ? fmt::format("(in0:f32, in1:{0}) {{ %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = relu(%3):f32; %5 = cast(%4):{0}; "
                        "return %5 }}",
                        name)
          : fmt::format("(in0:f32) {{ %1 = relu(in0):f32; %2 = cast(%1):{}; return %2 }}", name));
  if (residual) t.add(random_tensor(type, y, 4), false, Layout::nhwc);
  if (around.image) {
    const DType given = dice.below(2) ? DType::u8 : DType::f32;
    t.node.op = "StemConv";
    t.node.attrs["image"] =
        given == DType::u8
            ? fmt::format(
                  "(in0:u8) {{ %1 = cast(in0):f32; %2 = const(0.0078125):f32; %3 = mul(%1, %2):f32; %4 = cast(%3):{}; return %4 "
                  "}}",
                  name)
            : fmt::format("(in0:f32) {{ %1 = const(0.0078125):f32; %2 = mul(in0, %1):f32; %3 = cast(%2):{}; return %3 }}", name);
    t.inputs[0] = given == DType::u8 ? random_bytes(given, c.x, 1) : random_tensor(given, c.x, 1, -100, 100);
    t.bound.inputs[0].type = given;
  }
  if (around.pool) {
    add_pool(t.node, dice, y);
    plain = t.node;
    plain.outputs.push_back(static_cast<ValueId>(101));
    y = evaluate(plain, t.inputs)[0].shape();
  }
  t.result(type, y, Layout::nhwc);
  p.tolerance = (type == DType::f16 ? 1.0 / 1024 : 1.0 / 128) + 4e-6;
}

/// A convolution of 8-bit integers with scales and zero points.
void set_integers(Prepared& p, Dice& dice, const Window& window, Around around) {
  QuantizedCase c{.x = window.x, .w = window.w, .pads = window.pads, .strides = window.strides, .dilations = window.dilations};
  c.x_type = dice.below(2) ? DType::u8 : DType::i8;
  c.w_type = dice.below(4) ? DType::i8 : DType::u8;
  c.y_type = dice.below(2) ? DType::u8 : DType::i8;
  c.per_channel = dice.below(2) != 0;
  c.bias = dice.below(4) != 0;
  Trial t = quantized_trial(c, dice.below(3) ? Layout::plain : Layout::nhwc);
  set_weights(t, random_bytes(c.w_type, c.w, 5), c.w_type == DType::u8 ? 128 : 0);
  if (!around.pool && !around.image) {
    p.trial = std::move(t);
    return;
  }
  // The fused operator's inputs are in another order, and its program quantizes.
  const std::vector<Tensor> in = t.inputs;
  const Layout from = t.bound.inputs[0].layout;
  const Shape image = t.bound.outputs[0].shape;
  Trial& f = p.trial;
  f.node.domain = smelt_domain;
  f.node.op = "QLinearConv";
  set_window(f.node, window);
  f.node.program =
      expr::Program::parse("(in0:f32) { " + quantized("in0", "0.3", 3, 1, c.y_type == DType::u8 ? "u8" : "i8") + "return %9 }");
  f.add(in[0], false, from);
  f.add(in[3], true);
  f.add(in.size() > 8 ? in[8] : Tensor{}, in.size() > 8);
  for (const size_t i : {1, 2, 4, 5}) f.add(in[i], true);
  f.node.op = "StemQLinearConv";
  if (around.image) {  // floats, quantized as the convolution has its image
    const int zero = static_cast<int>(in[2].to_doubles()[0]);
    f.node.attrs["image"] =
        "(in0:f32) { " + quantized("in0", "0.02", zero, 1, c.x_type == DType::u8 ? "u8" : "i8") + "return %9 }";
    f.inputs[0] = random_tensor(DType::f32, c.x, 8, -4, 4);
    f.bound.inputs[0].type = DType::f32;
  }
  if (around.pool) add_pool(f.node, dice, image);
  Node plain = f.node;
  plain.outputs.push_back(static_cast<ValueId>(101));
  f.result(c.y_type, evaluate(plain, f.inputs)[0].shape(), Layout::nhwc);
}

Prepared prepared(uint32_t seed, bool integers, Around around) {
  Dice dice(seed);
  Prepared p;
  Window window = random_window(dice);
  if (around.depth) window = with_depth(std::move(window), dice);
  if (integers)
    set_integers(p, dice, window, around);
  else
    set_floats(p, dice, window, around);
  p.trial.bound.node = &p.trial.node;
  Machine machine;
  const auto gpu = std::make_shared<Gpu>(*test_gpu());
  gpu->info.multiprocessors = static_cast<int>(dice.one_of({1, 4, 132}));  // blocks that have several rectangles
  machine.gpu = gpu;
  Offer o;
  try {
    o = offer(p.trial.bound, machine);
  } catch (const Error& e) {  // no rectangle fits, or the filter is too large
    if (e.code() != ExitCode::unsupported) throw;
  }
  std::vector<const Candidate*> chosen;
  for (const Candidate& c : o.candidates)
    if (c.tactic == "stem") chosen.push_back(&c);
  if (chosen.empty()) return p;
  const Candidate& c = *chosen[static_cast<size_t>(dice.below(std::ssize(chosen)))];
  p.name = fmt::format("seed {}: {} {} {}", seed, o.problem, c.tactic, c.config);
  p.kernel = c.prepare();
  p.want = evaluate(p.trial.node, p.trial.inputs)[0];
  return p;
}

/// How many of the problems were taken, each of which is right.
size_t expect_right(uint32_t problems, bool integers, Around around) {
  std::vector<Prepared> all(problems);
  std::atomic<uint32_t> next = 0;
  std::vector<std::future<void>> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.push_back(std::async(std::launch::async, [&] {
      for (uint32_t at; (at = next++) < problems;) all[at] = prepared(at, integers, around);
    }));
  for (std::future<void>& t : threads) t.get();
  size_t ran = 0, wrong = 0;
  for (Prepared& p : all) {
    if (!p.kernel) continue;
    ++ran;
    SCOPED_TRACE(p.name);
    const Tensor got = run_on_gpu(p.trial, *p.kernel)[0];
    const bool right = integers ? std::memcmp(got.raw(), p.want.raw(), static_cast<size_t>(got.nbytes())) == 0
                                : error(got, p.want) <= p.tolerance;
    EXPECT_TRUE(right) << p.name << ": " << error(got, p.want);
    if (!right && ++wrong == 12) break;
  }
  return ran;
}

TEST(GpuStem, of_floats_is_right_on_150_random_problems) { EXPECT_GE(expect_right(150, false, {}), 146u); }

TEST(GpuStem, of_floats_pooled_is_right_on_150_random_problems) { EXPECT_GE(expect_right(150, false, {.pool = true}), 146u); }

TEST(GpuStem, of_integers_equals_the_reference_bit_for_bit_on_150_random_problems) {
  EXPECT_GE(expect_right(150, true, {}), 148u);
}

TEST(GpuStem, of_integers_pooled_equals_the_reference_bit_for_bit_on_150_random_problems) {
  EXPECT_GE(expect_right(150, true, {.pool = true}), 148u);
}

TEST(GpuStem, of_volumes_is_right_on_200_random_problems) {
  EXPECT_GE(expect_right(120, false, {.depth = true}), 112u);
  EXPECT_GE(expect_right(80, true, {.depth = true}), 74u);
}

TEST(GpuStem, converts_images_of_bytes_and_floats) {
  EXPECT_GE(expect_right(80, false, {.image = true}), 78u);
  EXPECT_GE(expect_right(80, true, {.image = true}), 78u);
  EXPECT_GE(expect_right(80, false, {.pool = true, .image = true}), 78u);
  EXPECT_GE(expect_right(80, true, {.pool = true, .image = true}), 78u);
}

TEST(GpuStem, what_is_no_number_stays_where_it_is) {
  for (const bool pooled : {false, true}) {
    Dice dice(4);
    Prepared p;
    set_floats(p, dice, {.strides = {2, 2}, .pads = {3, 3, 3, 3}, .dilations = {1, 1}, .x = {1, 3, 40, 44}, .w = {64, 3, 7, 7}},
               {.pool = pooled});
    Tensor x = p.trial.inputs[0];
    const DType type = x.type();
    Tensor wide = x.cast(DType::f32);
    wide.data<float>()[500] = std::numeric_limits<float>::infinity();
    wide.data<float>()[1900] = std::numeric_limits<float>::quiet_NaN();
    p.trial.inputs[0] = wide.cast(type);
    p.trial.bound.node = &p.trial.node;
    Machine machine;
    machine.gpu = test_gpu();
    size_t ran = 0;
    const Tensor want = evaluate(p.trial.node, p.trial.inputs)[0];
    for (const Candidate& c : offer(p.trial.bound, machine).candidates) {
      if (c.tactic != "stem") continue;
      ++ran;
      const std::vector<double> got = run_on_gpu(p.trial, *c.prepare())[0].to_doubles(), wanted = want.to_doubles();
      for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(std::isnan(got[i]), std::isnan(wanted[i])) << c.config << " at " << i;
    }
    EXPECT_GE(ran, 2u);
  }
}

}  // namespace
}  // namespace smelt::ops
