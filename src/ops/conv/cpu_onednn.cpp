// Convolution by oneDNN: dense plain or channels-last images, groups, depthwise, any number of spatial axes, transposed. Each
// implementation that oneDNN has for the problem is a candidate. Convolutions over f16 and bf16 on a CPU without such arithmetic are
// computed in f32, from a copy of the image.
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/number.h"
#include "base/value_of.h"
#include "ops/conv/offer.h"
#include "ops/core/align.h"
#include "ops/core/channels_last.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/onednn/offer.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/sums_pass.h"

namespace smelt::ops::conv {
namespace {

using dnnl::memory;

/// Whether the tactic computes in f32 what is stored in a type that this CPU only converts.
bool converts(const Problem& p) {
  const bool half = p.input == DType::f16 || p.input == DType::bf16;
  return half && onednn::rejects_type(p.input);
}

/// The tensor as the primitive sees it.
BoundTensor computed(const Problem& p, BoundTensor t) {
  if (converts(p)) t.type = DType::f32;
  return t;
}

/// w's extents as oneDNN wants them: with the group as an axis of its own; transposed ones output channels first.
struct WeightForm {
  memory::dims dims, strides;
};

WeightForm weight_form(const Problem& p) {
  const Shape own = strides(p.w);
  WeightForm f;
  if (p.group > 1) {
    f.dims.push_back(p.group);
    f.strides.push_back(own[0] * (p.w[0] / p.group));
  }
  const int64_t first = p.w[0] / p.group;
  if (p.transposed) {
    f.dims.insert(f.dims.end(), {p.w[1], first});
    f.strides.insert(f.strides.end(), {own[1], own[0]});
  } else {
    f.dims.insert(f.dims.end(), {first, p.w[1]});
    f.strides.insert(f.strides.end(), {own[0], own[1]});
  }
  f.dims.insert(f.dims.end(), p.w.begin() + 2, p.w.end());
  f.strides.insert(f.strides.end(), own.begin() + 2, own.end());
  return f;
}

using onednn::Chain;

/// A bias that only a run knows.
bool has_computed_bias(const BoundNode& node, const Arguments& at) { return node.has(at.b) && !node.constant(at.b); }

/// A bias of `outputs` floats is an argument of the primitive when there is one.
std::vector<onednn::Implementation> choices(const Problem& p, const BoundTensor& x, const BoundTensor& y,
                                            const CpuEpilogue& epilogue, const Chain& chain, bool biased, int threads,
                                            Offer& offer) {
  const Threads scope(threads);
  const size_t rank = p.w.size();
  const memory::desc src = onednn::describe(x, rank), dst = onednn::describe(y, rank);
  const memory::desc weights = onednn::any_layout(weight_form(p).dims, x.type);
  const memory::desc bias = biased ? memory::desc({p.outputs()}, memory::data_type::f32, memory::format_tag::a) : memory::desc();
  memory::dims dilation;
  for (int64_t d : p.dilation) dilation.push_back(d - 1);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops ops;
  if (epilogue.simple())
    onednn::append(ops, epilogue, dst);
  else if (chain)
    chain->append(ops);
  attr.set_post_ops(ops);
  const auto inference = dnnl::prop_kind::forward_inference;
  std::vector<onednn::Implementation> found =
      p.transposed ? onednn::implementations(dnnl::deconvolution_forward::primitive_desc(
                                                 onednn::engine(), inference, dnnl::algorithm::deconvolution_direct, src, weights,
                                                 bias, dst, p.stride, dilation, p.pad_begin, p.pad_end, attr),
                                             offer)
                   : onednn::implementations(dnnl::convolution_forward::primitive_desc(
                                                 onednn::engine(), inference, dnnl::algorithm::convolution_direct, src, weights,
                                                 bias, dst, p.stride, dilation, p.pad_begin, p.pad_end, attr),
                                             offer);
  onednn::leave_out_wrong(found, std::span(p.w).subspan(2), p.stride, offer);
  if (leaves_taps_out(p) && (biased || ops.len() > 0))
    std::erase_if(found, [&](const onednn::Implementation& i) {
      if (i.name.find("brgconv_strided") == std::string::npos) return false;
      offer.refuse("onednn", Reason::not_exact,
                   "{} gives wrong sums with a bias or post-operations, whose windows strides divide", i.name);
      return true;
    });
  const auto slow = [](const onednn::Implementation& c) { return onednn::names(c.name, "gemm"); };
  // Unfolding the image into a matrix (2 to 4 times slower, measured) is for problems that nothing else takes.
  if (!std::ranges::all_of(found, slow)) std::erase_if(found, slow);
  return found;
}

class OnednnConv final : public Kernel {
 public:
  OnednnConv(const BoundNode& node, const Problem& p, const Arguments& at, const onednn::Implementation& choice,
             CpuEpilogue epilogue, Chain chain, int threads)
      : threads_(threads),
        epilogue_(std::move(epilogue)),
        chain_(std::move(chain)),
        primitive_(choice.primitive(threads), choice.scratchpad) {
    const WeightForm dense = weight_form(p);
    const Tensor& w = node.inputs[at.w].constant;
    const BoundTensor x = computed(p, node.inputs[0]), output = computed(p, node.outputs[0]);
    const memory::desc plain_weights(dense.dims, onednn::data_type(x.type), dense.strides);
    if (w.valid()) {
      const Key packing = Key("onednn").field(x.type).field(dense.dims).field(dense.strides);
      const auto source = [&] { return x.type == w.type() ? w : w.cast(x.type); };
      packed_ = onednn::packed(node.weights, w, packing, source, plain_weights, choice.weights, threads);
    } else {
      BoundTensor weight = node.inputs[at.w];
      const bool converted = weight.type != x.type;
      arranged_.emplace(at.w, onednn::Arrangement(plain_weights, choice.weights),
                        converted ? std::optional(ConvertToF32(weight, threads)) : std::nullopt,
                        converted ? aligned(elements(p.w) * 4) : 0);
    }
    if (has_computed_bias(node, at)) bias_ = at.b;
    const size_t rank = p.w.size();
    primitive_.add(DNNL_ARG_SRC, onednn::describe(x, rank));
    primitive_.add(DNNL_ARG_WEIGHTS, choice.weights, packed_.valid() ? packed_.raw() : nullptr);
    const memory::desc y = onednn::describe(output, rank);
    primitive_.add(DNNL_ARG_DST, y);
    if (bias_) {
      primitive_.add(DNNL_ARG_BIAS, {{p.outputs()}, memory::data_type::f32, memory::format_tag::a});
    } else if (!epilogue_.bias().empty()) {
      primitive_.add(DNNL_ARG_BIAS, {{p.outputs()}, memory::data_type::f32, memory::format_tag::a},
                     const_cast<float*>(epilogue_.bias().data()));
    }
    if (epilogue_.residual() >= 0) primitive_.add(residual_argument, y);
    if (chain_) chain_->bind(primitive_);
    if (converts(p)) {
      conversion_ = {ConvertToF32(node.inputs[0], threads), aligned(elements(p.x[0].shape) * 4), aligned(elements(p.y) * 4)};
    }
    if (conversion_ || (!epilogue_.simple() && !chain_)) pass_.emplace(output, 1, threads);
  }

  int64_t workspace() const override {
    const int64_t program = epilogue_.simple() || chain_ ? 0 : threads_ * epilogue_.scratch();
    return weights_bytes() + aligned(primitive_.scratch()) + program +
           (conversion_ ? conversion_->x_bytes + conversion_->y_bytes : 0);
  }

  void run(const Buffers& b) override {
    const Threads scope(threads_);
    char* memory = static_cast<char*>(b.workspace);
    if (arranged_) arrange_weights(b, memory);
    memory += weights_bytes();
    if (bias_) primitive_.set(DNNL_ARG_BIAS, const_cast<void*>(b.inputs[*bias_]));
    char* scratch = memory + aligned(primitive_.scratch());
    if (conversion_) return run_converted(*conversion_, b, memory, scratch);
    primitive_.set(DNNL_ARG_SRC, const_cast<void*>(b.inputs[0]));
    primitive_.set(DNNL_ARG_DST, b.outputs[0]);
    if (epilogue_.residual() >= 0)
      primitive_.set(residual_argument, const_cast<void*>(b.inputs[static_cast<size_t>(epilogue_.residual())]));
    if (chain_) chain_->set(primitive_, b);
    primitive_.run(memory);
    if (pass_) pass_->run(b.outputs[0], CpuEpilogue::Runner(epilogue_, b, scratch));
  }

 private:
  static constexpr int residual_argument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;

  /// Channels-last copies in f32 of input and output.
  struct Conversion {
    ConvertToF32 x;
    int64_t x_bytes, y_bytes;
  };

  /// Weights that only a run knows.
  struct ArrangedWeights {
    size_t input;
    onednn::Arrangement arrangement;
    std::optional<ConvertToF32> conversion;
    int64_t converted;  // bytes of the weights in f32; 0: they are
    ArrangedWeights(size_t i, onednn::Arrangement a, std::optional<ConvertToF32> c, int64_t bytes)
        : input(i), arrangement(std::move(a)), conversion(c), converted(bytes) {}
  };
  int64_t weights_bytes() const {
    return arranged_ ? arranged_->arrangement.bytes() + arranged_->arrangement.scratch() + arranged_->converted : 0;
  }
  void arrange_weights(const Buffers& b, char* memory) {
    ArrangedWeights& w = value_of(arranged_, "the weights that a run arranges");
    char* const scratch = memory + w.arrangement.bytes();
    char* const converted = scratch + w.arrangement.scratch();
    if (w.conversion) w.conversion->run(reinterpret_cast<float*>(converted), b.inputs[w.input]);
    w.arrangement.run(memory, w.conversion ? converted : b.inputs[w.input], scratch);
    primitive_.set(DNNL_ARG_WEIGHTS, memory);
  }

  void run_converted(const Conversion& c, const Buffers& b, char* memory, char* scratch) {
    float* x = reinterpret_cast<float*>(scratch + threads_ * epilogue_.scratch());
    float* y = x + c.x_bytes / 4;
    c.x.run(x, b.inputs[0]);
    primitive_.set(DNNL_ARG_SRC, x);
    primitive_.set(DNNL_ARG_DST, y);
    primitive_.run(memory);
    value_of(pass_, "the pass over converted sums").run(y, CpuEpilogue::Runner(epilogue_, b, scratch));
  }

  int threads_;
  CpuEpilogue epilogue_;
  Chain chain_;
  std::optional<Conversion> conversion_;
  onednn::Primitive primitive_;
  Tensor packed_;  // not valid(): arranged_
  std::optional<ArrangedWeights> arranged_;
  std::optional<size_t> bias_;  // input
  std::optional<SumsInPlace> pass_;
};

std::optional<Refusal> rejects(const Request& r, const CpuEpilogue& epilogue) {
  const Problem& p = r.problem;
  const BoundNode& b = r.node;
  if (p.x.size() > 1) return refuse(Reason::unsupported, "{} inputs; it takes one", p.x.size());
  if (p.x[0].upsample != 1) return refuse(Reason::unsupported, "an input upsampled by {}", p.x[0].upsample);
  if (auto why = onednn::rejects_type(p.input); why && !converts(p)) return why;
  if (!is_float(p.input) || p.input != p.output)
    return refuse(Reason::wrong_type, "types {} > {}", smelt::name(p.input), smelt::name(p.output));
  if (auto why = rejects_operands(b.inputs.size() - std::min(b.inputs.size(), r.at.operands))) return why;
  if (p.w.size() < 3 || p.w.size() > 5) return refuse(Reason::wrong_rank, "{} spatial axes; it knows 1 to 3", p.spatial());
  if (elements(p.y) == 0 || elements(p.x[0].shape) == 0 || elements(p.w) == 0)
    return refuse(Reason::wrong_shape, "an empty tensor");
  if (p.inside() == 0)
    return refuse(Reason::wrong_shape, "no tap of a window lies in the image");  // AMX's forms crash: oneDNN 3.2
  const BoundTensor& w = b.inputs[r.at.w];
  if (!w.constant.valid() && (w.layout != Layout::plain || !is_dense(w)))
    return refuse(Reason::not_constant, "the weight is not constant, nor dense");
  if (has_computed_bias(b, r.at) && (b.inputs[r.at.b].type != DType::f32 || !epilogue.bias().empty()))
    return refuse(Reason::not_constant, "the bias is not constant");
  if (!is_dense(b.inputs[0]) || !is_dense(b.outputs[0]))
    return refuse(Reason::wrong_layout, "a slice of another tensor; its kernels want dense ones");
  if (epilogue.residual() >= 0) {
    const BoundTensor& residual = b.inputs[static_cast<size_t>(epilogue.residual())];
    if (residual.shape != b.outputs[0].shape || residual.layout != p.to || !is_dense(residual))
      return refuse(Reason::wrong_layout, "the residual's layout is not the output's");
  }
  return std::nullopt;
}

/// What an implementation reaches on one core: f32 with AVX2 from the machine that smelt is developed on (Zen 3, 3.2 GHz).
double flops_per_us(std::string_view name, const Problem& p) {
  if (p.group > 1 && p.w[1] == 1) return 75e3;
  if (name.starts_with("brg") || onednn::names(name, "1x1")) return 92e3 * onednn::rate(name);
  return onednn::names(name, "gemm") ? 35e3 : 80e3 * onednn::rate(name);
}

/// Of a transposed convolution: registers are filled by the channels that there are, and a product's columns are added up one by one.
double transposed_us(std::string_view name, const Problem& p) {
  const double us = p.flops() / flops_per_us(name, p);
  constexpr double columns_per_us = 700;
  const int64_t columns = elements(p.x[0].shape) / p.w[0] * elements(p.w) / p.w[0];
  if (onednn::names(name, "gemm")) return us + static_cast<double>(columns) / columns_per_us;
  const auto filled = [](int64_t channels) {
    return static_cast<double>(channels) / static_cast<double>(round_up(channels, 16));
  };
  return us / filled(p.w[0]) / filled(p.w[1]);
}

void offer_chain(const Request& r, const CpuEpilogue& epilogue, const Chain& chain, Offer& offer) {
  onednn::offer_found(offer, chain.has_value(), [&] {
    const Problem& problem = r.problem;
    const auto found = choices(problem, computed(problem, r.node.inputs[0]), computed(problem, r.node.outputs[0]), epilogue,
                               chain, !epilogue.bias().empty() || has_computed_bias(r.node, r.at), r.threads, offer);
    constexpr double converted_per_us = 1e3;  // elements, of one core
    double moved =
        converts(problem) ? static_cast<double>(elements(problem.x[0].shape) + elements(problem.y)) / converted_per_us : 0;
    if (!epilogue.simple() && !chain) moved += static_cast<double>(elements(problem.y)) / converted_per_us;
    for (const onednn::Implementation& c : found) {
      const double us = problem.transposed && problem.group == 1 ? transposed_us(c.name, problem)
                                                                 : problem.flops() / flops_per_us(c.name, problem);
      const double estimate = 3 + (moved + us) / r.threads;
      offer.candidates.push_back({"onednn", c.name + std::string(chain ? onednn::post_ops_suffix : ""), estimate,
                                  [node = r.node, p = problem, at = r.at, c, epilogue, chain, threads = r.threads] {
                                    return std::make_unique<OnednnConv>(node, p, at, c, epilogue, chain, threads);
                                  }});
    }
    return !found.empty();
  });
}

}  // namespace

void offer_onednn(const Request& r, Offer& offer) {
  if (!offer.asks_for("onednn")) return;
  const CpuEpilogue epilogue(r.node, r.at.operands, 1, bias(r.node, r.at));
  if (const auto why = rejects(r, epilogue)) return offer.refuse("onednn", *why);
  // With the program as post-operations where it is such a chain, and as a pass of its own over the result.
  std::vector<Chain> chains;
  // A pass goes over the channels of a pixel.
  const bool passes = is_channels_last(r.node.outputs[0]) && (r.problem.output == DType::f32 || converts(r.problem));
  if (!epilogue.simple() && !converts(r.problem)) {
    auto chain = onednn::PostOps::of(r.node, r.at.operands, r.problem.w.size(), 0);
    if (chain)
      chains.emplace_back(*std::move(chain));
    else if (!passes)
      offer.refuse("onednn", chain.refusal().at(epilogue.text() + " as post-operations"));
  }
  if (epilogue.simple() || passes) chains.emplace_back(std::nullopt);
  for (const Chain& chain : chains) offer_chain(r, epilogue, chain, offer);
}

}  // namespace smelt::ops::conv
