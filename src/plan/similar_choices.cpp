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

/// Powers of 2; infinite for no elements.
std::vector<double> logs(const std::vector<int64_t>& extents) {
  std::vector<double> all;
  for (int64_t n : extents) all.push_back(n <= 0 ? -std::numeric_limits<double>::infinity() : std::log2(static_cast<double>(n)));
  return all;
}

size_t hash_of(const std::vector<int64_t>& extents) {
  size_t h = extents.size();
  for (int64_t n : extents) h = (h ^ static_cast<size_t>(n)) * 0x9e3779b97f4a7c15;
  return h;
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

const SimilarChoices::Kept* SimilarChoices::find(const std::vector<Kept>& all, const std::vector<int64_t>& extents) {
  const size_t hash = hash_of(extents);
  const auto at = std::ranges::find_if(all, [&](const Kept& k) { return k.hash == hash && k.extents == extents; });
  return at == all.end() ? nullptr : &*at;
}

std::optional<SimilarChoice> SimilarChoices::nearest(const StepForm& form) const {
  const std::lock_guard lock(mutex_);
  const auto at = kept_.find(form.fixed);
  if (at == kept_.end()) return std::nullopt;
  if (const Kept* same = find(at->second, form.extents)) return SimilarChoice{same->chosen, same->by, true};
  const std::vector<double> powers = logs(form.extents);
  const Kept* best = nullptr;
  double best_total = 0;
  for (const Kept& k : at->second) {
    if (k.extents.size() != form.extents.size() || (best && k.by < best->by)) continue;
    const double most = k.by == ChosenBy::measurement ? most_measured : most_estimated;
    const double enough = best && k.by == best->by ? best_total : std::numeric_limits<double>::infinity();
    double total = 0;
    for (size_t i = 0; i < powers.size() && total < enough; ++i) {
      if (k.extents[i] == form.extents[i]) continue;
      const double away = std::abs(k.powers[i] - powers[i]);
      if (away > most) total = std::numeric_limits<double>::infinity();
      constexpr double other_divisor = 0.5;
      total += away + (divisor(k.extents[i]) == divisor(form.extents[i]) ? 0 : other_divisor);
    }
    if (!(total < enough)) continue;
    best = &k;
    best_total = total;
  }
  return best ? std::optional(SimilarChoice{best->chosen, best->by, false}) : std::nullopt;
}

void SimilarChoices::keep(StepForm form, ops::ChosenTactic chosen, ChosenBy by) {
  const std::lock_guard lock(mutex_);
  std::vector<Kept>& all = kept_[std::move(form.fixed)];
  if (const Kept* known = find(all, form.extents)) {
    Kept& same = all[static_cast<size_t>(known - all.data())];
    if (by > same.by || by == ChosenBy::measurement) same.chosen = std::move(chosen), same.by = by;
    return;
  }
  if (all.size() >= max_kept) {
    const auto least = std::ranges::min_element(all, {}, &Kept::by);
    all.erase(least);
  }
  std::vector<double> powers = logs(form.extents);
  const size_t hash = hash_of(form.extents);
  all.push_back({std::move(form.extents), std::move(powers), hash, std::move(chosen), by});
}

}  // namespace smelt::plan
