#include "ops/pointwise/pass.h"

#include <algorithm>

#include "base/value_of.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/core/wanted_inside.h"
#include "ops/pointwise/cpu_sweep.h"

namespace smelt::ops {
namespace {

/// The sums lie in the output where the types agree, else in the workspace.
class PassKernel final : public Kernel {
 public:
  PassKernel(std::unique_ptr<Kernel> inner, Sweep sweep, size_t first_operand, std::vector<size_t> operands, int64_t sums)
      : inner_(std::move(inner)),
        sweep_(std::move(sweep)),
        first_operand_(first_operand),
        operands_(std::move(operands)),
        sums_(aligned(sums)),
        inputs_(operands_.size() + 1) {}

  int64_t workspace() const override { return sums_ + std::max(inner_->workspace(), sweep_.workspace()); }

  void run(const Buffers& b) override {
    char* const rest = static_cast<char*>(b.workspace) + sums_;
    void* const sums = sums_ > 0 ? b.workspace : b.outputs[0];
    inner_->run({b.inputs.first(std::min(first_operand_, b.inputs.size())), {&sums, 1}, rest, nullptr});
    inputs_[0] = sums;
    for (size_t i = 0; i < operands_.size(); ++i) inputs_[i + 1] = b.inputs[operands_[i]];
    sweep_.run(inputs_, b.outputs, rest);
  }

 private:
  std::unique_ptr<Kernel> inner_;
  Sweep sweep_;
  size_t first_operand_;
  std::vector<size_t> operands_;  // the node's inputs that the program reads
  int64_t sums_;                  // bytes of the workspace
  std::vector<const void*> inputs_;
};

}  // namespace

void offer_with_pass(const BoundNode& node, size_t first_operand, const Machine& machine, OfferTactics offer, Offer& o) {
  const expr::Program& program = value_of(node.node->program, "the program behind an operator");
  const BoundTensor& y = node.outputs[0];
  const WantedInside inside(o.wanted, program_apart);
  if (!inside.wraps() || program.type(0) != DType::f32 || program.outputs().size() != 1) return;

  auto own = std::make_shared<Node>(*node.node);
  own->program.reset();
  own->inputs.resize(std::min(own->inputs.size(), first_operand));
  BoundNode plain = node;
  plain.node = own.get();
  plain.inputs.resize(std::min(plain.inputs.size(), first_operand));
  plain.outputs[0].type = DType::f32;
  const bool in_place = y.type == DType::f32;
  if (!in_place) plain.outputs[0].strides.clear();

  std::vector<size_t> operands;
  std::vector<Shape> strides = {memory_strides(plain.outputs[0])};
  for (size_t i = first_operand; i < node.inputs.size(); ++i) {
    if (node.inputs[i].type == DType::undefined) continue;
    operands.push_back(i);
    strides.push_back(broadcast_strides(node.inputs[i], y.shape.size()));
  }
  strides.push_back(memory_strides(y));
  if (Sweep::rejects(program, y.shape, std::span(strides).last(1))) return;
  const Sweep sweep(program, y.shape, strides, machine.threads);

  Offer inner;
  inner.wanted = inside.wanted();
  offer(plain, machine, inner);
  inside.keep(inner.candidates);
  std::ranges::stable_sort(inner.candidates, {}, &Candidate::estimate_us);
  constexpr size_t best = 2;
  if (inner.candidates.size() > best) inner.candidates.erase(inner.candidates.begin() + best, inner.candidates.end());
  const int64_t sums = in_place ? 0 : storage_bytes(plain.outputs[0]);
  for (const Candidate& c : inner.candidates) {
    const std::string config = c.config + (c.config.empty() ? "" : ", ") + std::string(program_apart);
    o.candidates.push_back({c.tactic, config, c.estimate_us + sweep.estimate_us(),
                            [own, prepare = c.prepare, sweep, first_operand, operands, sums] {
                              return std::make_unique<PassKernel>(prepare(), sweep, first_operand, operands, sums);
                            },
                            c.lengthy});
  }
}

}  // namespace smelt::ops
