// Decisions that make a random case: drawn from a seed, or given. A case is its list of decisions, so that any case can be made
// again and made smaller without knowing what it is of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

namespace smelt::ops::scan {

class Choices {
 public:
  explicit Choices(uint64_t seed) : engine_(seed) {}
  /// Decisions made before; those behind the list's end are 0.
  explicit Choices(std::vector<uint32_t> given) : given_(std::move(given)), draws_(false) {}

  /// A number below n. 0 is to be the simplest.
  int64_t below(int64_t n) {
    const size_t at = made_.size();
    const uint64_t drawn = draws_ ? engine_() : at < given_.size() ? given_[at] : 0;
    made_.push_back(static_cast<uint32_t>(drawn % static_cast<uint64_t>(std::max<int64_t>(n, 1))));
    return made_.back();
  }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool one_in(int64_t n) { return below(n) == 1; }
  template <class T> T of(std::initializer_list<T> list) { return std::data(list)[below(static_cast<int64_t>(list.size()))]; }
  /// An extent of 1 to `most`; half of them lie about where registers and blocks end.
  int64_t extent(int64_t most) {
    static constexpr int64_t edges[] = {1,  2,  3,  4,  5,  7,  8,  9,  15, 16, 17,  23,  24,  31,  32,  33,  40,  47,
                                        48, 49, 63, 64, 65, 79, 80, 81, 96, 97, 127, 128, 129, 160, 191, 192, 255, 256};
    const auto count = std::upper_bound(std::begin(edges), std::end(edges), most) - std::begin(edges);
    return one_in(2) ? between(1, most) : edges[below(count)];
  }

  const std::vector<uint32_t>& made() const { return made_; }

 private:
  std::mt19937_64 engine_;
  std::vector<uint32_t> given_, made_;
  bool draws_ = true;
};

}  // namespace smelt::ops::scan
