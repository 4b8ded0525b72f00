// How threads wait for each other: spinning, sleeping on a word in memory (a futex), and a lock for a few instructions.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <thread>

namespace smelt::threads {

inline void pause() { __builtin_ia32_pause(); }

/// `most`: the longest sleep; 0: without end.
inline void sleep_while(std::atomic<uint32_t>& word, uint32_t value,
                        std::chrono::microseconds most = std::chrono::microseconds(0)) {
  const timespec limit{0, std::chrono::nanoseconds(most).count()};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, most.count() > 0 ? &limit : nullptr, nullptr, 0);
}

/// `word` may lie in memory that is used otherwise by now: its owner then wakes for nothing.
inline void wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

/// Held for some ten instructions at a time.
class SpinLock {
 public:
  void lock() {
    for (int tries = 0; held_.exchange(true, std::memory_order_acquire);) {
      while (held_.load(std::memory_order_relaxed)) {
        if (++tries % 256 == 0) std::this_thread::yield();
        pause();
      }
    }
  }
  bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace smelt::threads
