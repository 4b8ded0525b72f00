#include "cli/busy_cores.h"

#include "base/threads.h"

namespace smelt::cli {

BusyCores::BusyCores(Does does) {
  for (int i = 0; i < threads::usable_cores(); ++i)
    threads_.emplace_back([does, this](const std::stop_token& ended) {
      if (does == Does::reads) return read(ended);
      while (!ended.stop_requested()) {
      }
    });
}

BusyCores::~BusyCores() {
  for (std::jthread& t : threads_) t.request_stop();  // all at once: each may have to wait for a core to see it
}

void BusyCores::read(const std::stop_token& ended) {
  constexpr size_t words = size_t{64} << 17, piece = size_t{1} << 14;  // 64 MiB: more than what a core caches for itself
  const std::vector<uint64_t> memory(words, 1);
  volatile uint64_t seen = 0;
  for (size_t at = 0; !ended.stop_requested(); at = (at + piece) % words) {
    uint64_t sum = 0;
    for (size_t i = 0; i < piece; ++i) sum += memory[at + i];
    seen = seen + sum;
    bytes_ += static_cast<int64_t>(piece * sizeof(uint64_t));
  }
}

}  // namespace smelt::cli
