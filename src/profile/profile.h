// Where a plan's time goes: per step and per module scope, with the machine's roof and the likely cause.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "profile/stats.h"
#include "smelt/session.h"

namespace smelt::profile {

/// What the machine can do, as `smelt devices --measure` measured it. Zero: not measured.
struct Roof {
  double bytes_per_s = 0;               // memory bandwidth, read and write together
  double launch_us = 0;                 // starting a kernel
  std::map<DType, double> flops_per_s;  // by element type
  bool under_load = false;              // it was measured beside other work: shares of it may come out too high
  double peak(DType t) const;           // the type's, or f32's where it is not listed
  /// The least time that the bytes and the flops can take: the larger of the two, in microseconds. 0 if nothing was measured.
  double floor_us(double bytes, double flops, DType t) const;
};

/// What limits a step. `overhead` is the CPU's form of "launch": the work is too small to outweigh starting it.
enum class Limiter : uint8_t { compute, memory, latency, overhead, unknown };
std::string_view name(Limiter l);

struct StepRow {
  StepInfo step;
  Summary us;             // exclusive time, microseconds
  double share = 0;       // of the sum over steps
  double roof_share = 0;  // floor / measured; 0 when the roof is not known
  Limiter limiter = Limiter::unknown;
};

/// A module of the exported model. A step belongs to the deepest module that holds all the nodes it stands for.
struct ScopeRow {
  std::string path;  // "" for the whole model
  int depth = 0;
  double self_us = 0, total_us = 0, share = 0;  // total includes the modules inside; share is total's
  double roof_share = 0;                        // of total: the sum of its steps' floors over it
  int calls = 0;                                // steps below it
  int64_t bytes = 0, flops = 0;
};

struct MemoryRow {
  std::string name, kind, shape;  // kind "weight" or "activation"
  int64_t bytes = 0;
};

/// A copy in runs with inputs and outputs in the host's memory.
struct CopyRow {
  std::string name;  // of the input, output, value or step; "" if unknown
  CopyTime::Way way = CopyTime::Way::other;
  int64_t bytes = 0;
  Summary us;
};

/// One run on a device with inputs and outputs in the host's memory: its steps, and the copies beside them.
struct HostRun {
  std::vector<StepTime> steps;
  std::vector<CopyTime> copies;
};

struct Profile {
  std::string model;
  Summary latency_us;   // unprofiled runs: what the user sees
  double steps_us = 0;  // sum of the steps' medians
  double gaps_us = 0;   // profiled run's time outside steps (median)
  /// The share of an unprofiled run that is neither in steps nor in gaps; negative if profiling made the run longer.
  double unattributed() const { return latency_us.median > 0 ? 1 - (steps_us + gaps_us) / latency_us.median : 0; }
  std::vector<StepRow> steps;     // in execution order
  std::vector<ScopeRow> scopes;   // in module order
  std::vector<MemoryRow> memory;  // largest first
  MemoryInfo footprint;
  int64_t held(const StepRow& s) const { return footprint.weights + s.step.memory.total(); }  // while it runs
  int64_t peak_bytes = 0;  // the most that any step holds, and the name or operator of the first such step
  std::string peak_step;
  int64_t peak_host_bytes = 0;  // the process's peak resident set
  Roof roof;
  std::vector<StepTime> timeline;  // of the median profiled run
  // Of a GPU's plan, by profile_copies:
  std::vector<CopyRow> copies;  // in the order of a run; empty without CUPTI
  Summary host_latency_us;      // unprofiled runs from and to the host's memory, by the host's clock
  HostRun host_run;             // the profiled one with the median time of copies
};

struct ProfileOptions {
  int iterations = 20;
  int warmup = 3;
  double max_seconds = 20;  // stops sooner than `iterations` when reached, never before 3 runs
};

/// Profiles an execution whose inputs are bound.
Profile profile(const Plan& plan, Execution& execution, const ProfileOptions& options, const Roof& roof);
/// Times the copies that a GPU's plan makes of tensors in the host's memory, as Session::run takes and returns them, and fills in
/// the profile's last fields. It binds the execution to `inputs`. It does nothing for a plan of the processor.
void profile_copies(Profile& p, Execution& execution, std::span<const Tensor> inputs, const ProfileOptions& options);

/// Peak resident set of this process in bytes (VmHWM), and what it is now (VmRSS).
int64_t peak_resident_bytes();
int64_t resident_bytes();

}  // namespace smelt::profile
