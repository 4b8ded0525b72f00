#include "ops/f64/gemm.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "ops/cpu/parallel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace smelt::ops::f64 {
namespace {

constexpr int64_t tile_m = 4, tile_n = 12;      // 12 accumulators of 4 doubles fill AVX2's registers
constexpr int64_t block_m = 96, block_k = 256;  // packed a: 192 KiB, in L2
constexpr int64_t block_n = 84 * tile_n;        // packed b: 2 MiB, in L3

/// sums[4, 12] = a[k, 4]ᵀ · b[k, 12], both packed.
using Kernel = void (*)(int64_t k, const double* a, const double* b, double* sums);

void kernel_portable(int64_t k, const double* a, const double* b, double* sums) {
  double acc[tile_m * tile_n] = {};
  for (int64_t p = 0; p < k; ++p, a += tile_m, b += tile_n) {
    for (int64_t i = 0; i < tile_m; ++i) {
      for (int64_t j = 0; j < tile_n; ++j) acc[i * tile_n + j] += a[i] * b[j];
    }
  }
  std::copy_n(acc, tile_m * tile_n, sums);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void kernel_avx2(int64_t k, const double* a, const double* b, double* sums) {
  __m256d acc[tile_m][3];
  for (auto& row : acc) {
    for (__m256d& v : row) v = _mm256_setzero_pd();
  }
  for (int64_t p = 0; p < k; ++p, a += tile_m, b += tile_n) {
    const __m256d b0 = _mm256_loadu_pd(b), b1 = _mm256_loadu_pd(b + 4), b2 = _mm256_loadu_pd(b + 8);
#pragma GCC unroll 4
    for (int64_t i = 0; i < tile_m; ++i) {
      const __m256d factor = _mm256_broadcast_sd(a + i);
      acc[i][0] = _mm256_fmadd_pd(factor, b0, acc[i][0]);
      acc[i][1] = _mm256_fmadd_pd(factor, b1, acc[i][1]);
      acc[i][2] = _mm256_fmadd_pd(factor, b2, acc[i][2]);
    }
  }
  for (int64_t i = 0; i < tile_m; ++i) {
    for (int64_t j = 0; j < 3; ++j) _mm256_storeu_pd(sums + i * tile_n + 4 * j, acc[i][j]);
  }
}
#endif

Kernel choose_kernel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kernel_avx2;
#endif
  return kernel_portable;
}

/// Packs `lines` lines of `depth` elements as groups of `width` lines, the group's elements side by side; short groups
/// are filled up with zeros. Element p of line i is from[i * line + p * step].
void pack(const double* from, int64_t line, int64_t step, int64_t lines, int64_t depth, int64_t width, double* to) {
  for (int64_t begin = 0; begin < lines; begin += width) {
    const int64_t here = std::min(width, lines - begin);
    for (int64_t p = 0; p < depth; ++p, to += width) {
      const double* source = from + begin * line + p * step;
      for (int64_t i = 0; i < here; ++i) to[i] = source[i * line];
      std::fill(to + here, to + width, 0.0);
    }
  }
}

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

void gemm_serial(int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, double* c, int64_t c_row) {
  static const Kernel kernel = choose_kernel();
  const int64_t depth = std::min(block_k, k);
  std::vector<double> packed_a(static_cast<size_t>(round_up(std::min(block_m, m), tile_m) * depth));
  std::vector<double> packed_b(static_cast<size_t>(round_up(std::min(block_n, n), tile_n) * depth));
  double sums[tile_m * tile_n];
  for (int64_t jc = 0; jc < n; jc += block_n) {
    const int64_t nc = std::min(block_n, n - jc);
    for (int64_t pc = 0; pc < k; pc += block_k) {
      const int64_t kc = std::min(block_k, k - pc);
      pack(b.data + pc * b.row + jc * b.column, b.column, b.row, nc, kc, tile_n, packed_b.data());
      for (int64_t ic = 0; ic < m; ic += block_m) {
        const int64_t mc = std::min(block_m, m - ic);
        pack(a.data + ic * a.row + pc * a.column, a.row, a.column, mc, kc, tile_m, packed_a.data());
        for (int64_t j = 0; j < nc; j += tile_n) {
          for (int64_t i = 0; i < mc; i += tile_m) {
            kernel(kc, packed_a.data() + i * kc, packed_b.data() + j * kc, sums);
            const int64_t rows = std::min(tile_m, mc - i), columns = std::min(tile_n, nc - j);
            for (int64_t r = 0; r < rows; ++r) {
              double* to = c + (ic + i + r) * c_row + jc + j;
              for (int64_t s = 0; s < columns; ++s) to[s] = (pc == 0 ? 0.0 : to[s]) + sums[r * tile_n + s];
            }
          }
        }
      }
    }
  }
}

}  // namespace

int available_threads() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

void parallel_for(int64_t n, int threads, const std::function<void(int64_t)>& f) {
  parallel_dynamic(threads, n, [&](int64_t i, int) { f(i); });
}

void gemm(int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, double* c, int64_t c_row, int threads) {
  if (k == 0) {
    for (int64_t i = 0; i < m; ++i) std::fill_n(c + i * c_row, n, 0.0);
    return;
  }
  constexpr double worth_a_thread = 4e6;  // multiplications: about a millisecond, fifty times a thread's start
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const int64_t parts = std::clamp<int64_t>(static_cast<int64_t>(work / worth_a_thread), 1, threads);
  // Each thread takes a slice of the longer side and packs for itself.
  const bool by_rows = m > n;
  const int64_t step = round_up(((by_rows ? m : n) + parts - 1) / parts, by_rows ? tile_m : tile_n);
  parallel_for(parts, threads, [&](int64_t part) {
    const int64_t begin = part * step, count = std::min(step, (by_rows ? m : n) - begin);
    if (count <= 0) return;
    if (by_rows)
      gemm_serial(count, n, k, {a.data + begin * a.row, a.row, a.column}, b, c + begin * c_row, c_row);
    else
      gemm_serial(m, count, k, a, {b.data + begin * b.column, b.row, b.column}, c + begin, c_row);
  });
}

}  // namespace smelt::ops::f64
