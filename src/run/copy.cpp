#include "run/copy.h"

#include <algorithm>
#include <cstring>

#include "ops/parallel.h"

namespace smelt::run {
namespace {

/// Threads for moving so many bytes; below a megabyte, starting a team takes longer than copying on one core.
int copy_threads(int64_t bytes) { return bytes >= (1 << 20) ? omp_get_max_threads() : 1; }

}  // namespace

void copy_bytes(void* to, const void* from, int64_t bytes) {
  ops::parallel(copy_threads(bytes), bytes, 64, [&](int64_t begin, int64_t end, int) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, static_cast<size_t>(end - begin));
  });
}

void run_concat(const Step& step) {
  const ConcatCopy& c = *step.concat;
  char* to = static_cast<char*>(step.out[0]);
  for (const ConcatCopy::Part& part : c.parts) {
    const char* from = static_cast<const char*>(step.in[part.input]);
    if (c.outer == 1) {
      copy_bytes(to + part.offset, from, part.chunk);
      continue;
    }
    ops::parallel(copy_threads(c.outer * part.chunk), c.outer, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t o = begin; o < end; ++o) {
        std::memcpy(to + o * c.row + part.offset, from + o * part.chunk, static_cast<size_t>(part.chunk));
      }
    });
  }
}

}  // namespace smelt::run
