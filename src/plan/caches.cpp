#include "plan/caches.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/strides.h"

namespace smelt::plan {

void place_caches(Segment& s, std::span<const CacheForm> caches) {
  for (const CacheForm& form : caches) {
    const auto is_pair = [&](const Step& step) {
      return step.kind == StepKind::concat && step.inputs[0] != absent && s.tensor(step.inputs[0]).value == form.past &&
             s.tensor(step.outputs[0]).value == form.present;
    };
    const auto at = std::ranges::find_if(s.steps, is_pair);
    if (at == s.steps.end()) fail_unsupported("a cache's Concat is not planned as one");
    const TensorIndex past = at->inputs[0], present = at->outputs[0];
    s.caches.push_back({past, present});
    for (TensorIndex t : {past, present}) {
      s.tensor(t).strides = form.strides;
      if (ops::is_dense(s.tensor(t))) s.tensor(t).strides.clear();
    }
    const auto concat = static_cast<size_t>(at - s.steps.begin());
    for (const auto& [t, place] : {std::pair{present, concat + 1}, std::pair{past, size_t{0}}}) {
      if (s.tensor(t).strides.empty() || elements(s.tensor(t).shape) == 0) continue;
      BoundValue own = s.tensor(t);
      own.fixed_layout = false;
      own.strides.clear();
      TensorIndex copy = absent;
      for (Step& step : s.steps) {
        if (is_pair(step) || std::ranges::find(step.inputs, t) == step.inputs.end()) continue;
        if (copy == absent) copy = add_tensor(s, own);
        std::ranges::replace(step.inputs, t, copy);
      }
      if (copy != absent) s.steps.insert(s.steps.begin() + static_cast<std::ptrdiff_t>(place), reorder_step(s, t, copy));
    }
  }
}

}  // namespace smelt::plan
