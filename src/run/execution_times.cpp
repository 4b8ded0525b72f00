// An Execution's runs to their end, and the times of their steps and copies.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "ops/cpu/parallel.h"
#include "run/execution.h"

namespace smelt::run {
namespace {

/// Without the copies on the device that are steps, or parts of them.
std::vector<CopyTime> beside_steps(std::vector<CopyTime> copies) {
  std::erase_if(copies, [](const CopyTime& c) { return c.way == CopyTime::Way::on_device && c.name.empty(); });
  return copies;
}

}  // namespace

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

std::string ExecutionImpl::no_single_steps() const {
  if (active_) return active_->no_single_steps();
  if (backend_.is_host()) return "the plan is the processor's";
  if (!first_) return "nothing is bound";
  return has_to_wait();
}

std::vector<size_t> ExecutionImpl::recorded_work() const {
  if (active_) return active_->recorded_work();
  return recording_ && no_single_steps().empty() ? first_->recorded_work : std::vector<size_t>();
}

void ExecutionImpl::run_steps(std::span<const size_t> steps) {
  const Stoppable stoppable(*this);
  if (active_) return active_->run_steps(steps);
  if (const std::string why = no_single_steps(); !why.empty()) fail_usage("run_steps: {}", why);
  for (const size_t step : steps) run_step(*first_, step, stream_.get());
  backend_.wait(stream_.get());
}

void ExecutionImpl::run_profiled(std::vector<StepTime>& times, std::vector<CopyTime>* copies) {
  const Stoppable stoppable(*this);
  if (active_) return active_->run_profiled(times, copies);
  if (!first_) fail_usage("run_profiled was called before bind");
  if (copies) copies->clear();
  if (!run_traced(times, copies)) execute(&times, copies);
}

}  // namespace smelt::run
