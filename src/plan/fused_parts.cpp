#include "plan/fused_parts.h"

#include <algorithm>
#include <map>
#include <optional>

#include "fuse/match/rewrite.h"
#include "ops/core/channels_last.h"
#include "ops/core/expand.h"
#include "plan/image_roles.h"
#include "plan/layouts.h"
#include "plan/shapes.h"

namespace smelt::plan {
namespace {

using ops::Layout;

bool lies_densely(const BoundValue& v) { return v.layout == Layout::plain && v.strides.empty(); }

/// Lays the parts' tensors out around those that lie as they must.
class Lay {
 public:
  Lay(Segment& s, size_t rank, const tune::Tuner& tuner) : s_(s), rank_(rank), tuner_(tuner), settled_(s.tensors.size()) {}

  void settle(TensorIndex t, const BoundValue& as) {
    BoundValue& v = s_.tensor(t);
    v.layout = as.layout;
    v.strides = as.strides;
    settled_[static_cast<size_t>(t)] = true;
  }

  /// False where some reorder has no kernel.
  bool run() {
    std::vector<Step> steps = std::move(s_.steps);
    s_.steps.clear();
    return std::ranges::all_of(steps, [&](Step& step) { return place(std::move(step)); });
  }

 private:
  bool place(Step step) {
    if (step.kind == StepKind::kernel) {
      std::vector<TensorIndex> tried;
      for (TensorIndex t : step.outputs)
        if (t != absent && follows(t)) tried.push_back(t);
      for (TensorIndex t : tried) s_.tensor(t).layout = Layout::nhwc;
      if (is_offered(bound_node(s_, step, nullptr), tuner_)) {
        s_.steps.push_back(std::move(step));
        return true;
      }
      for (TensorIndex t : tried) s_.tensor(t).layout = Layout::plain;
    }
    return place_plain(std::move(step));
  }

  /// Between reorders.
  bool place_plain(Step step) {
    for (TensorIndex& t : step.inputs) {
      if (t == absent || lies_densely(s_.tensor(t))) continue;
      const auto [at, fresh] = plain_.try_emplace(t, absent);
      if (fresh) {
        at->second = plain_copy(t);
        if (!push_reorder(t, at->second)) return false;
      }
      t = at->second;
    }
    std::vector<std::pair<TensorIndex, TensorIndex>> after;
    for (TensorIndex& t : step.outputs) {
      if (t == absent || lies_densely(s_.tensor(t))) continue;
      after.emplace_back(plain_copy(t), t);
      t = after.back().first;
    }
    s_.steps.push_back(std::move(step));
    return std::ranges::all_of(after, [&](const auto& pair) { return push_reorder(pair.first, pair.second); });
  }

  bool push_reorder(TensorIndex from, TensorIndex to) {
    s_.steps.push_back(reorder_step(s_, from, to));
    return is_offered(bound_node(s_, s_.steps.back(), nullptr), tuner_);
  }

  TensorIndex plain_copy(TensorIndex t) {
    BoundValue v = s_.tensor(t);
    v.layout = Layout::plain;
    v.strides.clear();
    v.fixed_layout = false;
    v.value = ValueId::none;
    return add_tensor(s_, std::move(v));
  }

  /// Whether it may lie channels-last, as the images around it.
  bool follows(TensorIndex t) const {
    const BoundValue& v = s_.tensor(t);
    const bool settled = static_cast<size_t>(t) < settled_.size() && settled_[static_cast<size_t>(t)];
    return !settled && !v.constant.valid() && is_image(v) && v.shape.size() == rank_ && !ops::is_same_either_way(v.shape);
  }

  Segment& s_;
  size_t rank_;
  const tune::Tuner& tuner_;
  std::vector<bool> settled_;
  std::map<TensorIndex, TensorIndex> plain_;
};

/// The tensor of each of the graph's values that is one of the step's.
std::map<ValueId, TensorIndex> tensors_of(const Step& step, const Graph& parts) {
  std::map<ValueId, TensorIndex> known;
  size_t next = 0;
  for (TensorIndex t : step.inputs)
    if (t != absent) known[parts.inputs()[next++]] = t;
  next = 0;
  for (TensorIndex t : step.outputs)
    if (t != absent) known[parts.outputs()[next++]] = t;
  return known;
}

/// True unless a reorder that the parts need has no kernel.
bool lay_out(Parts& parts, const Segment& s, const Step& step, const tune::Tuner& tuner) {
  Lay lay(parts.segment, s.tensor(step.outputs[0]).shape.size(), tuner);
  const std::map<ValueId, TensorIndex> known = tensors_of(step, parts.graph);
  bool dense = true;
  for (size_t t = 0; t < parts.segment.tensors.size(); ++t) {
    const ValueId v = parts.segment.tensors[t].value;
    const auto at = v == ValueId::none ? known.end() : known.find(v);
    if (at == known.end()) continue;
    const BoundValue& as = s.tensor(at->second);
    dense = dense && lies_densely(as);
    lay.settle(static_cast<TensorIndex>(t), as);
  }
  return dense || lay.run();
}

}  // namespace

std::variant<Parts, NotCompared> parts_of(const Segment& s, const Step& step, const std::vector<std::string>& without,
                                          const Context& context) {
  if (step.node->op == "BlockMatMul") return NotCompared::weights_as_floats;  // eight times their memory, to be thrown away
  Graph around;
  Node copy = *step.node;
  copy.sources.clear();
  bool constant_moved = false;
  const auto enter = [&](const std::vector<TensorIndex>& tensors, std::vector<ValueId>& values) {
    values.clear();
    for (TensorIndex t : tensors) {
      if (t == absent) {
        values.push_back(ValueId::none);
        continue;
      }
      const BoundValue& v = s.tensor(t);
      constant_moved = constant_moved || (v.constant.valid() && !lies_densely(v));
      values.push_back(around.add_value("", v.type, to_sym(v.shape)));
    }
  };
  enter(step.inputs, copy.inputs);
  enter(step.outputs, copy.outputs);
  if (constant_moved) return NotCompared::no_parts;  // its elements are not in the order of its shape
  for (ValueId v : copy.inputs)
    if (v != ValueId::none) around.add_input(v);
  const std::string op = copy.op;
  const NodeId n = around.add_node(std::move(copy));
  Parts parts;
  parts.graph = ops::expand(around, n);

  // The inputs that are there, in their order.
  std::vector<TensorIndex> given;
  std::ranges::copy_if(step.inputs, std::back_inserter(given), [](TensorIndex t) { return t != absent; });
  const auto planned = [&](Environment& env, const std::vector<NodeId>& order) {
    for (size_t i = 0; i < given.size(); ++i) {
      const BoundValue& t = s.tensor(given[i]);
      const ValueId v = parts.graph.inputs()[i];
      env.set(v, t.type, t.shape);
      env[v].value = t.constant;
    }
    return plan_segment(parts.graph, order, env, false);
  };
  {
    const std::vector<NodeId> order = parts.graph.topological();
    Environment env(parts.graph, order);
    planned(env, order);
    if (env.left > 0) return NotCompared::sizes_in_a_run;
    for (size_t v = 0; v < env.values.size(); ++v)
      if (env.values[v].known) parts.graph.set_shape(ValueId{static_cast<int32_t>(v)}, to_sym(env.values[v].shape));
  }
  fuse::Options options = fuse_options(context.options);
  std::ranges::copy(without, std::back_inserter(options.skip));
  options.verify_each = false;
  fuse::run(parts.graph, options);
  const std::vector<NodeId> order = parts.graph.topological();
  Environment env(parts.graph, order);
  parts.segment = planned(env, order);
  if (env.left > 0) return NotCompared::sizes_in_a_run;

  const auto kernels = std::ranges::count(parts.segment.steps, StepKind::kernel, &Step::kind);
  const bool same = kernels == 1 && std::ranges::any_of(parts.segment.steps, [&](const Step& p) {
                      return p.kind == StepKind::kernel && p.node->op == op && p.node->domain == smelt_domain;
                    });
  if (same) return NotCompared::one_operator;
  const bool known = std::ranges::all_of(parts.segment.steps, [](const Step& p) {
    return p.kind == StepKind::kernel || p.kind == StepKind::view || p.kind == StepKind::concat;
  });
  const size_t outputs = static_cast<size_t>(std::ranges::count_if(step.outputs, [](TensorIndex t) { return t != absent; }));
  if (!known || parts.segment.results.size() != outputs) return NotCompared::no_parts;
  if (!lay_out(parts, s, step, context.tuner)) return NotCompared::no_parts;
  return parts;
}

void replace(Segment& s, size_t at, const Parts& parts, const std::shared_ptr<const FusedTimes>& times) {
  const Step fused = s.steps[at];
  const std::map<ValueId, TensorIndex> known = tensors_of(fused, parts.graph);
  std::vector<TensorIndex> tensors;
  for (const BoundValue& v : parts.segment.tensors) {
    const auto same = v.value == ValueId::none ? known.end() : known.find(v.value);
    if (same != known.end()) {
      tensors.push_back(same->second);
      continue;
    }
    BoundValue own = v;
    own.value = ValueId::none;
    own.fixed_layout = false;
    tensors.push_back(add_tensor(s, std::move(own)));
  }
  std::vector<Step> steps;
  for (const Step& part : parts.segment.steps) {
    Step step = part;
    Node node = *part.node;
    node.sources = fused.node->sources;
    node.name = fused.node->name;
    step.node = std::make_shared<const Node>(std::move(node));
    step.id = fused.id;
    step.part = std::max(fused.part, 0) + static_cast<int>(steps.size());
    step.fused = times;
    for (auto* list : {&step.inputs, &step.outputs})
      for (TensorIndex& t : *list)
        if (t != absent) t = tensors[static_cast<size_t>(t)];
    steps.push_back(std::move(step));
  }
  s.steps.erase(s.steps.begin() + static_cast<std::ptrdiff_t>(at));
  s.steps.insert(s.steps.begin() + static_cast<std::ptrdiff_t>(at), std::make_move_iterator(steps.begin()),
                 std::make_move_iterator(steps.end()));
}

}  // namespace smelt::plan
