// What ends a build or a run before its time: a cancellation, a time limit, a question that the caller answers with yes.
//
// Long work asks check_stop() between its pieces: between steps, iterations, problems that are tuned. It costs a read of a
// thread's variable and of an atomic one; where there is a limit or a question, also a read of the processor's counter.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace smelt {

/// What may stop one build or run; its thread alone checks it.
class Stop {
 public:
  /// `cancelled` may be null. `seconds`: a time limit from here on; 0: none. `stop_when` may be empty; it must outlive this.
  Stop(const std::atomic<bool>* cancelled, double seconds, const std::function<bool()>& stop_when);
  /// Throws Error (stopped) that says why.
  void check() {
    if (cancelled_ && cancelled_->load(std::memory_order_relaxed)) say_cancelled();
    if (timed_ && (++checks_ & skipped_) == 0) read_counter();
  }

 private:
  static constexpr int64_t interval = 10'000'000;  // of the processor's counter: 2 to 5 ms
  static constexpr int looks_a_question = 10;      // it may have to wait for a lock of the caller's
  static constexpr uint32_t most_skipped = 15;     // checks between two readings of the counter, where checks are fast
  [[noreturn]] static void say_cancelled();
  void read_counter() {
    const auto passed = static_cast<int64_t>(__builtin_ia32_rdtsc() - last_);
    if (passed > interval) {
      skipped_ = 0;
      look();
    } else if (skipped_ < most_skipped) {
      skipped_ = skipped_ * 2 + 1;
    }
  }
  void look();

  using Clock = std::chrono::steady_clock;
  const std::atomic<bool>* cancelled_;
  bool timed_;
  uint64_t last_ = 0;
  uint32_t checks_ = 0, skipped_ = 0;
  int looks_ = 0;
  double seconds_;
  Clock::time_point end_;
  const std::function<bool()>* stop_when_;
};

/// Makes check_stop() of this thread ask `stop`, too, while it lives.
class StopScope {
 public:
  explicit StopScope(Stop& stop);
  ~StopScope();
  StopScope(const StopScope&) = delete;

 private:
  friend void check_stop();
  Stop& stop_;
  StopScope* outer_;
};

/// Ends the work of this thread by an Error where something wants that.
void check_stop();

}  // namespace smelt
