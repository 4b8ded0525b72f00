#include "cli/busy_cores.h"

#include <chrono>

#include "base/threads.h"

namespace smelt::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int pieces_each = 4;                     // of a region, for each thread
constexpr std::chrono::microseconds piece_us{40};  // of a thread that does nothing
constexpr size_t words = size_t{64} << 17;         // 64 MiB a thread: more than what a core caches for itself
constexpr size_t piece_words = size_t{1} << 14;

}  // namespace

BusyCores::BusyCores(Does does) : does_(does), readers_(static_cast<size_t>(threads::usable_cores())) {
  if (does == Does::reads)
    for (Reader& r : readers_) r.memory.assign(words, 1);
  thread_ = std::jthread([this](const std::stop_token& ended) {
    const int threads = static_cast<int>(readers_.size());
    const threads::Scope scope(threads);
    while (!ended.stop_requested()) {
      threads::Region region(&BusyCores::piece, this, pieces_each * threads, threads);
      region.open();
      region.close();
    }
  });
}

void BusyCores::piece(void* busy, int64_t, int thread) {
  auto& self = *static_cast<BusyCores*>(busy);
  Reader& r = self.readers_[static_cast<size_t>(thread)];
  if (self.does_ == Does::nothing) {
    for (const auto end = Clock::now() + piece_us; Clock::now() < end;) {
    }
    return;
  }
  uint64_t sum = 0;
  for (size_t i = 0; i < piece_words; ++i) sum += r.memory[r.at + i];
  r.seen = r.seen + sum;
  r.at = (r.at + piece_words) % words;
  self.bytes_ += static_cast<int64_t>(piece_words * sizeof(uint64_t));
}

}  // namespace smelt::cli
