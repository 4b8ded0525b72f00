// oneDNN's primitives for operators that work on rows, over dense plain tensors of f32. Includes dnnl.hpp: for their tactics'
// sources only.
#pragma once

#include <fmt/core.h>

#include <optional>
#include <string>
#include <vector>

#include "ops/cpu/onednn/primitive.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::onednn {

/// Inputs by argument; at most x, scale and shift.
class RowsKernel final : public Kernel {
 public:
  struct Argument {
    int argument;
    size_t input;
    dnnl::memory::desc desc;
  };
  RowsKernel(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad, std::vector<Argument> inputs,
             const dnnl::memory::desc& y, int threads)
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
  Primitive primitive_;
};

/// Why oneDNN's primitives do not take rows of x that become rows of y; nothing where they may.
std::optional<Refusal> rejects_rows(const BoundTensor& x, const BoundTensor& y);

/// Adds the implementation that `desc` stands for; `make` makes its kernel.
template <class Desc, class Make>
void offer_rows(const Desc& desc, const BoundTensor& x, const Machine& machine, Offer& offer, Make make) {
  const std::string name = desc.impl_info_str();
  if (!is_fast(name)) {
    offer.refuse("onednn", Reason::unsupported, "it has only its reference for this problem");
    return;
  }
  constexpr double elements_per_us = 1200;  // of one core, softmax and normalisation
  offer.candidates.push_back(
      {"onednn", name, 4 + static_cast<double>(elements(x.shape)) / elements_per_us / machine.threads, make});
}

}  // namespace smelt::ops::onednn
