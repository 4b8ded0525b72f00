// Where the values of an Execution lie: addresses for its steps' arguments, copies where kernels reach them, recordings for them.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "plan/buffers.h"
#include "run/execution.h"

namespace smelt::run {

Tensor ExecutionImpl::memory_of(ValueId v, DType type, const Shape& shape) {
  const auto what = [&] {
    const Graph& g = plan_->graph();
    const NodeId maker = g.value(v).producer;
    return maker == NodeId::none ? g.value(v).name : fmt::format("{}, '{}'", describe(g, maker), g.value(v).name);
  };
  if (!backend_.is_host()) return backend_.allocate(type, shape, what());
  try {  // said only where it is asked for: a Loop's iteration takes memory for each of its results
    return Tensor::empty(type, shape);
  } catch (const Error& e) {
    throw e.at(what());
  }
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
  return step.inputs[input] != plan::absent &&
         (!step.kernel || step.kernel->reads(input) ||
          std::ranges::any_of(step.finalists, [&](const plan::Finalist& f) { return f.kernel->reads(input); }));
}

}  // namespace

std::vector<Tensor> constants_read(const plan::Segment& s) {
  std::vector<Tensor> constants;
  for (const plan::Step& step : s.steps)
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (!reads(step, i)) continue;
      const plan::Buffer& b = s.buffers[static_cast<size_t>(s.tensor(step.inputs[i]).buffer)];
      if (b.kind == plan::BufferKind::arena) continue;
      if (const Tensor& constant = s.tensor(b.owner).constant; constant.valid()) constants.push_back(constant);
    }
  return constants;
}

void ExecutionImpl::upload_constants(SegmentState& state) {
  if (backend_.is_host() || state.has_constants) return;
  plan::StageClock clock(*plan_->context().stages);
  backend_.upload(constants_read(state.segment), plan_->context().tuner.machine().threads);
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
    if (!backend_.is_host() && elements(owner.shape) == 0 && !backend_.reaches(memory)) return nullptr;  // nothing was uploaded
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

}  // namespace smelt::run
