#include "base/stop.h"

#include <algorithm>

#include "base/error.h"

namespace smelt {
namespace {

thread_local StopScope* innermost = nullptr;

}  // namespace

Stop::Stop(const std::atomic<bool>* cancelled, double seconds, const std::function<bool()>& stop_when)
    : cancelled_(cancelled), timed_(seconds > 0 || stop_when), seconds_(seconds), stop_when_(&stop_when) {
  if (!timed_) return;
  last_ = __builtin_ia32_rdtsc();
  constexpr double most = 1e9;  // a clock's ticks are 64 bits of nanoseconds
  if (seconds > 0)
    end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(seconds, most)));
}

void Stop::say_cancelled() { throw Error("cancelled", "", ExitCode::stopped); }

void Stop::look() {
  last_ = __builtin_ia32_rdtsc();
  if (seconds_ > 0 && Clock::now() >= end_)
    throw Error(fmt::format("it took longer than its limit of {} s", seconds_),
                "Give it more time: --time-limit, Options::time_limit, time_limit=", ExitCode::stopped);
  if (*stop_when_ && ++looks_ % looks_a_question == 0 && (*stop_when_)()) throw Error("stopped", "", ExitCode::stopped);
}

StopScope::StopScope(Stop& stop) : stop_(stop), outer_(innermost) { innermost = this; }
StopScope::~StopScope() { innermost = outer_; }

void check_stop() {
  for (StopScope* s = innermost; s; s = s->outer_) s->stop_.check();
}

}  // namespace smelt
