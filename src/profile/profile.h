// Where a plan's time goes: per step and per module scope, with the machine's roof and the likely cause.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
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

/// What limits a step (profile/limiter.h). `launch`: its work is too small to outweigh starting it.
enum class Limiter : uint8_t { compute, memory, latency, launch, unknown };
std::string_view name(Limiter l);

/// Operations a byte; 0 where nothing is moved.
inline double intensity(int64_t flops, int64_t bytes) {
  return bytes > 0 ? static_cast<double>(flops) / static_cast<double>(bytes) : 0;
}

/// How a launch fills a GPU (profile/fill.h).
struct Fill {
  std::string kernel;  // "gemm:64x64x64 2x2 s4 k1"
  int64_t blocks = 0;
  int threads = 0, registers = 0;  // of a block, of a thread
  int64_t shared = 0;              // bytes of a block
  int multiprocessors = 0;         // of the GPU
  int blocks_each = 0;             // that a multiprocessor holds at a time
  double occupancy = 0;            // warps there, of those that fit
  std::string limited_by;          // what keeps more blocks from a multiprocessor
  std::string what_if;             // "at 80 registers, 6 blocks instead of 5"
  double busy() const { return multiprocessors > 0 ? std::min(1.0, static_cast<double>(blocks) / multiprocessors) : 0; }
  double waves() const {
    return multiprocessors * blocks_each > 0 ? static_cast<double>(blocks) / (multiprocessors * blocks_each) : 0;
  }
};

/// What a GPU's counters say of a kernel (profile/counted.h). Shares are of what the GPU can sustain, from 0 to 1; NaN: the GPU does
/// not say.
struct Counted {
  double us = 0;
  double compute = 0;                   // of the busiest of the multiprocessors' units, issue slots among them
  double dram = 0, l2 = 0, l1 = 0;      // of the bandwidth of the memory and of the caches
  double issue = 0;                     // cycles of a scheduler in which it issued
  double eligible = 0;                  // warps that could have been issued, a cycle and scheduler
  double occupancy = 0;                 // warps there, of those that fit
  double threads = 0;                   // that take part in an instruction, of 32
  double dram_bytes = 0, l2_bytes = 0;  // that it moved there
  std::vector<std::pair<std::string, double>>
      stalls;  // reason ("long scoreboard: global memory") and its warps an issue, the most first

  double memory() const;  // the largest of dram, l2 and l1
};

struct StepRow {
  StepInfo step;
  Summary us;           // exclusive time, microseconds
  double share = 0;     // of the sum over steps
  double alone_us = 0;  // in the run that other work took least of, less what it took; 0: not known
  /// What the step itself takes: the median, or less where other work took time of every run.
  double own_us() const { return alone_us > 0 ? std::min(us.median, alone_us) : us.median; }
  // Of a roof that is known; else 0 and nothing:
  double compute_us = 0, memory_us = 0;  // the least that its operations and its bytes can take
  double roof_share = 0;                 // the larger of the two / measured
  double at_stake_us = 0;                // own_us() - the larger of the two
  Limiter limiter = Limiter::unknown;
  std::string because;                                        // "58% of the memory roof; its arithmetic would take 4%"
  std::vector<Fill> fills;                                    // of a GPU's plan: smelt's own kernels that the step launches
  double instructions_per_cycle = 0, missed_bytes_per_s = 0;  // by the processor's counters; 0: not counted
  std::optional<Counted> counted;                             // by a GPU's: of the kernel that takes longest

  double floor_us() const { return std::max(compute_us, memory_us); }
  double intensity() const { return profile::intensity(step.flops, step.bytes); }
};

/// A node of the model, and its part of the step that it became part of.
struct NodeRow {
  std::string name, op, step;
  double us = 0;  // of the step's: shared out by what each of its nodes would take at the roof
  int64_t bytes = 0, flops = 0;
  double floor_us = 0;  // of the node alone; fused, its results may never reach memory
  double step_roof_share = 0;
  Limiter limiter = Limiter::unknown;  // the step's

  double intensity() const { return profile::intensity(flops, bytes); }
};

/// A step inside the body of an If, Loop or Scan.
struct InnerRow {
  std::vector<std::string> path;  // the nodes that it is inside of, each with its body: "loop: body"
  StepRow row;                    // of one call, on average
  double calls = 0, us = 0;       // of one run; with what is inside of it
};

/// Something to do, and what it may save of one run.
struct Advice {
  std::string what;  // "convert it to bf16: --precision bf16"
  std::string why;   // "31 steps compute in f32, at 268 GFLOP/s at most; in bf16 it is 1.68 TFLOP/s"
  double us = 0;
  std::string from;                // what the estimate comes from: "model", "measured", "rewrites", "waiting", "kernels", "roof"
  std::vector<std::string> steps;  // where, by name, those with the most to win first; none: everywhere
  std::string option = {};         // of the command, that follows it: "--precision bf16"; empty: it takes more than that
  std::optional<double> tried_us = {};  // what following it saved, where that was tried
};

/// Who else uses a GPU, by NVML, while this process has it do nothing.
struct GpuUse {
  struct Process {
    int pid = 0;               // in the driver's namespace
    double busy_percent = 0;   // of the multiprocessors
    int64_t memory_bytes = 0;  // 0: not known
  };
  int busy_percent = 0;            // of the time, any kernel ran
  std::vector<Process> processes;  // the busiest first; none where the driver does not tell
};

/// What other work on the machine took of the unprofiled runs. Totals over them.
struct OtherWork {
  int runs = 0, disturbed = 0;  // of them, those from which more was taken than a quiet machine's housekeeping
  double waited_us = 0;         // that threads were ready and had no core
  double stolen_us = 0;         // that the hypervisor gave to others
  double throttled_us = 0;      // that a quota stood still
  int64_t preempted = 0;        // times that a thread lost its core
  double cost_us = 0;           // of a run: the median of all less that of the undisturbed; without those, of the time taken
  bool cost_measured = false;   // there were undisturbed runs
  GpuUse gpu;                   // of a GPU's plan
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
  double clock_us = 0;  // of a processor's plan: what reading the clock adds to a step, which its times are without
  double steps_us = 0;  // sum of the steps' medians
  double gaps_us =
      0;  // profiled run's time before and between steps (median, of the processor's runs over those that other work took least of)
  /// The share of an unprofiled run; not a number where none was timed.
  double of_run(double us) const { return latency_us.median > 0 ? us / latency_us.median : std::nan(""); }
  /// The share that is neither in steps nor in gaps; negative if profiling made the run longer.
  double unattributed() const { return latency_us.median > 0 ? 1 - (steps_us + gaps_us) / latency_us.median : 0; }
  std::vector<StepRow> steps;     // in execution order
  std::vector<ScopeRow> scopes;   // in module order
  std::vector<NodeRow> nodes;     // of the model, in its order: by add_nodes()
  std::vector<InnerRow> inside;   // of bodies, in the order in which they first ran
  std::vector<MemoryRow> memory;  // largest first
  MemoryInfo footprint;
  int64_t held(const StepRow& s) const { return footprint.weights + s.step.memory.total(); }  // while it runs
  int64_t peak_bytes = 0;  // the most that any step holds, and the name or operator of the first such step
  std::string peak_step;
  int64_t peak_host_bytes = 0;  // the process's peak resident set
  Roof roof;
  std::string limits_from;     // where the limiters are known from; empty without a roof
  std::string not_counted;     // why hardware counters had no part in that; empty where they had, and without a roof
  std::vector<Advice> advice;  // the most to win first
  OtherWork others;
  std::vector<StepTime> timeline;  // of the median profiled run
  // Of a GPU's plan, by profile_copies:
  std::vector<CopyRow> copies;   // in the order of a run; empty without CUPTI
  Summary host_latency_us;       // unprofiled runs from and to the host's memory, by the host's clock
  double device_latency_us = 0;  // of runs on the GPU, one at a time: that median, less what neighbouring runs differ by
  HostRun host_run;              // the profiled one with the median time of copies
};

/// Who counts a GPU's kernels: "CUPTI".
struct CountedBy {
  std::string name;
  /// Values of counted_metrics() of each kernel that these steps launch, of which there are `kernels`, in their order. Throws
  /// Error where counters cannot be read.
  std::function<std::vector<std::vector<double>>(Execution& execution, std::span<const size_t> steps, size_t kernels)> count;
};

struct ProfileOptions {
  int iterations = 20;
  int warmup = 3;
  double max_seconds = 20;               // stops sooner than `iterations` when reached, never before 3 runs
  std::function<void(double)> progress;  // told how much is done, from 0 to 1; may be empty
  std::vector<CountedBy> counters;       // of a GPU's plan, in the order in which they are asked; none: nothing is counted
};

/// Profiles an execution whose inputs are bound.
Profile profile(const Plan& plan, Execution& execution, const ProfileOptions& options, const Roof& roof);
/// Times the copies that a GPU's plan makes of tensors in the host's memory, as Session::run takes and returns them, and fills in
/// the profile's last fields. Both executions are the plan's: `there` is bound to inputs on the GPU, `host` to the host's; their runs
/// are timed in turn. It does nothing for a plan of the processor.
void profile_copies(Profile& p, Execution& there, Execution& host, const ProfileOptions& options);

/// The rows of a model's nodes: its own graph, as it was imported, for inputs of these shapes. Nodes that no step stands for are left out.
void add_nodes(Profile& p, const Graph& model, std::span<const Shape> inputs);

/// Peak resident set of this process in bytes (VmHWM), and what it is now (VmRSS).
int64_t peak_resident_bytes();
int64_t resident_bytes();

}  // namespace smelt::profile
