// Convolutions by cuDNN: the convolution, what is added to it and its activation as one graph, channels-last. Its engines are
// asked for once a problem; each is a candidate.
#include "ops/cuda/cudnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ops/conv/between_copies.h"
#include "ops/conv/cuda_request.h"
#include "ops/core/align.h"
#include "ops/core/channels_last.h"
#include "ops/core/strides.h"
#include "ops/core/tactic.h"
#include "ops/cuda/planned.h"
#include "ops/movement/cuda_strided_copy.h"

namespace smelt::ops::conv {
namespace {

namespace cuda = device::cuda;
using expr::Fn;

constexpr size_t most_candidates = 12, most_compiled = 6;  // beyond these, what compiles is for tuning level 3

/// What it is asked to fuse: sums and relu, which its engines take together with a convolution.
std::optional<cuda::abi::DnnPointwise> pointwise_of(Fn fn) {
  switch (fn) {
    case Fn::add: return cuda::abi::dnn_add;
    case Fn::relu: return cuda::abi::dnn_relu;
    default: return std::nullopt;
  }
}

/// The axis along which one place begins before the other's pixels end; nothing where none does. So lie the results of a transposed
/// convolution's phase in an odd extent: 9 pixels, 2 apart, in a row of 17. Two engines then wrote rows of 18 behind the tensor on an H200.
std::optional<size_t> interleaved_axis(const BoundTensor& t) {
  const Shape at = memory_strides(t);
  int64_t within = 0;
  for (size_t i = t.shape.size(); i-- > 1;) {
    const size_t axis = i > 1 ? i : 0;  // the last, … the first of the image's, then the batch
    if (t.shape[axis] > 1 && at[axis] < within) return axis;
    within = std::max(within, at[axis] * t.shape[axis]);
  }
  return std::nullopt;
}

std::optional<Refusal> rejects(const GpuRequest& r) {
  const Problem& p = r.problem;
  const auto known = [](DType t) { return t == DType::f16 || t == DType::bf16 || t == DType::f32; };
  if (auto why = dnn_missing(*r.gpu)) return why;
  if (p.transposed || p.x.size() > 1 || p.x[0].upsample != 1)
    return refuse(Reason::unsupported, "transposed, upsampled or of several inputs");
  if (p.spatial() != 2 && p.spatial() != 3)
    return refuse(Reason::wrong_rank, "{} spatial axes, it is asked for 2 or 3", p.spatial());
  if (!known(p.input) || !known(p.output) || r.weight().type != p.input)
    return refuse(Reason::wrong_type, "{} by {} to {}", smelt::name(p.input), smelt::name(r.weight().type),
                  smelt::name(p.output));
  if (elements(p.x[0].shape) == 0 || elements(p.y) == 0 || elements(p.w) == 0)
    return refuse(Reason::wrong_shape, "an empty tensor");
  if (!is_channels_last(r.node.inputs[0]) || !is_channels_last(r.node.outputs[0]))
    return refuse(Reason::wrong_layout, "an image that is not channels-last");
  for (const BoundTensor* t : {&r.node.inputs[0], &r.node.outputs[0]})
    if (const auto axis = interleaved_axis(*t))
      return refuse(Reason::wrong_layout, "an image whose pixels lie between others of it along axis {}", *axis);
  for (const BoundTensor* t : {&r.node.inputs[0], &r.node.outputs[0]})
    if (t->alignment < 16) return refuse(Reason::wrong_layout, "a tensor aligned to {} bytes, expected 16", t->alignment);
  const std::vector<expr::Instruction>& code = r.program.code();
  for (const expr::Instruction& i : code) {
    if (i.fn == Fn::input || i.fn == Fn::cast) continue;
    if (i.fn == Fn::constant || !pointwise_of(i.fn))
      return refuse(Reason::unsupported, "{} in the program", i.fn == Fn::constant ? "a number" : info(i.fn).name);
    if (i.type != DType::f32) return refuse(Reason::wrong_type, "arithmetic in {}", smelt::name(i.type));
  }
  for (const EpilogueOperand& o : r.operands) {
    if (!known(o.tensor.type)) return refuse(Reason::wrong_type, "an operand of {}", smelt::name(o.tensor.type));
    if (o.tensor.alignment < 16)
      return refuse(Reason::wrong_layout, "an operand aligned to {} bytes, expected 16", o.tensor.alignment);
    // With one value an image and channel, a run that had these engines among its candidates ended in a misaligned access.
    const bool bias = o.input == r.at.b,
               like_y = o.tensor.shape == p.y && is_channels_last(o.tensor) && !interleaved_axis(o.tensor);
    if (!bias && !like_y)
      return refuse(Reason::wrong_layout, "an operand of shape {}, expected the result's, channels-last",
                    to_string(o.tensor.shape));
  }
  return std::nullopt;
}

/// The problem's graph; a plan's pointers are x, w, y and the operands.
void describe(const GpuRequest& r, cuda::DnnGraph& g) {
  const Problem& p = r.problem;
  const BoundTensor &x = r.node.inputs[0], &y = r.node.outputs[0];
  const size_t rank = p.y.size();
  const auto [x_shape, x_strides] = dnn_image(x, rank);
  const auto [y_shape, y_strides] = dnn_image(y, rank);
  const size_t image = g.tensor(x.type, x_shape, x_strides, 16);
  const size_t weight = g.tensor(p.input, p.w, channels_last_strides(p.w), 16);
  const size_t result = g.tensor(y.type, y_shape, y_strides, 16);
  const std::vector<expr::Instruction>& code = r.program.code();
  std::vector<size_t> values(code.size(), SIZE_MAX);
  // The last operation writes the result; all before it write what is never stored.
  size_t last = SIZE_MAX;
  for (size_t i = 0; i < code.size(); ++i)
    if (code[i].fn != Fn::input && code[i].fn != Fn::cast) last = i;
  const auto between = [&, &shape = y_shape] { return g.between(cuda::abi::dnn_f32, shape, channels_last_strides(shape)); };
  values[0] = last == SIZE_MAX ? result : between();
  g.convolve(image, weight, values[0], DType::f32, p.stride, p.dilation, p.pad_begin, p.pad_end);
  for (size_t i = 1; i < code.size(); ++i) {
    const expr::Instruction& c = code[i];
    const auto argument = [&](int k) { return values[static_cast<size_t>(c.args[k])]; };
    if (c.fn == Fn::input) {
      const EpilogueOperand& o = r.operands[i - 1];
      const auto [shape, strides] = dnn_image(o.tensor, rank);
      values[i] = g.tensor(o.tensor.type, shape, strides, std::min<int64_t>(16, o.tensor.alignment));
    } else if (c.fn == Fn::cast) {
      values[i] = argument(0);
    } else {
      values[i] = i == last ? result : between();
      if (info(c.fn).arity == 1)
        g.pointwise({*pointwise_of(c.fn)}, {argument(0)}, values[i]);
      else
        g.pointwise({*pointwise_of(c.fn)}, {argument(0), argument(1)}, values[i]);
    }
  }
}

/// What lays computed weights channels-last; none of constant ones, which are so beforehand.
Offer weights_copy(const GpuRequest& r) {
  Offer copy;
  if (r.weight().constant.valid()) return copy;
  const Shape& w = r.problem.w;
  const BoundNode moved{nullptr, {r.weight()}, {{.type = r.weight().type, .shape = w}}, nullptr};
  StridedMove move{w, memory_strides(r.weight()), channels_last_strides(w)};
  offer_moves_cuda(moved, {std::move(move)}, *r.gpu, copy);
  return copy;
}

/// What its engines multiply, counted as tensor cores' work. Those of groups take tiles of so many channels, of which few are a group's: a
/// depthwise filter of 7 x 7 in f32 over 96 x 120 x 160 takes 410 us on an H200 (bench/results/gpu-never-slower-2026-11-28.txt).
double engine_flops(const GpuRequest& r) {
  const Problem& p = r.problem;
  if (p.group == 1) return p.flops();
  constexpr double tile = 32, slower = 16;  // slower: multiply-adds than tensor cores
  const double idle = std::max(1.0, tile / static_cast<double>(std::max<int64_t>(1, p.w[1])));
  return p.flops() * idle * (p.input == DType::f32 && !r.gpu->tf32 ? slower : 1);
}

class DnnKernel final : public Kernel {
 public:
  DnnKernel(const GpuRequest& r, DnnProblem& problem, size_t engine, const Candidate* copy)
      : w_(r.at.w), plan_(problem.plan(engine)) {
    if (copy)
      copy_ = copy->prepare(), copied_ = device_aligned(bytes(r.weight().type, elements(r.problem.w)));
    else
      weights_ = channels_last_weights(*r.gpu, r.weight().constant);
    for (const EpilogueOperand& o : r.operands) operands_.push_back(o.input);
    pointers_.resize(operands_.size() + 3);
  }

  int64_t workspace() const override { return copied_ + std::max(plan_->workspace(), copy_ ? copy_->workspace() : 0); }
  bool reads(size_t i) const override { return i != w_ || copy_; }

  void run(const Buffers& b) override {
    void* const behind = static_cast<char*>(b.workspace) + copied_;
    if (copy_) copy_->run({std::span(&b.inputs[w_], 1), std::span(&b.workspace, 1), behind, b.stream});
    if (auto* planned = PlannedLaunches::current()) return planned->add_other("cuDNN");
    pointers_[0] = b.inputs[0];
    pointers_[1] = copy_ ? b.workspace : reinterpret_cast<const void*>(weights_->address());
    pointers_[2] = b.outputs[0];
    for (size_t i = 0; i < operands_.size(); ++i) pointers_[i + 3] = b.inputs[operands_[i]];
    plan_->run(pointers_, behind, static_cast<cuda::abi::Stream>(b.stream));
  }

 private:
  std::unique_ptr<Kernel> copy_;  // of computed weights, to the beginning of the workspace
  int64_t copied_ = 0;            // bytes of it
  std::vector<size_t> operands_;  // the node's inputs
  size_t w_;
  std::shared_ptr<cuda::DnnPlan> plan_;
  std::shared_ptr<cuda::Memory> weights_;
  std::vector<const void*> pointers_;
};

}  // namespace

void offer_cudnn(const SharedRequest& r, Offer& offer) {
  if (const auto why = rejects(*r)) return offer.refuse("cudnn", *why);
  Key key(offer.problem);
  for (const auto* tensors : {&r->node.inputs, &r->node.outputs})
    for (const BoundTensor& t : *tensors) key.aligned(t);
  const bool tensor_cores = r->problem.input != DType::f32 || r->gpu->tf32;
  const auto problem = DnnProblem::find(
      *r->gpu, key, "convolution", offer, [&](cuda::DnnGraph& g) { describe(*r, g); }, tensor_cores);
  if (!problem) return;
  const auto copy = std::make_shared<const Offer>(weights_copy(*r));
  const Candidate* const first = fastest(*copy);
  if (!first && !r->weight().constant.valid()) return offer.refuse("cudnn", copy->refused.front().why);
  const double estimate = gpu_estimate_us(*r->gpu, r->moved_bytes(), engine_flops(*r)), before = first ? first->estimate_us : 0;
  size_t compiled = 0;
  for (size_t i = 0; i < std::min(most_candidates, problem->engines().size()); ++i) {
    const cuda::DnnGraph::Engine& e = problem->engines()[i];
    offer.candidates.push_back({"cudnn", e.name, before + estimate * (1.3 + 0.05 * static_cast<double>(i)),
                                [r, problem, i, copy] { return std::make_unique<DnnKernel>(*r, *problem, i, fastest(*copy)); },
                                e.compiles && ++compiled > most_compiled});
  }
}

}  // namespace smelt::ops::conv
