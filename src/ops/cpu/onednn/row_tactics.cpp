// Softmax, LogSoftmax and layer normalisation by oneDNN, over dense plain tensors of f32.
#include <fmt/core.h>

#include "ops/core/strides.h"
#include "ops/cpu/onednn/primitive.h"
#include "ops/cpu/onednn/row_tactics.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops {
namespace {

using dnnl::memory;

/// Inputs by argument; at most x, scale and shift.
class OnednnRows final : public Kernel {
 public:
  struct Argument {
    int argument;
    size_t input;
    memory::desc desc;
  };
  OnednnRows(dnnl::primitive primitive, const memory::desc& scratchpad, std::vector<Argument> inputs, const memory::desc& y,
             int threads)
      : threads_(threads), inputs_(std::move(inputs)), primitive_(std::move(primitive), scratchpad) {
    for (const Argument& a : inputs_) primitive_.add(a.argument, a.desc);
    primitive_.add(DNNL_ARG_DST, y);
  }
  int64_t workspace() const override { return primitive_.scratch(); }
  void run(const Buffers& b) override {
    const Threads scope(threads_);
    for (const Argument& a : inputs_) primitive_.set(a.argument, const_cast<void*>(b.inputs[a.input]));
    primitive_.set(DNNL_ARG_DST, b.outputs[0]);
    primitive_.run(b.workspace);
  }

 private:
  int threads_;
  std::vector<Argument> inputs_;
  onednn::Primitive primitive_;
};

std::optional<std::string> reject(const BoundTensor& x, const BoundTensor& y) {
  if (x.type != DType::f32 || y.type != DType::f32)
    return fmt::format("elements of {}", name(x.type != DType::f32 ? x.type : y.type));
  if (x.shape.empty() || x.shape.size() > 5) return fmt::format("rank {}; it knows 1 to 5", x.shape.size());
  for (const BoundTensor* t : {&x, &y}) {
    if (t->layout != Layout::plain || !is_dense(*t)) return "a tensor that is not dense and plain";
  }
  if (elements(x.shape) == 0) return "an empty tensor";
  return std::nullopt;
}

constexpr double elements_per_us = 1200;  // of one core, both kinds

template <class Desc, class Make>
void add(const Desc& desc, const BoundTensor& x, const Machine& machine, Offer& offer, Make make) {
  const std::string name = desc.impl_info_str();
  if (!onednn::is_fast(name)) {
    offer.rejected.push_back({"onednn", "it has only its reference for this problem"});
    return;
  }
  offer.candidates.push_back(
      {"onednn", name, 4 + static_cast<double>(elements(x.shape)) / elements_per_us / machine.threads, make});
}

}  // namespace

void softmax_offer_onednn(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  if (auto reason = reject(x, y)) return offer.rejected.push_back({"onednn", *reason});
  try {
    const Threads scope(machine.threads);
    const memory::desc from = onednn::describe(x, x.shape.size()), to = onednn::describe(y, y.shape.size());
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const int axis = static_cast<int>(normalize_axis(b.node->get_int("axis", -1), static_cast<int64_t>(x.shape.size())));
    const auto kind = b.node->op == "LogSoftmax" ? dnnl::algorithm::softmax_log : dnnl::algorithm::softmax_accurate;
    const dnnl::softmax_forward::primitive_desc desc(onednn::engine(), dnnl::prop_kind::forward_inference, kind, from, to, axis,
                                                     attr);
    add(desc, x, machine, offer, [desc, from, to, threads = machine.threads] {
      return std::make_unique<OnednnRows>(dnnl::softmax_forward(desc), desc.scratchpad_desc(),
                                          std::vector<OnednnRows::Argument>{{DNNL_ARG_SRC, 0, from}}, to, threads);
    });
  } catch (const dnnl::error& e) {
    offer.rejected.push_back({"onednn", fmt::format("oneDNN: {}", e.what())});
  }
}

void norm_offer_onednn(const BoundNode& b, size_t axis, size_t gamma, size_t beta, double epsilon, const Machine& machine,
                       Offer& offer) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  if (auto reason = reject(x, y)) return offer.rejected.push_back({"onednn", *reason});
  const size_t rank = x.shape.size();
  if (axis + 1 != rank || rank < 2) return offer.rejected.push_back({"onednn", "it normalises the last axis of two or more"});
  auto flags = dnnl::normalization_flags::none;
  std::vector<OnednnRows::Argument> inputs = {{DNNL_ARG_SRC, 0, onednn::describe(x, rank)}};
  const auto parameter = [&](size_t i, int argument, dnnl::normalization_flags flag) {
    if (i == SIZE_MAX) return true;
    const BoundTensor& t = b.inputs[i];
    if (t.type != DType::f32 || !is_dense(t) || elements(t.shape) != x.shape.back() || t.shape.back() != x.shape.back())
      return false;
    flags |= flag;
    inputs.push_back({argument, i, {{x.shape.back()}, memory::data_type::f32, memory::format_tag::a}});
    return true;
  };
  if (!parameter(gamma, DNNL_ARG_SCALE, dnnl::normalization_flags::use_scale) ||
      !parameter(beta, DNNL_ARG_SHIFT, dnnl::normalization_flags::use_shift)) {
    return offer.rejected.push_back({"onednn", "a scale or shift that is not one f32 for each column"});
  }
  try {
    const Threads scope(machine.threads);
    const memory::desc to = onednn::describe(y, rank);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::layer_normalization_forward::primitive_desc desc(onednn::engine(), dnnl::prop_kind::forward_inference,
                                                                 inputs[0].desc, to, static_cast<float>(epsilon), flags, attr);
    add(desc, x, machine, offer, [desc, inputs, to, threads = machine.threads] {
      return std::make_unique<OnednnRows>(dnnl::layer_normalization_forward(desc), desc.scratchpad_desc(), inputs, to, threads);
    });
  } catch (const dnnl::error& e) {
    offer.rejected.push_back({"onednn", fmt::format("oneDNN: {}", e.what())});
  }
}

}  // namespace smelt::ops
