#include "run/execution.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "base/error.h"
#include "ops/interpreter.h"
#include "ops/parallel.h"
#include "run/copy.h"
#include "run/feeds.h"

namespace smelt::run {
namespace {

using Clock = std::chrono::steady_clock;

bool aligned(const Tensor& t) {
  const auto unit = static_cast<uintptr_t>(std::max(1, bits(t.type()) / 8));
  return reinterpret_cast<uintptr_t>(t.raw()) % unit == 0;
}

bool overlaps(const Tensor& a, const Tensor& b) {
  const auto* x = static_cast<const char*>(a.raw());
  const auto* y = static_cast<const char*>(b.raw());
  return x < y + b.nbytes() && y < x + a.nbytes();
}

/// Tensor::empty, with what the memory is for in the error.
Tensor memory_for(DType type, const Shape& shape, std::string_view what) {
  try {
    return Tensor::empty(type, shape);
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format("no memory for {}: {} bytes", what, bytes(type, elements(shape))),
                "Bind smaller extents, or free memory");
  }
}

}  // namespace

ExecutionImpl::ExecutionImpl(std::shared_ptr<const PlanImpl> plan) : plan_(std::move(plan)) {
  values_.resize(plan_->graph().value_count());
  for (size_t i = 0; i < values_.size(); ++i) values_[i] = plan_->graph().value(ValueId{static_cast<int32_t>(i)}).constant;
  given_.resize(plan_->outputs().size());
  if (auto prepared = plan_->take_prepared()) {
    std::vector<Shape> shapes;
    for (const TensorInfo& i : plan_->inputs()) shapes.push_back(to_shape(i.shape));
    bound_.emplace_front(std::move(shapes), std::move(prepared));
  }
}

ExecutionImpl::~ExecutionImpl() = default;

Planned& ExecutionImpl::first_segment(std::span<const Tensor> inputs) {
  const auto same = [&](const std::vector<Shape>& shapes) {
    return std::ranges::equal(shapes, inputs, {}, {}, [](const Tensor& t) -> const Shape& { return t.shape(); });
  };
  for (auto i = bound_.begin(); i != bound_.end(); ++i) {
    if (!same(i->first)) continue;
    bound_.splice(bound_.begin(), bound_, i);
    return *bound_.front().second;
  }
  std::vector<Shape> shapes;
  for (const Tensor& t : inputs) shapes.push_back(t.shape());
  auto planned = plan_first(*plan_, shapes);
  bound_.emplace_front(std::move(shapes), std::move(planned));
  if (bound_.size() > max_bound_shapes) bound_.pop_back();
  return *bound_.front().second;
}

void ExecutionImpl::start(std::span<const Tensor> inputs) {
  check_inputs(plan_->inputs(), inputs);
  Planned& first = first_segment(inputs);   // throws before anything of the last binding is touched
  bounces_.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensor& v = value(plan_->graph().inputs()[i]);
    v = inputs[i];
    if (aligned(v)) continue;
    v = Tensor::empty(inputs[i].type(), inputs[i].shape());
    bounces_.push_back({inputs[i], v});
  }
  first_ = &first;
  chain_ = {first_};
}

void ExecutionImpl::bind(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  if (!outputs.empty() && outputs.size() != given_.size()) {
    fail_usage("{} output tensors were given for {} outputs", outputs.size(), given_.size());
  }
  start(inputs);
  try {
    give_outputs(outputs);
  } catch (...) {
    first_ = nullptr;   // pointers may be half set: the next run needs a bind
    throw;
  }
}

void ExecutionImpl::give_outputs(std::span<const Tensor> outputs) {
  for (size_t i = 0; i < given_.size(); ++i) {
    given_[i] = i < outputs.size() ? outputs[i] : Tensor();
    if (given_[i].valid() && given_[i].type() != plan_->outputs()[i].type) {
      fail_usage("memory for output '{}' has type {}, expected {}", plan_->outputs()[i].name, name(given_[i].type()),
                 name(plan_->outputs()[i].type));
    }
  }
  resolve(*first_);
  infos_ = first_->infos;
  collect_outputs();
}

void ExecutionImpl::resolve(Planned& p) {
  Segment& s = p.segment;
  if (!arena_.valid() || arena_.nbytes() < s.arena)
    arena_ = memory_for(DType::u8, {std::max<int64_t>(s.arena, 64)}, "the arena of activations");
  const auto& outputs = plan_->graph().outputs();
  for (size_t i = 0; i < s.results.size(); ++i) {
    const Port& port = s.results[i];
    const BoundValue& t = s.tensor(port.tensor);
    const size_t at = static_cast<size_t>(std::ranges::find(outputs, port.value) - outputs.begin());
    Tensor& v = value(port.value);
    if (at < outputs.size() && given_[at].valid()) {
      const Tensor& given = given_[at];
      if (given.shape() != t.shape) {
        fail_usage("memory for output '{}' has shape {}, the output {}", plan_->outputs()[at].name, to_string(given.shape()),
                   to_string(t.shape));
      }
      // Memory that overlaps an input's could be written before the input is read.
      const bool apart = std::ranges::none_of(plan_->graph().inputs(), [&](ValueId in) { return overlaps(value(in), given); });
      if (aligned(given) && apart) {
        v = given;
        continue;
      }
    }
    if (!p.own[i].valid()) p.own[i] = memory_for(t.type, t.shape, plan_->graph().value(port.value).name);
    v = p.own[i];
  }
  for (Step& step : s.steps) {
    step.in.clear();
    step.out.clear();
    for (TensorIndex t : step.inputs) step.in.push_back(t == absent ? nullptr : address(p, t));
    for (TensorIndex t : step.outputs) step.out.push_back(t == absent ? nullptr : address(p, t));
    step.scratch = step.workspace < 0
                       ? nullptr
                       : static_cast<std::byte*>(arena_.raw()) + s.buffers[static_cast<size_t>(step.workspace)].offset;
  }
}

std::byte* ExecutionImpl::address(const Planned& p, TensorIndex index) {
  const Segment& s = p.segment;
  const BoundValue& t = s.tensor(index);
  const Buffer& b = s.buffers[static_cast<size_t>(t.buffer)];
  std::byte* base = nullptr;
  if (b.place == Place::arena) {
    base = static_cast<std::byte*>(arena_.raw()) + b.offset;
  } else {
    // The tensor that the buffer was made for: a constant, an external or a result.
    const BoundValue& owner = s.tensor(b.owner);
    base = static_cast<std::byte*>(const_cast<void*>(owner.constant.valid() ? owner.constant.raw() : value(owner.value).raw()));
  }
  return base + t.offset;
}

void ExecutionImpl::run_step(Planned& p, Step& step) {
  try {
    switch (step.kind) {
      case StepKind::kernel: step.kernel->run({step.in, step.out, step.scratch}); break;
      case StepKind::concat: run_concat(step); break;
      case StepKind::copy: copy_bytes(step.out[0], step.in[0], ops::storage_bytes(p.segment.tensor(step.outputs[0]))); break;
      case StepKind::dynamic: run_dynamic(p, step); break;
      case StepKind::view: break;
    }
  } catch (const Error& e) {
    if (!step.node) throw;
    throw e.at(ops::label(*step.node));
  }
}

void ExecutionImpl::run_dynamic(const Planned& p, const Step& step) {
  const Segment& s = p.segment;
  std::vector<Tensor> in(step.inputs.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (step.inputs[i] == absent) continue;
    const BoundValue& t = s.tensor(step.inputs[i]);
    if (t.constant.valid()) in[i] = t.constant;
    else if (s.buffers[static_cast<size_t>(t.buffer)].place == Place::external && t.value != ValueId::none &&
             value(t.value).valid())
      in[i] = value(t.value);
    else in[i] = Tensor::borrow(t.type, t.shape, const_cast<void*>(step.in[i]));
  }
  const auto run_graph = [this](const Graph& g, std::span<const Tensor> inputs) {
    auto& body = bodies_[&g];
    if (!body) body = std::make_unique<ExecutionImpl>(plan_->body(g));
    return body->run_fresh(inputs);
  };
  std::vector<Tensor> out = ops::run_reference(*step.node, in, run_graph);
  for (size_t i = 0; i < out.size(); ++i) {
    if (step.node->outputs[i] == ValueId::none) continue;
    // An If may hand on a value of this segment as it is; the arena's bytes do not last.
    const bool lent =
        std::ranges::any_of(in, [&](const Tensor& t) { return t.valid() && out[i].nbytes() > 0 && overlaps(t, out[i]); });
    value(step.node->outputs[i]) = lent ? out[i].clone() : std::move(out[i]);
  }
}

Planned& ExecutionImpl::following(Planned& p) {
  std::vector<std::pair<DType, Shape>> key;
  for (ValueId v : p.found) key.emplace_back(value(v).type(), value(v).shape());
  if (p.next.size() >= max_outcomes && !p.next.contains(key)) p.next.clear();
  auto& next = p.next[key];
  if (!next) {
    Environment env = *p.after;
    for (ValueId v : p.found) env.set(v, value(v).type(), value(v).shape());
    next = plan_next(*plan_, std::move(env));
  }
  return *next;
}

void ExecutionImpl::execute(std::vector<StepTime>* times) {
  if (!first_) fail_usage("run was called before bind");
  const ops::Threads threads(plan_->shared().tuner.machine().threads);
  for (Bounce& b : bounces_) std::memcpy(b.to.raw(), b.from.raw(), static_cast<size_t>(b.from.nbytes()));
  if (!is_static()) resolve(*first_);   // a later segment of the last run may have made the arena larger
  const auto start = Clock::now();
  const auto now = [start] { return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count(); };
  if (times) times->clear();
  for (Planned* p = first_;;) {
    for (Step& step : p->segment.steps) {
      const int64_t begin = times ? now() : 0;
      run_step(*p, step);
      if (times) times->push_back({begin, now()});
    }
    if (!p->after) break;
    if (p == first_) chain_.resize(1);
    p = &following(*p);
    chain_.push_back(p);
    resolve(*p);
  }
  if (!is_static()) {
    infos_.clear();
    for (const Planned* p : chain_) infos_.insert(infos_.end(), p->infos.begin(), p->infos.end());
    collect_outputs();
  }
  copy_to_caller();
}

void ExecutionImpl::run_profiled(std::vector<StepTime>& times) { execute(&times); }

void ExecutionImpl::collect_outputs() {
  outputs_.resize(given_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Tensor& v = output_value(i);
    outputs_[i] = given_[i].valid() ? given_[i] : v;
  }
}

void ExecutionImpl::copy_to_caller() {
  for (size_t i = 0; i < given_.size(); ++i) {
    if (!given_[i].valid()) continue;
    const Tensor& v = output_value(i);
    if (v.raw() == given_[i].raw()) continue;
    if (v.shape() != given_[i].shape()) {
      fail_usage("memory for output '{}' has shape {}, the output {}", plan_->outputs()[i].name, to_string(given_[i].shape()),
                 to_string(v.shape()));
    }
    if (v.type() == DType::string) given_[i].strings() = v.strings();
    else std::memmove(given_[i].raw(), v.raw(), static_cast<size_t>(v.nbytes()));
  }
}

const Tensor& ExecutionImpl::output_value(size_t i) {
  const ValueId v = plan_->graph().outputs()[i];
  // Known before the run, by the last segment planned: shape arithmetic that is an output.
  for (const Planned* p : chain_) {
    const auto known = p->known_outputs.find(v);
    if (known != p->known_outputs.end()) return known->second;
  }
  return value(v);
}

MemoryInfo ExecutionImpl::memory() const { return {arena_.nbytes(), plan_->constant_bytes() + plan_->shared().weights.bytes()}; }

std::vector<Tensor> ExecutionImpl::run_fresh(std::span<const Tensor> inputs) {
  start(inputs);
  std::vector<Tensor> fresh(given_.size());
  if (is_static()) {
    const auto& outputs = plan_->graph().outputs();
    for (size_t i = 0; i < fresh.size(); ++i) {
      const auto& results = first_->segment.results;
      const auto made = std::ranges::find(results, outputs[i], &Port::value);
      if (made != results.end()) {
        const BoundValue& t = first_->segment.tensor(made->tensor);
        fresh[i] = Tensor::empty(t.type, t.shape);
      } else if (const Tensor& v = output_value(i); v.valid() && v.type() != DType::string) {
        fresh[i] = Tensor::empty(v.type(), v.shape());
      }
    }
  }
  give_outputs(fresh);
  run();
  for (size_t i = 0; i < fresh.size(); ++i) {
    if (!fresh[i].valid()) fresh[i] = outputs_[i].clone();
  }
  // Nothing of the caller's stays behind: the next run needs a bind.
  const Graph& g = plan_->graph();
  for (const auto* values : {&g.inputs(), &g.outputs()})
    for (ValueId v : *values) value(v) = g.value(v).constant;
  bounces_.clear();
  given_.assign(given_.size(), Tensor());
  outputs_.clear();
  first_ = nullptr;
  return fresh;
}

}  // namespace smelt::run
