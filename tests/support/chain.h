// Memory whose every read waits for the one before it: how long a walk takes tells whether a cache holds it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

namespace smelt {

class Chain {
 public:
  /// Cache lines of 64 bytes, in an order that no prefetcher guesses.
  explicit Chain(size_t lines) : next_(lines * line) {
    std::vector<uint32_t> order(lines);
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    for (size_t i = 0; i < lines; ++i) next_[order[i] * line] = order[(i + 1) % lines] * static_cast<uint32_t>(line);
  }
  std::span<const std::byte> memory() const { return std::as_bytes(std::span(next_)); }
  /// Through all of it; the result is that it was read.
  uint32_t walk() const {
    uint32_t at = 0;
    for (size_t i = 0; i < next_.size() / line; ++i) at = next_[at];
    return at;
  }

 private:
  static constexpr size_t line = 64 / sizeof(uint32_t);
  std::vector<uint32_t> next_;
};

}  // namespace smelt
