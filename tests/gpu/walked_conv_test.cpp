// Convolutions of 8-bit integers by the kernel whose taps the host lays out, and by Hopper's own instructions, against the processor's
// reference, to the bit: random problems, of each one configuration, chosen at random among those for a GPU of few multiprocessors
// or many.
#include <algorithm>
#include <future>
#include <thread>

#include "dice.h"
#include "gpu_trial.h"
#include "ops/conv/quantized_conv_case.h"

namespace smelt::ops {
namespace {

/// Some 10 million products at most, so that the reference is soon done.
QuantizedCase random_case(Dice& dice, bool hopper) {
  QuantizedCase c;
  const int64_t kh = dice.one_of({1, 1, 3, 3, 2, 5, 7}), kw = dice.below(4) == 0 ? dice.one_of({1, 2, 3, 7}) : kh;
  const int64_t channels = hopper ? dice.one_of({16, 32, 48, 64, 64, 96, 128, 160, 256, 304})
                                  : dice.one_of({3, 4, 8, 16, 20, 24, 32, 48, 64, 64, 96, 128, 160, 256});
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

struct Prepared {
  Trial trial;
  std::string name;
  std::unique_ptr<Kernel> kernel;
  Tensor want;
};

Prepared prepared(uint32_t seed, std::string_view tactic) {
  Dice dice(seed);
  const bool hopper = tactic == "hopper", zero_points = dice.below(3) != 0;
  QuantizedCase c = random_case(dice, hopper);
  Prepared p{quantized_trial(c, c.x[1] < 5 && dice.below(2) ? Layout::plain : Layout::nhwc), {}, {}, {}};
  set_weights(p.trial, random_bytes(c.w_type, c.w, seed), c.w_type == DType::u8 ? 128 : 0);
  const Tensor zero = Tensor::scalar<int64_t>(!zero_points ? 0 : c.x_type == DType::u8 ? dice.below(256) : dice.below(256) - 128);
  p.trial.inputs[2] = p.trial.bound.inputs[2].constant = zero.cast(c.x_type);
  if (dice.below(2) == 0) add_residual(p.trial, dice);
  p.trial.bound.node = &p.trial.node;
  Machine machine;
  const auto gpu = std::make_shared<Gpu>(*test_gpu());
  gpu->info.multiprocessors = static_cast<int>(dice.one_of({1, 4, 132}));  // large tiles for small problems
  machine.gpu = gpu;
  Offer o = offer(p.trial.bound, machine);
  std::erase_if(o.candidates, [&](const Candidate& candidate) { return candidate.tactic != tactic; });
  if (o.candidates.empty()) return p;
  const Candidate& chosen = o.candidates[static_cast<size_t>(dice.below(static_cast<int64_t>(o.candidates.size())))];
  p.name = fmt::format("seed {}: {} {}", seed, o.problem, chosen.config);
  p.kernel = chosen.prepare();
  p.want = evaluate(p.trial.node, p.trial.inputs)[0];
  return p;
}

/// How many of the problems the tactic took, each of which equals the reference.
size_t expect_equal(uint32_t problems, std::string_view tactic) {
  std::vector<Prepared> all(problems);
  std::atomic<uint32_t> next = 0;
  std::vector<std::future<void>> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.push_back(std::async(std::launch::async, [&] {
      for (uint32_t at; (at = next++) < problems;) all[at] = prepared(at, tactic);
    }));
  for (std::future<void>& t : threads) t.get();
  size_t ran = 0, wrong = 0;
  for (Prepared& p : all) {
    if (!p.kernel) continue;
    ++ran;
    SCOPED_TRACE(p.name);
    const Tensor got = run_on_gpu(p.trial, *p.kernel)[0];
    const bool equal = std::memcmp(got.raw(), p.want.raw(), static_cast<size_t>(got.nbytes())) == 0;
    EXPECT_TRUE(equal) << p.name;
    if (!equal && ++wrong == 20) break;
  }
  return ran;
}

TEST(GpuWalkedConv, equals_the_reference_bit_for_bit_on_500_random_problems) {
  EXPECT_GE(expect_equal(500, "walked"), 375u) << "of the others it takes no channels: odd numbers of them, or of 3 bytes";
}

TEST(GpuHopperIntegerConv, equals_the_reference_bit_for_bit_on_500_random_problems) {
  if (test_gpu()->info.major != 9) GTEST_SKIP() << "wgmma is Hopper's alone";
  EXPECT_GE(expect_equal(500, "hopper"), 490u);
}

}  // namespace
}  // namespace smelt::ops
