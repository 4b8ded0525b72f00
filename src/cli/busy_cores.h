// Work beside which a model is served, to see what others on its cores will cost it.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace smelt::cli {

/// All cores busy from now to its end, by what a model's steps are to the scheduler: regions of the process's threads, one after
/// the other. What a thread of another kind takes from a model is more than what another model takes.
class BusyCores {
 public:
  enum class Does : uint8_t { nothing, reads };  // reads: memory as fast as it can, so that nobody's caches stay as they are
  explicit BusyCores(Does does);
  BusyCores(const BusyCores&) = delete;
  int64_t bytes_read() const { return bytes_; }

 private:
  struct alignas(64) Reader {  // of a thread
    std::vector<uint64_t> memory;
    size_t at = 0;
    volatile uint64_t seen = 0;
  };
  static void piece(void* busy, int64_t which, int thread);

  Does does_;
  std::vector<Reader> readers_;
  std::atomic<int64_t> bytes_ = 0;
  std::jthread thread_;
};

}  // namespace smelt::cli
