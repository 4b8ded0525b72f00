#include "run/bound_shapes.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace smelt::run {
namespace {

size_t hash_of(const Binding& binding) {
  size_t h = binding.caches.size();
  for (const Shape& shape : binding.shapes)
    for (int64_t n : shape) h = (h ^ static_cast<size_t>(n)) * 0x9e3779b97f4a7c15 + (h >> 32);
  return h;
}

}  // namespace

void BoundShapes::count_last() {
  if (all_.empty()) return;
  Kept& last = all_.front();
  const int64_t bytes = last.bound.second->held_bytes();
  bytes_ += bytes - std::exchange(last.bytes, bytes);
}

bool BoundShapes::find(const Binding& binding) {
  const auto [begin, end] = by_hash_.equal_range(hash_of(binding));
  for (auto i = begin; i != end; ++i) {
    const Place at = i->second;
    if (at->bound.first != binding) continue;
    count_last();
    all_.splice(all_.begin(), all_, at);
    return true;
  }
  return false;
}

void BoundShapes::add(Binding binding, std::unique_ptr<SegmentState> state) {
  count_last();
  const size_t hash = hash_of(binding);
  all_.push_front({{std::move(binding), std::move(state)}, hash, 0});
  by_hash_.emplace(hash, all_.begin());
  count_last();
}

size_t BoundShapes::beyond(size_t most, int64_t most_bytes) const {
  int64_t left = bytes_;
  size_t count = all_.size();
  for (auto at = all_.rbegin(); count > 1 && (count > most || (most_bytes > 0 && left > most_bytes)); ++at, --count)
    left -= at->bytes;
  return all_.size() - count;
}

void BoundShapes::drop(size_t count) {
  for (; count > 0 && all_.size() > 1; --count) {
    const Place at = std::prev(all_.end());
    const auto [begin, end] = by_hash_.equal_range(at->hash);
    by_hash_.erase(std::find_if(begin, end, [&](const auto& entry) { return entry.second == at; }));
    bytes_ -= at->bytes;
    all_.erase(at);
  }
}

std::vector<BoundShapes::Bound> BoundShapes::take() {
  std::vector<Bound> taken;
  for (Kept& kept : all_) taken.push_back(std::move(kept.bound));
  all_.clear();
  by_hash_.clear();
  bytes_ = 0;
  return taken;
}

}  // namespace smelt::run
