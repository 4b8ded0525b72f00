#include "plan/shapes.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "ops/core/facts.h"
#include "plan/views.h"

namespace smelt::plan {
namespace {

class SegmentBuilder {
 public:
  SegmentBuilder(const Graph& g, Environment& env, bool on_device, bool runs)
      : g_(g),
        env_(env),
        on_device_(on_device),
        runs_(runs),
        checks_memory_(runs && !on_device),
        tensors_(g.value_count(), absent),
        made_here_(g.value_count(), false),
        found_(g.value_count(), false) {}

  Segment run(std::span<const NodeId> order) {
    const size_t before = env_.left;
    for (NodeId n : order) {
      if (!env_.done[static_cast<size_t>(index(n))] && ready(g_.node(n))) plan(n);
    }
    if (before > 0 && env_.left == before) {
      for (NodeId n : order) {
        if (!env_.done[static_cast<size_t>(index(n))]) fail("{}: an input has no producer and no value", describe(g_, n));
      }
    }
    add_results(order);
    return std::move(segment_);
  }

 private:
  bool ready(const Node& node) const {
    return std::ranges::all_of(node.inputs, [&](ValueId v) { return v == ValueId::none || env_[v].known; });
  }

  void plan(NodeId n) {
    const Node& node = g_.node(n);
    const std::vector<ops::TensorDesc> in = described_inputs(env_, node);
    std::vector<ops::TensorDesc> out(node.outputs.size());
    const bool control = is_control_flow(node);
    if (!control)
      ops::infer(node, in, out);
    else if (node.is("If") && !on_device_)
      infer_if(node, in, out);
    check_assumed(n, out);
    done(n);
    if (evaluate_now(node, in, out, env_)) return;

    // Strings have no memory of a plan's; where nothing will run, their shapes are all that is asked for.
    const auto is_known = [&](const ops::TensorDesc& d) {
      return !d.present() || (d.shape_known && (d.type != DType::string || !runs_));
    };
    const bool shapes_known =
        std::ranges::all_of(out, is_known) && (!control || std::ranges::any_of(out, &ops::TensorDesc::present));
    Step step;
    step.id = n;
    step.node = std::shared_ptr<const Node>(std::shared_ptr<void>(), &node);
    for (ValueId v : node.inputs) step.inputs.push_back(v == ValueId::none ? absent : read(v));
    if (!shapes_known) {
      step.kind = StepKind::dynamic;
      for (TensorIndex t : step.inputs) fix(t);
      if (!control && (on_device_ || ops::is_found_on_processor(node))) find_in_memory(step, in);
      segment_.steps.push_back(std::move(step));
      return;
    }
    for (size_t i = 0; i < out.size(); ++i)
      step.outputs.push_back(node.outputs[i] == ValueId::none ? absent : make(node.outputs[i], out[i]));
    const bool empty =
        std::ranges::all_of(step.outputs, [&](TensorIndex t) { return t == absent || elements(segment_.tensor(t).shape) == 0; });
    if (empty) return;  // nothing to compute
    if (control) {
      step.kind = StepKind::control;
    } else if (view_offsets(segment_, step)) {
      step.kind = StepKind::view;
    } else if (node.is("Concat") && bits(segment_.tensor(step.outputs[0]).type) % 8 == 0) {
      step.kind = StepKind::concat;
    }
    if (checks_memory_ && step.kind != StepKind::view) check_memory(step);
    if (step.kind == StepKind::view || control) {
      for (TensorIndex t : step.inputs) fix(t);
      for (TensorIndex t : step.outputs) fix(t);
    }
    segment_.steps.push_back(std::move(step));
  }

  /// Rewrites went by the graph's types, ranks and extents: what the operator's rule gives must be those. Models that declare extents
  /// which they do not have are common enough to be run all the same, and so is an output of another rank that no node reads.
  void check_assumed(NodeId n, std::span<const ops::TensorDesc> out) const {
    const Node& node = g_.node(n);
    for (size_t i = 0; i < out.size(); ++i) {
      if (node.outputs[i] == ValueId::none || !out[i].present()) continue;
      const Value& v = g_.value(node.outputs[i]);
      if (v.type != DType::undefined && v.type != out[i].type)
        fail("{}: output '{}' is {}, the graph says {}", describe(g_, n), v.name, name(out[i].type), name(v.type));
      if (!out[i].shape_known || !v.shape) continue;
      const Shape& s = out[i].shape;
      const bool went_by = node.domain == smelt_domain || !g_.readers(node.outputs[i]).empty();
      if (s.size() != v.shape->size() && went_by)
        fail("{}: output '{}' has shape {}, the graph says {}", describe(g_, n), v.name, to_string(s), to_string(*v.shape));
      bool same = s.size() == v.shape->size();
      for (size_t a = 0; same && a < s.size(); ++a) same = same && (!(*v.shape)[a].known() || (*v.shape)[a].value == s[a]);
      if (!same)
        info("{}: output '{}' has shape {}, the model says {}", describe(g_, n), v.name, to_string(s), to_string(*v.shape));
    }
  }

  /// Before kernels are offered, which may make lists as long as a tensor. Where there is room for one, there is for a smaller one.
  void check_memory(const Step& step) {
    for (TensorIndex t : step.outputs) {
      if (t == absent) continue;
      const BoundValue& v = segment_.tensor(t);
      const int64_t size = bytes(v.type, elements(v.shape));
      if (size <= room_) continue;
      try {
        check_available(size, v.type, v.shape);
        room_ = size;
      } catch (const Error& e) {
        throw e.at(ops::label(*step.node));
      }
    }
  }

  /// What a branch gives, also where its inputs are not as it declares them: it runs all the same (PlanImpl::body_of_any_shape).
  static std::optional<std::vector<ops::KnownValue>> outputs_of_branch(const Graph& body, std::span<const ops::TensorDesc> in) {
    try {
      return body_outputs(body, in);
    } catch (const Error&) {
      return body_outputs(without_shapes(body), in);
    }
  }

  /// The outputs of an If where the branch is known, both give the same shapes, or one does not fit its inputs: a run that takes
  /// it fails. `out` stays as it is where only a run knows them, or a string is among its tensors.
  void infer_if(const Node& node, std::span<const ops::TensorDesc> in, std::span<ops::TensorDesc> out) {
    const auto is_string = [](const ops::TensorDesc& d) { return d.type == DType::string; };
    if (in.empty() || !in[0].present() || elements(in[0].shape) != 1 || std::ranges::any_of(in, is_string)) return;
    const Tensor* condition = in[0].value;
    std::optional<std::vector<ops::KnownValue>> found;
    for (const bool taken : {true, false}) {
      if (condition && (condition->to_ints()[0] != 0) != taken) continue;
      const GraphPtr body = node.get_graph(taken ? "then_branch" : "else_branch");
      if (!body || body->inputs().size() + 1 != in.size() || body->outputs().size() != out.size()) return;
      std::optional<std::vector<ops::KnownValue>> outputs;
      try {
        outputs = outputs_of_branch(*body, in.subspan(1));
      } catch (const Error&) {
        continue;
      }
      if (!outputs) return;
      const auto same = [](const ops::KnownValue& a, const ops::KnownValue& b) { return a.type == b.type && a.shape == b.shape; };
      if (found && !std::ranges::equal(*found, *outputs, same)) return;
      found = std::move(outputs);
    }
    if (!found || std::ranges::find(*found, DType::string, &ops::KnownValue::type) != found->end()) return;
    for (size_t i = 0; i < out.size(); ++i)
      if (node.outputs[i] != ValueId::none) out[i] = {(*found)[i].type, (*found)[i].shape, true, nullptr};
  }

  /// Memory for all that a kernel may find, where there is such a kernel. It lasts until the results are read, in later segments.
  void find_in_memory(Step& step, std::span<const ops::TensorDesc> in) {
    constexpr int64_t most_on_host = int64_t{256} << 20;  // bytes; beyond that the reference takes memory for what it finds
    step.at_most = ops::outputs_at_most(*step.node, in);
    int64_t size = 0;
    for (const ops::AtMost& m : step.at_most) size += m.type == DType::undefined ? 0 : bytes(m.type, elements(m.shape));
    if (!on_device_ && size > most_on_host) step.at_most.clear();
    for (size_t i = 0; i < step.at_most.size(); ++i) {
      const ValueId v = step.node->outputs[i];
      step.outputs.push_back(absent);
      if (v == ValueId::none) continue;
      BoundValue b;
      b.type = step.at_most[i].type;
      b.shape = step.at_most[i].shape;
      b.value = v;
      b.at_most = true;
      found_[static_cast<size_t>(index(v))] = true;
      step.outputs.back() = tensors_[static_cast<size_t>(index(v))] = add_tensor(segment_, std::move(b));
    }
  }

  void done(NodeId n) {
    env_.done[static_cast<size_t>(index(n))] = true;
    --env_.left;
  }

  /// The tensor of a value that a step reads.
  TensorIndex read(ValueId v) {
    TensorIndex& t = tensors_[static_cast<size_t>(index(v))];
    if (t != absent) return t;
    const auto& e = env_[v];
    BoundValue b;
    b.type = e.type;
    b.shape = e.shape;
    b.value = v;
    b.fixed_layout = true;
    b.constant = e.value;
    t = add_tensor(segment_, std::move(b));
    if (!e.value.valid()) segment_.externals.push_back({v, t});
    return t;
  }

  TensorIndex make(ValueId v, const ops::TensorDesc& d) {
    BoundValue b;
    b.type = d.type;
    b.shape = d.shape;
    b.value = v;
    made_here_[static_cast<size_t>(index(v))] = true;
    env_.set(v, d.type, d.shape);
    return tensors_[static_cast<size_t>(index(v))] = add_tensor(segment_, std::move(b));
  }

  void fix(TensorIndex t) {
    if (t != absent) segment_.tensor(t).fixed_layout = true;
  }

  /// What nodes not yet planned and the caller read of this segment's tensors, and what kernels find.
  void add_results(std::span<const NodeId> order) {
    std::vector<bool> wanted = found_;
    for (NodeId n : order) {
      if (env_.done[static_cast<size_t>(index(n))]) continue;
      for (ValueId v : g_.node(n).inputs) {
        if (v != ValueId::none && made_here_[static_cast<size_t>(index(v))]) wanted[static_cast<size_t>(index(v))] = true;
      }
    }
    for (ValueId v : g_.outputs()) {
      if (made_here_[static_cast<size_t>(index(v))]) wanted[static_cast<size_t>(index(v))] = true;
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      const ValueId v{static_cast<int32_t>(i)};
      const TensorIndex t = tensors_[i];
      fix(t);
      segment_.results.push_back({v, t});
    }
  }

  const Graph& g_;
  Environment& env_;
  bool on_device_, runs_, checks_memory_;
  int64_t room_ = 0;  // bytes that the machine was found to have
  Segment segment_;
  std::vector<TensorIndex> tensors_;
  std::vector<bool> made_here_, found_;
};

}  // namespace

Environment::Environment(const Graph& g, std::span<const NodeId> order)
    : values(g.value_count()), done(g.node_count(), false), left(order.size()) {
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& v = g.value(ValueId{static_cast<int32_t>(i)});
    if (v.is_constant()) values[i] = {true, v.constant.type(), v.constant.shape(), v.constant};
  }
}

std::vector<ops::TensorDesc> described_inputs(const Environment& env, const Node& node) {
  std::vector<ops::TensorDesc> in(node.inputs.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (node.inputs[i] == ValueId::none) continue;
    const auto& e = env[node.inputs[i]];
    in[i] = {e.type, e.shape, true, e.value.valid() ? &e.value : nullptr};
  }
  return in;
}

bool evaluate_now(const Node& node, std::span<const ops::TensorDesc> in, std::span<const ops::TensorDesc> out, Environment& env) {
  const bool shape_only = ops::facts(node).elements == ops::Elements::extents;
  const ops::OpDef* def = ops::find(node.op, node.domain);
  if (is_control_flow(node) || !def || !def->deterministic) return false;
  for (const auto& d : in) {
    if (d.present() && !d.value && !shape_only) return false;
  }
  for (const auto& d : out) {
    if (d.present() && (!d.shape_known || elements(d.shape) > max_host_elements)) return false;
  }
  std::vector<Tensor> args(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i].present()) continue;
    args[i] = in[i].value ? *in[i].value : Tensor::borrow(in[i].type, in[i].shape, nullptr);
  }
  std::vector<Tensor> results = ops::evaluate(node, args);
  for (size_t i = 0; i < results.size(); ++i) {
    if (node.outputs[i] == ValueId::none) continue;
    env.set(node.outputs[i], results[i].type(), results[i].shape());
    env[node.outputs[i]].value = results[i];
  }
  return true;
}

std::optional<std::vector<ops::KnownValue>> body_outputs(const Graph& body, std::span<const ops::TensorDesc> in) {
  const std::vector<NodeId> order = body.topological();
  Environment env(body, order);
  for (size_t i = 0; i < in.size(); ++i) {
    env.set(body.inputs()[i], in[i].type, in[i].shape);
    if (in[i].value) env[body.inputs()[i]].value = *in[i].value;
  }
  plan_segment(body, order, env, false, false);
  std::vector<ops::KnownValue> out;
  for (ValueId v : body.outputs()) {
    if (!env[v].known) return std::nullopt;
    out.push_back({env[v].type, env[v].shape, env[v].value});
  }
  return out;
}

Graph without_shapes(const Graph& g) {
  Graph copy = clone(g);
  for (size_t i = 0; i < copy.value_count(); ++i) {
    const ValueId v{static_cast<int32_t>(i)};
    if (!copy.value(v).is_constant()) copy.set_shape(v, std::nullopt);
  }
  for (NodeId n : copy.topological())
    for (auto& [key, attribute] : copy.edit(n).attrs)
      if (auto* body = std::get_if<GraphPtr>(&attribute); body && *body) *body = std::make_shared<Graph>(without_shapes(**body));
  return copy;
}

bool is_control_flow(const Node& node) {
  return std::ranges::any_of(node.attrs, [](const auto& a) { return std::holds_alternative<GraphPtr>(a.second); });
}

bool splits_plan(const Node& node) { return is_control_flow(node) || ops::facts(node).data_dependent; }

Segment plan_segment(const Graph& g, std::span<const NodeId> order, Environment& env, bool on_device, bool runs) {
  return SegmentBuilder(g, env, on_device, runs).run(order);
}

}  // namespace smelt::plan
