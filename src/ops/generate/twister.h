// The words of the Mersenne twister MT19937 (Matsumoto and Nishimura, 1998) by whole states, whose loops compilers vectorise: those
// of std::mt19937 with the same seed.
#pragma once

#include <cstdint>

namespace smelt::ops {

class Twister {
 public:
  static constexpr int64_t words = 624;  // of a state

  explicit Twister(uint32_t seed) {
    state_[0] = seed;
    for (uint32_t i = 1; i < words; ++i) state_[i] = 1812433253u * (state_[i - 1] ^ state_[i - 1] >> 30) + i;
  }

  /// The next `states` times 624 words.
  void next(uint32_t* to, int64_t states) {
    for (int64_t s = 0; s < states; ++s, to += words) {
      advance();
      for (int64_t i = 0; i < words; ++i) to[i] = tempered(state_[i]);
    }
  }

 private:
  static constexpr int64_t ahead = 397;

  static uint32_t twisted(uint32_t high, uint32_t low) {
    return ((high & 0x80000000u) | (low & 0x7fffffffu)) >> 1 ^ (0x9908b0dfu & (0u - (low & 1u)));
  }
  static uint32_t tempered(uint32_t v) {
    v ^= v >> 11;
    v ^= v << 7 & 0x9d2c5680u;
    v ^= v << 15 & 0xefc60000u;
    return v ^ v >> 18;
  }
  void advance() {
    uint32_t* s = state_;
    for (int64_t i = 0; i < words - ahead; ++i) s[i] = s[i + ahead] ^ twisted(s[i], s[i + 1]);
    for (int64_t i = words - ahead; i < words - 1; ++i) s[i] = s[i - (words - ahead)] ^ twisted(s[i], s[i + 1]);
    s[words - 1] = s[ahead - 1] ^ twisted(s[words - 1], s[0]);
  }

  uint32_t state_[words];
};

/// In [0, 1), 53 bits, of two words.
inline double uniform_of(const uint32_t* words) {
  return (static_cast<double>(words[0] >> 5) * 67108864.0 + static_cast<double>(words[1] >> 6)) * (1 / 9007199254740992.0);
}

}  // namespace smelt::ops
