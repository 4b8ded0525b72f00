// An Execution's runs: the segments' steps one by one, or as they were recorded, on its own stream or a caller's.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/booleans.h"
#include "base/error.h"
#include "run/copy.h"
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
  if (active_) return active_->run();
  InnerTimes* const inner = backend_.is_host() ? nullptr : InnerTimes::current();
  inner && inner->is_inside() ? run_noted(*inner) : execute(nullptr, nullptr);
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

void ExecutionImpl::copy_staged(StagedInput& b, void* stream) {
  backend_.copy(b.to.raw(), b.from.raw(), b.from.nbytes(), stream);
  if (b.from.type() == DType::boolean && !in_host_memory(b.from))
    backend_.make_booleans_0_or_1(b.to.raw(), b.from.nbytes(), stream);
}

const void* ExecutionImpl::ready_to_copy(StagedInput& b) {
  const int64_t bytes = b.from.nbytes();
  const threads::Scope scope(plan_->context().team);
  const int threads = pinning_threads(bytes, threads::team_threads());
  if (threads == 0 || b.through_own == false) return b.from.raw();
  Tensor& own = pinned_inputs_[b.input];
  if (!b.through_own) {
    b.through_own = backend_.copies_are_slow_from(b.from.raw());
    try {
      if (*b.through_own && own.nbytes() < bytes) own = backend_.allocate_host(DType::u8, {bytes});
    } catch (const Error&) {  // a system that pins no more memory
      b.through_own = false;
    }
    if (!*b.through_own) return b.from.raw();
  }
  // The run before has waited for its copies; of runs that nobody waits for (run_timed) each brings the same bytes.
  copy_bytes(own.raw(), b.from.raw(), bytes, threads);
  return own.raw();
}

void ExecutionImpl::launch(Timestamps* timestamps, Trace* trace) {
  backend_.refuse_if_lost();
  const ForNow<Trace*> naming(trace_, trace);
  wait_for_last_stream(stream_.get());
  last_stream_.reset();  // the caller of this waits
  if (timestamps) timestamps->record(stream_.get());
  for (StagedInput& b : staged_) {
    name_copies(plan_->inputs()[b.input].name);
    if (in_host_memory(b.from) && has_odd_booleans(b.from)) {
      b.as_booleans = b.from.clone();
      make_booleans_0_or_1(b.as_booleans);
      backend_.copy(b.to.raw(), b.as_booleans.raw(), b.from.nbytes(), stream_.get());
    } else if (in_host_memory(b.from) && !backend_.is_host()) {
      backend_.copy(b.to.raw(), ready_to_copy(b), b.from.nbytes(), stream_.get());
    } else {
      copy_staged(b, stream_.get());
    }
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
  for (StagedInput& b : staged_) copy_staged(b, stream);
  enqueued_ = true;
  run_segment(*first_, recording_, stream, nullptr);
  copy_to_caller(stream);
  if (captured) return;
  last_event_->record(stream);
  last_stream_ = stream;
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

}  // namespace smelt::run
