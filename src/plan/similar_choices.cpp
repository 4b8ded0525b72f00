#include "plan/similar_choices.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace smelt::plan {
namespace {

constexpr double most_measured = 4, most_estimated = 1;  // powers of 2 that an extent may be away
constexpr size_t max_kept = 64;                          // choices of a form

void append(std::string& text, int64_t value) { text.append(reinterpret_cast<const char*>(&value), sizeof value); }

/// The power of 2 that divides it, up to 16: how wide accesses are depends on it.
int64_t divisor(int64_t n) { return std::min<int64_t>(16, n & -n); }

struct Distance {
  double total = 0, largest = 0;
};

/// In powers of 2; infinite where one has no elements and the other has.
Distance distance(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  Distance d;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (a[i] <= 0 || b[i] <= 0) return {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
    const double away = std::abs(std::log2(static_cast<double>(a[i]) / static_cast<double>(b[i])));
    d.largest = std::max(d.largest, away);
    constexpr double other_divisor = 0.5;
    d.total += away + (divisor(a[i]) == divisor(b[i]) ? 0 : other_divisor);
  }
  return d;
}

}  // namespace

StepForm form_of(const Segment& s, const Step& step) {
  StepForm form;
  append(form.fixed, static_cast<int64_t>(step.id));
  append(form.fixed, step.part);
  form.fixed += step.node->op;
  for (const auto* list : {&step.inputs, &step.outputs}) {
    for (TensorIndex i : *list) {
      if (i == absent) {
        form.fixed += '-';
        continue;
      }
      const BoundValue& t = s.tensor(i);
      append(form.fixed, static_cast<int64_t>(t.value));
      form.fixed += {static_cast<char>(t.type), static_cast<char>(t.layout), t.strides.empty() ? 'd' : 's'};
      append(form.fixed, t.alignment);
      append(form.fixed, static_cast<int64_t>(t.shape.size()));
      form.extents.insert(form.extents.end(), t.shape.begin(), t.shape.end());
    }
    form.fixed += ';';
  }
  return form;
}

std::optional<SimilarChoice> SimilarChoices::nearest(const StepForm& form) const {
  const std::lock_guard lock(mutex_);
  const auto at = kept_.find(form.fixed);
  if (at == kept_.end()) return std::nullopt;
  const Kept* best = nullptr;
  double best_total = 0;
  for (const Kept& k : at->second) {
    if (k.extents == form.extents) return SimilarChoice{k.chosen, k.by, true};
    if (k.extents.size() != form.extents.size() || k.by == ChosenBy::readiness) continue;
    const Distance d = distance(k.extents, form.extents);
    if (d.largest > (k.by == ChosenBy::measurement ? most_measured : most_estimated)) continue;
    const bool better = !best || (k.by != best->by ? k.by > best->by : d.total < best_total);
    if (!better) continue;
    best = &k;
    best_total = d.total;
  }
  return best ? std::optional(SimilarChoice{best->chosen, best->by, false}) : std::nullopt;
}

void SimilarChoices::keep(StepForm form, ops::ChosenTactic chosen, ChosenBy by) {
  const std::lock_guard lock(mutex_);
  std::vector<Kept>& all = kept_[std::move(form.fixed)];
  const auto same = std::ranges::find(all, form.extents, &Kept::extents);
  if (same != all.end()) {
    if (by > same->by || by == ChosenBy::measurement) *same = {std::move(form.extents), std::move(chosen), by};
    return;
  }
  if (all.size() >= max_kept) {
    const auto least = std::ranges::min_element(all, {}, &Kept::by);
    all.erase(least);
  }
  all.push_back({std::move(form.extents), std::move(chosen), by});
}

}  // namespace smelt::plan
