// Layer normalisation by oneDNN.
#include "ops/core/strides.h"
#include "ops/cpu/onednn/rows.h"
#include "ops/norm/offer.h"

namespace smelt::ops {

using dnnl::memory;

void offer_norm_onednn(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (!offer.asks_for("onednn")) return;
  const NormParts p(b);
  if (!p.centre || p.residual != NormParts::none || p.sum != NormParts::none || b.node->program)
    return offer.refuse("onednn", Reason::wrong_layout,
                        "a root mean square, a residual or a program; it knows plain layer normalisation");
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  if (const auto why = onednn::rejects_rows(x, y)) return offer.refuse("onednn", *why);
  const size_t rank = x.shape.size();
  if (p.axis + 1 != rank || rank < 2)
    return offer.refuse("onednn", Reason::wrong_axis, "it normalises the last axis of two or more");
  auto flags = dnnl::normalization_flags::none;
  std::vector<onednn::RowsKernel::Argument> inputs = {{DNNL_ARG_SRC, 0, onednn::describe(x, rank)}};
  const auto parameter = [&](size_t i, int argument, dnnl::normalization_flags flag) {
    if (i == NormParts::none) return true;
    const BoundTensor& t = b.inputs[i];
    if (t.type != DType::f32 || !is_dense(t) || elements(t.shape) != x.shape.back() || t.shape.back() != x.shape.back())
      return false;
    flags |= flag;
    inputs.push_back({argument, i, {{x.shape.back()}, memory::data_type::f32, memory::format_tag::a}});
    return true;
  };
  if (!parameter(p.gamma, DNNL_ARG_SCALE, dnnl::normalization_flags::use_scale) ||
      !parameter(p.beta, DNNL_ARG_SHIFT, dnnl::normalization_flags::use_shift)) {
    return offer.refuse("onednn", Reason::wrong_type, "a scale or shift that is not one f32 for each column");
  }
  try {
    const Threads scope(machine.threads);
    const memory::desc to = onednn::describe(y, rank);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::layer_normalization_forward::primitive_desc desc(onednn::engine(), dnnl::prop_kind::forward_inference,
                                                                 inputs[0].desc, to, static_cast<float>(p.epsilon), flags, attr);
    onednn::offer_rows(desc, x, machine, offer, [desc, inputs, to, threads = machine.threads] {
      return std::make_unique<onednn::RowsKernel>(dnnl::layer_normalization_forward(desc), desc.scratchpad_desc(), inputs, to,
                                                  threads);
    });
  } catch (const dnnl::error& e) {
    offer.refuse("onednn", Reason::failed, "oneDNN: {}", e.what());
  }
}

}  // namespace smelt::ops
