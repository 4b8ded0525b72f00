// The GPU's clocks while candidates are timed.
#pragma once

#include <chrono>
#include <functional>

#include "device/cuda/nvml.h"
#include "smelt/session.h"

namespace smelt::tune {

/// Looks at them every now and then, and keeps what it saw.
class ClockWatch {
 public:
  using Read = std::function<device::cuda::GpuState()>;
  using Duration = std::chrono::steady_clock::duration;

  /// `read` may throw Error, as read_state() does where nobody knows: it is not asked again then. It is asked once in `pause` at
  /// most.
  explicit ClockWatch(Read read, Duration pause = std::chrono::milliseconds(250)) : read_(std::move(read)), pause_(pause) {}

  /// To be called while the GPU works: a state of a GPU with nothing to do is passed over.
  void look();
  const ClocksSeen& seen() const { return seen_; }

 private:
  Read read_;  // null: no more
  Duration pause_;
  std::chrono::steady_clock::time_point next_{};
  ClocksSeen seen_;
};

}  // namespace smelt::tune
