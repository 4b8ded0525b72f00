#include "tune/stages.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace smelt::tune {
namespace {

/// The timing of what ran; null for others.
const Timing* time_of(const ops::Offer& offer, size_t i, std::span<const Timing> known) {
  const Timing* t = timing_of(known, offer.candidates[i]);
  return t && t->runs() ? t : nullptr;
}

/// What a configuration begins with, up to its first number: "128x64x64" of "128x64x64 g2 s8 b1 k1", "implicit 64x64x64" of another.
std::string_view tile(std::string_view config) {
  size_t end = 0;
  for (bool numbers = false; end < config.size() && !numbers;) {
    numbers = config[end] >= '0' && config[end] <= '9';
    end = std::min(config.find(' ', end), config.size());
    if (!numbers && end < config.size()) ++end;
  }
  return config.substr(0, end);
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
  using Tile = std::pair<std::string_view, std::string_view>;
  const auto tile_of = [&](size_t i) { return Tile(offer.candidates[i].tactic, tile(offer.candidates[i].config)); };
  std::map<std::string_view, size_t> met;        // by tactic
  std::map<std::string_view, double> of_tactic;  // the least ratio of time to estimate
  std::map<Tile, double> of_tile;
  std::vector<size_t> first, others;
  size_t measured = 0, of_libraries = 0;  // of the others
  const auto least = [](auto& ratios, const auto& key, double ratio) {
    const auto at = ratios.try_emplace(key, ratio).first;
    at->second = std::min(at->second, ratio);
  };
  for (const size_t i : worth) {
    const ops::Candidate& c = offer.candidates[i];
    const bool library = is_of_library(c.tactic);
    const bool begins = worth.size() <= stage_of_few || met[c.tactic]++ < (library ? first_of_library : first_of_tactic);
    const Timing* t = time_of(offer, i, known);
    if (!t) {
      (begins ? first : others).push_back(i);
      continue;
    }
    least(of_tactic, std::string_view(c.tactic), t->min / estimate_us(c));
    least(of_tile, tile_of(i), t->min / estimate_us(c));
    if (!begins) ++measured, of_libraries += library;
  }
  if (first.size() == 1 && worth.size() > 1 && of_tactic.empty()) return {worth[0], worth[1]};
  if (!first.empty() || measured >= most_others) return first;
  const double longest = may_win * fastest(offer, worth, known);
  std::vector<std::pair<double, size_t>> expected;
  for (const size_t i : others) {
    const auto at = of_tile.find(tile_of(i));
    const double ratio = at != of_tile.end() ? at->second : of_tactic.at(offer.candidates[i].tactic);
    if (const double us = estimate_us(offer.candidates[i]) * ratio; us <= longest) expected.emplace_back(us, i);
  }
  std::ranges::stable_sort(expected, {}, &std::pair<double, size_t>::first);
  std::vector<size_t> next;
  std::set<Tile> taken;
  for (const auto& [us, i] : expected) {
    const bool library = is_of_library(offer.candidates[i].tactic);
    if (next.size() == std::min(others_a_stage, most_others - measured) || (library && of_libraries == others_of_library))
      continue;
    if (!taken.insert(tile_of(i)).second) continue;  // what one of a tile takes says what its others may take
    next.push_back(i), of_libraries += library;
  }
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
