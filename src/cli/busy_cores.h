// Work beside which a model is served, to see what others on its cores will cost it.
#pragma once

#include <atomic>
#include <cstdint>
#include <stop_token>
#include <thread>
#include <vector>

namespace smelt::cli {

/// A thread on each core, from now to its end.
class BusyCores {
 public:
  enum class Does : uint8_t { nothing, reads };  // reads: memory as fast as it can, so that nobody's caches stay as they are
  explicit BusyCores(Does does);
  ~BusyCores();
  BusyCores(const BusyCores&) = delete;
  int64_t bytes_read() const { return bytes_; }

 private:
  void read(const std::stop_token& ended);

  std::atomic<int64_t> bytes_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace smelt::cli
