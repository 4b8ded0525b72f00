// An Execution's runs whose outputs are new tensors: on its own stream and waited for, or on a caller's.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "run/execution.h"

namespace smelt::run {

Tensor ExecutionImpl::fresh_memory(ValueId v, DType type, const Shape& shape, std::optional<void*> stream) {
  if (stream) return backend_.allocate_on(type, shape, "an output", *stream);
  return outputs_on_device_ || backend_.is_host() ? memory_of(v, type, shape) : Tensor::empty(type, shape);
}

std::vector<Tensor> ExecutionImpl::fresh_outputs(std::optional<void*> stream) {
  std::vector<Tensor> fresh(given_.size());
  if (!is_static()) return fresh;
  const auto& outputs = plan_->graph().outputs();
  const auto& made = first_->segment.results;
  auto next = made.begin();
  for (size_t i = 0; i < fresh.size(); ++i) {
    if (const auto c = std::ranges::find(caches_, i, &BoundCache::output); c != caches_.end()) {
      fresh[i] = c->memory;
      continue;
    }
    // Results come in the order of the outputs, without those that are inputs or constants; one that is made twice comes once.
    const auto at =
        next != made.end() && next->value == outputs[i] ? next : std::ranges::find(made, outputs[i], &plan::Port::value);
    if (at != made.end()) {
      next = at + 1;
      const plan::BoundValue& t = first_->segment.tensor(at->tensor);
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

/// From memory of the Execution's own that the run's segments made a result in: another run takes another.
std::optional<Tensor> ExecutionImpl::taken_from_segments(const Tensor& made) {
  for (SegmentState* state : segments_) {
    for (Tensor& own : state->own_results) {
      if (!own.valid() || !overlaps(own, made)) continue;
      // What a kernel found is the beginning of memory for all that it might have found.
      if (own.raw() != made.raw() || made.nbytes() < own.nbytes() / 2) return made.clone();
      const auto memory = std::make_shared<Tensor>(std::exchange(own, Tensor()));
      return Tensor::borrow(made.type(), made.shape(), memory->raw(), memory);
    }
  }
  return std::nullopt;
}

Tensor ExecutionImpl::given_away(size_t output) {
  const Tensor made = std::exchange(outputs_[output], Tensor());
  const auto shares = [&](const Tensor& t) { return t.valid() && t.nbytes() > 0 && overlaps(t, made); };
  if (!backend_.is_host() || made.type() == DType::string || made.nbytes() == 0 || std::ranges::any_of(outputs_, shares))
    return made.clone();
  if (auto taken = taken_from_segments(made)) return *std::move(taken);
  const ValueId v = plan_->graph().outputs()[output];
  return own_results_.contains(v) && value(v).raw() == made.raw() ? made : made.clone();
}

std::vector<Tensor> ExecutionImpl::run_fresh(std::span<const Tensor> inputs, std::span<const Cache> caches) {
  const Stoppable stoppable(*this);
  own_results_.clear();
  auto bound = bind_caches(*plan_, caches);
  const std::vector<Tensor> pasts_added = bound.empty() ? std::vector<Tensor>() : with_pasts(inputs, bound);
  const std::span<const Tensor> all = bound.empty() ? inputs : pasts_added;
  if (ExecutionImpl* decided = activate(all, true)) return decided->run_fresh(all, caches);
  check_apart(*plan_, bound, all, {});
  bind_inputs(all, std::move(bound));
  std::vector<Tensor> fresh = fresh_outputs(std::nullopt);
  bind_outputs(fresh);
  make_recordings(all, fresh);
  run();
  for (size_t i = 0; i < fresh.size(); ++i) {
    if (fresh[i].valid()) continue;
    const Tensor made = outputs_[i];
    if (in_host_memory(made)) {
      fresh[i] = given_away(i);
    } else {
      fresh[i] = fresh_memory(plan_->graph().outputs()[i], made.type(), made.shape(), std::nullopt);
      backend_.copy(fresh[i].raw(), made.raw(), made.nbytes(), stream_.get());
      backend_.wait(stream_.get());
    }
  }
  release_bound();
  return fresh;
}

std::vector<Tensor> ExecutionImpl::enqueue_fresh(std::span<const Tensor> inputs, void* stream, std::span<const Cache> caches) {
  if (backend_.is_host()) fail_usage("enqueue: the plan is the processor's, which has no streams; call run");
  const MemoryScope memory(plan_->context().memory);
  backend_.refuse_if_lost();
  if (backend_.is_capturing(stream))
    fail_usage("enqueue: outputs cannot be allocated while the stream is being captured; bind an Execution to them before");
  auto bound = bind_caches(*plan_, caches);
  std::vector<Tensor> placed = with_pasts(inputs, bound);
  if (ExecutionImpl* decided = activate(placed, false)) return decided->enqueue_fresh(placed, stream, caches);
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

}  // namespace smelt::run
