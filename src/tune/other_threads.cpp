#include "tune/other_threads.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "ops/core/machine.h"
#include "tune/stages.h"

namespace smelt::tune {
namespace {

/// The number that a field is; nothing where it is none.
template <class T> std::optional<T> number_in(std::string_view field) {
  T n{};
  const auto read = std::from_chars(field.data(), field.data() + field.size(), n);
  if (read.ec != std::errc() || read.ptr != field.data() + field.size()) return std::nullopt;
  return n;
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t at = 0;;) {
    const size_t end = line.find('\t', at);
    fields.push_back(line.substr(at, end == line.npos ? end : end - at));
    if (end == line.npos) return fields;
    at = end + 1;
  }
}

std::optional<Timing> timing_in(std::string_view line) {
  const std::vector<std::string_view> f = fields_of(line);
  if (f.size() != 9) return std::nullopt;
  const auto min = number_in<double>(f[3]), q1 = number_in<double>(f[4]), scaled = number_in<double>(f[8]);
  const auto samples = number_in<int>(f[5]), width = number_in<int>(f[6]), with = number_in<int>(f[7]);
  if (!min || !q1 || !scaled || !samples || !width || !with) return std::nullopt;
  if (!(*min >= 0) || !(*q1 >= *min) || !(*scaled > 0) || !std::isfinite(*q1 * *scaled) || *samples < 1 || *width < 0 ||
      *with < 0)
    return std::nullopt;
  Timing t{std::string(f[1]), std::string(f[2]), *min, *q1, *q1, *q1, *q1, *samples};
  t.width = *width, t.with_threads = *with, t.scaled = *scaled;
  return t;
}

bool is_a_line(std::string_view text) { return text.find_first_of("\t\n") == text.npos; }

void scale(Timing& t, double by) {
  for (double* us : {&t.min, &t.q1, &t.median, &t.q3, &t.p90}) *us *= by;
}

}  // namespace

std::optional<TeamDevice> team_device(std::string_view device) {
  constexpr std::string_view cached = ", weights in caches";
  TeamDevice team;
  if (device.ends_with(cached)) {
    device.remove_suffix(cached.size());
    team.state = cached;
  }
  const size_t comma = device.rfind(", ");
  if (comma == device.npos) return std::nullopt;
  team.processor = device.substr(0, comma);
  device.remove_prefix(comma + 2);
  const size_t space = device.find(' ');
  const auto threads = number_in<int>(device.substr(0, space));
  if (space == device.npos || !threads || *threads < 1 || *threads > ops::max_threads) return std::nullopt;
  if (device.substr(space) != (*threads == 1 ? " thread" : " threads")) return std::nullopt;
  team.threads = *threads;
  return team;
}

Timing with_other_threads(Timing t, int from, int to) {
  scale(t, 1 / t.scaled);
  t.scaled = 1;
  const int with = t.with_threads > 0 ? t.with_threads : from;
  t.with_threads = with == to ? 0 : with;
  if (with == to) return t;
  const bool has_all = t.width == 0 || (t.width > 1 && t.width >= with);
  const int then = has_all ? with : t.width, now = has_all ? to : std::min(t.width, to);
  t.scaled = static_cast<double>(then) / now;
  scale(t, t.scaled);
  return t;
}

Bounds bounds(const Timing& t) {
  if (t.scaled > 1) return {t.min / std::sqrt(t.scaled), t.min, t.min};
  const double most = t.min / t.scaled;
  return {std::min(t.with_threads == 1 ? t.min + region_us : t.min, most), t.min, most};
}

std::vector<size_t> unsettled(std::span<const Timing> timings, const ops::Offer& offer, std::span<const size_t> worth) {
  double sure = std::numeric_limits<double>::infinity(), fastest = sure;
  for (const size_t i : worth) {
    const Timing* t = timing_of(timings, offer.candidates[i]);
    if (!t || !t->runs()) continue;
    fastest = std::min(fastest, t->min);
    if (t->is_sure()) sure = std::min(sure, t->min);
  }
  std::vector<size_t> left;
  for (const size_t i : worth) {
    const Timing* t = timing_of(timings, offer.candidates[i]);
    const bool open =
        t && t->runs() && !t->is_sure() && (std::isfinite(sure) ? bounds(*t).least < sure : t->min <= near_elsewhere * fastest);
    if (!t || open) left.push_back(i);
  }
  return left;
}

bool settles(std::span<const Timing> ways) {
  if (std::ranges::any_of(ways, [](const Timing& t) { return !t.runs(); })) return false;
  if (std::ranges::all_of(ways, &Timing::is_sure)) return true;
  const bool alike = std::ranges::all_of(ways, [&](const Timing& t) { return t.scaled == ways.front().scaled; });
  for (size_t i = 0; i < ways.size(); ++i) {
    bool first = true;
    for (size_t k = 0; k < ways.size(); ++k)
      first = first &&
              (k == i || bounds(ways[i]).most <= bounds(ways[k]).least || (alike && near_elsewhere * ways[i].min <= ways[k].min));
    if (first) return true;
  }
  return false;
}

std::optional<CacheEntry> from_other_threads(std::span<const CacheEntry> others, const CacheKey& key, int level,
                                             bool under_load) {
  const auto here = team_device(key.device);
  if (!here) return std::nullopt;
  std::multimap<double, std::pair<int, const CacheEntry*>> by_distance;
  for (const CacheEntry& e : others) {
    const auto there = team_device(e.key.device);
    if (!there || e.level < level || (e.under_load() && !under_load) || e.key.problem != key.problem ||
        e.key.versions != key.versions || there->processor != here->processor || there->threads == here->threads)
      continue;
    constexpr double other_state = 100;  // beyond every count
    const double away = std::abs(std::log2(static_cast<double>(there->threads) / here->threads));
    by_distance.emplace(away + (there->state == here->state ? 0 : other_state), std::pair(there->threads, &e));
  }
  CacheEntry found{key, level, {}};
  for (const auto& [distance, other] : by_distance) {
    for (const Timing& t : other.second->timings) {
      const bool known =
          std::ranges::any_of(found.timings, [&](const Timing& k) { return k.tactic == t.tactic && k.config == t.config; });
      if (!known && t.runs()) found.timings.push_back(with_other_threads(t, other.first, here->threads));
    }
  }
  return found.timings.empty() ? std::nullopt : std::optional(std::move(found));
}

std::string to_text(std::span<const CacheEntry> entries) {
  std::string text;
  const CacheKey* before = nullptr;
  for (const CacheEntry& e : entries) {
    if (!is_a_line(e.key.problem)) continue;
    std::string timings;
    for (const Timing& t : e.timings)
      if (t.runs() && is_a_line(t.tactic) && is_a_line(t.config))
        timings += fmt::format("\t{}\t{}\t{:.5g}\t{:.5g}\t{}\t{}\t{}\t{}\n", t.tactic, t.config, t.min, std::max(t.q1, t.min),
                               t.samples, t.width, t.with_threads, t.scaled);
    if (timings.empty()) continue;
    if (!before || before->device != e.key.device || before->versions != e.key.versions)
      text += fmt::format("@{}\t{}\n", e.key.device, e.key.versions);
    before = &e.key;
    text += fmt::format("={}\t{}\n{}", e.key.problem, e.level, timings);
  }
  return text;
}

std::vector<CacheEntry> entries_in(std::string_view text) {
  std::map<std::string, CacheEntry, std::less<>> entries;
  std::string device, versions;
  CacheEntry* entry = nullptr;
  for (size_t at = 0; at < text.size();) {
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    at += line.size() + 1;
    if (line.empty()) continue;
    const std::vector<std::string_view> fields = fields_of(line.substr(1));
    if (line[0] == '@' && fields.size() == 2) {
      device = fields[0], versions = fields[1];
      entry = nullptr;
    } else if (const auto level = fields.size() == 2 ? number_in<int>(fields[1]) : std::nullopt; line[0] == '=') {
      entry = level ? &entries[std::string(fields[0])] : nullptr;
      if (entry && level) *entry = {{std::string(fields[0]), device, versions}, *level, {}};
    } else if (auto t = timing_in(line)) {
      if (entry) entry->timings.push_back(*std::move(t));
    }
  }
  std::vector<CacheEntry> all;
  for (auto& [problem, e] : entries)
    if (!e.timings.empty()) all.push_back(std::move(e));
  return all;
}

}  // namespace smelt::tune
