#include "ops/cpu/onednn/bytes.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "ops/cpu/integer/sixteen_bits.h"
#include "ops/cpu/onednn/primitive.h"

namespace smelt::ops::onednn {
namespace {

constexpr int64_t largest_byte = 255;

}  // namespace

std::optional<Refusal> rejects_weights(const WeightRange& r) {
  if (r.smallest < -128 || r.largest > 127) {
    return refuse(Reason::wrong_value, "weights less their zero points reach from {} to {}, beyond 8 bits", r.smallest,
                  r.largest);
  }
  return std::nullopt;
}

bool has_dot_products(std::string_view implementation) {
  for (std::string_view isa : {"vnni", "amx", "avx512_core_bf16", "avx512_core_fp16"})
    if (names(implementation, isa)) return true;
  return !names(implementation, "avx") && has(dnnl::cpu_isa::avx512_core_vnni);
}

bool multiplies_signed_bytes() { return has(dnnl::cpu_isa::avx512_core_amx); }

std::optional<Refusal> rejects_sums(std::string_view implementation, bool is_signed, const WeightRange& r) {
  if (is_signed && !names(implementation, "amx"))
    return refuse(Reason::not_exact, "{} shifts signed bytes by 128, and may make up for that wrongly", implementation);
  if (!has_dot_products(implementation)) {
    constexpr int32_t safe = integer::most_of_one_sign / 2;
    const int32_t magnitude = std::max(r.largest, -r.smallest);
    if (magnitude > safe) {
      return refuse(
          Reason::not_exact,
          "{} has no 8-bit dot products (AVX-512 VNNI, AVX-VNNI or AMX): vpmaddubsw saturates at 32767, and weights reach {}; at "
          "most {} is safe",
          implementation, magnitude, safe);
    }
  }
  if (implementation.starts_with("brg")) return std::nullopt;
  constexpr int64_t largest_whole = int64_t{1} << 24;
  const int64_t most = r.column * largest_byte;
  if (most <= largest_whole) return std::nullopt;
  return refuse(Reason::not_exact, "{} passes sums through f32; they may reach {}, at most {} are exact", implementation, most,
                largest_whole);
}

double byte_flops_per_us(std::string_view implementation, bool depthwise) {
  // Measured on Zen 3 at 3.2 GHz (AVX2) and on a Xeon with AMX.
  if (depthwise) return names(implementation, "gemm") ? 900 : names(implementation, "avx512") ? 22e3 : 15e3;
  if (names(implementation, "amx")) return 800e3;
  if (has_dot_products(implementation) && !names(implementation, "avx2")) return 350e3;
  return 140e3;
}

double byte_product_us(std::string_view implementation, double flops, int64_t m, int64_t n) {
  const double us = flops / byte_flops_per_us(implementation);
  if (!names(implementation, "gemm:jit")) return us;
  // However small K is: 1001 x 1001 by 3 took 796 us, 20001 x 7 by 5 took 362, where other forms took 260 and 83.
  constexpr double results_per_us = 1.2e3, columns = 16;
  return std::max(us, static_cast<double>(m) * std::ceil(static_cast<double>(n) / columns) * columns / results_per_us);
}

}  // namespace smelt::ops::onednn
