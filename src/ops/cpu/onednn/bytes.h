// When oneDNN's products of 8-bit integers are exact. Its u8 · s8 kernels add products in 32 bits where they were made for VNNI
// or AMX; the others, which it offers on every CPU, add two of them in 16 bits by vpmaddubsw, which saturates. Kernels outside its
// "brg" families pass the sums through f32, which holds whole numbers up to 2^24. (Read in the sources of oneDNN 3.2.)
//
// Signed bytes are multiplied as they are on AMX alone. Elsewhere oneDNN shifts them by 128 and takes what that adds away again, by sums of
// weights that the reorder of the weights writes: those are wrong for some weights, of more than 256 products behind a column (by gemm) or of
// eight taps of one channel (depthwise, AVX-VNNI), and halved where there are no dot products. So smelt shifts signed bytes itself.
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

/// True where oneDNN has implementations that multiply signed bytes as they are (AMX); the others are given them shifted by 128.
bool multiplies_signed_bytes();

/// Whether an implementation adds products of bytes in 32 bits, by the instruction set in its name
/// ("brgconv:avx512_core_vnni"); one without (gemm) chooses by the CPU.
bool has_dot_products(std::string_view implementation);

/// Why an implementation's 32-bit sums may be wrong or rounded; nothing when they are exact. `is_signed`: the rows are.
std::optional<Refusal> rejects_sums(std::string_view implementation, bool is_signed, const WeightRange& r);

/// Operations in a microsecond of one core, roughly. `depthwise`: of a convolution with one channel a group.
double byte_flops_per_us(std::string_view implementation, bool depthwise = false);
/// Microseconds of one core for a product of so many operations, with a result of m rows and n columns.
double byte_product_us(std::string_view implementation, double flops, int64_t m, int64_t n);

}  // namespace smelt::ops::onednn
