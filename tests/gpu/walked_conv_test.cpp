// Convolutions of 8-bit integers by the kernel whose taps the host lays out, and by Hopper's own instructions, against the processor's
// reference, to the bit: random problems, of each one configuration, chosen at random among those for a GPU of few multiprocessors
// or many.
#include <algorithm>

#include "ops/conv/quantized_conv_case.h"
#include "ops/core/channel_blocks.h"
#include "random_problems.h"

namespace smelt::ops {
namespace {

/// Of windows of kh x kw pixels, which fit into the image; some 10 million products at most, so that the reference is soon done.
QuantizedCase random_case(Dice& dice, int64_t channels, int64_t kh, int64_t kw) {
  QuantizedCase c;
  c.dilations = {dice.one_of({1, 1, 1, 2}), dice.one_of({1, 1, 1, 3})};
  c.strides = {dice.one_of({1, 1, 2}), dice.one_of({1, 1, 2, 3})};
  c.pads = {dice.below(kh), dice.below(kw), dice.below(kh), dice.below(kw)};
  const int64_t h = (kh - 1) * c.dilations[0] + 1 + dice.below(9), w = (kw - 1) * c.dilations[1] + 1 + dice.below(9);
  c.x = {1 + dice.below(3), channels, h, w};
  const int64_t most = 10'000'000 / (c.x[0] * h * w * channels * kh * kw) + 1;
  c.w = {std::min(most, dice.below(3) == 0 ? 1 + dice.below(150) : dice.one_of({16, 32, 64, 96, 128, 192})), channels, kh, kw};
  c.x_type = dice.below(2) ? DType::u8 : DType::i8;
  c.w_type = dice.below(4) ? DType::i8 : DType::u8;
  c.y_type = dice.below(2) ? DType::u8 : DType::i8;
  c.per_channel = dice.below(2) != 0;
  c.bias = dice.below(4) != 0;
  return c;
}

QuantizedCase random_case(Dice& dice, bool hopper) {
  const int64_t kh = dice.one_of({1, 1, 3, 3, 2, 5, 7}), kw = dice.below(4) == 0 ? dice.one_of({1, 2, 3, 7}) : kh;
  const int64_t channels = hopper ? dice.one_of({16, 32, 48, 64, 64, 96, 128, 160, 256, 304})
                                  : dice.one_of({3, 4, 8, 16, 20, 24, 32, 48, 64, 64, 96, 128, 160, 256});
  return random_case(dice, channels, kh, kw);
}

/// The convolution with what follows a residual block's last one: the sum with another tensor, relu, quantised.
void add_residual(Trial& t, Dice& dice) {
  const Shape shape = t.bound.outputs[0].shape;
  const Node old = t.node;
  const std::vector<Tensor> in = t.inputs;
  const std::vector<BoundTensor> bound = t.bound.inputs;
  t.node.domain = smelt_domain;
  t.node.inputs.clear();
  t.node.outputs.clear();
  t.inputs.clear();
  t.bound = {};
  // As ONNX Runtime's quantizer has it, the convolution's own result is of 8 bits first.
  const DType type = dice.below(2) ? DType::u8 : DType::i8;
  const int zero = static_cast<int>(dice.below(200)) - (type == DType::i8 ? 128 : 0), other = dice.below(2) ? zero : 3;
  const bool twice = dice.below(2) != 0;
  const int at = twice ? 17 : 2;
  std::string program = fmt::format("(in0:f32, in1:{}) {{ ", name(type));
  if (twice)
    program += quantized("in0", "0.31", zero, 2, type == DType::u8 ? "u8" : "i8") + dequantized("%10", "0.31", other, 11);
  program += dequantized("in1", "0.17", zero, at) +
             fmt::format("%{} = add({}, %{}):f32; ", at + 6, twice ? "%16" : "in0", at + 5) +
             fmt::format("%{} = relu(%{}):f32; ", at + 7, at + 6) +
             quantized(fmt::format("%{}", at + 7), "0.4", 12, at + 8, "u8") + fmt::format("return %{} }}", at + 16);
  t.node.program = expr::Program::parse(program);
  t.add(in[0], false, bound[0].layout);                    // x
  t.add(in[3], true);                                      // w
  t.add(in.size() > 8 ? in[8] : Tensor{}, in.size() > 8);  // bias
  for (const size_t i : {1, 2, 4, 5}) t.add(in[i], true);  // scales and zero points
  t.add(random_bytes(type, shape, 6), false, Layout::nhwc);
  t.result(DType::u8, shape, Layout::nhwc);
}

RandomProblem random_problem(uint32_t seed, std::string_view tactic) {
  Dice dice(seed);
  const bool hopper = tactic == "hopper", zero_points = dice.below(3) != 0;
  QuantizedCase c = random_case(dice, hopper);
  RandomProblem p{quantized_trial(c, c.x[1] < 5 && dice.below(2) ? Layout::plain : Layout::nhwc)};
  set_weights(p.trial, random_bytes(c.w_type, c.w, seed), c.w_type == DType::u8 ? 128 : 0);
  const Tensor zero = Tensor::scalar<int64_t>(!zero_points ? 0 : c.x_type == DType::u8 ? dice.below(256) : dice.below(256) - 128);
  p.trial.inputs[2] = p.trial.bound.inputs[2].constant = zero.cast(c.x_type);
  if (dice.below(2) == 0) add_residual(p.trial, dice);
  if (seed % 3 == 0) {  // pixels of the result begin at whole vectors
    BoundTensor& y = p.trial.bound.outputs[0];
    const int64_t pixel = (y.shape[1] + 15) / 16 * 16;
    y.strides = {y.shape[2] * y.shape[3] * pixel, 1, y.shape[3] * pixel, pixel};
  }
  choose_candidate(p, dice, seed, [&](const Candidate& candidate) { return candidate.tactic == tactic; });
  return p;
}

size_t expect_equal(uint32_t problems, std::string_view tactic) {
  return expect_right(problems, [&](uint32_t seed) { return random_problem(seed, tactic); });
}

/// One of few channels, or of half a line more than whole ones, which tiles of Hopper's read in lines of 64 bytes.
RandomProblem lines_of_64(uint32_t seed) {
  Dice dice(seed);
  QuantizedCase c = random_case(dice, true);
  c.x[1] = c.w[1] = dice.one_of({16, 32, 48, 64, 64, 64, 144, 192});
  RandomProblem p{quantized_trial(c, Layout::nhwc)};
  set_weights(p.trial, random_bytes(c.w_type, c.w, seed), c.w_type == DType::u8 ? 128 : 0);
  p.trial.inputs[2] = p.trial.bound.inputs[2].constant = Tensor::scalar<int64_t>(dice.below(2) ? 0 : 5).cast(c.x_type);
  if (dice.below(2) == 0) add_residual(p.trial, dice);
  choose_candidate(p, dice, seed, [](const Candidate& candidate) {
    return candidate.tactic == "hopper" && candidate.config.find("x64 ") != std::string::npos;
  });
  return p;
}

/// One whose K is split over a cluster of which each block finishes a share of a tile.
RandomProblem shares_of_tiles(uint32_t seed) {
  Dice dice(seed);
  const int64_t channels = dice.one_of({128, 256, 384, 512}), taps = dice.one_of({2, 3});
  QuantizedCase c = random_case(dice, channels, taps, taps);
  c.x[2] += 4, c.x[3] += 4;
  c.w[0] = dice.one_of({32, 64, 96, 128});
  RandomProblem p{quantized_trial(c, Layout::nhwc)};
  set_weights(p.trial, random_bytes(c.w_type, c.w, seed), c.w_type == DType::u8 ? 128 : 0);
  if (dice.below(2) == 0) add_residual(p.trial, dice);
  choose_candidate(p, dice, seed, [](const Candidate& candidate) {
    return candidate.tactic == "hopper" && (candidate.config.ends_with(" e2") || candidate.config.ends_with(" e4"));
  });
  return p;
}

/// One whose channels fill the 64 rows of Hopper's instruction, in pairs that a lane has.
RandomProblem pairs_of_channels(uint32_t seed) {
  Dice dice(seed);
  QuantizedCase c = random_case(dice, true);
  c.x = {2, c.x[1], c.x[2] + 8, c.x[3] + 8};
  c.w[0] = dice.one_of({16, 32, 64, 80, 128, 192});
  RandomProblem p{quantized_trial(c, Layout::nhwc)};
  set_weights(p.trial, random_bytes(c.w_type, c.w, seed), c.w_type == DType::u8 ? 128 : 0);
  p.trial.inputs[2] = p.trial.bound.inputs[2].constant = Tensor::scalar<int64_t>(0).cast(c.x_type);
  if (dice.below(2) == 0) add_residual(p.trial, dice);
  choose_candidate(p, dice, seed, [](const Candidate& candidate) {
    return candidate.tactic == "hopper" && candidate.config.find(" swap") != std::string::npos &&
           candidate.config.ends_with(" k1");
  });
  return p;
}

/// A convolution of 2 to 5 images of 8-bit integers, each with its scale and zero point, and what follows: nothing, or bias, relu and
/// rounding.
RandomProblem several_integers(uint32_t seed, bool apart) {
  Dice dice(seed);
  const QuantizedCase c = random_case(dice, false);
  const int64_t segments = dice.one_of({2, 2, 2, 3, 5}), m = c.w[0];
  RandomProblem p;
  Trial& t = p.trial;
  t.node.domain = smelt_domain;
  t.node.op = "QLinearConv";
  t.node.attrs = {{"segments", segments}, {"pads", c.pads}, {"strides", c.strides}, {"dilations", c.dilations}};
  Shape w = c.w;
  w[1] = 0;
  for (int64_t i = 0; i < segments; ++i) {
    Shape x = c.x;
    x[1] = dice.one_of({4, 8, 12, 16, 20, 32, 48, 64, 64, 96, 144});
    w[1] += x[1];
    t.add(random_bytes(c.x_type, x, seed * 8 + static_cast<uint32_t>(i)), false, Layout::nhwc);
  }
  t.add(random_bytes(c.w_type, w, seed * 8 + 7), true);
  t.add(Tensor{}, true);
  t.add(random_tensor(DType::f32, {segments}, seed + 1, 0.01, 0.05), true);
  const bool zeros = dice.below(4) != 0;
  t.add(zeros ? random_bytes(c.x_type, {segments}, seed + 2) : Tensor{}, zeros);
  t.add(c.per_channel ? random_tensor(DType::f32, {m}, seed + 3, 0.001, 0.003) : Tensor::scalar(0.002f), true);
  t.add(c.w_type == DType::u8 ? Tensor::scalar<uint8_t>(128) : Tensor{}, c.w_type == DType::u8);
  const bool ends = dice.below(3) != 0;
  if (ends) {
    const char* const type = c.y_type == DType::u8 ? "u8" : "i8";
    t.node.program = expr::Program::parse("(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = relu(%2):f32; " +
                                          quantized("%3", "0.4", 12, 4, type) + "return %12 }");
    t.add(random_tensor(DType::f32, {m, 1, 1}, seed + 4, -9, 9), true);
  }
  Node plain = t.node;
  plain.outputs.push_back(static_cast<ValueId>(101));
  const Tensor y = evaluate(plain, t.inputs)[0];
  t.result(y.type(), y.shape(), Layout::nhwc);
  choose_candidate(p, dice, seed, [&](const Candidate& candidate) {
    return apart == candidate.config.ends_with("segments apart") && (apart || candidate.tactic == "walked");
  });
  return p;
}

/// Weights and bias behind the images, and the result that they make, channels-last.
void add_weights(Trial& t, DType type, const Shape& w, uint32_t seed) {
  t.add(random_tensor(type, w, seed * 8 + 7, -1, 1), true);
  t.add(random_tensor(type, {w[0]}, seed + 3, -1, 1), true);
  Node plain = t.node;
  plain.outputs.push_back(static_cast<ValueId>(101));
  const Tensor y = evaluate(plain, t.inputs)[0];
  t.result(y.type(), y.shape(), Layout::nhwc);
}

/// The case with an axis before H and W.
QuantizedCase with_depth(QuantizedCase c, Dice& dice) {
  const int64_t taps = dice.one_of({1, 2, 3, 3, 5}), dilation = dice.one_of({1, 1, 2}), begin = dice.below(taps + 1),
                end = dice.below(taps + 1);
  c.strides.insert(c.strides.begin(), dice.one_of({1, 1, 2}));
  c.dilations.insert(c.dilations.begin(), dilation);
  c.pads = {begin, c.pads[0], c.pads[1], end, c.pads[2], c.pads[3]};
  c.x.insert(c.x.begin() + 2, std::max<int64_t>(1, (taps - 1) * dilation + 1 - begin - end) + dice.below(4));
  c.w.insert(c.w.begin() + 2, taps);
  return c;
}

/// A convolution of 16-bit floats over 1 to 3 images or volumes, some of which are upsampled.
RandomProblem upsampled_floats(uint32_t seed, bool volumes) {
  Dice dice(seed);
  QuantizedCase c = random_case(dice, false);
  if (volumes) c = with_depth(c, dice);
  const int64_t segments = dice.one_of({1, 2, 2, 3});
  const DType type = dice.below(2) ? DType::f16 : DType::bf16;
  RandomProblem p;
  p.tolerance = (type == DType::f16 ? 1.0 / 1024 : 1.0 / 128) + 4e-6;
  Trial& t = p.trial;
  t.node.domain = smelt_domain;
  t.node.op = "Conv";
  std::vector<int64_t> factors;
  int64_t largest = 1;
  for (int64_t i = 0; i < segments; ++i) {
    const int64_t most = volumes ? 2 : 4;  // the steps of more fit no argument
    factors.push_back(i == 0 ? dice.one_of({2, 2, most}) : dice.one_of({1, 2, most}));
    largest = std::max(largest, factors.back());
  }
  t.node.attrs = {
      {"segments", segments}, {"upsample", factors}, {"pads", c.pads}, {"strides", c.strides}, {"dilations", c.dilations}};
  Shape w = c.w;
  w[1] = 0;
  for (size_t i = 0; i < factors.size(); ++i) {
    Shape x = c.x;
    x[1] = dice.one_of({4, 8, 16, 24, 32, 40, 64, 64});
    for (size_t a = 2; a < x.size(); ++a) x[a] = (x[a] + largest - 1) / largest * (largest / factors[i]);
    w[1] += x[1];
    t.add(random_tensor(type, x, seed * 8 + static_cast<uint32_t>(i), -1, 1), false, Layout::nhwc);
  }
  add_weights(t, type, w, seed);
  choose_candidate(p, dice, seed, [&](const Candidate& candidate) { return candidate.tactic == "walked"; });
  return p;
}

/// A convolution of volumes: of 8-bit integers, or of 16-bit floats over 1 to 3 of them.
RandomProblem volumes(uint32_t seed, bool integers, std::string_view tactic) {
  Dice dice(seed);
  QuantizedCase c = random_case(dice, tactic == "hopper");
  if (tactic == "walked") c.x[1] = c.w[1] = std::max<int64_t>(4, c.x[1] / 2 / 4 * 4);
  c = with_depth(c, dice);
  RandomProblem p;
  Trial& t = p.trial;
  if (integers) {
    t = quantized_trial(c);
    set_weights(t, random_bytes(c.w_type, c.w, seed), c.w_type == DType::u8 ? 128 : 0);
  } else {
    const int64_t segments = dice.one_of({1, 1, 2, 3});
    const DType type = dice.below(2) ? DType::f16 : DType::bf16;
    p.tolerance = (type == DType::f16 ? 1.0 / 1024 : 1.0 / 128) + 4e-6;
    t.node.domain = smelt_domain;
    t.node.op = "Conv";
    t.node.attrs = {{"segments", segments}, {"pads", c.pads}, {"strides", c.strides}, {"dilations", c.dilations}};
    Shape w = c.w;
    w[1] = 0;
    for (int64_t i = 0; i < segments; ++i) {
      Shape x = c.x;
      x[1] = segments == 1 ? x[1] : dice.one_of({4, 8, 16, 24, 32, 40, 64});
      w[1] += x[1];
      t.add(random_tensor(type, x, seed * 8 + static_cast<uint32_t>(i), -1, 1), false, Layout::nhwc);
    }
    add_weights(t, type, w, seed);
  }
  choose_candidate(p, dice, seed, [&](const Candidate& candidate) { return candidate.tactic == tactic; });
  return p;
}

/// A convolution of 8-bit integers whose images lie in blocks of 32 channels, with a residual in blocks or without. `turned`: by any kernel of
/// channels-last images, with copies around it.
RandomProblem blocked_integers(uint32_t seed, bool turned) {
  Dice dice(seed);
  QuantizedCase c = random_case(dice, false);
  c.x[1] = c.w[1] = 32 * (1 + dice.below(5));
  const int64_t m = c.w[0] = 32 * (1 + dice.below(5));
  RandomProblem p;
  Trial& t = p.trial;
  t.node.domain = smelt_domain;
  t.node.op = "QLinearConv";
  t.node.attrs = {{"blocked", int64_t{1}}, {"pads", c.pads}, {"strides", c.strides}, {"dilations", c.dilations}};
  t.add(random_bytes(c.x_type, in_blocks(c.x), seed), false);
  t.add(random_bytes(c.w_type, c.w, seed + 1), true);
  t.add(c.bias ? random_tensor(DType::i32, {m}, seed + 2, -9000, 9000) : Tensor{}, c.bias);
  t.add(Tensor::scalar(0.02f), true);
  t.add(Tensor::scalar<int64_t>(dice.below(2) ? 0 : dice.below(100)).cast(c.x_type), true);
  t.add(c.per_channel ? random_tensor(DType::f32, {m}, seed + 3, 0.001, 0.003) : Tensor::scalar(0.002f), true);
  t.add(c.w_type == DType::u8 ? Tensor::scalar<uint8_t>(128) : Tensor{}, c.w_type == DType::u8);
  Node plain = t.node;
  plain.outputs.push_back(static_cast<ValueId>(101));
  const Shape y = evaluate(plain, t.inputs)[0].shape();
  const bool residual = dice.below(2) != 0;
  const char* const type = c.y_type == DType::u8 ? "u8" : "i8";
  if (residual) {
    t.add(random_bytes(c.y_type, y, seed + 4), false);
    t.node.program = expr::Program::parse(fmt::format("(in0:f32, in1:{}) {{ ", type) + dequantized("in1", "0.17", 3, 2) +
                                          "%8 = add(in0, %7):f32; " + quantized("%8", "0.4", 12, 9, type) + "return %17 }");
  } else {
    t.node.program = expr::Program::parse("(in0:f32) { " + quantized("in0", "0.4", 12, 1, type) + "return %9 }");
  }
  t.result(c.y_type, y);
  choose_candidate(p, dice, seed, [&](const Candidate& candidate) {
    return turned == candidate.config.ends_with("blocks turned") && (turned || candidate.tactic == "walked");
  });
  return p;
}

TEST(GpuWalkedConv, equals_the_reference_bit_for_bit_on_500_random_problems) {
  EXPECT_GE(expect_equal(500, "walked"), 375u) << "of the others it takes no channels: odd numbers of them, or of 3 bytes";
}

TEST(GpuHopperIntegerConv, equals_the_reference_bit_for_bit_on_500_random_problems) {
  if (test_gpu()->info.major != 9) GTEST_SKIP() << "wgmma is Hopper's alone";
  EXPECT_GE(expect_equal(500, "hopper"), 490u);
}

TEST(GpuHopperIntegerConv, of_lines_of_64_bytes_equals_the_reference_bit_for_bit_on_300_random_problems) {
  if (test_gpu()->info.major != 9) GTEST_SKIP() << "wgmma is Hopper's alone";
  EXPECT_EQ(expect_right(300, lines_of_64), 300u);
}

TEST(GpuHopperIntegerConv, of_shares_of_tiles_equals_the_reference_bit_for_bit_on_200_random_problems) {
  if (test_gpu()->info.major != 9) GTEST_SKIP() << "wgmma is Hopper's alone";
  EXPECT_GE(expect_right(200, shares_of_tiles), 140u) << "of the others no such tile is among those offered";
}

TEST(GpuHopperIntegerConv, of_pairs_of_channels_equals_the_reference_bit_for_bit_on_300_random_problems) {
  if (test_gpu()->info.major != 9) GTEST_SKIP() << "wgmma is Hopper's alone";
  EXPECT_GE(expect_right(300, pairs_of_channels), 150u) << "of the others no such tile is among those offered";
}

TEST(GpuWalkedConv, of_several_images_of_their_own_scales_equals_the_reference_bit_for_bit_on_300_random_problems) {
  EXPECT_EQ(expect_right(300, [](uint32_t seed) { return several_integers(seed, false); }), 300u);
}

TEST(GpuSegmentsApart, equal_the_reference_bit_for_bit_on_100_random_problems) {
  EXPECT_EQ(expect_right(100, [](uint32_t seed) { return several_integers(seed, true); }), 100u);
}

TEST(GpuWalkedConv, reads_upsampled_images_on_200_random_problems) {
  EXPECT_GE(expect_right(200, [](uint32_t seed) { return upsampled_floats(seed, false); }), 155u)
      << "of the others the steps do not fit the argument";
}

TEST(GpuWalkedConv, reads_upsampled_volumes_on_150_random_problems) {
  EXPECT_GE(expect_right(150, [](uint32_t seed) { return upsampled_floats(seed, true); }), 50u)
      << "of the others the steps do not fit the argument";
}

TEST(GpuWalkedConv, of_images_in_blocks_of_channels_equals_the_reference_bit_for_bit_on_200_random_problems) {
  EXPECT_EQ(expect_right(200, [](uint32_t seed) { return blocked_integers(seed, false); }), 200u);
}

TEST(GpuWalkedConv, of_volumes_is_right_on_400_random_problems) {
  EXPECT_GE(expect_right(200, [](uint32_t seed) { return volumes(seed, false, "walked"); }), 170u);
  EXPECT_GE(expect_right(200, [](uint32_t seed) { return volumes(seed, true, "walked"); }), 170u);
}

TEST(GpuHopperIntegerConv, of_volumes_equals_the_reference_bit_for_bit_on_150_random_problems) {
  if (test_gpu()->info.major != 9) GTEST_SKIP() << "wgmma is Hopper's alone";
  EXPECT_GE(expect_right(150, [](uint32_t seed) { return volumes(seed, true, "hopper"); }), 120u)
      << "of the others some windows begin beyond what tensor maps take";
}

TEST(GpuBlocksTurned, equal_the_reference_bit_for_bit_on_100_random_problems) {
  EXPECT_EQ(expect_right(100, [](uint32_t seed) { return blocked_integers(seed, true); }), 100u);
}

}  // namespace
}  // namespace smelt::ops
