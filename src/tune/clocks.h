// The GPU's clocks while candidates are timed.
#pragma once

#include <chrono>
#include <functional>

#include "device/cuda/nvml.h"
#include "smelt/session.h"

namespace smelt::tune {

/// Reads the clocks from time to time, and keeps what it read.
class ClockWatch {
 public:
  using Read = std::function<device::cuda::GpuState()>;
  using Duration = std::chrono::steady_clock::duration;

  /// `read` may throw Error, as read_state() does without NVML; then it is not called again. It is called at most once in
  /// `pause`.
  explicit ClockWatch(Read read, Duration pause = std::chrono::milliseconds(250)) : read_(std::move(read)), pause_(pause) {}

  /// Call it while the GPU works: it ignores the state of an idle GPU.
  void look();
  const ClocksSeen& seen() const { return seen_; }

 private:
  Read read_;  // null: no more
  Duration pause_;
  std::chrono::steady_clock::time_point next_{};
  ClocksSeen seen_;
};

}  // namespace smelt::tune
