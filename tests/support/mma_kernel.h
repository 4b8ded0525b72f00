// A kernel that uses src/kernels/common/{mma,copy_async,shared,dependent_launch}.cuh once each: one tile's product, its operands
// copied to swizzled shared memory and loaded by ldmatrix.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace smelt::test {

/// tile(a, b, d): d[16, 8] = a[16, K] · b, K = 32 bytes; b is [8, K], or [K, 8] of 16-bit elements where `transposed`. Copies of
/// `bytes` each. One warp; the types are named as in mma.cuh.
inline std::string mma_kernel(std::string_view a, std::string_view b, bool transposed, int bytes) {
  constexpr std::string_view text = R"(
#include "common/copy_async.cuh"
#include "common/dependent_launch.cuh"
#include "common/mma.cuh"

extern "C" __global__ void tile(const u8* a, const u8* b, void* d) {{
  using Product = Mma<{a}, {b}>;
  constexpr int bytes = {bytes};
  constexpr bool transposed = {transposed};
  constexpr int a_row = 32, b_rows = transposed ? Product::k : 8, b_row = transposed ? 16 : 32, b_line = transposed ? 64 : 32;
  __shared__ alignas(128) u8 a_tile[16 * a_row], b_tile[b_rows * b_line];
  wait_for_kernels_before();
  const u32 lane = threadIdx.x;
  for (u32 at = lane * bytes; at < 16 * a_row; at += 32 * bytes)
    copy_async<bytes>(shared_address(a_tile) + swizzled<a_row>(at / a_row, at % a_row / 16) + at % 16, a + at, true);
  for (u32 at = lane * bytes; at < b_rows * b_row; at += 32 * bytes)
    copy_async<bytes>(shared_address(b_tile) + swizzled<b_line>(at / b_row, at % b_row / 16) + at % 16, b + at, true);
  copy_async_commit();
  copy_async_wait<0>();
  __syncthreads();
  u32 x[4], y[2];
  ptx::ldmatrix(x, shared_address(a_tile) + swizzled<a_row>(lane % 16, lane / 16));
  if constexpr (transposed) ptx::ldmatrix_trans(y, shared_address(b_tile) + swizzled<b_line>(lane % 16, 0));
  else ptx::ldmatrix(y, shared_address(b_tile) + swizzled<b_line>(lane % 8, lane / 8 % 2));
  Product::Sum sums[4] = {{}};
  Product::add(sums, x, y);
  Product::Sum* to = static_cast<Product::Sum*>(d) + lane / 4 * 8 + lane % 4 * 2;
  to[0] = sums[0], to[1] = sums[1], to[64] = sums[2], to[65] = sums[3];
}}
)";
  return fmt::format(fmt::runtime(text), fmt::arg("a", a), fmt::arg("b", b), fmt::arg("bytes", bytes),
                     fmt::arg("transposed", transposed));
}

}  // namespace smelt::test
