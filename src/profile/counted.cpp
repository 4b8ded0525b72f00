#include "profile/counted.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

namespace smelt::profile {
namespace {

struct Stall {
  const char *metric, *text;
};

constexpr Stall stalls[] = {
    {"long_scoreboard", "long scoreboard: global or local memory"},
    {"short_scoreboard", "short scoreboard: shared memory or special functions"},
    {"wait", "fixed wait: the instruction before it"},
    {"math_pipe_throttle", "throttle: its arithmetic unit"},
    {"lg_throttle", "throttle: loads and stores of global memory"},
    {"mio_throttle", "throttle: shared memory and special functions"},
    {"branch_resolving", "branch"},
    {"barrier", "barrier"},
    {"gmma", "tensor cores: products of groups of warps"},
    {"no_instruction", "no instruction: code that is not in the cache"},
    {"not_selected", "another warp was issued"},
};

constexpr double busy = 1.0 / 3;       // of what a unit sustains
constexpr double converged = 24;       // threads an instruction, from which on its branches agree
constexpr double least_launch_us = 2;  // assumed where none was measured: an empty kernel takes as long on the GPU
constexpr double sector = 32;          // bytes of the L2
constexpr size_t plain = 9;            // metrics before the stalls

double share(double percent) { return percent / 100; }
double or_zero(double v) { return std::isfinite(v) ? v : 0; }
std::string percent(double part) { return fmt::format("{:.0f}%", 100 * part); }

}  // namespace

double Counted::memory() const { return std::max({or_zero(dram), or_zero(l2), or_zero(l1)}); }

const std::vector<std::string>& counted_metrics() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all{"gpu__time_duration.sum",
                                 "sm__throughput.avg.pct_of_peak_sustained_elapsed",
                                 "dram__throughput.avg.pct_of_peak_sustained_elapsed",
                                 "lts__throughput.avg.pct_of_peak_sustained_elapsed",
                                 "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
                                 "smsp__issue_active.avg.pct_of_peak_sustained_active",
                                 "smsp__warps_eligible.avg.per_cycle_active",
                                 "sm__warps_active.avg.pct_of_peak_sustained_active",
                                 "smsp__thread_inst_executed_per_inst_executed.ratio"};
    for (const Stall& s : stalls)
      all.push_back(fmt::format("smsp__average_warps_issue_stalled_{}_per_issue_active.ratio", s.metric));
    // A GPU has some of these: bytes themselves, or what they are the sum or a multiple of.
    for (const char* m :
         {"lts__t_bytes.sum", "lts__t_sectors.sum", "dram__bytes_read.sum", "dram__bytes_write.sum", "dram__bytes.sum"})
      all.push_back(m);
    return all;
  }();
  return names;
}

Counted counted(std::span<const double> v) {
  Counted c;
  c.us = v[0] * 1e-3;
  c.compute = share(v[1]), c.dram = share(v[2]), c.l2 = share(v[3]), c.l1 = share(v[4]), c.issue = share(v[5]);
  c.eligible = v[6], c.occupancy = share(v[7]), c.threads = v[8];
  for (size_t i = 0; i < std::size(stalls); ++i)
    if (v[plain + i] > 0) c.stalls.emplace_back(stalls[i].text, v[plain + i]);
  std::ranges::stable_sort(c.stalls, std::greater(), &std::pair<std::string, double>::second);
  const auto moved = v.subspan(plain + std::size(stalls));
  c.l2_bytes = std::isfinite(moved[0]) ? moved[0] : sector * moved[1];
  c.dram_bytes = std::isfinite(moved[4]) ? moved[4] : moved[2] + moved[3];
  return c;
}

Limiter limiter_of(const Counted& c, double launch_us) {
  const double compute = or_zero(c.compute);
  if (std::max(compute, c.memory()) >= busy) return compute >= c.memory() ? Limiter::compute : Limiter::memory;
  if (c.us <= 2 * std::max(launch_us, least_launch_us)) return Limiter::launch;
  return Limiter::latency;
}

std::string because(const Counted& c, Limiter limiter) {
  std::string text;
  switch (limiter) {
    case Limiter::compute:
      text = fmt::format("its busiest unit {} busy, issue slots {}", percent(c.compute), percent(c.issue));
      break;
    case Limiter::memory:
      text = c.dram >= std::max(or_zero(c.l2), or_zero(c.l1))
                 ? fmt::format("memory {} busy", percent(c.dram))
                 : fmt::format("caches {} busy, memory {}", percent(std::max(or_zero(c.l2), or_zero(c.l1))), percent(c.dram));
      break;
    case Limiter::latency:
      text = fmt::format("issue slots {} busy, {:.2g} warps eligible, occupancy {}", percent(c.issue), c.eligible,
                         percent(c.occupancy));
      if (!c.stalls.empty()) text += "; most warps wait for " + c.stalls.front().first;
      break;
    case Limiter::launch: text = fmt::format("it takes {:.2g} µs, as starting one does", c.us); break;
    case Limiter::unknown: return "";
  }
  if (limiter != Limiter::launch && c.threads > 0 && c.threads < converged)
    text += fmt::format("; {:.1f} of 32 threads an instruction: its branches diverge", c.threads);
  return text;
}

}  // namespace smelt::profile
