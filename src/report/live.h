// What services do now, as tables that are printed again and again: `smelt profile --watch`.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "device/cpu/processes.h"
#include "profile/contention.h"
#include "report/table.h"

namespace smelt::report {

struct LiveModel {
  std::string name;
  std::vector<StepInfo> steps;
  std::vector<profile::Limiter> limiters;
  std::vector<double> alone_us;  // of each step, before anything else ran
  profile::Served served;        // of the last interval
  std::deque<double> p99_us;     // of the intervals, the latest last; at most `most_kept`
};
constexpr size_t most_kept = 40;

/// A process that is watched from outside.
struct LiveProcess {
  int pid = 0;
  device::cpu::ProcessTimes before, after;
};

struct Live {
  double begun_s = 0, interval_s = 0;  // since watching began; what the figures are of
  int cores = 0;                       // that there are
  double stolen = 0;                   // of them, that the hypervisor gave to others on average
  std::vector<LiveModel> models;
  std::vector<LiveProcess> processes;
  std::vector<device::cpu::BusyProcess> others;
};

/// A line of blocks, the highest for the largest of the values.
std::string spark(const std::deque<double>& values);

/// The models or the process, the first model's steps by their time, and who else uses the cores. Tables without rows have
/// nothing to say.
std::vector<Table> live_tables(const Live& live, size_t steps);
/// One line of JSON: format, version, times, and the tables.
std::string live_json(const Live& live);

}  // namespace smelt::report
