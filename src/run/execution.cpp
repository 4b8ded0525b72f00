#include "run/execution.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/booleans.h"
#include "base/error.h"
#include "base/log.h"
#include "base/threads.h"
#include "base/value_of.h"
#include "ops/cuda/gpu.h"
#include "plan/buffers.h"
#include "plan/step_info.h"
#include "run/feeds.h"

namespace smelt::run {
ExecutionImpl::ExecutionImpl(std::shared_ptr<const PlanImpl> plan)
    : plan_(std::move(plan)), backend_(plan_->backend()), stream_(backend_.stream()), last_event_(backend_.event()) {
  values_.resize(plan_->graph().value_count());
  for (size_t i = 0; i < values_.size(); ++i) values_[i] = plan_->graph().value(ValueId{static_cast<int32_t>(i)}).constant;
  given_.resize(plan_->outputs().size());
  outputs_.resize(given_.size());
  own_inputs_.resize(plan_->inputs().size());
  for (PlanImpl::Prepared& p : plan_->take_prepared())
    bound_.emplace_back(Binding{std::move(p.shapes), {}}, std::make_unique<SegmentState>(std::move(*p.segment)));
}

ExecutionImpl::~ExecutionImpl() {
  try {
    wait_for_enqueued();
  } catch (const Error& e) {
    warn("{}", e.what());
  }
}

SegmentState& ExecutionImpl::first_segment(std::span<const Tensor> inputs, std::span<const BoundCache> caches) {
  // What is bound again and again is found, and was checked, before.
  if (!bound_.empty() && caches.empty()) {
    const auto& [last, state] = bound_.front();
    if (last.caches.empty() && std::ranges::equal(last.shapes, inputs, {}, {}, &Tensor::shape) &&
        std::ranges::equal(plan_->inputs(), inputs, {}, &TensorInfo::type, &Tensor::type))
      return *state;
  }
  check_inputs(plan_->inputs(), inputs);
  Binding binding{{}, forms(caches)};
  for (const Tensor& t : inputs) binding.shapes.push_back(t.shape());
  for (auto i = bound_.begin(); i != bound_.end(); ++i) {
    if (i->first != binding) continue;
    bound_.splice(bound_.begin(), bound_, i);
    return *bound_.front().second;
  }
  const plan::Segment* before = bound_.empty() ? nullptr : &bound_.front().second->segment;
  const auto begin = std::chrono::steady_clock::now();
  auto state = std::make_unique<SegmentState>(
      plan_->planner().first(binding.shapes, plan_->measures_new_shapes(), binding.caches, before));
  state->planned_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  bound_.emplace_front(std::move(binding), std::move(state));
  keep_bounds();
  return *bound_.front().second;
}

void ExecutionImpl::keep_bounds() {
  const auto most = static_cast<size_t>(std::max(plan_->options().kept_shapes, 1));
  const int64_t most_bytes = plan_->options().kept_bytes;
  int64_t held = 0;
  size_t count = 0;
  auto at = bound_.begin();
  for (; at != bound_.end(); ++at, ++count) {
    held += at->second->held_bytes();
    if (count > 0 && (count >= most || (most_bytes > 0 && held > most_bytes))) break;
  }
  if (at == bound_.end()) return;
  wait_for_enqueued();
  bound_.erase(at, bound_.end());
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
  if (t.type() != DType::boolean || !in_host_memory(t)) return false;
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
    const bool odd =
        v.type() == DType::boolean && !(is_last && first.takes_any_boolean(plan_->graph().inputs()[i])) && has_odd_booleans(v);
    if (v.type() == DType::string || (usable(v) && !first.own_memory_only && !odd)) continue;
    Tensor& own = own_inputs_[i];
    if (own.type() != v.type() || own.shape() != v.shape()) {
      wait_for_enqueued();
      own = backend_.allocate(v.type(), v.shape(), fmt::format("input '{}'", plan_->inputs()[i].name));
    }
    v = own;
    staged_.push_back({i, inputs[i], v, {}});
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

Tensor ExecutionImpl::memory_of(ValueId v, DType type, const Shape& shape) {
  const Graph& g = plan_->graph();
  const NodeId maker = g.value(v).producer;
  return backend_.allocate(
      type, shape, maker == NodeId::none ? g.value(v).name : fmt::format("{}, '{}'", describe(g, maker), g.value(v).name));
}

void ExecutionImpl::upload_externals(SegmentState& state) {
  if (backend_.is_host()) return;
  const plan::Segment& s = state.segment;
  for (size_t i = 0; i < s.externals.size(); ++i) {
    Tensor& v = value(s.externals[i].value);
    if (!v.valid() || v.type() == DType::string || v.nbytes() == 0 || backend_.reaches(v.raw())) continue;
    Tensor& copy = state.device_copies[i];
    if (copy.type() != v.type() || copy.shape() != v.shape()) copy = memory_of(s.externals[i].value, v.type(), v.shape());
    name_copies(plan_->graph().value(s.externals[i].value).name);
    backend_.copy(copy.raw(), v.raw(), v.nbytes(), stream_.get());
    v = copy;
  }
}

namespace {

bool reads(const plan::Step& step, size_t input) {
  return step.inputs[input] != plan::absent && (!step.kernel || step.kernel->reads(input));
}

}  // namespace

void ExecutionImpl::upload_constants(SegmentState& state) {
  if (backend_.is_host() || state.has_constants) return;
  plan::StageClock clock(*plan_->context().stages);
  const plan::Segment& s = state.segment;
  std::vector<Tensor> constants;
  for (const plan::Step& step : s.steps)
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (!reads(step, i)) continue;
      const plan::Buffer& b = s.buffers[static_cast<size_t>(s.tensor(step.inputs[i]).buffer)];
      if (b.kind == plan::BufferKind::arena) continue;
      if (const Tensor& constant = s.tensor(b.owner).constant; constant.valid()) constants.push_back(constant);
    }
  backend_.upload(constants, plan_->context().tuner.machine().threads);
  state.has_constants = true;
  clock.end("constants");
}

void ExecutionImpl::resolve(SegmentState& state) {
  const plan::Segment& s = state.segment;
  if (!arena_.valid() || arena_.nbytes() < s.arena) {
    wait_for_enqueued();
    arena_ = Tensor();  // its memory may serve the larger one
    try {
      arena_ = backend_.allocate(DType::u8, {std::max<int64_t>(s.arena, 64)}, "the arena");
    } catch (const Error& e) {
      throw e.at(plan::arena_text(s));
    }
  }
  upload_constants(state);
  upload_externals(state);
  const auto& outputs = plan_->graph().outputs();
  for (size_t i = 0; i < s.results.size(); ++i) {
    const plan::Port& port = s.results[i];
    const plan::BoundValue& t = s.tensor(port.tensor);
    const size_t at = static_cast<size_t>(std::ranges::find(outputs, port.value) - outputs.begin());
    Tensor& v = value(port.value);
    if (at < outputs.size() && given_[at].valid() && !t.at_most) {
      const Tensor& given = given_[at];
      if (const auto c = std::ranges::find(caches_, at, &BoundCache::output); c != caches_.end()) {
        check_room(*plan_, *c, t.shape);
        v = given;
        continue;
      }
      if (given.shape() != t.shape) {
        fail_usage("memory for output '{}' has shape {}, the output {}", plan_->outputs()[at].name, to_string(given.shape()),
                   to_string(t.shape));
      }
      // Memory that overlaps an input's could be written before the input is read.
      const bool apart = std::ranges::none_of(plan_->graph().inputs(), [&](ValueId in) { return overlaps(value(in), given); });
      if (usable(given) && apart && !state.own_memory_only) {
        v = given;
        continue;
      }
    }
    if (!state.own_results[i].valid()) state.own_results[i] = memory_of(port.value, t.type, t.shape);
    v = state.own_results[i];
  }
  if (backend_.is_host() && state.resolved_for == arena_.raw()) {
    for (const MovingArgument& m : state.moving) {
      std::byte* memory = static_cast<std::byte*>(value(m.value).raw()) + m.offset;
      StepArguments& arguments = state.arguments[m.step];
      if (m.is_output)
        arguments.outputs[m.slot] = memory;
      else
        arguments.inputs[m.slot] = memory;
    }
    return;
  }
  resolve_all(state);
}

void ExecutionImpl::resolve_all(SegmentState& state) {
  const plan::Segment& s = state.segment;
  const auto counting = std::ranges::count_if(s.steps, [](const plan::Step& step) { return !step.at_most.empty(); });
  if (counting > 0 && !state.counts.valid()) {
    state.counts = backend_.allocate(DType::i64, {counting}, "counts of results");
    state.host_counts = backend_.allocate_host(DType::i64, {counting});
  }
  int64_t counted = 0;
  state.moving.clear();
  for (size_t at = 0; at < s.steps.size(); ++at) {
    const plan::Step& step = s.steps[at];
    StepArguments& arguments = state.arguments[at];
    arguments.inputs.clear();
    arguments.outputs.clear();
    const auto note = [&](plan::TensorIndex index, size_t slot, bool is_output) {
      const plan::BoundValue& t = s.tensor(index);
      const plan::Buffer& b = s.buffers[static_cast<size_t>(t.buffer)];
      if (b.kind == plan::BufferKind::arena || s.tensor(b.owner).constant.valid()) return;
      state.moving.push_back({at, slot, is_output, s.tensor(b.owner).value, t.offset});
    };
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const bool read = reads(step, i);
      if (read) note(step.inputs[i], i, false);
      arguments.inputs.push_back(read ? address(state, step.inputs[i]) : nullptr);
    }
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const plan::TensorIndex t = step.outputs[i];
      if (t != plan::absent) note(t, i, true);
      arguments.outputs.push_back(t == plan::absent ? nullptr : address(state, t));
    }
    if (!step.at_most.empty()) arguments.outputs.push_back(state.counts.data<int64_t>() + counted++);
    arguments.workspace = step.workspace < 0
                              ? nullptr
                              : static_cast<std::byte*>(arena_.raw()) + s.buffers[static_cast<size_t>(step.workspace)].offset;
  }
  state.resolved_for = arena_.raw();
}

std::byte* ExecutionImpl::address(const SegmentState& state, plan::TensorIndex index) {
  const plan::Segment& s = state.segment;
  const plan::BoundValue& t = s.tensor(index);
  const plan::Buffer& b = s.buffers[static_cast<size_t>(t.buffer)];
  std::byte* base = nullptr;
  if (b.kind == plan::BufferKind::arena) {
    base = static_cast<std::byte*>(arena_.raw()) + b.offset;
  } else {
    // The tensor that the buffer was made for: a constant, an external or a result.
    const plan::BoundValue& owner = s.tensor(b.owner);
    const void* memory = owner.constant.valid() ? backend_.constant(owner.constant) : value(owner.value).raw();
    base = const_cast<std::byte*>(static_cast<const std::byte*>(memory));
  }
  return base + t.offset;
}

const SegmentRecording* ExecutionImpl::recording_of(SegmentState& state) {
  const plan::Segment& s = state.segment;
  std::vector<const void*> addresses{arena_.raw()};
  for (const plan::Port& port : s.externals) addresses.push_back(value(port.value).raw());
  for (const plan::Port& port : s.results) addresses.push_back(value(port.value).raw());
  for (auto i = state.recordings.begin(); i != state.recordings.end(); ++i) {
    if (i->addresses != addresses) continue;
    state.recordings.splice(state.recordings.begin(), state.recordings, i);
    return &state.recordings.front();
  }
  if (state.recordings.size() >= max_recordings && !state.own_memory_only) {
    info(
        "{}: {} sets of addresses were bound; from now on inputs and outputs are copied to and from memory of the Execution's "
        "own",
        plan_->graph().name, max_recordings + 1);
    state.own_memory_only = true;
    state.recordings.clear();
    return nullptr;
  }
  if (state.recordings.size() >= max_recordings) {  // caches are used where they lie
    wait_for_enqueued();
    state.recordings.pop_back();
  }
  plan::StageClock clock(*plan_->context().stages);
  SegmentRecording made{std::move(addresses), {}};
  state.recorded_work.assign(s.steps.size(), 0);
  for (const StepRange& range : state.ranges)
    made.ranges.push_back(range.on_host ? nullptr : record_range(state, range, plan_->early_launch().on));
  state.recordings.push_front(std::move(made));
  clock.end("recording");
  return &state.recordings.front();
}

std::unique_ptr<Recording> ExecutionImpl::record_range(SegmentState& state, const StepRange& range, bool early) {
  return backend_.record(
      [this, &state, &range](void* stream) {
        size_t before = 0;
        for (size_t i = range.begin; i < range.end; ++i) {
          run_step(state, i, stream);
          const size_t now = backend_.recorded_so_far(stream);
          state.recorded_work[i] = now - std::exchange(before, now);
        }
      },
      early);
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
  const int64_t weights = backend_.is_host() ? plan_->constant_bytes() : backend_.constant_bytes();
  return {arena_.nbytes(), weights + (gpu ? gpu->weights->bytes() : plan_->context().weights.bytes())};
}

}  // namespace smelt::run
