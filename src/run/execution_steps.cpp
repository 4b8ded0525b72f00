// One step of an Execution: a kernel, a copy, a branch, or an operator whose sizes its values decide.
#include <algorithm>
#include <chrono>
#include <new>
#include <stdexcept>

#include "base/error.h"
#include "base/log.h"
#include "device/cuda/nvtx.h"
#include "ops/core/interpreter.h"
#include "ops/core/repeated_body.h"
#include "plan/shapes.h"
#include "plan/step_info.h"
#include "run/execution.h"
#include "run/feeds.h"
#include "run/inner_times.h"

namespace smelt::run {
namespace {

/// The attribute that the body is: "then_branch".
std::string name_of_body(const Node& node, const Graph& body) {
  for (const auto& [key, attribute] : node.attrs)
    if (const auto* g = std::get_if<GraphPtr>(&attribute); g && g->get() == &body) return key;
  return "body";
}

/// Binds bodies of one node.
class BinderOf final : public ops::BodyBinder {
 public:
  using Bind = std::function<std::unique_ptr<ops::RepeatedBody>(const Graph&, std::span<const Tensor>, size_t)>;
  BinderOf(const Node& node, Bind bind) : node_(node), bind_(std::move(bind)) {}
  std::unique_ptr<ops::RepeatedBody> bind(const Node& node, const Graph& g, std::span<const Tensor> inputs,
                                          size_t changing) override {
    return &node == &node_ ? bind_(g, inputs, changing) : nullptr;
  }

 private:
  const Node& node_;
  Bind bind_;
};

std::string name_in_body(const plan::Step& step, size_t at) {
  return step.node && !step.node->name.empty() ? step.node->name : fmt::format("step {}", at);
}

}  // namespace

void ExecutionImpl::run_step(SegmentState& state, size_t at, void* stream) {
  const plan::Step& step = state.segment.steps[at];
  const StepArguments& arguments = state.arguments[at];
  static const std::string unnamed = "copy";
  const device::cuda::NamedRange range(step.node ? step.node->name : unnamed);
  name_copies(step.on_host ? std::string_view(step.node->name) : "");  // without a name: a step's own, on the device
  try {
    switch (step.kind) {
      case plan::StepKind::kernel: step.kernel->run({arguments.inputs, arguments.outputs, arguments.workspace, stream}); break;
      case plan::StepKind::concat: backend_.concatenate(arguments.outputs[0], *step.concat, arguments.inputs, stream); break;
      case plan::StepKind::copy:
        backend_.copy(arguments.outputs[0], arguments.inputs[0], ops::storage_bytes(state.segment.tensor(step.outputs[0])),
                      stream);
        break;
      case plan::StepKind::dynamic:
        if (step.kernel)
          step.kernel->run({arguments.inputs, arguments.outputs, arguments.workspace, stream});
        else
          run_dynamic(state, at);
        break;
      case plan::StepKind::control: run_branch(state, at); break;
      case plan::StepKind::view: break;
    }
  } catch (const Error& e) {
    const std::string where = step.node ? ops::label(*step.node) : "";
    if (std::string_view(e.what()).starts_with(where)) throw;  // a reference has said it
    throw e.at(where);
  } catch (const std::logic_error&) {  // operands of too few axes or elements are noticed by the vectors they are in
    fail("{}: an operand has fewer axes or elements than it reads", step.node ? ops::label(*step.node) : unnamed);
  } catch (const std::bad_alloc&) {
    fail("{}: no memory for what it computes with", step.node ? ops::label(*step.node) : unnamed);
  }
}

void ExecutionImpl::run_inner_step(SegmentState& state, size_t at, InnerTimes& inner) {
  const auto begin = std::chrono::steady_clock::now();
  run_step(state, at, nullptr);
  const auto ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  note_inner_step(state, at, ns, inner);
}

void ExecutionImpl::note_inner_step(const SegmentState& state, size_t at, int64_t ns, InnerTimes& inner) {
  inner.add(at, name_in_body(state.segment.steps[at], at), ns,
            [&] { return plan::describe_steps(plan_->graph(), state.segment)[at]; });
}

void ExecutionImpl::run_noted(InnerTimes& inner) {
  std::vector<StepTime> times;
  run_profiled(times);
  size_t next = 0;
  for (const SegmentState* state : segments_)
    for (size_t at = 0; at < state->segment.steps.size(); ++at, ++next)
      note_inner_step(*state, at, times[next].end_ns - times[next].begin_ns, inner);
}

Tensor ExecutionImpl::on_host(const Tensor& t) {
  if (!t.valid() || t.type() == DType::string || in_host_memory(t)) return t;
  Tensor copy = Tensor::empty(t.type(), t.shape());
  backend_.copy(copy.raw(), t.raw(), t.nbytes(), stream_.get());
  backend_.wait(stream_.get());
  return copy;
}

ExecutionImpl& ExecutionImpl::body(const Graph& g, std::span<const Tensor> inputs) {
  auto& execution = bodies_[&g];
  if (!execution) execution = std::make_unique<ExecutionImpl>(plan_->body(g), shapes_of_a_body);
  if (execution->were_bound_last(inputs)) return *execution;
  const auto& declared = execution->plan_->inputs();
  const bool comparable = declared.size() == inputs.size() && std::ranges::all_of(inputs, &Tensor::valid);
  const auto found = comparable ? misfit(declared, inputs) : std::nullopt;
  if (!found) return *execution;
  auto& of_any_shape = bodies_of_any_shape_[&g];
  if (!of_any_shape) {
    info("{}: {}; the body runs as if it did not say so", g.name, *found);
    of_any_shape = std::make_unique<ExecutionImpl>(plan_->body_of_any_shape(g), shapes_of_a_body);
  }
  return *of_any_shape;
}

void ExecutionImpl::run_branch(SegmentState& state, size_t at) {
  const plan::Segment& s = state.segment;
  const plan::Step& step = s.steps[at];
  const StepArguments& arguments = state.arguments[at];
  const bool taken = *static_cast<const bool*>(arguments.inputs[0]);
  BranchState& branch = state.branches[at][taken];
  if (!branch.body) {
    branch.body = step.node->get_graph(taken ? "then_branch" : "else_branch").get();
    branch.inputs.resize(step.inputs.size() - 1);
    branch.outputs.resize(step.outputs.size());
  }
  bool bound = branch.execution && branch.execution->bound_by_ == &branch;
  const auto point = [&](Tensor& t, plan::TensorIndex index, const void* memory) {
    if (t.valid() && t.raw() == memory) return;
    const plan::BoundValue& as = s.tensor(index);
    t = Tensor::borrow(as.type, as.shape, const_cast<void*>(memory));
    bound = false;
  };
  for (size_t i = 0; i < branch.inputs.size(); ++i) point(branch.inputs[i], step.inputs[1 + i], arguments.inputs[1 + i]);
  for (size_t i = 0; i < branch.outputs.size(); ++i)
    if (step.outputs[i] != plan::absent) point(branch.outputs[i], step.outputs[i], arguments.outputs[i]);
  if (!bound) {
    branch.execution = &body(*branch.body, branch.inputs);
    branch.execution->bound_by_ = nullptr;
    branch.execution->bind(branch.inputs, branch.outputs);
    branch.execution->bound_by_ = &branch;
  }
  const InnerTimes::Inside inside(step.node->name, taken ? "then_branch" : "else_branch");
  branch.execution->run();
}

void ExecutionImpl::run_dynamic(const SegmentState& state, size_t at) {
  const plan::Segment& s = state.segment;
  const plan::Step& step = s.steps[at];
  std::vector<Tensor> in(step.inputs.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (step.inputs[i] == plan::absent) continue;
    const plan::BoundValue& t = s.tensor(step.inputs[i]);
    if (t.constant.valid())
      in[i] = t.constant;
    else if (const plan::Buffer& b = s.buffer(step.inputs[i]); b.kind == plan::BufferKind::external && b.owner == step.inputs[i])
      in[i] = on_host(value(t.value));
    else
      in[i] = on_host(Tensor::borrow(t.type, t.shape, const_cast<void*>(state.arguments[at].inputs[i])));
  }
  const auto run_graph = [this, &step](const Graph& g, std::span<const Tensor> inputs) {
    ExecutionImpl& execution = body(g, inputs);
    execution.bound_by_ = nullptr;
    const InnerTimes::Inside inside(step.node->name, name_of_body(*step.node, g));
    return execution.run_fresh(inputs);
  };
  const ops::GraphShapesScope shapes(plan::body_outputs);
  BinderOf binder(*step.node, [this, &step](const Graph& g, std::span<const Tensor> inputs, size_t changing) {
    return repeated(*step.node, name_of_body(*step.node, g), g, inputs, changing);
  });
  const ops::BodyBinderScope binding(binder);
  std::optional<MemoryScope> room;
  if (!backend_.is_host()) {
    if (!made_beside_gpu_) made_beside_gpu_ = std::make_shared<MemoryAccount>(plan::room_on_gpu(plan_->context()));
    room.emplace(made_beside_gpu_);
  }
  std::optional<std::vector<Tensor>> by_kernel;
  if (backend_.is_host() && !plan::is_control_flow(*step.node))
    by_kernel = late_kernels_.run(*step.node, in, plan_->context().tuner);
  const bool kernel_made = by_kernel.has_value();
  std::vector<Tensor> out = by_kernel ? *std::move(by_kernel) : ops::run_reference(*step.node, in, run_graph);
  for (size_t i = 0; i < out.size(); ++i) {
    if (step.node->outputs[i] == ValueId::none) continue;
    // An If may hand on a value of this segment as it is; the arena's bytes do not last.
    const bool lent =
        std::ranges::any_of(in, [&](const Tensor& t) { return t.valid() && out[i].nbytes() > 0 && overlaps(t, out[i]); });
    value(step.node->outputs[i]) = lent ? out[i].clone() : std::move(out[i]);
    if (kernel_made) own_results_.insert(step.node->outputs[i]);
  }
}

void ExecutionImpl::read_counts(SegmentState& state, void* stream) {
  if (!state.counts.valid()) return;
  name_copies("counts of results");
  backend_.copy(state.host_counts.raw(), state.counts.raw(), state.counts.nbytes(), stream);
  backend_.wait(stream);
  const int64_t* count = state.host_counts.data<int64_t>();
  for (const plan::Step& step : state.segment.steps) {
    if (step.at_most.empty()) continue;
    for (size_t i = 0; i < step.at_most.size(); ++i) {
      if (step.node->outputs[i] == ValueId::none) continue;
      Tensor& v = value(step.node->outputs[i]);
      const auto memory = std::make_shared<Tensor>(v);
      v = Tensor::borrow(v.type(), ops::found_shape(step.at_most[i], *count), memory->raw(), memory);
    }
    ++count;
  }
}

}  // namespace smelt::run
