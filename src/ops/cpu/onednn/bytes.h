// When oneDNN's products of 8-bit integers are exact. Its u8 · s8 kernels add products in 32 bits where they were made for VNNI
// or AMX; the others, which it offers on every CPU, add two of them in 16 bits by vpmaddubsw, which saturates, and halve the
// weights behind signed bytes. Kernels outside its "brg" families pass the sums through f32, which holds whole numbers up to
// 2^24. (Read in the sources of oneDNN 3.2.)
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "base/refusal.h"

namespace smelt::ops::onednn {

/// Weights less their zero points.
struct WeightRange {
  int32_t smallest = 0, largest = 0;
  int64_t column = 0;  // the largest sum of magnitudes behind one output
};

/// weight(column, k): element k of those behind output `column`.
template <class F> WeightRange weight_range(int64_t columns, int64_t depth, F&& weight) {
  WeightRange r;
  for (int64_t c = 0; c < columns; ++c) {
    int64_t sum = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const int32_t w = weight(c, k);
      r.smallest = std::min(r.smallest, w);
      r.largest = std::max(r.largest, w);
      sum += std::abs(w);
    }
    r.column = std::max(r.column, sum);
  }
  return r;
}

/// Why products with such weights are not products of bytes; nothing when they are.
std::optional<Refusal> rejects_weights(const WeightRange& r);

/// True where oneDNN multiplies signed bytes as they are (AMX); elsewhere they are better shifted by 128 to unsigned ones.
bool multiplies_signed_bytes();

/// Whether an implementation adds products of bytes in 32 bits, by the instruction set in its name
/// ("brgconv:avx512_core_vnni"); one without (gemm) chooses by the CPU.
bool has_dot_products(std::string_view implementation);

/// Why an implementation's 32-bit sums may be wrong or rounded; nothing when they are exact. `is_signed`: the rows are. Convolutions as
/// gemm shift signed rows by 128, and for some numbers of columns miss a part of what that adds where there are more than 256 products (seen in
/// oneDNN 3.2 on every instruction set: tests/ops/conv/quantized_conv_test.cpp).
std::optional<Refusal> rejects_sums(std::string_view implementation, bool is_signed, const WeightRange& r);

/// Operations in a microsecond of one core, roughly. `depthwise`: of a convolution with one channel a group.
double byte_flops_per_us(std::string_view implementation, bool depthwise = false);

}  // namespace smelt::ops::onednn
