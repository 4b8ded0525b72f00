#include "run/copy.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/parallel.h"

namespace smelt::run {
namespace {

/// Threads for moving so many bytes; below a megabyte, starting a team takes longer than copying on one core.
int copy_threads(int64_t bytes) { return bytes >= (1 << 20) ? threads::team_threads() : 1; }

}  // namespace

void copy_bytes(void* to, const void* from, int64_t bytes) {
  ops::parallel(copy_threads(bytes), bytes, 64, [&](int64_t begin, int64_t end, int) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, static_cast<size_t>(end - begin));
  });
}

void copy_rows(void* to, int64_t to_step, const void* from, int64_t from_step, int64_t width, int64_t rows) {
  if (rows == 1) return copy_bytes(to, from, width);
  ops::parallel(copy_threads(rows * width), rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      std::memcpy(static_cast<char*>(to) + r * to_step, static_cast<const char*>(from) + r * from_step,
                  static_cast<size_t>(width));
  });
}

}  // namespace smelt::run
