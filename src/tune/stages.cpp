#include "tune/stages.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace smelt::tune {
namespace {

/// The timing of what ran; null for others.
const Timing* time_of(const ops::Offer& offer, size_t i, std::span<const Timing> known) {
  const Timing* t = timing_of(known, offer.candidates[i]);
  return t && t->runs() ? t : nullptr;
}

double estimate_us(const ops::Candidate& c) { return std::max(c.estimate_us, 1e-3); }

double fastest(const ops::Offer& offer, std::span<const size_t> worth, std::span<const Timing> known) {
  double us = INFINITY;
  for (const size_t i : worth)
    if (const Timing* t = time_of(offer, i, known)) us = std::min(us, t->min);
  return us;
}

}  // namespace

bool is_of_library(std::string_view tactic) { return tactic == "cublaslt" || tactic == "cudnn"; }

const Timing* timing_of(std::span<const Timing> timings, const ops::Candidate& c) {
  const auto at = std::ranges::find_if(timings, [&](const Timing& t) { return t.tactic == c.tactic && t.config == c.config; });
  return at == timings.end() ? nullptr : &*at;
}

std::vector<size_t> next_stage(const ops::Offer& offer, std::span<const size_t> worth, std::span<const Timing> known) {
  struct OfTactic {
    size_t met = 0;
    double ratio = INFINITY;  // the least of time to estimate
  };
  std::map<std::string_view, OfTactic> tactics;
  std::vector<size_t> first, others;
  size_t measured = 0;  // of the others
  for (const size_t i : worth) {
    const ops::Candidate& c = offer.candidates[i];
    OfTactic& of = tactics[c.tactic];
    const Timing* t = time_of(offer, i, known);
    const bool begins = worth.size() <= stage_of_few || of.met++ < (is_of_library(c.tactic) ? first_of_library : first_of_tactic);
    if (t) of.ratio = std::min(of.ratio, t->min / estimate_us(c));
    if (!t) (begins ? first : others).push_back(i);
    if (t && !begins) ++measured;
  }
  if (first.size() == 1 && worth.size() > 1 && !std::isfinite(fastest(offer, worth, known))) return {worth[0], worth[1]};
  if (!first.empty() || measured >= most_others) return first;
  const double longest = may_win * fastest(offer, worth, known);
  std::vector<std::pair<double, size_t>> expected;
  for (const size_t i : others) {
    const double us = estimate_us(offer.candidates[i]) * tactics[offer.candidates[i].tactic].ratio;
    if (us <= longest) expected.emplace_back(us, i);
  }
  std::ranges::stable_sort(expected, {}, &std::pair<double, size_t>::first);
  expected.resize(std::min({expected.size(), others_a_stage, most_others - measured}));
  std::vector<size_t> next;
  for (const auto& [us, i] : expected) next.push_back(i);
  return next;
}

std::vector<size_t> contenders(const ops::Offer& offer, std::span<const size_t> worth, std::span<const Timing> known) {
  constexpr size_t most = 3;
  const double longest = same_time * fastest(offer, worth, known);
  std::vector<std::pair<double, size_t>> near;
  for (const size_t i : worth)
    if (const Timing* t = time_of(offer, i, known); t && t->min <= longest) near.emplace_back(t->min, i);
  std::ranges::stable_sort(near, {}, &std::pair<double, size_t>::first);
  near.resize(std::min(near.size(), most));
  std::vector<size_t> all;
  for (const auto& [us, i] : near) all.push_back(i);
  return all;
}

}  // namespace smelt::tune
