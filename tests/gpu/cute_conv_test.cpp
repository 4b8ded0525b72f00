// Convolutions by the kernel that is written with CuTe, against the processor's reference: concatenated images of 1 to 300 pixels a
// side, ragged channels, every tile. Each kernel runs twice, and both runs must agree bit for bit. A kernel compiles for half a
// minute, one at a time in a process, so that many problems share each.
#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <set>
#include <thread>

#include "device/cuda/cutlass.h"
#include "dice.h"
#include "gpu_trial.h"
#include "ops/cuda/asked_tactics.h"

namespace smelt::ops {
namespace {

struct Convolution {
  DType type = DType::f16;
  std::vector<int64_t> channels;  // of each image
  Shape x, w;
  std::vector<int64_t> strides, pads, dilations;
  bool residual = false;
  Shape x_strides;  // of the first image where it is a slice, in elements
};

Trial trial(const Convolution& c) {
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "Conv";
  t.node.attrs["segments"] = std::ssize(c.channels);
  t.node.attrs["strides"] = c.strides;
  t.node.attrs["pads"] = c.pads;
  t.node.attrs["dilations"] = c.dilations;
  Shape x = c.x;
  for (size_t i = 0; i < c.channels.size(); ++i) {
    x[1] = c.channels[i];
    t.add(random_tensor(c.type, x, 10 + static_cast<uint32_t>(i), -1, 1), false, Layout::nhwc);
  }
  t.bound.inputs[0].strides = c.x_strides;
  t.add(random_tensor(c.type, c.w, 2, -1, 1), true);
  t.add(random_tensor(c.type, {c.w[0]}, 3), true);
  Node plain = t.node;
  plain.outputs.push_back(static_cast<ValueId>(101));
  const Shape y = evaluate(plain, t.inputs)[0].shape();
  const std::string_view name = smelt::name(c.type);
  if (c.residual) {
    t.node.program = expr::Program::parse(fmt::format(
        "(in0:f32, in1:{0}) {{ %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = relu(%3):f32; %5 = cast(%4):{0}; return %5 }}",
        name));
    t.add(random_tensor(c.type, y, 4), false, Layout::nhwc);
  } else {
    t.node.program = expr::Program::parse(fmt::format("(in0:f32) {{ %1 = relu(in0):f32; %2 = cast(%1):{}; return %2 }}", name));
  }
  t.result(c.type, y, Layout::nhwc);
  t.bound.node = &t.node;
  return t;
}

/// Sums in float, and one unit in the last place of the result's type.
double tolerance(const Convolution& c) {
  const int64_t k = c.w[1] * c.w[2] * c.w[3];
  return (c.type == DType::f16 ? 1.0 / 1024 : 1.0 / 128) + 4e-7 * std::sqrt(static_cast<double>(k) + 1);
}

/// What problems share that run by one kernel.
struct Family {
  DType type;
  size_t images;
  bool whole;  // y's channels are a multiple of 8
  bool residual;
  size_t tile;  // a number among the candidates
  bool narrow;  // so few channels that K goes in steps of 32
};

/// Some 10 million products at most, so that the reference is soon done.
Convolution random_case(Dice& dice, const Family& f) {
  Convolution c;
  c.type = f.type;
  c.residual = f.residual;
  int64_t channels = 0;
  for (size_t i = 0; i < f.images; ++i) {
    c.channels.push_back(f.narrow ? dice.one_of({8, 8, 16, 24, 32, 72, 96}) : dice.one_of({56, 64, 64, 120, 128, 184, 192}));
    channels += c.channels.back();
  }
  const int64_t kh = dice.one_of({1, 3, 3, 3, 2, 5}), kw = dice.below(4) == 0 ? dice.one_of({1, 2, 3, 7}) : kh;
  c.dilations = {dice.one_of({1, 1, 1, 2, 5}), dice.one_of({1, 1, 1, 3})};
  c.strides = {dice.one_of({1, 1, 2, 2, 3}), dice.one_of({1, 1, 2, 2, 5})};
  c.pads = {dice.below(kh + 1), dice.below(kw + 1), dice.below(kh + 1), dice.below(kw + 1)};
  const auto extent = [&](int64_t taps, int64_t dilation, int64_t begin, int64_t end, int64_t most) {
    return std::max<int64_t>(1, (taps - 1) * dilation + 1 - begin - end) + dice.below(most);
  };
  int64_t h = extent(kh, c.dilations[0], c.pads[0], c.pads[2], 20), w = extent(kw, c.dilations[1], c.pads[1], c.pads[3], 20);
  if (dice.below(3) == 0) (dice.below(2) ? h : w) = 300 - dice.below(200);
  c.x = {1 + dice.below(h * w > 500 ? 1 : 4), channels, h, w};
  const int64_t filters = 10'000'000 / (c.x[0] * h * w * channels * kh * kw) * c.strides[0] * c.strides[1] + 8;
  const int64_t wanted = f.whole ? 8 * (1 + dice.below(37)) : 1 + dice.below(300);
  c.w = {std::min(filters / 8 * 8, wanted), channels, kh, kw};
  if (!f.whole && c.w[0] % 8 == 0) --c.w[0];
  if (dice.below(4) == 0) {  // some of a wider image's channels, rows and columns
    const int64_t pixel = c.channels[0] + 8 * dice.below(4), row = pixel * (w + dice.below(3));
    c.x_strides = {row * (h + dice.below(3)), 1, row, pixel};
  }
  return c;
}

/// Its kernels are kept where SMELT_CACHE_DIR says: each of the sanitizer's tools runs the same ones.
const Machine& machine_with_cute() {
  static const Machine made = [] {
    const auto gpu = std::make_shared<Gpu>(*test_gpu());
    gpu->caches = std::make_shared<DeviceCaches>();  // of its own: others are not asked
    gpu->caches->get<AskedTactics>().cute = true;
    if (const char* folder = std::getenv("SMELT_CACHE_DIR"))
      gpu->cubins = std::make_shared<device::cuda::CubinStore>(std::filesystem::path(folder) / "cubins");
    Machine machine;
    machine.gpu = gpu;
    return machine;
  }();
  return made;
}

std::vector<Candidate> candidates(const Trial& t, std::string* problem = nullptr) {
  Offer o = offer(t.bound, machine_with_cute());
  if (problem) *problem = o.problem;
  std::erase_if(o.candidates, [](const Candidate& c) { return c.tactic != "cute"; });
  std::ranges::sort(o.candidates, {}, &Candidate::config);
  return o.candidates;
}

class GpuCuteConv : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string& why = device::cuda::cutlass_headers().missing; !why.empty()) GTEST_SKIP() << why;
  }
};

struct Prepared {
  Convolution convolution;
  Trial trial;
  std::string name, config;
  std::unique_ptr<Kernel> kernel;
  Tensor want;
};

TEST_F(GpuCuteConv, agrees_on_400_random_concatenations_by_every_tile) {
  constexpr size_t each = 100;
  const Family families[] = {{DType::f16, 2, true, false, 0, false},
                             {DType::bf16, 3, false, true, 1, true},
                             {DType::f16, 8, true, false, 2, true},
                             {DType::f16, 2, false, true, 3, false}};
  std::vector<Prepared> all(std::size(families) * each);
  std::atomic<size_t> next = 0;
  std::vector<std::future<void>> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.push_back(std::async(std::launch::async, [&] {
      for (size_t n; (n = next++) < all.size();) {
        const size_t at = n % std::size(families) * each + n / std::size(families);  // the kernels' first problems come first
        const Family& f = families[at / each];
        Dice dice(static_cast<uint32_t>(at));
        Prepared& p = all[at];
        p.convolution = random_case(dice, f);
        p.trial = trial(p.convolution);
        p.trial.bound.node = &p.trial.node;
        std::string problem;
        const std::vector<Candidate> found = candidates(p.trial, &problem);
        if (found.empty()) continue;
        const Candidate& chosen = found[f.tile % found.size()];
        p.config = chosen.config;
        p.name = fmt::format("number {}: {} {}", at, problem, chosen.config);
        p.kernel = chosen.prepare();
        p.want = evaluate(p.trial.node, p.trial.inputs)[0];
      }
    }));
  for (std::future<void>& t : threads) t.get();
  size_t wrong = 0;
  std::set<std::string> tiles;
  for (Prepared& p : all) {
    SCOPED_TRACE(p.name);
    ASSERT_TRUE(p.kernel);
    tiles.insert(p.config);
    const double apart = error(run_on_gpu(p.trial, *p.kernel)[0], p.want);
    EXPECT_LE(apart, tolerance(p.convolution));
    if (apart > tolerance(p.convolution) && ++wrong == 12) break;
  }
  EXPECT_EQ(tiles.size(), std::size(families));
}

/// For compute-sanitizer too.
TEST_F(GpuCuteConv, small_problems) {
  Convolution c{DType::f16, {40, 8}, {2, 48, 7, 5}, {20, 48, 3, 3}, {1, 2}, {1, 1, 0, 2}, {1, 1}, false, {}};
  Trial t = trial(c);
  t.bound.node = &t.node;
  const Tensor want = evaluate(t.node, t.inputs)[0];
  const std::vector<Candidate> found = candidates(t);
  ASSERT_FALSE(found.empty());
  EXPECT_LE(error(run_on_gpu(t, found.front())[0], want), tolerance(c));
}

}  // namespace
}  // namespace smelt::ops
