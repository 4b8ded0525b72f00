#include "plan/normed_products.h"

#include <fmt/format.h>

#include <optional>

#include "base/threads.h"
#include "graph/fused.h"
#include "ops/cuda/gpu.h"
#include "ops/matmul/gated_product.h"
#include "ops/norm/problem.h"
#include "plan/product_steps.h"

namespace smelt::plan {
namespace {

/// The weights take memory that the model's own do not, so that what is as fast either way stays apart.
constexpr double clearly_less = 0.98;

/// What a normalisation has that becomes part of a product.
struct Norm {
  Tensor gamma, beta;  // [K]; not valid() where there is none
  bool centre = false;
  double epsilon = 0;
};

/// gamma or beta as one number a column.
std::optional<Tensor> of_columns(const ops::BoundNode& b, size_t input, int64_t width) {
  if (input == ops::NormParts::none) return Tensor{};
  const Tensor* t = b.constant(input);
  if (!t || t->size() != width || (t->rank() > 0 && t->shape().back() != width)) return std::nullopt;
  return t->reshaped({width});
}

/// The step's, where it normalises rows of 16-bit floats along their last axis by constants and does nothing else.
std::optional<Norm> norm_of(const Segment& s, const Step& step) {
  const Node& n = *step.node;
  if (step.kind != StepKind::kernel || !(n.is("Norm", smelt_domain) || n.is("LayerNormalization") || n.is("RMSNormalization")))
    return std::nullopt;
  const ops::BoundNode b = bound_node(s, step, nullptr);
  const ops::NormParts p(b);
  constexpr size_t none = ops::NormParts::none;
  const DType type = b.inputs[0].type;
  if (ops::norm_unknown(b) || p.residual != none || p.sum != none || p.mean != none || p.inverse != none ||
      p.axis + 1 != b.inputs[0].shape.size() || b.inputs.size() > p.first_operand || b.outputs[0].type != type ||
      (n.program && *n.program != expr::conversion(DType::f32, type)))
    return std::nullopt;
  const int64_t width = b.inputs[0].shape.back();
  auto gamma = of_columns(b, p.gamma, width), beta = of_columns(b, p.beta, width);
  if (!gamma || !beta) return std::nullopt;
  return Norm{*std::move(gamma), *std::move(beta), p.centre, p.epsilon};
}

bool fits(const BoundValue& w, int64_t width) {
  return w.constant.valid() && w.shape == w.constant.shape() && w.shape.size() == 2 && w.shape[0] == width && w.strides.empty() &&
         (w.type == DType::f16 || w.type == DType::bf16);
}

/// The program with one more operand of f32 behind all others, which is added to the sums first; of `type` where there was none.
expr::Program with_added(const std::optional<expr::Program>& then, DType type) {
  const expr::Program program = then ? *then : expr::conversion(DType::f32, type);
  expr::Program p;
  std::vector<expr::Ref> inputs;
  for (int i = 0; i < program.input_count(); ++i) inputs.push_back(p.input(program.type(i)));
  inputs[0] = p.call(expr::Fn::add, inputs[0], p.input(DType::f32));
  for (const expr::Ref r : p.splice(program, inputs)) p.output(r);
  return p;
}

}  // namespace

void NormedProducts::apply(Segment& s, Context& context, bool may_measure) {
  const auto& gpu = context.tuner.machine().gpu;
  if (!gpu || gpu->info.major != 9) return;  // the kernel is Hopper's alone
  std::map<TensorIndex, size_t> makers;
  for (size_t i = 0; i < s.steps.size(); ++i)
    for (const TensorIndex t : s.steps[i].outputs) makers[t] = i;
  std::vector<size_t> gone;
  for (size_t i = 0; i < s.steps.size(); ++i) {
    if (!is_plain_product(s.steps[i]) || s.steps[i].outputs.size() != 1 || choices_.apart_before(s.steps[i].id)) continue;
    const TensorIndex rows = s.steps[i].inputs[0];
    auto made = makers.find(rows);
    if (made == makers.end() || !is_read_once(s, rows)) continue;
    // The product may see the rows in another shape of as many columns.
    std::optional<size_t> view;
    if (const Step& step = s.steps[made->second]; step.kind == StepKind::view) {
      const BoundValue &from = s.tensor(step.inputs[0]), &to = s.tensor(rows);
      view = made->second;
      made = makers.find(step.inputs[0]);
      if (made == makers.end() || !is_read_once(s, step.inputs[0]) || elements(from.shape) != elements(to.shape) ||
          from.shape.empty() || to.shape.empty() || from.shape.back() != to.shape.back())
        continue;
    }
    const Step& before = s.steps[made->second];
    const auto norm = norm_of(s, before);
    const BoundValue& w = s.tensor(s.steps[i].inputs[1]);
    if (!norm || (norm->beta.valid() && s.steps[i].node->get_int(ops::matmul::gate_attribute, 0) != 0) ||  // added to two sums
        !fits(w, s.tensor(rows).shape.back()) || w.type != s.tensor(rows).type || !s.tensor(rows).strides.empty() ||
        !s.tensor(before.inputs[0]).strides.empty())
      continue;
    Step one = s.steps[i];
    const auto constant = [&](Tensor t) {
      BoundValue v;
      v.type = t.type(), v.shape = t.shape();
      v.constant = std::move(t);
      v.fixed_layout = true;
      return add_tensor(s, std::move(v));
    };
    ops::matmul::NormedWeights both;
    {
      const std::lock_guard lock(mutex_);
      ops::matmul::NormedWeights& kept = weights_[one.id];
      if (!kept.weights.valid() && kept.faithful) {
        kept = ops::matmul::normed_weights(w.constant, norm->gamma, norm->beta, norm->centre, threads::team_threads());
        if (!kept.faithful) kept.weights = kept.added = {};
      }
      both = kept;
    }
    if (!both.faithful) continue;
    Node node = *one.node;
    node.domain = smelt_domain;
    node.attrs[ops::matmul::norm_attribute] = std::string(norm->centre ? "layer" : "rms");
    node.attrs[ops::matmul::norm_epsilon_attribute] = static_cast<float>(norm->epsilon);
    add_sources(node, *before.node);
    if (!view) one.inputs[0] = before.inputs[0];
    one.inputs[1] = constant(both.weights);
    if (both.added.valid()) {
      node.program = with_added(node.program, s.tensor(one.outputs[0]).type);
      one.inputs.push_back(constant(both.added));
    }
    one.node = std::make_shared<const Node>(std::move(node));
    const auto apart = [&] { return std::vector{before, s.steps[i]}; };
    const OneOrApart::Decision d =
        choices_.decide(s, {.one = one, .kind = "norm", .with = "its normalisation", .below = clearly_less, .apart = apart},
                        context, may_measure);
    if (!d.one) {
      const std::lock_guard lock(mutex_);
      weights_.erase(one.id);
      continue;
    }
    if (!one.fused) one.fused = d.times;  // a joined product keeps its own
    if (view) s.steps[*view].inputs[0] = before.inputs[0];
    s.steps[i] = std::move(one), gone.push_back(made->second);
  }
  erase_steps(s, std::move(gone));
}

}  // namespace smelt::plan
