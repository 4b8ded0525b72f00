#include "run/bound_caches.h"

#include <algorithm>

#include "base/error.h"
#include "run/execution.h"

namespace smelt::run {
namespace {

size_t position(const std::vector<TensorInfo>& infos, const std::string& name, std::string_view what) {
  const auto at = std::ranges::find(infos, name, &TensorInfo::name);
  if (at == infos.end()) fail_usage("a cache names {} '{}', which there is not", what, name);
  return static_cast<size_t>(at - infos.begin());
}

/// Along which present is past and something new.
int64_t axis_of(const Graph& g, ValueId past, ValueId present, const Cache& c) {
  const NodeId maker = g.value(present).producer;
  const Node* node = maker == NodeId::none ? nullptr : &g.node(maker);
  if (!node || !node->is("Concat") || node->inputs.size() < 2 || node->inputs[0] != past ||
      std::ranges::count(node->inputs, past) != 1)
    fail_usage("output '{}' is not made by a Concat that begins with input '{}', and cannot share its memory", c.present, c.past);
  return normalize_axis(node->get_int("axis", 0), c.memory.rank());
}

}  // namespace

std::vector<BoundCache> bind_caches(const PlanImpl& plan, std::span<const Cache> caches) {
  std::vector<BoundCache> bound;
  const Graph& g = plan.graph();
  for (const Cache& c : caches) {
    BoundCache b{.form = {},
                 .memory = c.memory,
                 .input = position(plan.inputs(), c.past, "input"),
                 .output = position(plan.outputs(), c.present, "output"),
                 .past = {}};
    for (const BoundCache& other : bound)
      if (other.input == b.input || other.output == b.output) fail_usage("two caches name '{}' and '{}'", c.past, c.present);
    const TensorInfo& present = plan.outputs()[b.output];
    if (c.memory.type() != present.type)
      fail_usage("the memory for '{}' has type {}, expected {}", c.present, name(c.memory.type()), name(present.type));
    if (present.rank_known && c.memory.rank() != static_cast<int64_t>(present.shape.size()))
      fail_usage("the memory for '{}' has shape {}, expected {}", c.present, to_string(c.memory.shape()),
                 to_string(present.shape));
    b.form = {g.inputs()[b.input], g.outputs()[b.output], strides(c.memory.shape())};
    const auto axis = static_cast<size_t>(axis_of(g, b.form.past, b.form.present, c));
    Shape shape = c.memory.shape();
    if (c.length < 0 || c.length > shape[axis])
      fail_usage("a cache of {} for '{}' has length {}", to_string(shape), c.present, c.length);
    shape[axis] = c.length;
    b.past = Tensor::borrow(c.memory.type(), shape, const_cast<void*>(c.memory.raw()), std::make_shared<Tensor>(c.memory));
    const Backend& backend = plan.backend();
    if (!backend.is_host() && !backend.reaches(c.memory.raw()))
      fail_usage("the memory for '{}' does not lie on the GPU that the plan is for", c.present);
    if (!is_aligned(c.memory, backend.caller_alignment()))
      fail_usage("the memory for '{}' is not aligned to {} bytes", c.present, backend.caller_alignment());
    bound.push_back(std::move(b));
  }
  return bound;
}

void check_apart(const PlanImpl& plan, std::span<const BoundCache> caches, std::span<const Tensor> inputs,
                 std::span<const Tensor> outputs) {
  const auto check = [&](const BoundCache& c, const Tensor& t, const std::string& other) {
    if (t.valid() && t.type() != DType::string && overlaps(c.memory, t))
      fail_usage("the memory for '{}' overlaps that of '{}'", plan.outputs()[c.output].name, other);
  };
  for (size_t k = 0; k < caches.size(); ++k) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (std::ranges::find(caches, i, &BoundCache::input) == caches.end()) check(caches[k], inputs[i], plan.inputs()[i].name);
    for (size_t i = 0; i < outputs.size(); ++i) check(caches[k], outputs[i], plan.outputs()[i].name);
    for (size_t j = 0; j < k; ++j) check(caches[k], caches[j].memory, plan.outputs()[caches[j].output].name);
  }
}

void check_room(const PlanImpl& plan, const BoundCache& cache, const Shape& present) {
  Shape room = cache.memory.shape();
  for (size_t a = 0; a < room.size(); ++a)
    if (room[a] != cache.past.shape()[a] && room[a] > present[a]) room[a] = present[a];
  if (room != present)
    fail_usage("the memory for '{}' has shape {}, too small for {}: {} and what is new", plan.outputs()[cache.output].name,
               to_string(cache.memory.shape()), to_string(present), to_string(cache.past.shape()));
}

std::vector<Tensor> with_pasts(std::span<const Tensor> inputs, std::span<const BoundCache> caches) {
  std::vector<Tensor> all(inputs.begin(), inputs.end());
  for (const BoundCache& c : caches)
    if (c.input < all.size()) all[c.input] = c.past;  // too few are an error of their own
  return all;
}

std::vector<plan::CacheForm> forms(std::span<const BoundCache> caches) {
  std::vector<plan::CacheForm> all;
  for (const BoundCache& c : caches) all.push_back(c.form);
  return all;
}

}  // namespace smelt::run
