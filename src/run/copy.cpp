#include "run/copy.h"

#include <algorithm>
#include <cstring>

namespace smelt::run {
namespace {

constexpr int64_t parallel_bytes = 1 << 20;   // below, starting a team takes longer than copying on one core

}  // namespace

void copy_bytes(void* to, const void* from, int64_t bytes) {
  constexpr int64_t block = 256 << 10;
  const int64_t blocks = (bytes + block - 1) / block;
#pragma omp parallel for if (bytes >= parallel_bytes)
  for (int64_t b = 0; b < blocks; ++b) {
    std::memcpy(static_cast<char*>(to) + b * block, static_cast<const char*>(from) + b * block,
                static_cast<size_t>(std::min(block, bytes - b * block)));
  }
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
#pragma omp parallel for if (c.outer * part.chunk >= parallel_bytes)
    for (int64_t o = 0; o < c.outer; ++o) {
      std::memcpy(to + o * c.row + part.offset, from + o * part.chunk, static_cast<size_t>(part.chunk));
    }
  }
}

}  // namespace smelt::run
