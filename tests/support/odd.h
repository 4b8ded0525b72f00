// Numbers as odd as a damaged model can have them, the same ones for the same seed.
#pragma once

#include <climits>
#include <cstdint>
#include <iterator>
#include <random>

namespace smelt::test {

class Odd {
 public:
  explicit Odd(unsigned seed) : rng_(seed) {}

  size_t below(size_t n) { return rng_() % n; }
  bool one_in(size_t n) { return below(n) == 0; }
  int64_t number() {
    static constexpr int64_t odd[] = {0, 1, -1, 2, 3, 7, 255, 1 << 20, int64_t{1} << 40, INT32_MAX, INT64_MAX, INT64_MIN};
    return one_in(2) ? odd[below(std::size(odd))] : static_cast<int64_t>(below(6));
  }

 private:
  std::mt19937 rng_;
};

}  // namespace smelt::test
