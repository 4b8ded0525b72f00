// What the processor's counters say of this process's threads, by samples over time: perf_event_open.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace smelt::device::cpu {

/// What is counted: perf_event_attr's type and config.
struct CountedEvent {
  uint32_t type = 0;
  uint64_t config = 0;
};
/// The first says when samples are taken: each time that it has counted so many more.
struct SampledEvents {
  std::array<CountedEvent, 3> events;
  uint64_t period = 0;
};
/// Cycles, instructions, misses of the last cache.
SampledEvents hardware_events();

/// Of one thread: what it had counted at a moment.
struct CounterSample {
  int64_t at_ns = 0;  // CLOCK_MONOTONIC
  std::array<uint64_t, 3> counts{};
};

/// Samples every thread that this process has when it is made.
class CounterSampler {
 public:
  /// Throws Error (unsupported) where the system or the processor has no such counters for this process, saying why.
  explicit CounterSampler(const SampledEvents& events = hardware_events());
  ~CounterSampler();
  CounterSampler(const CounterSampler&) = delete;

  void start();
  /// Ends sampling. One list a thread, in the order of time; samples that found no room are left out.
  std::vector<std::vector<CounterSample>> stop();

 private:
  struct Thread;
  std::vector<std::unique_ptr<Thread>> threads_;
};

/// Why hardware_events() cannot be counted here: "this machine shows no hardware counters (most virtual machines do not)"; empty
/// where they can.
std::string counters_missing();

}  // namespace smelt::device::cpu
