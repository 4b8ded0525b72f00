#include "run/execution.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <new>
#include <utility>

#include "base/booleans.h"
#include "base/error.h"
#include "base/log.h"
#include "base/threads.h"
#include "ops/cuda/gpu.h"
#include "plan/likely_shapes.h"
#include "plan/step_info.h"
#include "run/feeds.h"

namespace smelt::run {
ExecutionImpl::ExecutionImpl(std::shared_ptr<const PlanImpl> plan, size_t shapes)
    : plan_(std::move(plan)),
      backend_(plan_->backend()),
      stream_(backend_.stream()),
      most_shapes_(shapes * static_cast<size_t>(std::max(plan_->options().kept_shapes, 1))),
      last_event_(backend_.event()) {
  values_.resize(plan_->graph().value_count());
  for (size_t i = 0; i < values_.size(); ++i) values_[i] = plan_->graph().value(ValueId{static_cast<int32_t>(i)}).constant;
  given_.resize(plan_->outputs().size());
  outputs_.resize(given_.size());
  own_inputs_.resize(plan_->inputs().size());
  pinned_inputs_.resize(plan_->inputs().size());
  std::vector<PlanImpl::Prepared> prepared = plan_->take_prepared();
  for (auto p = prepared.rbegin(); p != prepared.rend(); ++p)
    bound_.add({std::move(p->shapes), {}}, std::make_unique<SegmentState>(std::move(*p->segment)));
}

ExecutionImpl::~ExecutionImpl() {
  try {
    wait_for_enqueued();
  } catch (const Error& e) {
    warn("{}", e.what());
  }
}

bool ExecutionImpl::were_bound_last(std::span<const Tensor> inputs) const {
  if (bound_.empty()) return false;
  const Binding& last = bound_.last();
  return last.caches.empty() && std::ranges::equal(last.shapes, inputs, {}, {}, &Tensor::shape) &&
         std::ranges::equal(plan_->inputs(), inputs, {}, &TensorInfo::type, &Tensor::type);
}

SegmentState& ExecutionImpl::first_segment(std::span<const Tensor> inputs, std::span<const BoundCache> caches) {
  if (caches.empty() && were_bound_last(inputs)) return bound_.state();
  check_inputs(plan_->inputs(), inputs);
  Binding binding{{}, forms(caches)};
  for (const Tensor& t : inputs) binding.shapes.push_back(t.shape());
  if (bound_.find(binding)) return bound_.state();
  const plan::Segment* before = bound_.empty() ? nullptr : &bound_.state().segment;
  const auto begin = std::chrono::steady_clock::now();
  auto state = std::make_unique<SegmentState>(
      plan_->planner().first(binding.shapes, plan_->measures_new_shapes(), binding.caches, before, &grown_));
  state->planned_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  bound_.add(std::move(binding), std::move(state));
  keep_bounds();
  return bound_.state();
}

void ExecutionImpl::get_ready() {
  const Options& options = plan_->options();
  if (!bound_.empty() || !backend_.is_host() || plan_->has_if() || options.tune_new_shapes || options.memory_limit > 0) return;
  for (std::vector<Shape>& shapes : plan::likely_shapes(plan_->graph())) {
    try {
      auto state = std::make_unique<SegmentState>(plan_->planner().first(shapes, plan::Measure::no, {}, nullptr, &grown_));
      bound_.add({std::move(shapes), {}}, std::move(state));
      return;
    } catch (const Error& e) {
      if (e.code() == ExitCode::stopped) throw;
      info("{}: not planned for extents that were guessed: {}", plan_->graph().name, e.what());
    } catch (const std::bad_alloc&) {
      return;  // a run asks for memory again
    }
  }
}

void ExecutionImpl::keep_bounds() {
  const size_t beyond = bound_.beyond(most_shapes_, plan_->options().kept_bytes);
  if (beyond == 0) return;
  wait_for_enqueued();
  bound_.drop(beyond);
}

ExecutionImpl::DecidedFor ExecutionImpl::deciding(std::span<const Tensor> inputs, bool with_values) const {
  const plan::Deciding& by = plan_->deciding();
  DecidedFor found;
  if (by.shapes)
    for (const Tensor& t : inputs) found.shapes.push_back(t.shape());
  if (!with_values || !backend_.is_host() || inputs.size() != plan_->inputs().size()) return found;
  const auto is_known = [&](size_t i) { return inputs[i].type() == DType::boolean && inputs[i].size() == 1; };
  if (!std::ranges::all_of(by.inputs, is_known)) return found;
  for (size_t i : by.inputs) found.values.push_back(*static_cast<const uint8_t*>(inputs[i].raw()) != 0);
  return found;
}

ExecutionImpl* ExecutionImpl::activate(std::span<const Tensor> inputs, bool with_values) {
  DecidedFor by;
  if (plan_->has_if()) by = deciding(inputs, with_values);
  if (by.shapes.empty() && by.values.empty()) return active_ = nullptr;
  for (auto i = decided_for_.begin(); i != decided_for_.end(); ++i) {
    if (i->first != by) continue;
    decided_for_.splice(decided_for_.begin(), decided_for_, i);
    return active_ = decided_for_.front().second;
  }
  check_inputs(plan_->inputs(), inputs);
  std::vector<Shape> shapes;
  for (const Tensor& t : inputs) shapes.push_back(t.shape());
  std::vector<Tensor> values(by.values.empty() ? 0 : inputs.size());
  if (!values.empty())
    for (size_t i : plan_->deciding().inputs) values[i] = inputs[i];
  ExecutionImpl* decided = nullptr;
  if (const auto plan = plan_->decided(shapes, values)) {
    auto& execution = decided_[plan.get()];
    if (!execution) execution = std::make_unique<ExecutionImpl>(plan);
    decided = execution.get();
  }
  decided_for_.emplace_front(std::move(by), decided);
  if (decided_for_.size() > max_decided_shapes) decided_for_.pop_back();
  return active_ = decided;
}

void ExecutionImpl::wait_for_enqueued() {
  if (!enqueued_) return;
  backend_.wait_for_all();
  enqueued_ = false;
}

bool ExecutionImpl::has_odd_booleans(const Tensor& t) const {
  if (t.type() != DType::boolean) return false;
  if (!in_host_memory(t)) return true;
  const threads::Scope threads(plan_->context().team);  // they share the reading of many
  return has_other_booleans(t);
}

bool ExecutionImpl::usable(const Tensor& t) const {
  return is_aligned(t, backend_.caller_alignment()) && (t.nbytes() == 0 || backend_.reaches(t.raw()));
}

void ExecutionImpl::bind_inputs(std::span<const Tensor> inputs, std::vector<BoundCache> caches) {
  backend_.refuse_if_lost();
  SegmentState& first = first_segment(inputs, caches);  // throws before anything of the last binding is touched
  caches_ = std::move(caches);
  staged_.clear();
  outputs_on_device_ = std::ranges::any_of(inputs, [&](const Tensor& t) { return !in_host_memory(t); });
  const bool is_last = !first.after && first.data_dependent.empty();
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensor& v = value(plan_->graph().inputs()[i]);
    if (const auto c = std::ranges::find(caches_, i, &BoundCache::input); c != caches_.end()) {
      v = c->memory;
      continue;
    }
    v = inputs[i];
    const ValueId id = plan_->graph().inputs()[i];
    const bool is_output = std::ranges::find(plan_->graph().outputs(), id) != plan_->graph().outputs().end();
    const bool odd = v.type() == DType::boolean && !(is_last && !is_output && first.takes_any_boolean(id)) && has_odd_booleans(v);
    if (v.type() == DType::string || (usable(v) && !first.own_memory_only && !odd)) continue;
    Tensor& own = own_inputs_[i];
    if (own.type() != v.type() || own.shape() != v.shape()) {
      wait_for_enqueued();
      own = backend_.allocate(v.type(), v.shape(), fmt::format("input '{}'", plan_->inputs()[i].name));
    }
    v = own;
    staged_.push_back({.input = i, .from = inputs[i], .to = v, .as_booleans = {}});
    if (v.type() == DType::boolean && !in_host_memory(inputs[i])) backend_.load_booleans();
  }
  first_ = &first;
  recording_ = nullptr;
  segments_ = {first_};
  described_ = false;
}

const std::vector<StepInfo>& ExecutionImpl::steps() const {
  if (active_) return active_->steps();
  if (std::exchange(described_, true)) return infos_;
  infos_.clear();
  for (const SegmentState* state : segments_)
    std::ranges::move(plan::describe_steps(plan_->graph(), state->segment), std::back_inserter(infos_));
  return infos_;
}

void ExecutionImpl::bind(std::span<const Tensor> inputs, std::span<const Tensor> outputs, std::span<const Cache> caches) {
  if (!outputs.empty() && outputs.size() != given_.size()) {
    fail_usage("{} output tensors were given for {} outputs", outputs.size(), given_.size());
  }
  const MemoryScope memory(plan_->context().memory);
  auto bound = bind_caches(*plan_, caches);
  const std::vector<Tensor> pasts_added = bound.empty() ? std::vector<Tensor>() : with_pasts(inputs, bound);
  const std::span<const Tensor> all = bound.empty() ? inputs : pasts_added;
  if (ExecutionImpl* decided = activate(all, false)) return decided->bind(all, outputs, caches);
  check_apart(*plan_, bound, all, outputs);
  bind_inputs(all, std::move(bound));
  try {
    bind_outputs(outputs);
    make_recordings(all, outputs);
  } catch (...) {
    first_ = nullptr;  // pointers may be half set: the next run needs a bind
    throw;
  }
}

void ExecutionImpl::make_recordings(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  if (backend_.is_host()) return;
  recording_ = recording_of(*first_);
  if (recording_ || !first_->own_memory_only) return;
  bind_inputs(inputs, std::move(caches_));
  bind_outputs(outputs);
  recording_ = recording_of(*first_);
}

void ExecutionImpl::bind_outputs(std::span<const Tensor> outputs) {
  for (size_t i = 0; i < given_.size(); ++i) {
    const auto c = std::ranges::find(caches_, i, &BoundCache::output);
    given_[i] = c != caches_.end() ? c->memory : i < outputs.size() ? outputs[i] : Tensor();
    if (given_[i].valid() && given_[i].type() != plan_->outputs()[i].type) {
      fail_usage("memory for output '{}' has type {}, expected {}", plan_->outputs()[i].name, name(given_[i].type()),
                 name(plan_->outputs()[i].type));
    }
  }
  resolve(*first_);
  if (is_static()) collect_outputs();
}

SegmentState& ExecutionImpl::following(SegmentState& state) {
  const auto met = std::ranges::find_if(state.next, [&](const auto& outcome) {
    return std::ranges::equal(state.data_dependent, outcome.first, [&](ValueId v, const std::pair<DType, Shape>& found) {
      return value(v).type() == found.first && value(v).shape() == found.second;
    });
  });
  if (met != state.next.end()) return *met->second;
  if (state.next.size() >= max_outcomes) state.next.clear();
  std::vector<std::pair<DType, Shape>> key;
  plan::Environment env = *state.after;
  for (ValueId v : state.data_dependent) {
    key.emplace_back(value(v).type(), value(v).shape());
    env.set(v, value(v).type(), value(v).shape());
  }
  auto planned = std::make_unique<SegmentState>(plan_->planner().next(env, plan_->measures_new_shapes()));
  return *state.next.emplace(std::move(key), std::move(planned)).first->second;
}

void ExecutionImpl::collect_outputs() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Tensor& v = output_value(i);
    if (given_[i].valid()) {
      outputs_[i] = given_[i];
    } else if (!v.valid() || v.type() == DType::string || in_host_memory(v) != outputs_on_device_) {
      outputs_[i] = v;
    } else if (outputs_[i].type() != v.type() || outputs_[i].shape() != v.shape() ||
               in_host_memory(outputs_[i]) == outputs_on_device_) {
      wait_for_enqueued();
      outputs_[i] = outputs_on_device_ ? backend_.allocate(v.type(), v.shape(), plan_->outputs()[i].name)
                                       : backend_.allocate_host(v.type(), v.shape());
    }
  }
}

const Tensor& ExecutionImpl::output_value(size_t i) {
  const ValueId v = plan_->graph().outputs()[i];
  // Known before the run, by the last segment planned: shape arithmetic that is an output.
  for (const SegmentState* state : segments_) {
    const auto known = state->known_outputs.find(v);
    if (known != state->known_outputs.end()) return known->second;
  }
  return value(v);
}

MemoryInfo ExecutionImpl::memory() const {
  if (active_) return active_->memory();
  const auto& gpu = plan_->context().tuner.machine().gpu;
  const int64_t packed = plan_->context().weights.bytes();
  if (backend_.is_host()) return {.arena = arena_.nbytes(), .weights = plan_->constant_bytes() + packed};
  return {.arena = arena_.nbytes(),
          .weights = backend_.constant_bytes() + (gpu ? gpu->weights->bytes() : 0),
          .on_host = plan_->constant_bytes() + packed};
}

}  // namespace smelt::run
