// The banks of shared memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <vector>

namespace smelt::ops {

/// How often the busiest bank is met by accesses of `bytes` bytes at these addresses.
inline int busiest(const std::vector<uint32_t>& addresses, uint32_t bytes) {
  std::array<std::set<uint32_t>, 32> words;  // by bank: the words asked for, each served once
  for (const uint32_t a : addresses)
    for (uint32_t w = a / 4; w < (a + bytes) / 4; ++w) words[w % 32].insert(w);
  size_t most = 0;
  for (const auto& w : words) most = std::max(most, w.size());
  return static_cast<int>(most);
}

}  // namespace smelt::ops
