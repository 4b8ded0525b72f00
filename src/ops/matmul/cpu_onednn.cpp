// Matrix products by oneDNN: any batch, either operand computed or constant, AMX types where the CPU has them.
#include <fmt/core.h>

#include <algorithm>

#include "ops/core/key.h"
#include "ops/cpu/onednn/offer.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/sums_pass.h"
#include "ops/matmul/offer.h"

namespace smelt::ops::matmul {
namespace {

using dnnl::memory;

/// Batch axes, then rows and columns, with these strides.
memory::desc matrix(const Shape& batch, const Shape& steps, int64_t rows, int64_t columns, int64_t row, int64_t column, DType t) {
  memory::dims dims, strides;
  for (size_t i = 0; i < batch.size(); ++i) {
    dims.push_back(steps[i] == 0 ? 1 : batch[i]);
    strides.push_back(steps[i] == 0 ? rows * columns : steps[i]);
  }
  dims.insert(dims.end(), {rows, columns});
  strides.insert(strides.end(), {row, column});
  return {dims, onednn::data_type(t), strides};
}

struct Descriptors {
  memory::desc a, b, c, bias;
  bool b_constant = false;
};

Descriptors descriptors(const Request& r) {
  const Product& p = r.product;
  const int64_t m = p.problem.m / (p.problem.a_batch.empty() ? elements(p.batch) : 1), n = p.problem.n, k = p.problem.k;
  Descriptors d;
  const size_t rank = p.batch.size() + 2;
  d.a = matrix(p.batch, p.a_steps, m, k, p.a_row, p.a_column, p.problem.input);
  d.b = matrix(p.batch, p.b_steps, k, n, p.b_row, p.b_column, p.bound.inputs[1].type);
  Shape c_steps = strides([&] {
    Shape s = p.batch;
    s.insert(s.end(), {m, n});
    return s;
  }());
  memory::dims dims = p.batch;
  dims.insert(dims.end(), {m, n});
  d.c = {dims, onednn::data_type(p.problem.output), c_steps};
  d.b_constant = p.bound.inputs[1].constant.valid();
  memory::dims one(rank, 1);
  one.back() = n;
  if (!r.epilogue.bias().empty()) d.bias = {one, memory::data_type::f32, strides(one)};
  return d;
}

using onednn::Chain;

std::vector<onednn::Implementation> choices(const Request& r, const Descriptors& d, const Chain& chain, const Offer& offer) {
  const Threads scope(r.threads);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (r.epilogue.simple() || chain) {
    dnnl::post_ops ops;
    if (r.product.alpha != 1) ops.append_eltwise(dnnl::algorithm::eltwise_linear, static_cast<float>(r.product.alpha), 0);
    if (chain)
      chain->append(ops);
    else
      onednn::append(ops, r.epilogue, d.c);
    attr.set_post_ops(ops);
  }
  const memory::desc b = d.b_constant ? onednn::any_layout(d.b.get_dims(), r.product.bound.inputs[1].type) : d.b;
  return onednn::implementations(d.bias ? dnnl::matmul::primitive_desc(onednn::engine(), d.a, b, d.bias, d.c, attr)
                                        : dnnl::matmul::primitive_desc(onednn::engine(), d.a, b, d.c, attr),
                                 offer);
}

class OnednnProduct final : public Kernel {
 public:
  OnednnProduct(const Request& r, const Descriptors& d, const onednn::Implementation& choice, Chain chain)
      : threads_(r.threads),
        epilogue_(r.epilogue),
        chain_(std::move(chain)),
        primitive_(choice.primitive(r.threads), choice.scratchpad) {
    const memory::desc weights = choice.weights;
    primitive_.add(DNNL_ARG_SRC, d.a);
    if (d.b_constant) {
      const Tensor& b = r.product.bound.inputs[1].constant;
      const Key packing = Key("onednn").field(d.b.get_dims()).field(d.b.get_strides());
      packed_ = onednn::packed(
          r.product.bound.weights, b, packing, [&] { return b; }, d.b, weights, threads_);
      primitive_.add(DNNL_ARG_WEIGHTS, weights, packed_.raw());
    } else {
      primitive_.add(DNNL_ARG_WEIGHTS, d.b);
    }
    primitive_.add(DNNL_ARG_DST, d.c);
    if (d.bias) primitive_.add(DNNL_ARG_BIAS, d.bias, const_cast<float*>(epilogue_.bias().data()));
    const auto& simple = epilogue_.simple();
    if (simple && simple->residual >= 0) {
      residual_ = simple->residual;
      residual_argument_ = DNNL_ARG_ATTR_MULTIPLE_POST_OP(r.product.alpha != 1 ? 1 : 0) | DNNL_ARG_SRC_1;
      primitive_.add(residual_argument_, d.c);
    }
    if (chain_)
      chain_->bind(primitive_);
    else if (!simple)
      pass_.emplace(r.product.bound.outputs[0], r.product.bound.outputs[0].shape.size() - 1, threads_);
  }

  int64_t workspace() const override { return primitive_.scratch() + (pass_ ? threads_ * epilogue_.scratch() : 0); }

  void run(const Buffers& b) override {
    const Threads scope(threads_);
    char* memory = static_cast<char*>(b.workspace);
    primitive_.set(DNNL_ARG_SRC, const_cast<void*>(b.inputs[0]));
    if (!packed_.valid()) primitive_.set(DNNL_ARG_WEIGHTS, const_cast<void*>(b.inputs[1]));
    primitive_.set(DNNL_ARG_DST, b.outputs[0]);
    if (residual_ >= 0) primitive_.set(residual_argument_, const_cast<void*>(b.inputs[static_cast<size_t>(residual_)]));
    if (chain_) chain_->set(primitive_, b);
    primitive_.run(memory);
    if (pass_) pass_->run(b.outputs[0], CpuEpilogue::Runner(epilogue_, b, memory + primitive_.scratch()));
  }

 private:
  int threads_;
  CpuEpilogue epilogue_;
  Chain chain_;
  onednn::Primitive primitive_;
  Tensor packed_;
  int residual_ = -1, residual_argument_ = 0;
  std::optional<SumsInPlace> pass_;
};

std::optional<Refusal> rejects(const Request& r) {
  const Product& p = r.product;
  if (auto why = onednn::rejects_type(p.problem.input)) return why;
  if (!is_float(p.problem.input) || p.problem.input != p.problem.output || p.bound.inputs[1].type != p.problem.input) {
    return refuse(Reason::wrong_type, "types {}, {} > {}", smelt::name(p.problem.input), smelt::name(p.bound.inputs[1].type),
                  smelt::name(p.problem.output));
  }
  if (!r.epilogue.simple() && p.alpha != 1) return refuse(Reason::unsupported, "the program {}", r.epilogue.text());
  if (p.alpha != 1 && !r.epilogue.bias().empty())
    return refuse(Reason::unsupported, "alpha with a bias; oneDNN scales after its bias");
  if (p.problem.k == 0) return refuse(Reason::wrong_shape, "K = 0");
  if (p.batch.size() > 6) return refuse(Reason::wrong_rank, "{} batch axes; it knows 6", p.batch.size());
  if (r.epilogue.residual() >= 0 &&
      p.bound.inputs[static_cast<size_t>(r.epilogue.residual())].shape.size() > p.bound.outputs[0].shape.size()) {
    return refuse(Reason::wrong_rank, "the residual has more axes than the result");
  }
  return std::nullopt;
}

/// Compute or memory, whichever is more; f32 rates from one core of the machine that smelt is developed on (Zen 3, AVX2).
double estimate_us(const Request& r, std::string_view implementation, bool passes) {
  const Problem& p = r.product.problem;
  const double flops_per_us = 85e3 * onednn::rate(implementation);
  constexpr double bytes_per_us = 12e3;
  const double moved =
      static_cast<double>(bytes(p.input, 1) * p.batch()) * static_cast<double>(p.n * p.k + p.m * p.k + p.m * p.n);
  constexpr double passed_per_us = 1e3;  // elements through the program in a pass of its own
  const double pass = passes ? static_cast<double>(p.batch() * p.m) * static_cast<double>(p.n) / passed_per_us : 0;
  constexpr double own_batch_us = 0.4;  // a call for each matrix: 33 of 7 x 15 x 129 took 22 us beside 9
  const double calls =
      implementation.find("gemm:jit") == std::string_view::npos ? 0 : own_batch_us * static_cast<double>(p.batch());
  return 4 + (std::max(p.flops() / flops_per_us, moved / bytes_per_us) + pass + calls) / r.threads;
}

void offer_chain(const Request& r, const Chain& chain, Offer& offer) {
  onednn::offer_found(offer, chain.has_value(), [&] {
    const Descriptors d = descriptors(r);
    const auto found = choices(r, d, chain, offer);
    for (const onednn::Implementation& c : found) {
      offer.candidates.push_back({"onednn", c.name + std::string(chain ? onednn::post_ops_suffix : ""),
                                  estimate_us(r, c.name, !r.epilogue.simple() && !chain),
                                  [r, d, c, chain] { return std::make_unique<OnednnProduct>(r, d, c, chain); }});
    }
    return !found.empty();
  });
}

}  // namespace

void offer_onednn(const Request& r, Offer& offer) {
  if (!offer.asks_for("onednn")) return;
  if (const auto why = rejects(r)) return offer.refuse("onednn", *why);
  std::vector<Chain> chains;
  const bool passes = r.product.problem.output == DType::f32;
  if (!r.epilogue.simple()) {
    auto chain = onednn::PostOps::of(r.product.bound, 2, r.product.batch.size() + 2, r.product.alpha != 1 ? 1 : 0);
    if (chain)
      chains.emplace_back(*std::move(chain));
    else if (!passes)
      offer.refuse("onednn", chain.refusal().at(r.epilogue.text() + " as post-operations"));
  }
  if (r.epilogue.simple() || passes) chains.emplace_back(std::nullopt);
  for (const Chain& chain : chains) offer_chain(r, chain, offer);
}

}  // namespace smelt::ops::matmul
