// What limits a kernel, by a GPU's counters rather than by the model of its work.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "profile/profile.h"

namespace smelt::profile {

/// Shares are of what the GPU can sustain, from 0 to 1; NaN: the GPU does not say.
struct Counted {
  double us = 0;
  double compute = 0;               // of the busiest of the multiprocessors' units, issue slots among them
  double dram = 0, l2 = 0, l1 = 0;  // of the bandwidth of the memory and of the caches
  double issue = 0;                 // cycles of a scheduler in which it issued
  double eligible = 0;              // warps that could have been issued, a cycle and scheduler
  double occupancy = 0;             // warps there, of those that fit
  double threads = 0;               // that take part in an instruction, of 32
  double dram_bytes = 0;
  std::vector<std::pair<std::string, double>>
      stalls;  // reason ("long scoreboard: global memory") and its warps an issue, the most first

  double memory() const;  // the largest of dram, l2 and l1
};

/// The metrics that device::cuda::count() is to be asked for, and what their values say.
const std::vector<std::string>& counted_metrics();
Counted counted(std::span<const double> values);

/// compute and memory: a third or more of what their units sustain, whichever is more; launch: neither, and no longer than
/// starting it takes (`launch_us`, twice); latency: the rest.
Limiter limiter_of(const Counted& c, double launch_us);
/// "issue slots 78% busy, 3.1 of 32 threads an instruction: its branches diverge".
std::string because(const Counted& c, Limiter limiter);

}  // namespace smelt::profile
