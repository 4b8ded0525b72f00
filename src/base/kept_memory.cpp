#include "base/kept_memory.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <limits>

namespace smelt {
namespace {

std::atomic<int> plans = 0;

int64_t most_kept() {
  if (is_memory_watched) return 0;
  const int64_t machine = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return std::min(int64_t{256} << 20, machine / 16);
}

}  // namespace

int64_t KeptMemory::size_of(int64_t bytes) {
  if (bytes < smallest || bytes > std::numeric_limits<int64_t>::max() / 2) return bytes;
  const int64_t step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes))) / 8;
  return (bytes + step - 1) / step * step;
}

KeptMemory::Block KeptMemory::take(int64_t size) {
  if (size < smallest) return {};
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return {};
  // The latest one: its bytes are the likeliest to be in a cache.
  const auto fits = [&](const Block& b) { return b.size >= size && b.size / 2 <= size; };
  const auto at = std::find_if(blocks_.rbegin(), blocks_.rend(), fits);
  if (at == blocks_.rend()) return {};
  const Block block = *at;
  blocks_.erase(std::next(at).base());
  bytes_ -= block.size;
  return block;
}

bool KeptMemory::keep(const Block& block) {
  if (block.size < smallest || block.size > most_) return false;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  while (bytes_ > most_ - block.size || blocks_.size() == most_blocks) {
    std::free(blocks_.front().memory);
    bytes_ -= blocks_.front().size;
    blocks_.erase(blocks_.begin());
  }
  blocks_.push_back(block);
  bytes_ += block.size;
  return true;
}

void KeptMemory::drop() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  for (const Block& b : blocks_) std::free(b.memory);
  blocks_.clear();
  bytes_ = 0;
}

int64_t KeptMemory::bytes() const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock ? bytes_ : 0;
}

KeptMemory& kept_memory() {
  static auto* kept = new KeptMemory(most_kept());  // never destroyed: tensors outlive static objects
  return *kept;
}

KeepsMemory::KeepsMemory() { plans.fetch_add(1); }
KeepsMemory::~KeepsMemory() {
  plans.fetch_sub(1);
  kept_memory().drop();
}
bool KeepsMemory::any() { return plans.load(std::memory_order_relaxed) > 0; }

}  // namespace smelt
