// Mean pooling by oneDNN: dense plain or channels-last images of f32, one to three spatial axes.
#include <fmt/core.h>

#include "ops/core/strides.h"
#include "ops/cpu/onednn/primitive.h"
#include "ops/cpu/parallel.h"
#include "ops/pool/offer.h"

namespace smelt::ops::pool {
namespace {

using dnnl::memory;

class OnednnPool final : public Kernel {
 public:
  OnednnPool(const dnnl::pooling_forward::primitive_desc& desc, const memory::desc& x, const memory::desc& y, int threads)
      : threads_(threads), primitive_(dnnl::pooling_forward(desc), desc.scratchpad_desc()) {
    primitive_.add(DNNL_ARG_SRC, x);
    primitive_.add(DNNL_ARG_DST, y);
  }
  int64_t workspace() const override { return primitive_.scratch(); }
  void run(const Buffers& b) override {
    const Threads scope(threads_);
    primitive_.set(DNNL_ARG_SRC, const_cast<void*>(b.inputs[0]));
    primitive_.set(DNNL_ARG_DST, b.outputs[0]);
    primitive_.run(b.workspace);
  }

 private:
  int threads_;
  onednn::Primitive primitive_;
};

dnnl::algorithm algorithm(Kind kind) {
  return kind == Kind::mean ? dnnl::algorithm::pooling_avg_include_padding : dnnl::algorithm::pooling_avg_exclude_padding;
}

std::optional<Refusal> rejects(const Problem& p, const BoundNode& b) {
  if (p.type != DType::f32 || b.outputs[0].type != DType::f32)
    return refuse(Reason::wrong_type, "elements of {}", smelt::name(p.type));
  if (p.kind == Kind::max) return refuse(Reason::unsupported, "oneDNN's maximum drops a NaN, which ONNX's keeps");
  if (p.x.size() < 3 || p.x.size() > 5) return refuse(Reason::wrong_rank, "{} spatial axes; it knows 1 to 3", p.x.size() - 2);
  if (p.x.size() != p.y.size() || p.x.size() != b.outputs[0].shape.size())
    return refuse(Reason::wrong_rank, "a result without the pooled axes");
  if (elements(p.x) == 0 || elements(p.y) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  if (!is_dense(b.inputs[0]) || !is_dense(b.outputs[0])) return refuse(Reason::wrong_layout, "a slice of another tensor");
  return std::nullopt;
}

}  // namespace

void offer_onednn(const BoundNode& b, const Problem& p, const Machine& machine, Offer& offer) {
  if (!offer.asks_for("onednn")) return;
  if (const auto why = rejects(p, b)) return offer.refuse("onednn", *why);
  try {
    const Threads scope(machine.threads);
    const size_t rank = p.x.size(), spatial = rank - 2;
    const memory::desc x = onednn::describe(b.inputs[0], rank), y = onednn::describe(b.outputs[0], rank);
    memory::dims dilation, end;
    for (size_t a = 0; a < spatial; ++a) {
      dilation.push_back(p.window.dilation[a] - 1);
      // What the windows reach beyond the image: ceil_mode may reach further than the node's pads, or not as far.
      end.push_back((p.y[a + 2] - 1) * p.window.stride[a] + (p.window.kernel[a] - 1) * p.window.dilation[a] + 1 - p.x[a + 2] -
                    p.window.pad_begin[a]);
      if (p.kind == Kind::mean && end[a] > p.window.pad_end[a]) {
        offer.refuse("onednn", Reason::wrong_shape, "a window beyond the padding, which counts no pixels there");
        return;
      }
    }
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::pooling_forward::primitive_desc desc(onednn::engine(), dnnl::prop_kind::forward_inference, algorithm(p.kind), x,
                                                     y, p.window.stride, p.window.kernel, dilation, p.window.pad_begin, end,
                                                     attr);
    const std::string name = desc.impl_info_str();
    if (!onednn::is_fast(name)) {
      offer.refuse("onednn", Reason::unsupported, "it has only its reference for this problem");
      return;
    }
    constexpr double bytes_per_us = 18e3;
    double taps = 1;
    for (int64_t k : p.window.kernel) taps *= static_cast<double>(k);
    offer.candidates.push_back(
        {"onednn", name, 4 + 4 * static_cast<double>(elements(p.y)) * taps / bytes_per_us / machine.threads,
         [desc, x, y, threads = machine.threads] { return std::make_unique<OnednnPool>(desc, x, y, threads); }});
  } catch (const dnnl::error& e) {
    offer.refuse("onednn", Reason::failed, "oneDNN: {}", e.what());
  }
}

}  // namespace smelt::ops::pool
