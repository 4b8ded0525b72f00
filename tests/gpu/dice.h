// Random choices, the same for a seed everywhere.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>

namespace smelt::ops {

class Dice {
 public:
  explicit Dice(uint32_t seed) : engine_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint32_t>(n)); }
  int64_t one_of(std::initializer_list<int64_t> list) { return list.begin()[below(static_cast<int64_t>(list.size()))]; }

 private:
  std::mt19937 engine_;
};

}  // namespace smelt::ops
