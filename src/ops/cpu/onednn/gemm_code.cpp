#include "ops/cpu/onednn/gemm_code.h"

#include <array>
#include <exception>
#include <mutex>
#include <thread>

#include "ops/cpu/onednn/primitive.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::onednn {

bool names_gemm(std::string_view tactics) { return tactics.find("gemm:jit") != std::string_view::npos; }

void make_gemm_code() {
  engine();
  const Threads alone(1);
  constexpr int64_t n = 16;  // one of a row or a column goes another way
  std::array<float, n * n> a{}, b{}, c{};
  dnnl_sgemm('N', 'N', n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n);
}

void begin_gemm_code() {
  static std::once_flag begun;
  // Waited for at the end of the calling thread; where it ends the process, before static objects go: oneDNN's code is one.
  thread_local std::jthread making;
  std::call_once(begun, [] {
    making = std::jthread([] {
      try {
        make_gemm_code();
      } catch (const std::exception&) {  // it comes again, and is reported, where a product runs
      }
    });
  });
}

}  // namespace smelt::ops::onednn
