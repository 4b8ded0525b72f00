// Convolutions by cuDNN: the convolution, what is added to it and its activation as one graph, channels-last. Its engines are
// asked for once a problem; each is a candidate.
#include "device/cuda/cudnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "base/error.h"
#include "ops/channels_last.h"
#include "ops/conv/cuda.h"
#include "ops/conv/window.h"
#include "ops/strides.h"
#include "ops/tactics.h"

namespace smelt::ops::conv {
namespace {

namespace cuda = device::cuda;
using expr::Fn;

constexpr size_t most_candidates = 12;

/// What it is asked to fuse: sums and relu, which its engines take together with a convolution.
std::optional<cuda::abi::DnnPointwise> pointwise_of(Fn fn) {
  switch (fn) {
    case Fn::add: return cuda::abi::dnn_add;
    case Fn::relu: return cuda::abi::dnn_relu;
    default: return std::nullopt;
  }
}

/// Extents and strides with axes of 1 in front. Axes of extent 1 may have any stride; cuDNN reads the layout from them.
std::pair<Shape, Shape> padded(const BoundTensor& t) {
  constexpr size_t rank = 4;
  const Shape own = memory_strides(t);
  Shape shape(rank - t.shape.size(), 1);
  shape.insert(shape.end(), t.shape.begin(), t.shape.end());
  Shape strides{shape[1] * shape[2] * shape[3], 1, shape[1] * shape[3], shape[1]};
  for (size_t a = 0; a < own.size(); ++a)
    if (t.shape[a] != 1) strides[rank - own.size() + a] = own[a];
  return {shape, strides};
}

std::string rejects(const GpuRequest& r) {
  const Problem& p = r.problem;
  const auto known = [](DType t) { return t == DType::f16 || t == DType::bf16 || t == DType::f32; };
  if (!r.gpu->device) return "its plans are made where they run";
  if (std::string missing = cuda::cudnn_missing(); !missing.empty()) return missing;
  if (p.transposed || p.x.size() > 1 || p.x[0].upsample != 1) return "transposed, upsampled or of several inputs";
  if (p.spatial() != 2) return fmt::format("{} spatial axes, it is asked for 2", p.spatial());
  if (!known(p.input) || !known(p.output) || r.weight().type != p.input)
    return fmt::format("{} by {} to {}", smelt::name(p.input), smelt::name(r.weight().type), smelt::name(p.output));
  if (!r.weight().constant.valid()) return "weights that are not constant";
  if (elements(p.x[0].shape) == 0 || elements(p.y) == 0) return "an empty image";
  if (!is_channels_last(r.node.inputs[0]) || !is_channels_last(r.node.outputs[0])) return "an image that is not channels-last";
  for (const BoundTensor* t : {&r.node.inputs[0], &r.node.outputs[0]})
    if (t->alignment < 16) return fmt::format("a tensor aligned to {} bytes, expected 16", t->alignment);
  const std::vector<expr::Instruction>& code = r.program.code();
  for (const expr::Instruction& i : code) {
    if (i.fn == Fn::input || i.fn == Fn::cast) continue;
    if (i.fn == Fn::constant || !pointwise_of(i.fn))
      return fmt::format("{} in the program", i.fn == Fn::constant ? "a number" : info(i.fn).name);
    if (i.type != DType::f32) return fmt::format("arithmetic in {}", smelt::name(i.type));
  }
  for (const EpilogueOperand& o : r.operands) {
    if (!known(o.tensor.type)) return fmt::format("an operand of {}", smelt::name(o.tensor.type));
    if (o.tensor.alignment < 16) return fmt::format("an operand aligned to {} bytes, expected 16", o.tensor.alignment);
    // With one value an image and channel, a run that had these engines among its candidates ended in a misaligned access.
    const bool bias = o.input == r.at.b, like_y = o.tensor.shape == p.y && is_channels_last(o.tensor);
    if (!bias && !like_y)
      return fmt::format("an operand of shape {}, expected the result's, channels-last", to_string(o.tensor.shape));
  }
  return {};
}

/// A problem's graph and engines.
struct Described {
  std::mutex mutex;                 // cuDNN's descriptors are used by one thread at a time
  std::optional<cuda::DnnGraph> graph;
  std::vector<cuda::DnnGraph::Engine> engines;
  std::vector<size_t> inputs;       // of the node: x, then the operands in the order of the plan's pointers behind x, w and y
  std::map<size_t, std::shared_ptr<cuda::DnnPlan>> plans;   // by engine: layers of one shape share them, tuning makes each once

  std::shared_ptr<cuda::DnnPlan> plan(size_t engine) {
    std::lock_guard lock(mutex);
    std::shared_ptr<cuda::DnnPlan>& plan = plans[engine];
    if (!plan) plan = graph->plan(engines[engine]);
    if (!plan) fail("cuDNN's {} cannot run this after all", engines[engine].name);
    return plan;
  }
};

std::shared_ptr<Described> describe(const GpuRequest& r) {
  const Problem& p = r.problem;
  auto d = std::make_shared<Described>();
  cuda::DnnGraph& g = d->graph.emplace(cuda::DnnContext::open(r.gpu->device));
  const BoundTensor &x = r.node.inputs[0], &y = r.node.outputs[0];
  const Shape w_strides{p.w[1] * p.w[2] * p.w[3], 1, p.w[1] * p.w[3], p.w[1]};
  const auto [x_shape, x_strides] = padded(x);
  const auto [y_shape, y_strides] = padded(y);
  const size_t image = g.tensor(x.type, x_shape, x_strides, 16), weight = g.tensor(p.input, p.w, w_strides, 16);
  const size_t result = g.tensor(y.type, y_shape, y_strides, 16);
  const std::vector<expr::Instruction>& code = r.program.code();
  std::vector<size_t> values(code.size(), SIZE_MAX);
  // The last operation writes the result; all before it write what is never stored.
  size_t last = SIZE_MAX;
  for (size_t i = 0; i < code.size(); ++i)
    if (code[i].fn != Fn::input && code[i].fn != Fn::cast) last = i;
  BoundTensor dense = y;
  dense.strides.clear();
  const auto between = [&, strides = padded(dense).second] { return g.between(DType::f32, y_shape, strides); };
  values[0] = last == SIZE_MAX ? result : between();
  d->inputs = {0};
  g.convolve(image, weight, values[0], DType::f32, p.stride, p.dilation, p.pad_begin, p.pad_end);
  for (size_t i = 1; i < code.size(); ++i) {
    const expr::Instruction& c = code[i];
    const auto argument = [&](int k) { return values[static_cast<size_t>(c.args[k])]; };
    if (c.fn == Fn::input) {
      const EpilogueOperand& o = r.operands[i - 1];
      const auto [shape, strides] = padded(o.tensor);
      values[i] = g.tensor(o.tensor.type, shape, strides, std::min<int64_t>(16, o.tensor.alignment));
      d->inputs.push_back(o.input);
    } else if (c.fn == Fn::cast) {
      values[i] = argument(0);
    } else {
      values[i] = i == last ? result : between();
      if (info(c.fn).arity == 1) g.pointwise(*pointwise_of(c.fn), argument(0), values[i]);
      else g.pointwise(*pointwise_of(c.fn), argument(0), argument(1), values[i]);
    }
  }
  d->engines = g.engines({.tensor_cores = p.input != DType::f32 || r.gpu->tf32});
  return d;
}

/// The same for the same problem; the library takes milliseconds to answer.
std::shared_ptr<Described> described(const GpuRequest& r, const std::string& problem) {
  std::string key = fmt::format("{} {} {}", r.gpu->info.ordinal, r.gpu->tf32, problem);
  for (const auto* tensors : {&r.node.inputs, &r.node.outputs})
    for (const BoundTensor& t : *tensors) key += fmt::format(" {}@{}", print(t), std::min<int64_t>(16, t.alignment));
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<Described>> known;
  {
    std::lock_guard lock(mutex);
    if (const auto at = known.find(key); at != known.end()) return at->second;
  }
  auto made = describe(r);
  std::lock_guard lock(mutex);
  return known.try_emplace(key, std::move(made)).first->second;
}

/// Weights [M, KH, KW, C] of ONNX's [M, C, KH, KW].
Tensor packed(const Tensor& w) {
  const Shape& s = w.shape();
  const int64_t size = bytes(w.type(), 1), taps = s[2] * s[3];
  Tensor to = Tensor::empty(w.type(), {s[0], s[2], s[3], s[1]});
  for (int64_t m = 0; m < s[0]; ++m)
    for (int64_t c = 0; c < s[1]; ++c)
      for (int64_t k = 0; k < taps; ++k)
        std::memcpy(static_cast<char*>(to.raw()) + ((m * taps + k) * s[1] + c) * size,
                    static_cast<const char*>(w.raw()) + ((m * s[1] + c) * taps + k) * size, static_cast<size_t>(size));
  return to;
}

class DnnKernel final : public Kernel {
 public:
  DnnKernel(const GpuRequest& r, const std::shared_ptr<Described>& d, size_t engine)
      : inputs_(d->inputs), w_(r.at.w), plan_(d->plan(engine)) {
    weights_ = r.gpu->weights->packed(r.gpu->device, r.weight().constant, "conv:channels last",
                                      [&] { return packed(r.weight().constant); });
    pointers_.resize(inputs_.size() + 2);
  }

  int64_t workspace() const override { return plan_->workspace(); }
  bool reads(size_t i) const override { return i != w_; }

  void run(const Buffers& b) override {
    pointers_[0] = b.inputs[0];
    pointers_[1] = reinterpret_cast<const void*>(weights_->address());
    pointers_[2] = b.outputs[0];
    for (size_t i = 1; i < inputs_.size(); ++i) pointers_[i + 2] = b.inputs[inputs_[i]];
    plan_->run(pointers_, b.workspace, static_cast<cuda::abi::Stream>(b.stream));
  }

 private:
  std::vector<size_t> inputs_;
  size_t w_;
  std::shared_ptr<cuda::DnnPlan> plan_;
  std::shared_ptr<cuda::Memory> weights_;
  std::vector<const void*> pointers_;
};

}  // namespace

void offer_cudnn(const SharedRequest& r, Offer& offer) {
  if (std::string why = rejects(*r); !why.empty()) return offer.rejected.push_back({"cudnn", std::move(why)});
  std::shared_ptr<Described> d;
  try {
    d = described(*r, offer.problem);
  } catch (const Error& e) {   // a graph that it has no words for
    return offer.rejected.push_back({"cudnn", e.what()});
  }
  if (d->engines.empty())
    return offer.rejected.push_back({"cudnn", "no engine for this graph whose results are always the same"});
  const double estimate = gpu_estimate_us(*r->gpu, r->moved_bytes(), r->problem.flops());
  for (size_t i = 0; i < std::min(most_candidates, d->engines.size()); ++i)
    offer.candidates.push_back({"cudnn", d->engines[i].name, estimate * (1.3 + 0.05 * static_cast<double>(i)),
                                [r, d, i] { return std::make_unique<DnnKernel>(*r, d, i); }});
}

}  // namespace smelt::ops::conv
