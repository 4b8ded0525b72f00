// Attention by cuDNN's flash kernels, which never write the scores: the operations that define it as one graph, the mask that its
// engines know it by.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/attention/cuda_attention.h"
#include "ops/cuda/cudnn.h"
#include "ops/cuda/planned.h"

namespace smelt::ops {
namespace {

namespace cuda = device::cuda;
namespace abi = device::cuda::abi;

constexpr size_t most_candidates = 4;

std::optional<Refusal> rejects(const AttentionCuda& p, ScoreMask mask, const Gpu& gpu) {
  const AttentionShape& s = p.shape;
  if (auto why = dnn_missing(gpu)) return why;
  if (gpu.info.major < 8) return refuse(Reason::wrong_machine, "{} is older than its flash kernels", gpu.info.arch);
  if (p.type != DType::f16 && p.type != DType::bf16)
    return refuse(Reason::wrong_type, "its type is {}; expected f16 or bf16", name(p.type));
  if (mask.kind == MaskKind::program)
    return refuse(Reason::unsupported,
                  "a program over the scores: what it makes of a row that sees nothing is not the reference's");
  if (mask.kind == MaskKind::causal && mask.offset != 0)
    return refuse(Reason::wrong_value, "queries see keys from {} beyond their own on, it is asked for 0", mask.offset);
  if (s.scale <= 0) return refuse(Reason::wrong_value, "a scale of {}, expected more than 0", s.scale);
  for (const int64_t d : {s.depth, s.value_depth})
    if (d % 8 != 0 || d < 8 || d > 256)
      return refuse(Reason::wrong_shape, "a depth of {}; expected a multiple of 8 up to 256", d);
  constexpr std::string_view names[] = {"q", "k", "v", "y"};
  for (size_t t = 0; t < 4; ++t)
    if (p.access(t) < 8)
      return refuse(Reason::wrong_layout, "{}'s rows can be accessed {} elements at a time; expected 8", names[t], p.access(t));
  if (s.keys == 0 || s.queries == 0 || s.batch == 0) return refuse(Reason::wrong_shape, "an extent is 0");
  return std::nullopt;
}

/// softmax(q · kᵀ · scale) · v, its softmax in steps.
void describe(const AttentionCuda& p, bool causal, cuda::DnnGraph& g) {
  const AttentionShape& s = p.shape;
  const auto flipped = [](Shape t) { return std::swap(t[2], t[3]), t; };
  const Shape keys{s.batch, s.kv_heads, s.keys, s.depth}, values{s.batch, s.kv_heads, s.keys, s.value_depth};
  const size_t q = g.tensor(p.type, {s.batch, s.heads, s.queries, s.depth}, p.strides[0], 16);
  const size_t k = g.tensor(p.type, flipped(keys), flipped(p.strides[1]), 16), v = g.tensor(p.type, values, p.strides[2], 16);
  const size_t y = g.tensor(p.type, {s.batch, s.heads, s.queries, s.value_depth}, p.strides[3], 16);
  const auto between = [&](int64_t columns, abi::DnnType type) {
    return g.between(type, {s.batch, s.heads, s.queries, columns},
                     {s.heads * s.queries * columns, s.queries * columns, columns, 1});
  };
  const auto scores = [&](abi::DnnType type = abi::dnn_f32) { return between(s.keys, type); };
  const auto row = [&] { return between(1, abi::dnn_f32); };
  const auto apply = [&](const cuda::DnnFunction& f, std::initializer_list<size_t> inputs, size_t to) {
    g.pointwise(f, inputs, to);
    return to;
  };

  const size_t product = scores();
  g.multiply(q, k, product);
  size_t score = apply({abi::dnn_mul}, {product, g.scalar(static_cast<float>(s.scale), 4)}, scores());
  if (causal) {
    const size_t i = apply({abi::dnn_index, abi::dnn_f32, 2}, {score}, scores(abi::dnn_i32));
    const size_t j = apply({abi::dnn_index, abi::dnn_f32, 3}, {score}, scores(abi::dnn_i32));
    const size_t sees = apply({abi::dnn_at_least, abi::dnn_bool}, {i, j}, scores(abi::dnn_bool));
    score = apply({abi::dnn_select}, {score, g.scalar(-INFINITY, 4), sees}, scores());
  }
  const size_t largest = row(), sum = row();
  g.reduce(abi::dnn_maximum, score, largest);
  const size_t power = apply({abi::dnn_exp}, {apply({abi::dnn_sub}, {score, largest}, scores())}, scores());
  g.reduce(abi::dnn_sum, power, sum);
  // Nobody reads it. Without it cuDNN 9.19 takes the product with the scale for a dropout's, and has no engine.
  apply({abi::dnn_add}, {largest, apply({abi::dnn_log}, {sum}, row())}, row());
  g.multiply(apply({abi::dnn_div}, {power, sum}, scores(cuda::dnn_type(p.type))), v, y);
}

class DnnAttention final : public Kernel {
 public:
  DnnAttention(DnnProblem& problem, size_t engine) : plan_(problem.plan(engine)) {}
  int64_t workspace() const override { return plan_->workspace(); }
  bool reads(size_t i) const override { return i < 3; }
  void run(const Buffers& b) override {
    if (auto* planned = PlannedLaunches::current()) return planned->add_other("cuDNN");
    const void* const pointers[] = {b.inputs[0], b.inputs[1], b.inputs[2], b.outputs[0]};
    plan_->run(pointers, b.workspace, static_cast<abi::Stream>(b.stream));
  }

 private:
  std::shared_ptr<cuda::DnnPlan> plan_;
};

}  // namespace

void offer_cudnn_attention(const BoundNode& b, const AttentionCuda& p, ScoreMask mask, const Machine& machine, Offer& offer) {
  const Gpu& gpu = *machine.gpu;
  if (const auto why = rejects(p, mask, gpu)) return offer.refuse("cudnn", *why);
  const bool causal = mask.kind == MaskKind::causal;
  Key key("attention");
  key.option(" ", p.shape.scale).flag(" causal", causal).flag(" k-transposed", p.shape.k_transposed);
  for (const BoundTensor* t : {&b.inputs[0], &b.inputs[1], &b.inputs[2], &b.outputs[0]}) key.aligned(*t);
  const auto problem = DnnProblem::find(gpu, key, "attention", offer, [&](cuda::DnnGraph& g) { describe(p, causal, g); });
  if (!problem) return;
  const double estimate = gpu_estimate_us(gpu, p.bytes_moved(), p.flops() * (causal ? 0.5 : 1));
  for (size_t i = 0; i < std::min(most_candidates, problem->engines().size()); ++i)
    offer.candidates.push_back({"cudnn", problem->engines()[i].name, estimate * (1.2 + 0.05 * static_cast<double>(i)),
                                [problem, i] { return std::make_unique<DnnAttention>(*problem, i); }});
}

}  // namespace smelt::ops
