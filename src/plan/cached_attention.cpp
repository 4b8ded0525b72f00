#include "plan/cached_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "graph/fused.h"
#include "ops/core/strides.h"

namespace smelt::plan {
namespace {

/// A Concat of a past and new rows behind it, along the third of four axes.
struct Cache {
  size_t concat;  // step
  TensorIndex past, fresh, present;
};

struct Found {
  size_t attention;  // step
  Cache keys, values;
};

class Finder {
 public:
  Finder(const Segment& s, std::span<const CacheForm> in_place) : s_(s), in_place_(in_place) {}

  std::optional<Found> at(size_t step) const {
    const Step& a = s_.steps[step];
    if (a.kind != StepKind::kernel || !a.node->is("Attention", smelt_domain) || a.node->get_int("k_transposed", 0) != 0 ||
        a.outputs.size() != 1 || a.inputs[1] == a.inputs[2])
      return std::nullopt;
    const auto keys = cache(a.inputs[1], step), values = cache(a.inputs[2], step);
    if (!keys || !values) return std::nullopt;
    return Found{step, *keys, *values};
  }

 private:
  std::optional<Cache> cache(TensorIndex present, size_t attention) const {
    for (size_t i = 0; i < attention; ++i) {
      const Step& c = s_.steps[i];
      if (c.kind != StepKind::concat || c.outputs[0] != present) continue;
      if (c.inputs.size() != 2 || c.inputs[0] == absent || c.inputs[1] == absent || c.inputs[0] == c.inputs[1])
        return std::nullopt;
      const BoundValue &y = s_.tensor(present), &past = s_.tensor(c.inputs[0]), &fresh = s_.tensor(c.inputs[1]);
      const bool along_rows = y.shape.size() == 4 && normalize_axis(c.node->get_int("axis", 0), 4) == 2;
      if (!along_rows || past.shape[2] == 0 || fresh.shape[2] == 0 || !y.strides.empty() || grows_in_place(y.value))
        return std::nullopt;
      for (const BoundValue* t : {&y, &past, &fresh})
        if (t->layout != ops::Layout::plain || t->constant.valid()) return std::nullopt;
      for (size_t r = i + 1; r < attention; ++r)  // the attention makes it now
        if (std::ranges::count(s_.steps[r].inputs, present) > 0) return std::nullopt;
      return Cache{i, c.inputs[0], c.inputs[1], present};
    }
    return std::nullopt;
  }
  bool grows_in_place(ValueId present) const {
    return std::ranges::any_of(in_place_, [&](const CacheForm& f) { return f.present == present; });
  }

  const Segment& s_;
  std::span<const CacheForm> in_place_;
};

Step cached_step(const Segment& s, const Found& f) {
  const Step& a = s.steps[f.attention];
  Step one;
  one.id = a.id;
  one.inputs = {a.inputs[0], f.keys.past, f.values.past, f.keys.fresh, f.values.fresh};
  one.inputs.insert(one.inputs.end(), a.inputs.begin() + 3, a.inputs.end());
  one.outputs = {a.outputs[0], f.keys.present, f.values.present};
  Node node = *a.node;
  node.op = "CachedAttention";
  node.attrs.erase("k_transposed");
  for (const Cache* c : {&f.keys, &f.values}) {
    const std::vector<int>& more = s.steps[c->concat].node->sources;
    node.sources.insert(node.sources.end(), more.begin(), more.end());
  }
  std::ranges::sort(node.sources);
  node.sources.erase(std::unique(node.sources.begin(), node.sources.end()), node.sources.end());
  one.node = std::make_shared<const Node>(std::move(node));
  return one;
}

/// The copy of a past into its place in the present, as the plan has it without this.
Step copy_of_past(Segment& s, const Cache& c) {
  BoundValue slice = s.tensor(c.past);
  slice.value = ValueId::none;
  slice.strides = ops::memory_strides(s.tensor(c.present));
  const TensorIndex to = add_tensor(s, std::move(slice));
  return reorder_step(s, c.past, to);
}

}  // namespace

void CachedAttention::apply(Segment& s, std::span<const CacheForm> in_place, Context& context, bool may_measure) {
  std::vector<size_t> gone;
  for (size_t i = 0; i < s.steps.size(); ++i) {
    const auto found = Finder(s, in_place).at(i);
    if (!found) continue;
    const bool taken = std::ranges::any_of(gone, [&](size_t g) { return g == found->keys.concat || g == found->values.concat; });
    if (taken) continue;  // another attention writes this cache
    Step one = cached_step(s, *found);
    const auto apart = [&] { return std::vector{s.steps[i], copy_of_past(s, found->keys), copy_of_past(s, found->values)}; };
    const OneOrApart::Decision d = choices_.decide(
        s, {.one = one, .kind = "cache", .with = "the caches that it writes", .apart = apart}, context, may_measure);
    if (d.one) {
      one.fused = d.times;
      s.steps[i] = std::move(one);
      gone.push_back(found->keys.concat), gone.push_back(found->values.concat);
    } else if (d.times) {
      s.steps[i].fused = d.times;
    }
  }
  std::ranges::sort(gone, std::greater<>());
  for (const size_t at : gone) s.steps.erase(s.steps.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace smelt::plan
