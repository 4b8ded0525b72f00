// The one list of families with a choice of kernels, and the offer for every node: the tactics of the first family that has
// one for it, then the reference.
#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "base/error.h"
#include "ops/core/family.h"
#include "ops/core/reference_kernel.h"
#include "ops/core/tactic_names.h"
#include "ops/cuda/gpu.h"
#include "ops/reorder/around.h"

namespace smelt::ops {

bool conv_handles(const Node&);
bool matmul_handles(const Node&);
void conv_offer(const BoundNode&, const Machine&, Offer&);
void conv_gpu_offer(const BoundNode&, const Machine&, Offer&);
bool quantized_conv_handles(const Node&);
void quantized_conv_offer(const BoundNode&, const Machine&, Offer&);
void quantized_conv_gpu_offer(const BoundNode&, const Machine&, Offer&);
void matmul_offer(const BoundNode&, const Machine&, Offer&);
void matmul_gpu_offer(const BoundNode&, const Machine&, Offer&);
bool quantized_matmul_handles(const Node&);
void quantized_matmul_offer(const BoundNode&, const Machine&, Offer&);
void quantized_matmul_gpu_offer(const BoundNode&, const Machine&, Offer&);
bool pool_handles(const Node&);
void pool_offer(const BoundNode&, const Machine&, Offer&);
void pool_gpu_offer(const BoundNode&, const Machine&, Offer&);
bool resize_handles(const Node&);
void resize_offer(const BoundNode&, const Machine&, Offer&);
bool reorder_handles(const Node&);
void reorder_offer(const BoundNode&, const Machine&, Offer&);
void reorder_gpu_offer(const BoundNode&, const Machine&, Offer&);
bool movement_handles(const Node&);
void movement_offer(const BoundNode&, const Machine&, Offer&);
void movement_gpu_offer(const BoundNode&, const Machine&, Offer&);
bool attention_handles(const Node&);
void attention_offer(const BoundNode&, const Machine&, Offer&);
void attention_gpu_offer(const BoundNode&, const Machine&, Offer&);
bool norm_handles(const Node&);
void norm_offer(const BoundNode&, const Machine&, Offer&);
void norm_gpu_offer(const BoundNode&, const Machine&, Offer&);
bool reduce_handles(const Node&);
void reduce_offer(const BoundNode&, const Machine&, Offer&);
bool rotary_handles(const Node&);
void rotary_offer(const BoundNode&, const Machine&, Offer&);
void rotary_gpu_offer(const BoundNode&, const Machine&, Offer&);
bool softmax_handles(const Node&);
void softmax_offer(const BoundNode&, const Machine&, Offer&);
bool pointwise_handles(const Node&);
void pointwise_offer(const BoundNode&, const Machine&, Offer&);
void pointwise_gpu_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_reduce_handles(const Node&);
void gpu_reduce_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_softmax_handles(const Node&);
void gpu_softmax_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_gather_handles(const Node&);
void gpu_gather_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_pad_handles(const Node&);
void gpu_pad_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_small_handles(const Node&);
void gpu_small_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_onnx_attention_handles(const Node&);
void gpu_onnx_attention_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_loss_handles(const Node&);
void gpu_loss_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_grid_handles(const Node&);
void gpu_grid_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_lines_handles(const Node&);
void gpu_lines_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_batch_norm_handles(const Node&);
void gpu_batch_norm_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_recurrent_handles(const Node&);
void gpu_recurrent_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_einsum_handles(const Node&);
void gpu_einsum_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_resize_handles(const Node&);
void gpu_resize_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_scatter_handles(const Node&);
void gpu_scatter_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_top_k_handles(const Node&);
void gpu_top_k_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_scan_handles(const Node&);
void gpu_scan_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_group_norm_handles(const Node&);
void gpu_group_norm_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_generate_handles(const Node&);
void gpu_generate_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_select_handles(const Node&);
void gpu_select_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_unique_handles(const Node&);
void gpu_unique_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_nms_handles(const Node&);
void gpu_nms_offer(const BoundNode&, const Machine&, Offer&);
bool gpu_roi_align_handles(const Node&);
void gpu_roi_align_offer(const BoundNode&, const Machine&, Offer&);

namespace {

/// Of families whose operators have no faster kernel than the reference on the processor, or have it in another family's row.
void no_offer(const BoundNode&, const Machine&, Offer&) {}

constexpr TacticFamily families[] = {
    {"conv", conv_handles, conv_offer, true, conv_gpu_offer},
    {"quantized_conv", quantized_conv_handles, quantized_conv_offer, true, quantized_conv_gpu_offer},
    {"matmul", matmul_handles, matmul_offer, false, matmul_gpu_offer},
    {"quantized_matmul", quantized_matmul_handles, quantized_matmul_offer, false, quantized_matmul_gpu_offer},
    {"pool", pool_handles, pool_offer, true, pool_gpu_offer},
    {"resize", resize_handles, resize_offer},
    {"reorder", reorder_handles, reorder_offer, false, reorder_gpu_offer},
    {"movement", movement_handles, movement_offer, false, movement_gpu_offer},
    {"attention", attention_handles, attention_offer, false, attention_gpu_offer},
    {"norm", norm_handles, norm_offer, false, norm_gpu_offer},
    {"reduce", reduce_handles, reduce_offer},
    {"rotary", rotary_handles, rotary_offer, false, rotary_gpu_offer},
    {"softmax", softmax_handles, softmax_offer},
    {"pointwise", pointwise_handles, pointwise_offer, false, pointwise_gpu_offer},
    {"gpu_reduce", gpu_reduce_handles, no_offer, false, gpu_reduce_offer},
    {"gpu_softmax", gpu_softmax_handles, no_offer, false, gpu_softmax_offer},
    {"gpu_gather", gpu_gather_handles, no_offer, false, gpu_gather_offer},
    {"gpu_pad", gpu_pad_handles, no_offer, false, gpu_pad_offer},
    {"gpu_small", gpu_small_handles, no_offer, false, gpu_small_offer},
    {"gpu_onnx_attention", gpu_onnx_attention_handles, no_offer, false, gpu_onnx_attention_offer},
    {"gpu_loss", gpu_loss_handles, no_offer, false, gpu_loss_offer},
    {"gpu_grid", gpu_grid_handles, no_offer, false, gpu_grid_offer},
    {"gpu_lines", gpu_lines_handles, no_offer, false, gpu_lines_offer},
    {"gpu_batch_norm", gpu_batch_norm_handles, no_offer, false, gpu_batch_norm_offer},
    {"gpu_recurrent", gpu_recurrent_handles, no_offer, false, gpu_recurrent_offer},
    {"gpu_einsum", gpu_einsum_handles, no_offer, false, gpu_einsum_offer},
    {"gpu_resize", gpu_resize_handles, no_offer, false, gpu_resize_offer},
    {"gpu_scatter", gpu_scatter_handles, no_offer, false, gpu_scatter_offer},
    {"gpu_top_k", gpu_top_k_handles, no_offer, false, gpu_top_k_offer},
    {"gpu_scan", gpu_scan_handles, no_offer, false, gpu_scan_offer},
    {"gpu_group_norm", gpu_group_norm_handles, no_offer, false, gpu_group_norm_offer},
    {"gpu_generate", gpu_generate_handles, no_offer, false, gpu_generate_offer},
    {"gpu_select", gpu_select_handles, no_offer, false, gpu_select_offer},
    {"gpu_unique", gpu_unique_handles, no_offer, false, gpu_unique_offer},
    {"gpu_nms", gpu_nms_handles, no_offer, false, gpu_nms_offer},
    {"gpu_roi_align", gpu_roi_align_handles, no_offer, false, gpu_roi_align_offer},
};

/// What a reference costs an output element, at least: a guess. It ranks behind every other tactic, whatever they estimate.
constexpr double reference_us_per_element = 0.05;
constexpr double reference_over_others = 20;

std::string attribute_text(const Attribute& a) {
  struct Print {
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(float v) const { return fmt::format("{}", v); }
    std::string operator()(const std::string& v) const { return v; }
    std::string operator()(const Tensor& v) const { return fmt::format("{}[{}]", smelt::name(v.type()), to_text(v.shape())); }
    std::string operator()(const std::vector<int64_t>& v) const { return fmt::format("{}", fmt::join(v, "x")); }
    std::string operator()(const std::vector<float>& v) const { return fmt::format("{}", fmt::join(v, "x")); }
    std::string operator()(const std::vector<std::string>& v) const { return fmt::format("{}", fmt::join(v, "+")); }
    std::string operator()(const GraphPtr& v) const { return v ? v->name : ""; }
  };
  return std::visit(Print{}, a);
}

/// The problem of an operator without a family: "Gather:axis=0:f32[512,64],i64[8]>f32[8,64]".
std::string plain_problem(const BoundNode& b) {
  std::string text = b.node->domain.empty() ? b.node->op : b.node->domain + "." + b.node->op;
  for (const auto& [key, value] : b.node->attrs) text += ":" + key + "=" + attribute_text(value);
  if (b.node->program) text += ":" + b.node->program->print();
  const auto add = [&text](char before, const std::vector<BoundTensor>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) text += (i == 0 ? before : ',') + print(tensors[i]);
  };
  add(':', b.inputs);
  add('>', b.outputs);
  return text;
}

/// Every output has a shape and no elements.
bool writes_nothing(const BoundNode& b) {
  return std::ranges::all_of(b.outputs,
                             [](const BoundTensor& t) { return t.type == DType::undefined || elements(t.shape) == 0; });
}

class NothingKernel final : public Kernel {
 public:
  void run(const Buffers&) override {}
};

void offer_reordered(const TacticFamily& family, const BoundNode& node, const Machine& machine, Offer& o) {
  auto form = channels_last_inside(node);
  if (!form) return;
  const auto inside = std::make_shared<const BoundNode>(std::move(*form));
  Offer inner;
  family.offer(*inside, machine, inner);
  for (const Candidate& c : inner.candidates) o.candidates.push_back(reordered(node, inside, c, machine));
}

}  // namespace

std::string_view name(Layout layout) {
  switch (layout) {
    case Layout::plain: return "plain";
    case Layout::nhwc: return "nhwc";
    case Layout::nchw8c: return "nchw8c";
    case Layout::nchw16c: return "nchw16c";
  }
  return "?";
}

std::string print(const BoundTensor& t) {
  if (t.type == DType::undefined) return "-";
  std::string text = fmt::format("{}[{}]", smelt::name(t.type), fmt::join(t.shape, ","));
  if (t.layout != Layout::plain) text += fmt::format(":{}", name(t.layout));
  if (!t.strides.empty()) text += fmt::format(":strides={}", fmt::join(t.strides, "x"));
  return text;
}

Offer offer(const BoundNode& node, const Machine& machine) {
  Offer o;
  if (machine.gpu && writes_nothing(node))
    o.candidates.push_back({"cuda", "empty", 0, [] { return std::make_unique<NothingKernel>(); }});
  for (const TacticFamily& family : families) {
    if (!o.candidates.empty()) break;  // a mean that no pooling computes is left to the reductions
    if (!family.handles(*node.node)) continue;
    if (machine.gpu) {
      if (family.gpu_offer) family.gpu_offer(node, machine, o);
    } else {
      family.offer(node, machine, o);
      if (family.images) offer_reordered(family, node, machine, o);
    }
  }
  for (const Candidate& c : o.candidates)
    if (std::ranges::find(tactic_names, std::string_view(c.tactic)) == std::end(tactic_names))
      fail("tactic '{}' of {} is not listed in tactic_names", c.tactic, o.problem);
  if (o.problem.empty()) o.problem = plain_problem(node);
  if (machine.gpu) {
    o.rejected.push_back({"reference", "runs on the processor"});
  } else if (auto reason = reference_rejects(node)) {
    o.rejected.push_back({"reference", *reason});
  } else {
    double count = 0;
    for (const BoundTensor& t : node.outputs) count += static_cast<double>(t.type == DType::undefined ? 0 : elements(t.shape));
    double estimate = 1 + count * reference_us_per_element;
    for (const Candidate& c : o.candidates) estimate = std::max(estimate, reference_over_others * c.estimate_us);
    o.candidates.push_back({"reference", "", estimate, [node] { return reference_kernel(node); }});
  }
  if (o.candidates.empty()) {
    std::string reasons;
    for (const Rejection& r : o.rejected) reasons += fmt::format("\n  {}: {}", r.tactic, r.reason);
    fail_unsupported("{}: no tactic runs this problem{}", o.problem, reasons);
  }
  return o;
}

}  // namespace smelt::ops
