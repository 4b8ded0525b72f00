// LpNormalization and MeanVarianceNormalization of every floating-point type on the processor: reductions one after the other, each
// over x and the results before it, then one sweep over x and all of them. What depends on a result alone is computed once for it.
#include <algorithm>

#include "ops/core/align.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/norm/offer.h"
#include "ops/norm/rows.h"
#include "ops/pointwise/cpu_sweep.h"
#include "ops/reduce/cpu_reduce.h"

namespace smelt::ops {
namespace {

using expr::Fn;
using expr::Program;
using expr::Ref;

/// Inputs of each fold: x, then the folds before it; of the end: x, all folds, then the node's inputs `others`.
struct Stages {
  DType from, type;  // of x; of what is computed
  std::vector<int64_t> axes;
  std::vector<ReduceProblem> folds;
  Program end;
  std::vector<size_t> others;

  Ref number(Program& p, double v) const { return p.constant(type, v); }
  /// A fold by `kind` over the program that value(program, x, results before) makes; finish(program, result) is what is kept.
  template <class F, class G> void fold(ReduceKind kind, F&& value, G&& finish) {
    ReduceProblem p;
    p.kind = kind;
    p.axes = axes;
    const Ref x = p.before.input(from);
    std::vector<Ref> results;
    for (size_t i = 0; i < folds.size(); ++i) results.push_back(p.before.input(type));
    p.before.output(value(p.before, p.before.cast(x, type), results));
    p.inputs_before = p.inputs = 1 + folds.size();
    Program& post = p.post.emplace();
    post.output(finish(post, post.input(type)));
    folds.push_back(std::move(p));
  }
};

class StagedKernel final : public Kernel {
 public:
  StagedKernel(const BoundNode& b, const Stages& s, int threads)
      : others_(s.others), bytes_(aligned(elements(kept_shape(b, s)) * bits(s.type) / 8)) {
    const Node node;
    const BoundTensor kept{s.type, kept_shape(b, s), Layout::plain, {}, {}};
    BoundNode fold{&node, {b.inputs[0]}, {kept}};
    for (const ReduceProblem& p : s.folds) {
      folds_.push_back(reduce_kernel(fold, p, threads));
      fold.inputs.push_back(kept);
    }
    const size_t rank = b.inputs[0].shape.size();
    std::vector<Shape> strides;
    for (const BoundTensor& t : fold.inputs) strides.push_back(broadcast_strides(t, rank));
    for (size_t i : others_) strides.push_back(broadcast_strides(b.inputs[i], rank));
    strides.push_back(memory_strides(b.outputs[0]));
    end_.emplace(s.end, b.inputs[0].shape, strides, threads);
  }

  int64_t workspace() const override {
    int64_t most = end_->workspace();
    for (const auto& f : folds_) most = std::max(most, f->workspace());
    return static_cast<int64_t>(folds_.size()) * bytes_ + most;
  }

  void run(const Buffers& b) override {
    char* results = static_cast<char*>(b.workspace);
    char* scratch = results + static_cast<int64_t>(folds_.size()) * bytes_;
    inputs_.assign(1, b.inputs[0]);
    for (const auto& f : folds_) {
      void* result = results;
      f->run({inputs_, std::span(&result, 1), scratch});
      inputs_.push_back(result);
      results += bytes_;
    }
    for (size_t i : others_) inputs_.push_back(b.inputs[i]);
    end_->run(inputs_, b.outputs, scratch);
  }

 private:
  static Shape kept_shape(const BoundNode& b, const Stages& s) { return reduced_shape(b.inputs[0].shape, s.axes, true); }

  std::vector<size_t> others_;
  int64_t bytes_;
  std::vector<std::unique_ptr<Kernel>> folds_;
  std::optional<Sweep> end_;
  std::vector<const void*> inputs_;
};

std::optional<Refusal> rejects(const BoundNode& b) {
  const DType type = b.inputs[0].type;
  if (!is_float(type) || folded(type, true) == DType::undefined)
    return refuse(Reason::wrong_type, "its type is {}; expected f32, f16, bf16 or f64", name(type));
  if (const auto why = rejects_layouts(b)) return why;
  if (elements(b.inputs[0].shape) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  return std::nullopt;
}

Stages stages_of(const BoundNode& b, std::vector<int64_t> axes) {
  const DType from = b.inputs[0].type;
  return {from, folded(from, true), normalize_axes(std::move(axes), static_cast<int64_t>(b.inputs[0].shape.size())), {}, {}, {}};
}

void offer_stages(const BoundNode& b, const Stages& s, const Machine& machine, Offer& offer) {
  const Shape strides[] = {memory_strides(b.outputs[0])};
  if (const auto why = Sweep::rejects(s.end, b.outputs[0].shape, strides)) return offer.refuse("cpu", *why);
  const double estimate = 3 + static_cast<double>(elements(b.inputs[0].shape)) / 1000 / machine.threads;
  offer.candidates.push_back(
      {"cpu", "", estimate, [b, s, threads = machine.threads] { return std::make_unique<StagedKernel>(b, s, threads); }});
}

}  // namespace

void offer_lp_norm_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects(b)) return offer.refuse("cpu", *why);
  if (b.inputs[0].shape.empty()) return offer.refuse("cpu", Reason::wrong_rank, "a scalar");
  Stages s = stages_of(b, {b.node->get_int("axis", -1)});
  const int64_t p = b.node->get_int("p", 2);
  if (p != 1 && p != 2) return offer.refuse("cpu", Reason::wrong_attribute, "p is {}", p);
  s.fold(
      p == 1 ? ReduceKind::sum : ReduceKind::l2,
      [&](Program& q, Ref x, const std::vector<Ref>&) { return p == 1 ? q.call(Fn::abs, x) : x; },
      // Zeros all of them: they stay so.
      [&](Program& q, Ref norm) { return q.call(Fn::select, q.call(Fn::equal, norm, s.number(q, 0)), s.number(q, 1), norm); });
  const Ref x = s.end.input(s.from), norm = s.end.input(s.type);
  s.end.output(s.end.cast(s.end.call(Fn::div, s.end.cast(x, s.type), norm), s.from));
  offer_stages(b, s, machine, offer);
}

void offer_mean_variance_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects(b)) return offer.refuse("cpu", *why);
  Stages s = stages_of(b, b.node->get_ints("axes", {0, 2, 3}));
  if (s.axes.empty()) return offer.refuse("cpu", Reason::wrong_axis, "no axes");
  if (offer_mean_variance_rows(b, s.axes, machine, offer)) return;
  s.fold(
      ReduceKind::mean, [](Program&, Ref x, const std::vector<Ref>&) { return x; }, [](Program&, Ref mean) { return mean; });
  s.fold(
      ReduceKind::mean,
      [](Program& p, Ref x, const std::vector<Ref>& mean) {
        const Ref centred = p.call(Fn::sub, x, mean[0]);
        return p.call(Fn::mul, centred, centred);
      },
      // 1e-9: the guard of ONNX's function body.
      [&](Program& p, Ref variance) { return p.call(Fn::add, p.call(Fn::sqrt, variance), s.number(p, 1e-9)); });
  const Ref x = s.end.input(s.from), mean = s.end.input(s.type), deviation = s.end.input(s.type);
  const Ref centred = s.end.call(Fn::sub, s.end.cast(x, s.type), mean);
  s.end.output(s.end.cast(s.end.call(Fn::div, centred, deviation), s.from));
  offer_stages(b, s, machine, offer);
}

}  // namespace smelt::ops
