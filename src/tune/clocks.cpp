#include "tune/clocks.h"

#include <algorithm>

#include "smelt/error.h"

namespace smelt::tune {

void ClockWatch::look() {
  const auto now = std::chrono::steady_clock::now();
  if (!read_ || now < next_) return;
  next_ = now + pause_;
  device::cuda::GpuState state;
  try {
    state = read_();
  } catch (const Error&) {
    read_ = nullptr;
    return;
  }
  if (state.idle || !state.clock_mhz) return;
  const int mhz = *state.clock_mhz;
  seen_.lowest_mhz = seen_.lowest_mhz == 0 ? mhz : std::min(seen_.lowest_mhz, mhz);
  seen_.highest_mhz = std::max(seen_.highest_mhz, mhz);
  seen_.most_mhz = state.max_clock_mhz.value_or(0);
  for (const std::string& reason : state.slowed_by)
    if (std::ranges::find(seen_.slowed_by, reason) == seen_.slowed_by.end()) seen_.slowed_by.push_back(reason);
}

}  // namespace smelt::tune
