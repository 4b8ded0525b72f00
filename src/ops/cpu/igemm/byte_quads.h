// Constant bytes as the right operand of AVX2's multiply-add of bytes, exact.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "smelt/tensor.h"

namespace smelt::ops::igemm {

/// B packed for rows of unsigned bytes: quads of K, so that an element of A or B is four bytes. vpmaddubsw adds the products of two
/// neighbours in 16 bits, which hold 255 times what two weights of one sign may sum to: 128. Of a pair that sums to more, the larger keeps
/// what fits, and the rest is a list of its own, added to the sums one by one. One scale for a whole tensor leaves some pairs in a thousand,
/// one for each column several in a hundred.
class ByteQuads {
 public:
  /// A part of B's element [k, column] that the quads lack.
  struct Rest {
    int32_t k, column, value;
  };
  /// Writes elements [k, n] to [k, n + count) of B.
  using Row = std::function<void(int64_t k, int64_t n, int64_t count, int16_t* to)>;

  /// The packed form of k × n, as bytes; one byte where the rests are so many that pairs of 16 bits are as fast.
  static Tensor pack(int64_t k, int64_t n, const Row& row);
  static bool fits(const Tensor& packed) { return packed.size() > 1; }

  /// Of a form that fits, which it keeps.
  explicit ByteQuads(Tensor packed);

  const float* quads() const { return quads_; }
  /// Σ over k of B[k, n], for each n, wrapping.
  std::span<const int32_t> column_sums() const { return column_sums_; }

  /// Adds to sums of `rows` rows of A, `stride` apart, and of columns [column, column + columns), both of whole panels, what the rests make.
  /// row(i): where row i of A begins.
  template <class A> void add_rests(int64_t column, int64_t columns, int64_t rows, int32_t* sums, int64_t stride, A&& row) const {
    const std::span<const Rest> rests = rests_of(column, columns);
    if (rests.empty()) return;
    for (int64_t i = 0; i < rows; ++i, sums += stride) {
      const uint8_t* a = row(i);
      for (const Rest& r : rests) {
        int32_t& sum = sums[r.column - column];
        sum = static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(a[r.k] * r.value));
      }
    }
  }

 private:
  std::span<const Rest> rests_of(int64_t column, int64_t columns) const;

  Tensor packed_;
  const float* quads_;
  std::span<const int32_t> column_sums_, panels_;  // where each panel's rests begin, and their number behind
  std::span<const Rest> rests_;
};

}  // namespace smelt::ops::igemm
