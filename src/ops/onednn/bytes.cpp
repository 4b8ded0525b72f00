#include "ops/onednn/bytes.h"

#include <fmt/core.h>

#include "ops/onednn/primitive.h"

namespace smelt::ops::onednn {
namespace {

constexpr int64_t largest_byte = 255;

bool has_dot_products() { return has(dnnl::cpu_isa::avx512_core_vnni) || has(dnnl::cpu_isa::avx2_vnni); }

}  // namespace

std::optional<std::string> rejects_weights(const WeightRange& r) {
  if (r.smallest < -128 || r.largest > 127) {
    return fmt::format("weights less their zero points reach from {} to {}, beyond 8 bits", r.smallest, r.largest);
  }
  // 2 · 255 · 64 = 32640: two products fit 16 bits whatever the image.
  constexpr int32_t safe = 64;
  const int32_t magnitude = std::max(r.largest, -r.smallest);
  if (has_dot_products() || magnitude <= safe) return std::nullopt;
  return fmt::format(
      "this CPU has no 8-bit dot products (AVX-512 VNNI, AVX-VNNI or AMX): vpmaddubsw saturates at 32767, and weights reach {}; "
      "at most {} is safe",
      magnitude, safe);
}

bool multiplies_signed_bytes() { return has(dnnl::cpu_isa::avx512_core_amx); }

std::optional<std::string> rejects_sums(std::string_view implementation, bool is_signed, const WeightRange& r) {
  const bool amx = implementation.find("amx") != std::string_view::npos;
  if (implementation.starts_with("brg") && (!is_signed || amx)) return std::nullopt;
  constexpr int64_t largest_whole = int64_t{1} << 24;
  const int64_t most = r.column * largest_byte;
  if (most <= largest_whole) return std::nullopt;
  return fmt::format("{} passes sums through f32; they may reach {}, at most {} are exact", implementation, most, largest_whole);
}

double byte_flops_per_us(std::string_view implementation) {
  if (implementation.find("amx") != std::string_view::npos) return 800e3;
  if (implementation.find("avx512") != std::string_view::npos) return 350e3;
  return 140e3;    // Zen 3 at 3.2 GHz, measured
}

}  // namespace smelt::ops::onednn
