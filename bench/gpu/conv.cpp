// Convolutions with bias and relu, channels-last: ResNet-50's layers, also with a residual, convolutions of concatenated inputs, of
// groups and transposed ones, in f16; with i8 those of one input in 8-bit integers, symmetric, scaled by channel.
#include <cmath>
#include <fstream>
#include <future>
#include <map>
#include <regex>
#include <set>

#include "bench.h"
#include "ops/conv/problem.h"
#include "ops/cuda/asked_tactics.h"

namespace smelt::bench {
namespace {

/// n images of `channels` (several: concatenated inputs), size x size, to m channels.
struct Layer {
  std::vector<int64_t> channels;
  int64_t size, m, kernel, stride = 1, groups = 1;
  bool transposed = false;  // to stride times the pixels
};

std::vector<Layer> resnet50() {
  return {{{3}, 224, 64, 7, 2},     {{64}, 56, 64, 1},    {{64}, 56, 64, 3},       {{64}, 56, 256, 1},
          {{256}, 56, 64, 1},       {{256}, 56, 128, 1},  {{128}, 56, 128, 3, 2},  {{128}, 28, 512, 1},
          {{256}, 56, 512, 1, 2},   {{512}, 28, 128, 1},  {{128}, 28, 128, 3},     {{512}, 28, 256, 1},
          {{256}, 28, 256, 3, 2},   {{256}, 14, 1024, 1}, {{512}, 28, 1024, 1, 2}, {{1024}, 14, 256, 1},
          {{256}, 14, 256, 3},      {{1024}, 14, 512, 1}, {{512}, 14, 512, 3, 2},  {{512}, 7, 2048, 1},
          {{1024}, 14, 2048, 1, 2}, {{2048}, 7, 512, 1},  {{512}, 7, 512, 3}};
}
std::vector<Layer> depthwise() {
  return {{{16}, 112, 16, 3, 1, 16},   {{64}, 112, 64, 3, 2, 64},   {{72}, 56, 72, 3, 1, 72},
          {{72}, 56, 72, 5, 2, 72},    {{120}, 28, 120, 5, 1, 120}, {{240}, 28, 240, 3, 2, 240},
          {{480}, 14, 480, 3, 1, 480}, {{672}, 14, 672, 5, 2, 672}, {{960}, 7, 960, 5, 1, 960}};
}
/// Depthwise ones whose windows are large, far apart, or several to a channel.
std::vector<Layer> depthwise_forms() {
  return {{{64}, 56, 64, 13, 1, 64}, {{128}, 28, 128, 31, 1, 128}, {{32}, 112, 64, 3, 1, 32}, {{64}, 112, 64, 5, 5, 64}};
}
/// ResNeXt-50 (32 x 4), ShuffleNet's products of 3 and 8 groups, RegNet's groups of 8, 16 and 24, odd ones.
std::vector<Layer> grouped() {
  return {{{128}, 56, 128, 3, 1, 32},  {{256}, 56, 256, 3, 2, 32}, {{256}, 28, 256, 3, 1, 32}, {{512}, 14, 512, 3, 1, 32},
          {{1024}, 7, 1024, 3, 1, 32}, {{240}, 28, 240, 1, 1, 3},  {{384}, 28, 384, 1, 1, 8},  {{48}, 56, 48, 3, 1, 6},
          {{64}, 56, 64, 3, 1, 4},     {{72}, 56, 72, 3, 1, 3},    {{96}, 28, 96, 3, 1, 32},   {{160}, 28, 160, 3, 1, 32}};
}
/// Of groups: bilinear upsampling of 21 classes, of each channel, of four; of one.
std::vector<Layer> transposed() {
  return {{{21}, 32, 21, 16, 8, 21, true},
          {{64}, 56, 64, 4, 2, 64, true},
          {{64}, 28, 64, 4, 2, 16, true},
          {{256}, 32, 128, 4, 2, 1, true}};
}
std::vector<Layer> concatenated() {
  return {{{64, 64}, 80, 64, 3},
          {{128, 128}, 40, 128, 3},
          {{256, 256}, 20, 256, 3},
          {{256, 128}, 80, 128, 3},
          {{128, 256}, 40, 128, 3}};
}
/// What unet and detector of examples/models concatenate for a convolution.
std::vector<Layer> concatenated_in_models() {
  return {{{256, 256}, 32, 256, 3}, {{128, 128}, 64, 128, 3}, {{64, 64}, 128, 64, 3},   {{32, 32}, 256, 32, 3},
          {{32, 32}, 160, 64, 1},   {{64, 64}, 80, 128, 1},   {{128, 128}, 40, 256, 1}, {{256, 256}, 20, 512, 1},
          {{256, 256}, 40, 256, 3}, {{128, 128}, 80, 128, 3}, {{128, 128}, 40, 256, 3}, {{256, 256}, 20, 512, 3}};
}
std::vector<Layer> layers_of(std::string_view what) {
  if (what == "resnet50") return resnet50();
  if (what == "resnet50_residual") {
    std::vector<Layer> all = resnet50();
    all.erase(all.begin());  // the first has none
    return all;
  }
  if (what == "depthwise") return depthwise();
  if (what == "depthwise_forms") return depthwise_forms();
  if (what == "grouped") return grouped();
  if (what == "transposed") return transposed();
  return what == "concatenated_in_models" ? concatenated_in_models() : concatenated();
}

/// The node, and its tensors bound channels-last; a constant weight of its own for each of `copies`.
struct Bound {
  Node node;
  std::vector<ops::BoundNode> copies;
  int64_t moved = 0;
  std::string text;

  /// residual: a tensor like y is added before relu.
  Bound(const Layer& l, int64_t n, int64_t copies_wanted, DType type, bool residual) {
    const bool integers = type == DType::i8;
    node.domain = smelt_domain;
    node.op = integers ? "QLinearConv" : l.transposed ? "ConvTranspose" : "Conv";
    const int64_t pad = l.transposed ? (l.kernel - l.stride) / 2 : (l.kernel - 1) / 2, size = bytes(type, 1);
    if (!integers) node.attrs["segments"] = static_cast<int64_t>(l.channels.size());
    node.attrs["strides"] = std::vector<int64_t>{l.stride, l.stride};
    node.attrs["pads"] = std::vector<int64_t>{pad, pad, pad, pad};
    node.attrs["group"] = l.groups;
    node.program = expr::Program::parse(
        integers ? "(in0:f32) { %1 = relu(in0):f32; %2 = round(%1):f32; %3 = const(0):f32; %4 = add(%2, %3):f32; "
                   "%5 = const(-128):f32; %6 = const(127):f32; %7 = clip(%4, %5, %6):f32; %8 = cast(%7):i8; return %8 }"
                 : "(in0:f32) { %1 = relu(in0):f32; %2 = cast(%1):f16; return %2 }");
    if (residual)
      node.program = expr::Program::parse(
          integers ? "(in0:f32, in1:i8) { %2 = cast(in1):f32; %3 = const(0.5):f32; %4 = mul(%2, %3):f32; %5 = add(in0, %4):f32; "
                     "%6 = relu(%5):f32; %7 = round(%6):f32; %8 = const(0):f32; %9 = add(%7, %8):f32; %10 = const(-128):f32; "
                     "%11 = const(127):f32; %12 = clip(%9, %10, %11):f32; %13 = cast(%12):i8; return %13 }"
                   : "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = relu(%3):f32; %5 = cast(%4):f16; "
                     "return %5 }");
    int64_t channels = 0;
    ops::BoundNode b;
    for (const int64_t c : l.channels) {
      b.inputs.push_back(
          {type, {n, c, l.size, l.size}, l.channels.size() == 1 && c < 4 ? ops::Layout::plain : ops::Layout::nhwc});
      channels += c;
      text += fmt::format("{}{}", text.empty() ? fmt::format("{}x", n) : "+", c);
    }
    const int64_t out = l.transposed ? l.size * l.stride : (l.size + 2 * pad - l.kernel) / l.stride + 1;
    const Shape w =
        l.transposed ? Shape{channels, l.m / l.groups, l.kernel, l.kernel} : Shape{l.m, channels / l.groups, l.kernel, l.kernel};
    const Shape y{n, l.m, out, out};
    b.inputs.push_back({type, w});
    if (integers) {
      const auto constant = [&](Tensor t) {
        b.inputs.push_back({t.type(), t.shape()});
        b.inputs.back().constant = std::move(t);
      };
      Tensor bias = Tensor::zeros(DType::i32, {l.m}), scales = Tensor::zeros(DType::f32, {l.m});
      std::ranges::fill(bias.span<int32_t>(), 300);
      std::ranges::fill(scales.span<float>(), 0.1f / std::sqrt(static_cast<float>(channels * l.kernel * l.kernel)));
      constant(bias);
      constant(Tensor::scalar(0.05f));
      constant(Tensor::scalar<int8_t>(0));
      constant(scales);
      constant(Tensor::zeros(DType::i8, {l.m}));
    } else {
      b.inputs.push_back({type, {l.m}});
    }
    if (residual) b.inputs.push_back({type, y, ops::Layout::nhwc});
    for (size_t i = 0; i < b.inputs.size(); ++i) node.inputs.push_back(ValueId(static_cast<int>(i)));
    b.outputs = {{type, y, ops::Layout::nhwc}};
    node.outputs = {ValueId(99)};
    b.node = &node;
    moved = size * (elements(w) + n * channels * l.size * l.size + elements(y) * (residual ? 2 : 1));
    text += fmt::format("x{}x{} -> {} {}x{} s{}{}{}", l.size, l.size, l.m, l.kernel, l.kernel, l.stride,
                        l.groups > 1 ? fmt::format(" g{}", l.groups) : "", l.transposed ? " t" : "");
    std::mt19937 random(3);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int64_t i = 0; i < copies_wanted; ++i) {
      Tensor weights = Tensor::empty(type, w);
      if (integers)
        for (int8_t& v : weights.span<int8_t>()) v = static_cast<int8_t>(uniform(random) * 127);
      else
        for (Half& v : weights.span<Half>()) v = Half(uniform(random));
      b.inputs[l.channels.size()].constant = weights;
      copies.push_back(b);
    }
  }
  Bound(const Bound&) = delete;
};

struct Timed {
  std::string name;
  double us = 1e30;
};

/// A candidate, and its kernels of each copy of the weights: empty where it cannot be prepared after all.
struct Contender {
  ops::Candidate candidate;
  std::future<std::vector<std::unique_ptr<ops::Kernel>>> kernels;
};

struct Work {
  std::unique_ptr<Bound> bound;
  std::vector<Contender> contenders;
};

/// Of each tactic the `most` candidates that rank first, each preparing its kernels beside the others.
std::vector<Contender> contenders(const Bound& b, const ops::Machine& machine, size_t most) {
  std::vector<ops::Offer> offers;  // of each copy
  for (const ops::BoundNode& copy : b.copies) offers.push_back(ops::offer(copy, machine));
  std::vector<Contender> all;
  std::map<std::string, size_t> count;
  for (const ops::Candidate& c : offers[0].candidates) {
    // Of those of groups the plain multiply-adds too, which are kernels of the same tactic.
    const bool direct = c.config.starts_with("direct");
    if (direct && b.node.op == "QLinearConv" && b.node.get_int("group", 1) == 1) continue;  // scalar
    if (++count[c.tactic + (direct ? " direct" : "")] > (direct ? std::min<size_t>(most, 2) : most)) continue;
    std::vector<ops::Candidate> same;
    for (const ops::Offer& o : offers)
      for (const ops::Candidate& other : o.candidates)
        if (other.tactic == c.tactic && other.config == c.config) {
          same.push_back(other);
          break;
        }
    all.push_back({c, std::async(std::launch::async, [same = std::move(same)] {
                     std::vector<std::unique_ptr<ops::Kernel>> kernels;
                     try {
                       for (const ops::Candidate& copy : same) kernels.push_back(copy.prepare());
                     } catch (const Error&) {  // an engine that cannot after all
                       kernels.clear();
                     }
                     return kernels;
                   })});
  }
  return all;
}

/// What compiling the first kernel of each of smelt's tactics takes, one after the other.
void print_compile_times(const Bound& b) {
  ops::Machine machine;
  const auto own = std::make_shared<ops::Gpu>(*gpu());
  machine.gpu = own;
  std::set<std::string> met;
  for (const ops::Candidate& c : ops::offer(b.copies[0], machine).candidates) {
    if (c.tactic == "cudnn" || !met.insert(c.tactic).second) continue;
    own->cubins = std::make_shared<cuda::CubinStore>();
    c.prepare();
    fmt::print("{} {}: {:.2f} s to compile\n", c.tactic, c.config, own->cubins->stats().seconds);
  }
}

}  // namespace

void conv(std::string_view what, int64_t n, size_t candidates, DType type, const std::string& csv, const std::string& wanted,
          bool cute) {
  std::ofstream every(csv, std::ios::app);
  gpu()->caches->get<ops::AskedTactics>().cute = cute;
  const std::vector<Layer> layers = layers_of(what);
  fmt::print("{:>34} {:>8} {:>8} {:>8} {:>8} {:>6}  {}\n", fmt::format("{} images, channels -> channels", name(type)), "hopper",
             "walked", "cuda", "cudnn", "ratio",
             "hopper's best, its first guess; walked's, its first; cuda's; cuDNN's; stem's time and best; ratio: of hopper, "
             "walked or stem to cuDNN");
  double logs = 0;  // first layers aside
  int ratios = 0, won = 0;
  ops::Machine machine;
  machine.gpu = gpu();
  if (cute) print_compile_times(Bound(layers.front(), n, 1, type, what.ends_with("_residual")));
  std::vector<Work> all;
  for (const Layer& l : layers) {                     // everything is compiled side by side before anything is timed
    if (l.transposed && type == DType::i8) continue;  // ONNX has none of integers
    Work w;
    // As many weights as it takes that they are cold, but 6 at most, which small ones are not then.
    const int64_t weights = bytes(type, 1) * l.m * l.kernel * l.kernel * l.channels[0] / l.groups;
    w.bound = std::make_unique<Bound>(l, n, std::clamp<int64_t>(2 * gpu()->info.l2_bytes / std::max<int64_t>(1, weights), 2, 6),
                                      type, what.ends_with("_residual"));
    if (!wanted.empty() && !std::regex_search(w.bound->text, std::regex(wanted))) continue;
    w.contenders = contenders(*w.bound, machine, candidates);
    all.push_back(std::move(w));
  }
  for (Work& w : all) {
    const Bound& b = *w.bound;
    const std::vector<ops::BoundTensor>& inputs = b.copies[0].inputs;
    const int64_t moved = what.starts_with("concatenated") ? INT64_MAX : b.moved;  // these lie in L2, as KERNELS.md has them
    std::vector<Rotating> images;
    // Constants too, as many as there are packed ones: what is a product of matrices reads its weights where they lie.
    for (const ops::BoundTensor& input : inputs)
      images.push_back(input.constant.valid() ? Rotating::of(input.type, elements(input.shape), b.copies.size())
                                              : Rotating(input.type, elements(input.shape), moved));
    const Rotating y(type, elements(b.copies[0].outputs[0].shape), moved);
    std::map<std::string, Timed> best;
    std::map<std::string, std::string> first;
    for (Contender& contender : w.contenders) {
      const ops::Candidate& c = contender.candidate;
      const std::vector<std::unique_ptr<ops::Kernel>> kernels = contender.kernels.get();
      if (kernels.empty()) continue;
      const auto memory = gpu()->device->allocate(std::max<int64_t>(1, kernels[0]->workspace()), "a workspace");
      const auto enqueue = [&](int call, cuda::abi::Stream stream) {
        std::vector<const void*> in;
        for (const Rotating& image : images) in.push_back(image.at(call));
        void* out[] = {y.at(call)};
        kernels[static_cast<size_t>(call) % kernels.size()]->run({in, out, reinterpret_cast<void*>(memory->address()), stream});
      };
      Timed& winner = best[c.tactic];
      const auto measure = [&](int replays) {
        auto us = cuda::time_graph(gpu()->device, enqueue,
                                   {.calls = b.moved > (64 << 20) ? 20 : 60, .replays = replays, .budget_us = 1e5});
        std::ranges::sort(us);
        return quantile(us, 0.5);
      };
      double us = measure(5);
      if (us <= 1.05 * winner.us) us = measure(30);
      if (us < winner.us) winner = {c.config, us};
      every << fmt::format("{},{},{},{},{:.2f},{:.2f}\n", name(type), b.text, c.tactic, c.config, us, c.estimate_us);
      first.emplace(c.tactic, fmt::format("{:.2f} {}", us, c.config));
    }
    const Timed hopper = best["hopper"], walked = best["walked"], ours = best["cuda"], theirs = best["cudnn"],
                stem = best["stem"];
    const auto shown = [](const Timed& t) { return t.us < 1e29 ? t.us : 0; };
    const double ratio = theirs.us < 1e29 ? std::min({hopper.us, walked.us, stem.us}) / theirs.us : 0;
    if (ratio > 0 && inputs[0].layout == ops::Layout::nhwc) logs += std::log(ratio), ++ratios, won += ratio < 1;
    fmt::print("{:>34} {:8.2f} {:8.2f} {:8.2f} {:8.2f} {:6.2f}  {}; {}; {}; {}; {}; {}{}{}\n", b.text, shown(hopper),
               shown(walked), shown(ours), shown(theirs), ratio, hopper.name, first["hopper"], walked.name, first["walked"],
               ours.name, theirs.name, stem.us < 1e29 ? fmt::format("; stem {:.2f} {}", stem.us, stem.name) : "",
               cute ? fmt::format("; cute {:.2f} {}", shown(best["cute"]), best["cute"].name) : "");
    std::fflush(stdout);
  }
  if (ratios > 0)
    fmt::print("{} problems beside cuDNN: {:.3f} of its time in the geometric mean, {} won\n", ratios, std::exp(logs / ratios),
               won);
}

}  // namespace smelt::bench
