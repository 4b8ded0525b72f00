#include "ops/f64/gemm.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "ops/cpu/parallel.h"

namespace smelt::ops::f64 {

int available_threads() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

void parallel_for(int64_t n, int threads, const std::function<void(int64_t)>& f) {
  parallel_dynamic(threads, n, [&](int64_t i, int) { f(i); });
}

void gemm(int64_t m, int64_t n, int64_t k, wide::Matrix a, wide::Matrix b, double* c, int64_t c_row, int threads) {
  const wide::Gemm product(wide::Type::f64, m, n, k, threads);
  std::vector<char> memory(static_cast<size_t>(product.workspace()));
  product.run(a, b, c, c_row, memory.data());
}

}  // namespace smelt::ops::f64
