// ReduceLogSumExp on the CPU: a reduction for the largest, one for the sum.
#include <algorithm>

#include "ops/core/align.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/reduce/cpu_reduce.h"

namespace smelt::ops {
namespace {

/// log Σ exp(x): the largest, m, then m + log Σ exp(x - m). An infinite one is not taken away.
class LogSumExpKernel final : public Kernel {
 public:
  LogSumExpKernel(const BoundNode& b, const ReduceProblem& top, const ReduceProblem& sum, const BoundTensor& largest, int threads)
      : node_(*b.node), bytes_(aligned(storage_bytes(largest))) {
    Node keeps = *b.node;
    keeps.attrs["keepdims"] = int64_t{1};
    const BoundNode first{&keeps, {b.inputs[0]}, {largest}};
    top_ = reduce_kernel(first, top, threads);
    // The sum's result has the largest's shape or, without the axes that are gone, its elements.
    BoundTensor same = largest;
    same.shape = b.outputs[0].shape;
    sum_ = reduce_kernel(BoundNode{&node_, {b.inputs[0], largest, same}, b.outputs}, sum, threads);
  }
  int64_t workspace() const override { return bytes_ + std::max(top_->workspace(), sum_->workspace()); }
  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    void* largest = memory;
    memory += bytes_;
    top_->run({b.inputs.first(1), std::span(&largest, 1), memory});
    const void* const inputs[] = {b.inputs[0], largest, largest};
    sum_->run({inputs, b.outputs, memory});
  }

 private:
  Node node_;
  int64_t bytes_;
  std::unique_ptr<Kernel> top_, sum_;
};

}  // namespace

void offer_log_sum_exp(const BoundNode& b, const Machine& machine, Offer& offer) {
  using expr::Fn;
  auto axes = listed_axes(b);
  if (!axes) return offer.refuse("cpu", axes.refusal());
  const DType from = b.inputs[0].type, type = folded(from, true);
  if (type == DType::undefined) return offer.refuse("cpu", Reason::wrong_type, "its type is {}", name(from));
  ReduceProblem top, sum;
  top.none = sum.none = !axes->has_value();
  if (!top.none) top.axes = sum.axes = **axes;
  top.kind = ReduceKind::max;
  top.before.output(top.before.cast(top.before.input(from), type));
  expr::Program& post_top = top.post.emplace();
  const expr::Ref m = post_top.input(type);
  post_top.output(post_top.call(Fn::select, post_top.call(Fn::is_inf, m), post_top.constant(type, 0), m));
  const expr::Ref x = sum.before.input(from), largest = sum.before.input(type);
  sum.before.output(sum.before.call(Fn::exp, sum.before.call(Fn::sub, sum.before.cast(x, type), largest)));
  expr::Program& post = sum.post.emplace();
  const expr::Ref total = post.input(type), back = post.input(type);
  post.output(post.cast(post.call(Fn::add, post.call(Fn::log, total), back), from));
  sum.inputs_before = 2, sum.inputs = 3;
  if (const auto why = rejects_result(sum, b.outputs[0])) return offer.refuse("cpu", *why);
  std::vector<int64_t> reduced = top.axes;
  for (int64_t a = 0; reduced.empty() && !top.none && a < static_cast<int64_t>(b.inputs[0].shape.size()); ++a)
    reduced.push_back(a);
  reduced = normalize_axes(reduced, static_cast<int64_t>(b.inputs[0].shape.size()));
  const BoundTensor kept{type, reduced_shape(b.inputs[0].shape, reduced, true)};
  const double estimate = 4 + static_cast<double>(elements(b.inputs[0].shape)) / 700 / machine.threads;
  offer.candidates.push_back({"cpu", "", estimate, [b, top, sum, kept, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<LogSumExpKernel>(bound, top, sum, kept, threads);
                              }});
}

}  // namespace smelt::ops
