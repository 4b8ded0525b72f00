#include "base/booleans.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/threads.h"

namespace smelt {
namespace {

constexpr int64_t part = 256 << 10;  // bytes that a thread reads at a time; one part alone is not worth a second thread

/// The bytes of all elements or-ed together: above 1 where one of them is. Registers are or-ed by hand: compilers leave such a
/// loop one byte at a time below -O3.
uint8_t all_bits(const uint8_t* from, int64_t n) {
  using Register = uint64_t __attribute__((vector_size(16)));
  Register any[4] = {};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    Register r[4];
    std::memcpy(r, from + i, sizeof r);
    for (int k = 0; k < 4; ++k) any[k] |= r[k];
  }
  uint8_t bytes[sizeof any], bits = 0;
  std::memcpy(bytes, any, sizeof any);
  for (const uint8_t b : bytes) bits |= b;
  for (; i < n; ++i) bits |= from[i];
  return bits;
}

}  // namespace

bool has_other_booleans(const Tensor& t) {
  if (t.type() != DType::boolean) return false;
  struct Scan {
    const uint8_t* from;
    int64_t size;
    std::atomic<bool> found{false};
  } scan{static_cast<const uint8_t*>(t.raw()), t.size()};
  const auto read = [](void* data, int64_t piece, int) {
    Scan& s = *static_cast<Scan*>(data);
    if (all_bits(s.from + piece * part, std::min(part, s.size - piece * part)) > 1) s.found = true;
  };
  const int64_t parts = (scan.size + part - 1) / part;
  if (parts > 1) {
    threads::run(threads::team_threads(), parts, read, &scan);
  } else if (parts == 1) {
    read(&scan, 0, 0);
  }
  return scan.found;
}

void make_booleans_0_or_1(Tensor& t) {
  if (t.type() != DType::boolean) return;
  auto* b = static_cast<uint8_t*>(t.raw());
  std::transform(b, b + t.size(), b, [](uint8_t v) { return static_cast<uint8_t>(v != 0); });
}

}  // namespace smelt
