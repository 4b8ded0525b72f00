#include "profile/counted_kernels.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/process.h"
#include "device/cuda/activity.h"
#include "device/cuda/counters.h"
#include "run/single_steps.h"

namespace smelt::profile {
namespace {

namespace cuda = device::cuda;

constexpr size_t most_kernels = 60;  // of one of each kind: where each is run again by itself, it takes a second or two
constexpr size_t most_replayed = 4000;
constexpr int most_ncu_s = 300;

/// Steps of one kind run the same kernels on the same shapes. One without a problem is of its own kind.
auto kind_of(const StepRow& r) {
  const bool known = !r.step.problem.empty();
  return std::tuple(r.step.op, known ? r.step.problem : r.step.name, r.step.tactic, r.step.config, r.step.output_shapes);
}

/// By step: the kernels among the work of the recording, by one traced run; nothing where they cannot be told.
std::optional<std::vector<size_t>> kernels_of(Execution& execution, const std::shared_ptr<cuda::Device>& device) {
  const std::vector<size_t> pieces = run::recorded_work(execution);
  std::vector<size_t> all(pieces.size()), kernels(pieces.size());
  std::iota(all.begin(), all.end(), 0);
  cuda::ActivityTrace trace(device);
  run::run_steps(execution, all);
  const std::vector<cuda::Activity> work = trace.stop();
  if (pieces.empty() || work.size() != std::accumulate(pieces.begin(), pieces.end(), size_t{0})) return std::nullopt;
  size_t at = 0;
  for (size_t step = 0; step < pieces.size(); ++step)
    for (size_t i = 0; i < pieces[step]; ++i, ++at)
      kernels[step] += work[at].kind == cuda::Activity::Kind::kernel && !work[at].name.starts_with("memset");
  return kernels;
}

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      cells.emplace_back();
    else if (c != '\r')
      cells.back() += c;
  }
  return cells;
}

/// Counts these steps, and refines them and those of their kinds that are not among them. Throws Error where that fails.
void count_by(const CountedBy& way, Execution& execution, const std::vector<size_t>& steps, const std::vector<size_t>& kernels,
              std::vector<StepRow>& rows, double launch_us) {
  size_t all = 0;
  for (const size_t s : steps) all += kernels[s];
  const std::vector<std::vector<double>> values = way.count(execution, steps, all);
  if (values.size() != all) fail("{} kernels were launched, {} were counted", all, values.size());
  std::map<decltype(kind_of(rows[0])), std::vector<Counted>> kinds;
  size_t at = 0;
  std::vector<bool> own(rows.size());
  for (const size_t s : steps) {
    std::vector<Counted> of;
    for (size_t i = 0; i < kernels[s]; ++i) of.push_back(counted(values[at++]));
    refine(rows[s], of, launch_us);
    own[s] = true;
    kinds.try_emplace(kind_of(rows[s]), std::move(of));
  }
  for (size_t s = 0; s < rows.size(); ++s)
    if (const auto found = kinds.find(kind_of(rows[s])); !own[s] && found != kinds.end())
      refine(rows[s], found->second, launch_us);
}

/// "1,234.5" → 1234.5
double number(std::string text) {
  std::erase(text, ',');
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() ? std::numeric_limits<double>::quiet_NaN() : value;
}

}  // namespace

std::vector<size_t> steps_to_count(const std::vector<StepRow>& rows, std::span<const size_t> kernels, size_t most) {
  std::map<decltype(kind_of(rows[0])), std::pair<double, size_t>> kinds;  // what all of a kind take, and the first of them
  for (size_t i = 0; i < std::min(rows.size(), kernels.size()); ++i)
    if (kernels[i] > 0) kinds.try_emplace(kind_of(rows[i]), 0, i).first->second.first += rows[i].us.median;
  std::vector<std::pair<double, size_t>> order;
  for (const auto& [kind, took] : kinds) order.push_back(took);
  std::ranges::sort(order,
                    [](const auto& a, const auto& b) { return std::tie(b.first, a.second) < std::tie(a.first, b.second); });
  std::vector<size_t> steps;
  size_t sum = 0;
  for (const auto& [us, step] : order)
    if (sum + kernels[step] <= most) sum += kernels[step], steps.push_back(step);
  std::ranges::sort(steps);
  return steps;
}

void refine(StepRow& row, std::span<const Counted> kernels, double launch_us) {
  const auto longest = std::ranges::max_element(kernels, {}, &Counted::us);
  if (longest == kernels.end()) return;
  row.counted = *longest;
  row.limiter = limiter_of(*longest, launch_us);
  row.because = because(*longest, row.limiter);
  if (kernels.size() > 1) row.because += fmt::format("; the longest of {} kernels", kernels.size());
}

CountedSteps count_kernels(Execution& execution, std::vector<StepRow>& rows, double launch_us, std::span<const CountedBy> ways) {
  CountedSteps result;
  if (result.missing = run::no_single_steps(execution); !result.missing.empty()) return result;
  std::optional<std::vector<size_t>> kernels;
  try {
    kernels = kernels_of(execution, run::device_of(execution));
  } catch (const Error& e) {
    result.missing = e.what();
    return result;
  }
  if (!kernels) {
    result.missing = "which kernels are which step's cannot be told";
    return result;
  }
  std::vector<size_t> every;
  for (size_t s = 0; s < kernels->size(); ++s)
    if ((*kernels)[s] > 0) every.push_back(s);
  if (every.empty()) return result;
  for (const CountedBy& way : ways) {
    std::string why;
    for (const std::vector<size_t>& steps : {every, steps_to_count(rows, *kernels, most_kernels)}) {
      try {
        count_by(way, execution, steps, *kernels, rows, launch_us);
        result.by = way.name, result.missing.clear();
        return result;
      } catch (const Error& e) {
        why = e.what();
      }
    }
    result.missing += (result.missing.empty() ? "" : "; ") + way.name + ": " + why;
  }
  return result;
}

CountedBy by_cupti() {
  return {"CUPTI", [](Execution& execution, std::span<const size_t> steps, size_t kernels) {
            if (const std::string why = cuda::counters_missing(); !why.empty()) fail("{}", why);
            if (kernels > most_replayed) fail("{} kernels are more than {}", kernels, most_replayed);
            // One more than expected has room, so that one too many is seen.
            const auto count = [&](cuda::Replay replay) {
              return cuda::count(
                  run::device_of(execution), counted_metrics(), kernels + 1, [&] { run::run_steps(execution, steps); }, replay);
            };
            try {
              return count(cuda::Replay::user);
            } catch (const Error&) {
              if (kernels > most_kernels) throw;
            }
            return count(cuda::Replay::kernel);
          }};
}

std::vector<std::vector<double>> count_by_nsight_compute(const std::vector<std::string>& program, size_t kernels) {
  const std::vector<std::string>& metrics = counted_metrics();
  std::vector<std::string> words{"ncu",
                                 "--csv",
                                 "--page",
                                 "raw",
                                 "--print-units",
                                 "base",
                                 "--profile-from-start",
                                 "off",
                                 "--clock-control",
                                 "none",
                                 "--launch-count",
                                 std::to_string(kernels),
                                 "--metrics",
                                 fmt::format("{}", fmt::join(metrics, ","))};
  words.insert(words.end(), program.begin(), program.end());
  const Finished ran = run_program(words, -1, most_ncu_s);
  if (ran.not_started == ENOENT) fail("ncu is not on PATH");
  if (ran.not_started) fail("ncu does not start: {}", std::strerror(ran.not_started));
  if (!ran.in_time) fail("ncu took more than {} s", most_ncu_s);
  return read_nsight_compute(ran.output, metrics);
}

std::vector<std::vector<double>> read_nsight_compute(const std::string& printed, const std::vector<std::string>& metrics) {
  std::vector<std::vector<double>> values;
  std::vector<std::string> columns;
  std::string said;
  for (size_t at = 0; at < printed.size();) {
    const size_t end = std::min(printed.find('\n', at), printed.size());
    const std::string_view line = std::string_view(printed).substr(at, end - at);
    at = end + 1;
    if (line.starts_with("==ERROR=="))
      said += (said.empty() ? "" : "; ") + std::string(line.substr(std::min<size_t>(10, line.size())));
    if (line.starts_with("\"ID\",")) columns = cells_of(line);
    if (columns.empty() || line.size() < 2 || line[0] != '"' || !std::isdigit(static_cast<unsigned char>(line[1]))) continue;
    const std::vector<std::string> cells = cells_of(line);
    std::vector<double>& row = values.emplace_back();
    for (const std::string& m : metrics) {
      const auto column = static_cast<size_t>(std::ranges::find(columns, m) - columns.begin());
      row.push_back(column < cells.size() ? number(cells[column]) : std::numeric_limits<double>::quiet_NaN());
    }
  }
  if (columns.empty()) fail("{}", said.empty() ? "Nsight Compute printed no table" : said);
  return values;
}

}  // namespace smelt::profile
