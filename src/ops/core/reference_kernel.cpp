#include "ops/core/reference_kernel.h"

#include <fmt/core.h>

#include <algorithm>

#include "ops/core/copy.h"
#include "ops/core/data_dependent.h"
#include "ops/core/facts.h"

namespace smelt::ops {
namespace {

class ReferenceKernel final : public Kernel {
 public:
  ReferenceKernel(const BoundNode& node, const OpDef& def)
      : node_(*node.node),
        def_(def),
        bound_inputs_(node.inputs),
        bound_outputs_(node.outputs),
        inputs_(node.inputs.size()),
        outputs_(node.outputs.size()),
        reads_nothing_(std::ranges::any_of(
            node.inputs, [](const BoundTensor& t) { return t.type != DType::undefined && elements(t.shape) == 0; })) {
    if (!is_bound_at_most(node)) return;
    const std::vector<AtMost> most = outputs_at_most(node_, node.inputs);
    if (!most.empty()) counted_axis_ = most[0].axis;
  }

  bool in_place(size_t i) const override { return is_elementwise(node_) && outputs_.size() == 1 && i < inputs_.size(); }

  void run(const Buffers& b) override {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      // References never write their inputs.
      view(inputs_[i], bound_inputs_[i], const_cast<void*>(b.inputs[i]));
    }
    for (size_t i = 0; i < outputs_.size(); ++i) view(outputs_[i], bound_outputs_[i], b.outputs[i]);
    if (reads_nothing_)  // loops over no elements may leave results as the memory was
      for (size_t i = 0; i < outputs_.size(); ++i)
        if (b.outputs[i]) fill_zero(outputs_[i]);
    ComputeContext ctx{node_, inputs_, outputs_, {}};
    def_.reference(ctx);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      // A reference may assign a tensor of its own where it cannot fill the one it was given.
      if (b.outputs[i] && outputs_[i].raw() != b.outputs[i] && outputs_[i].nbytes() > 0) {
        std::copy_n(static_cast<const char*>(outputs_[i].raw()), outputs_[i].nbytes(), static_cast<char*>(b.outputs[i]));
      }
    }
    if (counted_axis_ >= 0) *static_cast<int64_t*>(b.outputs.back()) = outputs_[0].shape()[static_cast<size_t>(counted_axis_)];
  }

 private:
  /// Makes `t` a view of `data`; nothing to do, and nothing allocated, when it already is.
  static void view(Tensor& t, const BoundTensor& as, void* data) {
    if (as.type == DType::undefined || (t.valid() && t.raw() == data)) return;
    t = Tensor::borrow(as.type, as.shape, data);
  }

  Node node_;
  const OpDef& def_;
  std::vector<BoundTensor> bound_inputs_, bound_outputs_;
  std::vector<Tensor> inputs_, outputs_;
  bool reads_nothing_;
  int64_t counted_axis_ = -1;  // of output 0, for an operator that finds out its extent
};

}  // namespace

std::optional<Refusal> reference_rejects(const BoundNode& node) {
  if (!find(node.node->op, node.node->domain)) {
    return refuse(Reason::unsupported, "no operator {} in domain '{}'", node.node->op, node.node->domain);
  }
  for (const auto* tensors : {&node.inputs, &node.outputs}) {
    for (const BoundTensor& t : *tensors) {
      if (t.layout != Layout::plain || !t.strides.empty())
        return refuse(Reason::wrong_layout, "the reference reads and writes dense row-major tensors");
    }
  }
  for (const BoundTensor& t : node.outputs) {
    if (t.type == DType::string) return refuse(Reason::wrong_type, "strings have no place in the arena");
  }
  return std::nullopt;
}

std::unique_ptr<Kernel> reference_kernel(const BoundNode& node) {
  return std::make_unique<ReferenceKernel>(node, *find(node.node->op, node.node->domain));
}

bool is_elementwise(const Node& node) {
  const OpRow* row = find_row(node.op, node.domain);
  return row && row->def.deterministic && row->facts.elements == Elements::pointwise && row->facts.expression.exists();
}

}  // namespace smelt::ops
