// An Execution's runs: the segments' steps one by one, or as they were recorded, and what a run of fresh tensors adds.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <numeric>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "device/cuda/nvtx.h"
#include "ops/core/interpreter.h"
#include "ops/cpu/parallel.h"
#include "plan/shapes.h"
#include "plan/step_info.h"
#include "run/execution.h"
#include "run/inner_times.h"

namespace smelt::run {
namespace {

/// A variable's value while this lives.
template <class T> class ForNow {
 public:
  ForNow(T& variable, T value) : variable_(variable), before_(std::exchange(variable, std::move(value))) {}
  ~ForNow() { variable_ = std::move(before_); }
  ForNow(const ForNow&) = delete;

 private:
  T& variable_;
  T before_;
};

/// The attribute that the body is: "then_branch".
std::string name_of_body(const Node& node, const Graph& body) {
  for (const auto& [key, attribute] : node.attrs)
    if (const auto* g = std::get_if<GraphPtr>(&attribute); g && g->get() == &body) return key;
  return "body";
}

/// Without the copies on the device that are steps, or parts of them.
std::vector<CopyTime> beside_steps(std::vector<CopyTime> copies) {
  std::erase_if(copies, [](const CopyTime& c) { return c.way == CopyTime::Way::on_device && c.name.empty(); });
  return copies;
}

}  // namespace

ExecutionImpl::Stoppable::Stoppable(ExecutionImpl& e) : execution_(e.running_ ? nullptr : &e) {
  if (!execution_) return;
  const Options& options = e.plan_->options();
  e.running_ = true;
  stop_.emplace(&e.cancelled_, options.time_limit, options.stop_when);
  scope_.emplace(*stop_);
  memory_.emplace(e.plan_->context().memory);
}

ExecutionImpl::Stoppable::~Stoppable() {
  if (!execution_) return;
  execution_->running_ = false;
  execution_->clear_cancel();
}

void ExecutionImpl::run() {
  const Stoppable stoppable(*this);
  active_ ? active_->run() : execute(nullptr, nullptr);
}

void ExecutionImpl::run_step(SegmentState& state, size_t at, void* stream) {
  const plan::Step& step = state.segment.steps[at];
  const StepArguments& arguments = state.arguments[at];
  static const std::string unnamed = "copy";
  const device::cuda::NamedRange range(step.node ? step.node->name : unnamed);
  name_copies(step.on_host ? std::string_view(step.node->name) : "");  // without a name: a step's own, on the device
  try {
    switch (step.kind) {
      case plan::StepKind::kernel: step.kernel->run({arguments.inputs, arguments.outputs, arguments.workspace, stream}); break;
      case plan::StepKind::concat: run_concat(*step.concat, arguments, stream); break;
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

void ExecutionImpl::run_concat(const plan::ConcatCopy& concat, const StepArguments& arguments, void* stream) {
  char* to = static_cast<char*>(arguments.outputs[0]);
  for (const plan::ConcatCopy::Part& part : concat.parts)
    backend_.copy_rows(to + part.offset, concat.row, arguments.inputs[part.input], part.chunk, part.chunk, concat.outer, stream);
}

Tensor ExecutionImpl::on_host(const Tensor& t) {
  if (!t.valid() || t.type() == DType::string || in_host_memory(t)) return t;
  Tensor copy = Tensor::empty(t.type(), t.shape());
  backend_.copy(copy.raw(), t.raw(), t.nbytes(), stream_.get());
  backend_.wait(stream_.get());
  return copy;
}

ExecutionImpl& ExecutionImpl::body(const Graph& g) {
  auto& execution = bodies_[&g];
  if (!execution) execution = std::make_unique<ExecutionImpl>(plan_->body(g));
  return *execution;
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
  ExecutionImpl& execution = body(*branch.body);
  bool bound = execution.bound_by_ == &branch;
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
    execution.bound_by_ = nullptr;
    execution.bind(branch.inputs, branch.outputs);
    execution.bound_by_ = &branch;
  }
  const InnerTimes::Inside inside(step.node->name, taken ? "then_branch" : "else_branch");
  execution.run();
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
    ExecutionImpl& execution = body(g);
    execution.bound_by_ = nullptr;
    const InnerTimes::Inside inside(step.node->name, name_of_body(*step.node, g));
    return execution.run_fresh(inputs);
  };
  const ops::GraphShapesScope shapes(plan::body_outputs);
  std::vector<Tensor> out = ops::run_reference(*step.node, in, run_graph);
  for (size_t i = 0; i < out.size(); ++i) {
    if (step.node->outputs[i] == ValueId::none) continue;
    // An If may hand on a value of this segment as it is; the arena's bytes do not last.
    const bool lent =
        std::ranges::any_of(in, [&](const Tensor& t) { return t.valid() && out[i].nbytes() > 0 && overlaps(t, out[i]); });
    value(step.node->outputs[i]) = lent ? out[i].clone() : std::move(out[i]);
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

void ExecutionImpl::run_inner_step(SegmentState& state, size_t at, InnerTimes& inner) {
  const auto begin = std::chrono::steady_clock::now();
  run_step(state, at, nullptr);
  const auto ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  const plan::Step& step = state.segment.steps[at];
  const std::string name = step.node && !step.node->name.empty() ? step.node->name : fmt::format("step {}", at);
  inner.add(name, ns, [&] { return plan::describe_steps(plan_->graph(), state.segment)[at]; });
}

void ExecutionImpl::run_segment(SegmentState& state, const SegmentRecording* recording, void* stream, Timestamps* timestamps) {
  if (timestamps) timestamps->record(stream);
  for (size_t i = 0; i < state.ranges.size(); ++i) {
    if (recording && recording->ranges[i]) {
      recording->ranges[i]->launch(stream);
      continue;
    }
    for (size_t step = state.ranges[i].begin; step < state.ranges[i].end; ++step) {
      check_stop();
      InnerTimes* const inner = backend_.is_host() ? InnerTimes::current() : nullptr;
      inner && inner->is_inside() ? run_inner_step(state, step, *inner) : run_step(state, step, stream);
      if (timestamps) timestamps->record(stream);
    }
  }
  read_counts(state, stream);
}

void ExecutionImpl::wait_for_last_stream(void* stream) {
  if (last_stream_ && *last_stream_ != stream) last_event_->wait(stream);
}

void ExecutionImpl::launch(Timestamps* timestamps, Trace* trace) {
  backend_.refuse_if_lost();
  const ForNow<Trace*> naming(trace_, trace);
  wait_for_last_stream(stream_.get());
  last_stream_.reset();  // the caller of this waits
  if (timestamps) timestamps->record(stream_.get());
  for (StagedInput& b : staged_) {
    name_copies(plan_->inputs()[b.input].name);
    backend_.copy(b.to.raw(), b.from.raw(), b.from.nbytes(), stream_.get());
  }
  if (!is_static()) {
    resolve(*first_);  // a later segment of the last run may have made the arena larger
    recording_ = backend_.is_host() ? nullptr : recording_of(*first_);
  }
  for (SegmentState* state = first_;;) {
    // Segments after the first have their sizes, and their memory, from this very run: what would be recorded would not be met
    // again. What is timed step by step is not launched as one.
    run_segment(*state, state == first_ && !timestamps ? recording_ : nullptr, stream_.get(), timestamps);
    if (!state->after) break;
    if (state == first_) segments_.resize(1);
    state = &following(*state);
    segments_.push_back(state);
    resolve(*state);
  }
  if (!is_static()) {
    described_ = false;
    collect_outputs();
  }
  copy_to_caller(stream_.get());
}

void ExecutionImpl::execute(std::vector<StepTime>* times, std::vector<CopyTime>* copies) {
  if (!first_) fail_usage("run was called before bind");
  plan_->check_weights();
  const ops::Threads threads(plan_->context().team);
  const std::unique_ptr<Timestamps> timestamps = times ? backend_.timestamps() : nullptr;
  const std::unique_ptr<Trace> trace = copies ? backend_.trace() : nullptr;
  const auto begin = std::chrono::steady_clock::now();
  launch(timestamps.get(), trace.get());
  backend_.wait(stream_.get());
  // The first run brings memory and code into place: the second one tells.
  if (first_->planned_s > 0 && std::exchange(first_->has_run, true))
    plan_->note_cost(std::exchange(first_->planned_s, 0),
                     std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  if (trace) *copies = beside_steps(trace->stop().copies);
  if (!times) return;
  times->clear();
  const std::vector<int64_t> at = timestamps->times();
  size_t next = 1;  // behind that of the run's beginning
  for (const SegmentState* state : segments_) {
    for (size_t i = 0; i < state->segment.steps.size(); ++i) times->push_back({at[next + i], at[next + i + 1]});
    next += state->segment.steps.size() + 1;
  }
}

double ExecutionImpl::run_timed(int times) {
  const Stoppable stoppable(*this);
  if (active_) return active_->run_timed(times);
  if (!first_) fail_usage("run_timed was called before bind");
  const ops::Threads threads(plan_->context().team);
  const std::unique_ptr<Timestamps> timestamps = backend_.timestamps();
  timestamps->record(stream_.get());
  for (int i = 0; i < times; ++i) launch(nullptr);
  timestamps->record(stream_.get());
  return static_cast<double>(timestamps->times()[1]) * 1e-3 / times;
}

bool ExecutionImpl::run_traced(std::vector<StepTime>& times, std::vector<CopyTime>* copies) {
  if (backend_.is_host() || !is_static() || std::ranges::any_of(first_->ranges, &StepRange::on_host)) return false;
  const std::unique_ptr<Trace> trace = recording_ ? backend_.trace() : nullptr;
  if (!trace) return false;
  const std::vector<size_t> pieces = first_->recorded_work;
  launch(nullptr, trace.get());
  backend_.wait(stream_.get());
  Trace::Result traced = trace->stop();
  if (copies) *copies = beside_steps(std::move(traced.copies));
  const std::vector<Trace::Work>& work = traced.work;
  const size_t expected = std::accumulate(pieces.begin(), pieces.end(), size_t{0});
  if (work.size() != expected) fail("{} pieces of work were recorded, {} were seen on the GPU", expected, work.size());
  times.clear();
  int64_t end = work.empty() ? 0 : work.front().begin_ns;  // copies may come before
  size_t next = 0;
  for (size_t count : pieces) {
    // Work that began while the step before still ran counts from that step's end.
    const int64_t begin = count > 0 ? std::max(end, work[next].begin_ns) : end;
    for (; count > 0; --count) end = std::max(end, work[next++].end_ns);
    times.push_back({std::min(begin, end), end});
  }
  return true;
}

void ExecutionImpl::run_profiled(std::vector<StepTime>& times, std::vector<CopyTime>* copies) {
  const Stoppable stoppable(*this);
  if (active_) return active_->run_profiled(times, copies);
  if (!first_) fail_usage("run_profiled was called before bind");
  if (copies) copies->clear();
  if (!run_traced(times, copies)) execute(&times, copies);
}

std::string ExecutionImpl::has_to_wait() const {
  const std::string& name = plan_->graph().name;
  if (!is_static()) return fmt::format("sizes in '{}' depend on data, so that a run has to wait", name);
  if (std::ranges::any_of(first_->ranges, &StepRange::on_host))
    return fmt::format("some steps of '{}' run on the processor, so that a run has to wait", name);
  return "";
}

void ExecutionImpl::enqueue(void* stream) {
  if (active_) return active_->enqueue(stream);
  backend_.refuse_if_lost();
  if (!first_) fail_usage("enqueue was called before bind");
  if (backend_.is_host()) fail_usage("enqueue: the plan is the processor's, which has no streams; call run");
  if (const std::string why = has_to_wait(); !why.empty()) fail_usage("enqueue: {}; call run", why);
  for (const StagedInput& b : staged_)
    if (in_host_memory(b.from)) fail_usage("enqueue: an input lies in the host's memory; copy it to the GPU, or call run");
  for (const Tensor& t : outputs_)
    if (t.nbytes() > 0 && in_host_memory(t))
      fail_usage("enqueue: an output lies in the host's memory; give memory on the GPU, or call run");
  // What is captured runs when the caller says, in an order that only the caller knows.
  const bool captured = backend_.is_capturing(stream);
  if (!captured) wait_for_last_stream(stream);
  for (StagedInput& b : staged_) backend_.copy(b.to.raw(), b.from.raw(), b.from.nbytes(), stream);
  enqueued_ = true;
  run_segment(*first_, recording_, stream, nullptr);
  copy_to_caller(stream);
  if (captured) return;
  last_event_->record(stream);
  last_stream_ = stream;
}

std::vector<Tensor> ExecutionImpl::enqueue_fresh(std::span<const Tensor> inputs, void* stream, std::span<const Cache> caches) {
  if (backend_.is_host()) fail_usage("enqueue: the plan is the processor's, which has no streams; call run");
  const MemoryScope memory(plan_->context().memory);
  backend_.refuse_if_lost();
  if (backend_.is_capturing(stream))
    fail_usage("enqueue: outputs cannot be allocated while the stream is being captured; bind an Execution to them before");
  auto bound = bind_caches(*plan_, caches);
  std::vector<Tensor> placed = with_pasts(inputs, bound);
  if (ExecutionImpl* decided = activate(placed)) return decided->enqueue_fresh(placed, stream, caches);
  check_apart(*plan_, bound, placed, {});
  for (Tensor& t : placed) {
    if (t.nbytes() == 0 || t.type() == DType::string) continue;
    if (in_host_memory(t)) {
      const Tensor from = t;
      t = backend_.allocate_on(from.type(), from.shape(), "an input", stream);
      backend_.copy(t.raw(), from.raw(), from.nbytes(), stream);
    } else {
      backend_.share(stream, t.raw());
    }
  }
  for (const BoundCache& c : bound) backend_.share(stream, c.memory.raw());
  bind_inputs(placed, std::move(bound));
  outputs_on_device_ = true;
  if (!has_to_wait().empty()) {
    backend_.wait(stream);
    return run_fresh(placed, caches);
  }
  const std::vector<Tensor> fresh = fresh_outputs(stream);
  bind_outputs(fresh);
  make_recordings(placed, fresh);
  enqueue(stream);
  release_bound();
  return fresh;
}

void ExecutionImpl::copy_to_caller(void* stream) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Tensor& to = outputs_[i];
    const Tensor& v = output_value(i);
    if (!to.valid() || v.raw() == to.raw()) continue;
    if (v.shape() != to.shape()) {
      fail_usage("memory for output '{}' has shape {}, the output {}", plan_->outputs()[i].name, to_string(to.shape()),
                 to_string(v.shape()));
    }
    name_copies(plan_->outputs()[i].name);
    if (v.type() == DType::string)
      to.strings() = v.strings();
    else if (backend_.is_host())
      std::memmove(to.raw(), v.raw(), static_cast<size_t>(v.nbytes()));  // they may overlap
    else
      backend_.copy(to.raw(), v.raw(), v.nbytes(), stream);
  }
}

Tensor ExecutionImpl::fresh_memory(ValueId v, DType type, const Shape& shape, std::optional<void*> stream) {
  if (stream) return backend_.allocate_on(type, shape, "an output", *stream);
  return outputs_on_device_ || backend_.is_host() ? memory_of(v, type, shape) : Tensor::empty(type, shape);
}

std::vector<Tensor> ExecutionImpl::fresh_outputs(std::optional<void*> stream) {
  std::vector<Tensor> fresh(given_.size());
  if (!is_static()) return fresh;
  const auto& outputs = plan_->graph().outputs();
  std::unordered_map<int32_t, plan::TensorIndex> made;
  for (const plan::Port& p : first_->segment.results) made.emplace(index(p.value), p.tensor);
  for (size_t i = 0; i < fresh.size(); ++i) {
    if (const auto c = std::ranges::find(caches_, i, &BoundCache::output); c != caches_.end()) {
      fresh[i] = c->memory;
      continue;
    }
    if (const auto at = made.find(index(outputs[i])); at != made.end()) {
      const plan::BoundValue& t = first_->segment.tensor(at->second);
      fresh[i] = fresh_memory(outputs[i], t.type, t.shape, stream);
    } else if (const Tensor& v = output_value(i); v.valid() && v.type() != DType::string) {
      fresh[i] = fresh_memory(outputs[i], v.type(), v.shape(), stream);
    }
  }
  return fresh;
}

void ExecutionImpl::release_bound() {
  const Graph& g = plan_->graph();
  for (const auto* values : {&g.inputs(), &g.outputs()})
    for (ValueId v : *values) value(v) = g.value(v).constant;
  staged_.clear();
  caches_.clear();
  given_.assign(given_.size(), Tensor());
  outputs_.assign(outputs_.size(), Tensor());
  first_ = nullptr;
  recording_ = nullptr;
}

std::vector<Tensor> ExecutionImpl::run_fresh(std::span<const Tensor> inputs, std::span<const Cache> caches) {
  const Stoppable stoppable(*this);
  auto bound = bind_caches(*plan_, caches);
  const std::vector<Tensor> pasts_added = bound.empty() ? std::vector<Tensor>() : with_pasts(inputs, bound);
  const std::span<const Tensor> all = bound.empty() ? inputs : pasts_added;
  if (ExecutionImpl* decided = activate(all)) return decided->run_fresh(all, caches);
  check_apart(*plan_, bound, all, {});
  bind_inputs(all, std::move(bound));
  std::vector<Tensor> fresh = fresh_outputs(std::nullopt);
  bind_outputs(fresh);
  make_recordings(all, fresh);
  run();
  for (size_t i = 0; i < fresh.size(); ++i) {
    if (fresh[i].valid()) continue;
    const Tensor& made = outputs_[i];
    if (in_host_memory(made)) {
      fresh[i] = made.clone();
    } else {
      fresh[i] = fresh_memory(plan_->graph().outputs()[i], made.type(), made.shape(), std::nullopt);
      backend_.copy(fresh[i].raw(), made.raw(), made.nbytes(), stream_.get());
      backend_.wait(stream_.get());
    }
  }
  release_bound();
  return fresh;
}

}  // namespace smelt::run
