#include "plan/gated_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "graph/fused.h"
#include "ops/cuda/gpu.h"
#include "ops/matmul/gated_product.h"
#include "plan/product_steps.h"

namespace smelt::plan {
namespace {

/// The weights of both take memory that the model's own do not, so that what is as fast either way stays apart.
constexpr double clearly_less = 0.98;

bool is_product(const Step& step) { return is_plain_product(step) && step.node->get_int(ops::matmul::gate_attribute, 0) == 0; }

bool has_no_program(const Segment& s, const Step& step) {
  const DType type = s.tensor(step.outputs[0]).type;
  const std::optional<expr::Program>& program = step.node->program;
  return step.inputs.size() == 2 && (!program || program == expr::conversion(accumulator(type), type));
}

}  // namespace

struct GatedProducts::Pair {
  size_t gate = 0, up = 0;  // steps
  size_t input = 0;         // of the gate's, that is up's result
};

namespace {

/// Weights that one product of both can have: matrices of one shape, type and whole chunks of columns.
bool fits(const BoundValue& gate, const BoundValue& up) {
  return gate.constant.valid() && up.constant.valid() && gate.constant.rank() == 2 && gate.shape == up.shape &&
         gate.shape == gate.constant.shape() && up.shape == up.constant.shape() && gate.strides.empty() && up.strides.empty() &&
         gate.type == up.type && (gate.type == DType::f16 || gate.type == DType::bf16) &&
         gate.shape[1] % ops::matmul::gate_columns == 0;
}

}  // namespace

Tensor GatedProducts::weights(const Segment& s, const Step& gate, const Step& up) {
  const std::lock_guard lock(mutex_);
  Tensor& both = weights_[gate.id];
  if (!both.valid()) both = ops::matmul::gated_weights(s.tensor(gate.inputs[1]).constant, s.tensor(up.inputs[1]).constant);
  return both;
}

void GatedProducts::apply(Segment& s, Context& context, bool may_measure) {
  const auto& gpu = context.tuner.machine().gpu;
  if (!gpu || gpu->info.major != 9) return;  // the kernel is Hopper's alone
  std::map<TensorIndex, size_t> makers;
  for (size_t i = 0; i < s.steps.size(); ++i)
    for (const TensorIndex t : s.steps[i].outputs) makers[t] = i;
  const auto pair_of = [&](size_t gate) -> std::optional<Pair> {
    const Step& step = s.steps[gate];
    if (!is_product(step) || !step.node->program || step.outputs.size() != 1) return std::nullopt;
    for (size_t i = 2; i < step.inputs.size(); ++i) {
      const auto made = makers.find(step.inputs[i]);
      if (made == makers.end()) continue;
      const Step& up = s.steps[made->second];
      const BoundValue &y = s.tensor(step.outputs[0]), &gated = s.tensor(step.inputs[i]);
      if (is_product(up) && has_no_program(s, up) && up.inputs[0] == step.inputs[0] && is_read_once(s, step.inputs[i]) &&
          fits(s.tensor(step.inputs[1]), s.tensor(up.inputs[1])) && y.shape == gated.shape && gated.strides.empty() &&
          y.strides.empty() && gated.type == s.tensor(step.inputs[1]).type)
        return Pair{gate, made->second, i};
    }
    return std::nullopt;
  };
  std::vector<size_t> gone;
  for (size_t i = 0; i < s.steps.size(); ++i) {
    const auto pair = pair_of(i);
    if (!pair) continue;
    if (const auto before = choices_.apart_before(s.steps[i].id)) {
      if (before->times) s.steps[i].fused = before->times;
      continue;
    }
    Step one;
    one.id = s.steps[i].id;
    BoundValue w;
    w.constant = weights(s, s.steps[i], s.steps[pair->up]);
    w.type = w.constant.type(), w.shape = w.constant.shape();
    w.fixed_layout = true;
    const TensorIndex both = add_tensor(s, std::move(w));
    one.inputs = s.steps[i].inputs;
    one.inputs[1] = both;
    one.inputs.erase(one.inputs.begin() + static_cast<std::ptrdiff_t>(pair->input));
    one.outputs = s.steps[i].outputs;
    Node node = *s.steps[i].node;
    node.domain = smelt_domain;
    // The program's input 0 is the gate's sum, and its operands are those inputs that are there.
    int64_t input = 1;
    for (size_t k = 2; k < pair->input; ++k) input += s.steps[i].inputs[k] == absent ? 0 : 1;
    node.attrs[ops::matmul::gate_attribute] = input;
    add_sources(node, *s.steps[pair->up].node);
    one.node = std::make_shared<const Node>(std::move(node));
    const auto apart = [&] { return std::vector{s.steps[i], s.steps[pair->up]}; };
    const OneOrApart::Decision d = choices_.decide(
        s, {.one = one, .kind = "gate", .with = "what it gates", .below = clearly_less, .apart = apart}, context, may_measure);
    if (!d.one) {
      const std::lock_guard lock(mutex_);
      weights_.erase(one.id);
    }
    one.fused = d.times;
    if (d.one)
      s.steps[i] = std::move(one), gone.push_back(pair->up);
    else if (d.times)
      s.steps[i].fused = d.times;
  }
  erase_steps(s, std::move(gone));
}

}  // namespace smelt::plan
