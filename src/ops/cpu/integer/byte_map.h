// What becomes of each byte.
#pragma once

#include <array>
#include <cstdint>

#include "ops/cpu/integer/program.h"
#include "ops/cpu/integer/simd/byte_line.h"
#include "ops/cpu/integer/simd/rows.h"

namespace smelt::ops::integer {

/// A table of 256 bytes, or a line that has been found to give all of them, which takes a fraction of the time where the processor has no
/// permutations of a whole table.
class ByteMap {
 public:
  ByteMap() = default;
  explicit ByteMap(const std::array<uint8_t, 256>& table) : table_(table) {}
  /// Of bytes that `from` dequantizes and `to` quantizes again.
  ByteMap(const DequantizeStep& from, bool from_signed, const Requantization& to);

  /// Whether every byte stays.
  bool is_same() const { return is_same_; }
  uint8_t operator()(uint8_t byte) const { return table_[byte]; }
  void run(uint8_t* to, const uint8_t* from, int64_t n) const;

 private:
  std::array<uint8_t, 256> table_{};
  bool is_same_ = false, has_line_ = false;
  ByteLine line_;
};

}  // namespace smelt::ops::integer
