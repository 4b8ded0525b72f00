#include "plan/strided_views.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "ops/core/strides.h"
#include "plan/concat_kernels.h"
#include "plan/views.h"

namespace smelt::plan {
namespace {

using ops::Layout;

class ViewPass {
 public:
  ViewPass(Segment& s, const tune::Tuner& tuner)
      : s_(s), tuner_(tuner), makers_(s.tensors.size(), none), readers_(s.tensors.size()) {
    for (size_t i = 0; i < s.tensors.size(); ++i) {
      const BoundValue& t = s.tensors[i];
      fixed_.push_back(t.constant.valid() || t.layout != Layout::plain || !t.strides.empty());
    }
    for (const auto* ports : {&s.externals, &s.results})
      for (const Port& p : *ports) fixed_[static_cast<size_t>(p.tensor)] = true;
    for (size_t i = 0; i < s.steps.size(); ++i) {
      const Step& step = s.steps[i];
      const bool dynamic = step.kind == StepKind::dynamic || step.kind == StepKind::control;
      for (TensorIndex t : step.inputs) {
        if (t == absent) continue;
        std::vector<size_t>& readers = readers_[static_cast<size_t>(t)];
        if (readers.empty() || readers.back() != i) readers.push_back(i);
        fixed_[static_cast<size_t>(t)] = fixed_[static_cast<size_t>(t)] || dynamic;
      }
      for (TensorIndex t : step.outputs) {
        if (t == absent) continue;
        makers_[static_cast<size_t>(t)] = i;
        fixed_[static_cast<size_t>(t)] = fixed_[static_cast<size_t>(t)] || dynamic;
      }
    }
  }

  void run() {
    // Outer concatenations first: an inner one may be a slice of it.
    for (size_t i = s_.steps.size(); i-- > 0;)
      if (s_.steps[i].kind == StepKind::concat) place_inputs(i);
    for (size_t i = 0; i < s_.steps.size(); ++i)
      if (s_.steps[i].kind == StepKind::kernel && moves(s_.steps[i])) place(i);
  }

  void run(std::span<const size_t> steps) {
    for (size_t i : steps)
      if (s_.steps[i].kind == StepKind::kernel && moves(s_.steps[i])) place(i);
  }

  std::optional<ReadInPlace> read_in_place(size_t split) {
    double least = INFINITY;
    Movers movers = Movers::become_views;
    for (const Movers how : {Movers::become_views, Movers::copy}) {
      Change c;
      const double with = reads_in_place(split, how, c) ? cost(c.touched) : INFINITY;
      take_back(c);
      if (with < least) least = with, movers = how;
    }
    if (std::isinf(least)) return std::nullopt;
    Change c;
    reads_in_place(split, movers, c);
    ReadInPlace made{{}, movers};
    for (size_t t : c.touched)
      if (t != split && (s_.steps[t].kind == StepKind::kernel || c.views.contains(t))) made.readers.push_back(t);
    return made;
  }

  bool read_in_place(size_t split, Movers movers, const std::function<bool(const Step&, const ops::BoundNode&)>& runs) {
    Change c;
    const auto run = [&](size_t i) {
      return s_.steps[i].kind != StepKind::kernel || runs(s_.steps[i], bound_node(s_, s_.steps[i], nullptr));
    };
    if (reads_in_place(split, movers, c) && std::ranges::all_of(c.touched, run)) return true;
    take_back(c);
    return false;
  }

 private:
  static constexpr size_t none = static_cast<size_t>(-1);

  /// What is tried, so that it can be taken back.
  struct Change {
    std::map<TensorIndex, BoundValue> tensors;  // as they were
    std::set<size_t> views;                     // steps that were copies
    std::set<size_t> touched;                   // steps whose tensors or kind changed
  };

  /// Whether all that it does is to put the elements of input 0 elsewhere.
  bool moves(const Step& step) const {
    if (!step.node || step.inputs.empty() || step.inputs[0] == absent) return false;
    const BoundValue& x = s_.tensor(step.inputs[0]);
    return !x.constant.valid() && strided_views(s_, step, ops::memory_strides(x));
  }

  /// Microseconds of the step's best kernel by its estimate; infinity where none takes its tensors.
  double estimate(size_t i) const {
    const Step& step = s_.steps[i];
    if (step.kind != StepKind::kernel) return 0;
    try {
      return tuner_.estimate_us(ops::offer(bound_node(s_, step, nullptr), tuner_.machine()));
    } catch (const Error& e) {
      if (e.code() != ExitCode::unsupported) throw;
      return INFINITY;
    }
  }

  void set(TensorIndex t, const View& v, int64_t alignment, Change& c) {
    BoundValue& b = s_.tensor(t);
    c.tensors.emplace(t, b);
    b.strides = v.strides;
    if (ops::is_dense(b)) b.strides.clear();
    const int64_t offset = bytes(b.type, v.offset);
    while (offset % alignment != 0) alignment /= 2;
    b.alignment = alignment;
    c.touched.insert(readers_[static_cast<size_t>(t)].begin(), readers_[static_cast<size_t>(t)].end());
  }

  /// Whether a kernel is to read or write it: the elements of a row lie beside each other.
  bool has_rows(TensorIndex t) const {
    const BoundValue& b = s_.tensor(t);
    for (size_t a = b.shape.size(); a-- > 0;)
      if (b.shape[a] != 1) return b.strides.empty() || b.strides[a] == 1;
    return true;
  }
  bool is_fixed(TensorIndex t) const { return fixed_[static_cast<size_t>(t)]; }

  bool reads_in_place(size_t split, Movers movers, Change& c) {
    movers_copy_ = movers == Movers::copy;
    return forwards(split, c);
  }

  /// Makes the step a view of its input, and those that move its outputs on.
  bool forwards(size_t i, Change& c) {
    Step& step = s_.steps[i];
    const BoundValue& x = s_.tensor(step.inputs[0]);
    const auto views = strided_views(s_, step, ops::memory_strides(x));
    if (!views) return false;
    if (std::ranges::any_of(step.outputs, [&](TensorIndex t) { return is_fixed(t); })) return false;
    c.touched.insert(i);
    if (step.kind == StepKind::kernel) c.views.insert(i);
    step.kind = StepKind::view;
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      set(step.outputs[o], (*views)[o], x.alignment, c);
      for (size_t r : readers_[static_cast<size_t>(step.outputs[o])])
        if (!follows(r, step.outputs[o], c)) return false;
    }
    return true;
  }

  /// What reads a tensor that has become a view.
  bool follows(size_t reader, TensorIndex t, Change& c) {
    const Step& step = s_.steps[reader];
    if (step.kind == StepKind::dynamic || step.kind == StepKind::control || step.kind == StepKind::copy) return false;
    if (step.kind == StepKind::concat) return s_.tensor(t).strides.empty() || copies_by_kernels(s_, step, tuner_);
    if (step.kind == StepKind::kernel && (movers_copy_ || !(step.inputs[0] == t && moves(step))))
      return has_rows(t) || step.node->op.starts_with("Reduce");  // which go along whatever lies side by side
    return forwards(reader, c);
  }

  /// Gives `t`, which only `reader` reads, these strides, and those before it that only move data.
  bool backwards(TensorIndex t, size_t reader, const Shape& strides, Change& c) {
    if (is_fixed(t) || readers_[static_cast<size_t>(t)] != std::vector{reader}) return false;
    const size_t maker = makers_[static_cast<size_t>(t)];
    if (maker == none) return false;
    Step& step = s_.steps[maker];
    set(t, {strides, 0}, s_.tensor(t).alignment, c);
    c.touched.insert(maker);
    if (step.kind == StepKind::kernel && !moves(step)) return has_rows(t);
    if (step.kind != StepKind::kernel && step.kind != StepKind::view) return false;
    const auto before = strides_before(s_, step, strides);
    if (!before) return step.kind == StepKind::kernel && has_rows(t);  // a copy may write through strides
    if (step.kind == StepKind::kernel) c.views.insert(maker);
    step.kind = StepKind::view;
    return backwards(step.inputs[0], maker, *before, c);
  }

  void take_back(const Change& c) {
    for (const auto& [t, was] : c.tensors) s_.tensor(t) = was;
    for (size_t i : c.views) s_.steps[i].kind = StepKind::kernel;
  }

  double cost(const std::set<size_t>& steps) const {
    double sum = 0;
    for (size_t i : steps) sum += estimate(i);
    return sum;
  }

  /// Keeps a change, if it could be made, where the steps that it touches cost less with it than without and `saved`.
  bool keep(const Change& c, bool made, double saved = 0) {
    const double with = made ? cost(c.touched) : INFINITY;
    std::map<TensorIndex, BoundValue> now;
    for (const auto& [t, was] : c.tensors) now.emplace(t, s_.tensor(t));
    take_back(c);
    if (std::isinf(with) || with >= saved + cost(c.touched)) return false;
    for (auto& [t, v] : now) s_.tensor(t) = std::move(v);
    for (size_t i : c.views) s_.steps[i].kind = StepKind::view;
    return true;
  }

  void place(size_t i) {
    const Step& step = s_.steps[i];
    Change ahead;
    if (keep(ahead, forwards(i, ahead))) return;
    const TensorIndex x = step.inputs[0], y = step.outputs[0];
    const auto before = strides_before(s_, step, ops::memory_strides(s_.tensor(y)));
    if (!before) return;
    Change back;
    back.views.insert(i);
    back.touched.insert(i);
    s_.steps[i].kind = StepKind::view;
    keep(back, backwards(x, i, *before, back));
  }

  void place_inputs(size_t i) {
    const Step& step = s_.steps[i];
    const BoundValue& y = s_.tensor(step.outputs[0]);
    const auto shape = concat_shape(s_, step);
    if (y.layout != Layout::plain || !shape || shape->outer == 1) return;  // one after the other: buffers.h
    for (size_t k = 0; k < step.inputs.size(); ++k) {
      if (std::ranges::count(step.inputs, step.inputs[k]) != 1) continue;
      Change c;
      int64_t alignment = y.alignment, at = 0;
      for (size_t before = 0; before < k; ++before) at += shape->chunks[before];
      while (at % alignment != 0) alignment /= 2;
      const bool made = backwards(step.inputs[k], i, ops::memory_strides(y), c);
      if (made) s_.tensor(step.inputs[k]).alignment = alignment;
      keep(c, made, copy_us);
    }
  }

  static constexpr double copy_us = 2;  // of a small part of a concatenation, at least

  Segment& s_;
  const tune::Tuner& tuner_;
  bool movers_copy_ = false;                  // what moves a view's elements on stays a kernel
  std::vector<size_t> makers_;                // by tensor; none: not made here
  std::vector<std::vector<size_t>> readers_;  // by tensor: steps, in order
  std::vector<bool> fixed_;                   // by tensor
};

}  // namespace

void assign_views(Segment& s, const tune::Tuner& tuner) { ViewPass(s, tuner).run(); }

void assign_views(Segment& s, std::span<const size_t> steps, const tune::Tuner& tuner) { ViewPass(s, tuner).run(steps); }

std::optional<ReadInPlace> read_in_place(Segment& s, size_t split, const tune::Tuner& tuner) {
  return ViewPass(s, tuner).read_in_place(split);
}

bool read_in_place(Segment& s, size_t split, Movers movers, const tune::Tuner& tuner,
                   const std::function<bool(const Step&, const ops::BoundNode&)>& runs) {
  return ViewPass(s, tuner).read_in_place(split, movers, runs);
}

}  // namespace smelt::plan
