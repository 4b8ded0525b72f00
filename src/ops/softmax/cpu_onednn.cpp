// Softmax and LogSoftmax by oneDNN.
#include "ops/core/strides.h"
#include "ops/cpu/onednn/rows.h"
#include "ops/softmax/offer.h"

namespace smelt::ops {

using dnnl::memory;

void offer_softmax_onednn(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (!offer.asks_for("onednn")) return;
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  if (const auto why = onednn::rejects_rows(x, y)) return offer.refuse("onednn", *why);
  const std::vector<size_t> axes = softmax_axes(*b.node, static_cast<int64_t>(x.shape.size()));
  if (axes.size() != 1) return offer.refuse("onednn", Reason::wrong_axis, "{} axes are normalised together", axes.size());
  try {
    const Threads scope(machine.threads);
    const memory::desc from = onednn::describe(x, x.shape.size()), to = onednn::describe(y, y.shape.size());
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const int axis = static_cast<int>(axes[0]);
    const auto kind = b.node->op == "LogSoftmax" ? dnnl::algorithm::softmax_log : dnnl::algorithm::softmax_accurate;
    const dnnl::softmax_forward::primitive_desc desc(onednn::engine(), dnnl::prop_kind::forward_inference, kind, from, to, axis,
                                                     attr);
    onednn::offer_rows(desc, x, machine, offer, [desc, from, to, threads = machine.threads] {
      return std::make_unique<onednn::RowsKernel>(dnnl::softmax_forward(desc), desc.scratchpad_desc(),
                                                  std::vector<onednn::RowsKernel::Argument>{{DNNL_ARG_SRC, 0, from}}, to,
                                                  threads);
    });
  } catch (const dnnl::error& e) {
    offer.refuse("onednn", Reason::failed, "oneDNN: {}", e.what());
  }
}

}  // namespace smelt::ops
