#include "run/copy.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/parallel.h"
#include "ops/cpu/short_lines.h"

namespace smelt::run {
namespace {

/// Threads for moving so many bytes; a core moves 2^18 of them within some 20 µs, several times what starting a team takes.
int copy_threads(int64_t bytes) { return bytes >= (1 << 18) ? threads::team_threads() : 1; }

/// Whole rows of narrow parts, some of them at a time, so that they stay in the cache from part to part.
void concatenate_rows(char* to, const plan::ConcatCopy& concat, std::span<const void* const> inputs, int64_t first,
                      int64_t last) {
  constexpr int64_t at_once = 256;
  for (; first < last; first += at_once)
    for (const plan::ConcatCopy::Part& part : concat.parts)
      ops::with_width(part.chunk, [&](auto width) {
        ops::copy_by_pieces<width>(to + first * concat.row + part.offset,
                                   static_cast<const char*>(inputs[part.input]) + first * part.chunk,
                                   std::min(at_once, last - first), part.chunk, concat.row, part.chunk);
      });
}

}  // namespace

void copy_bytes(void* to, const void* from, int64_t bytes) { copy_bytes(to, from, bytes, copy_threads(bytes)); }

void copy_bytes(void* to, const void* from, int64_t bytes, int threads) {
  ops::parallel(threads, bytes, 64, [&](int64_t begin, int64_t end, int) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, static_cast<size_t>(end - begin));
  });
}

int pinning_threads(int64_t bytes, int threads) {
  // Two threads were slower than the driver and four no slower from 2^18 bytes on; eight took a quarter less of 2^19 and half of
  // 2^24 (bench/results/gpu-inputs-2026-11-27.txt). To pin more memory takes longer than many copies.
  constexpr int64_t least = 1 << 18, most = 1 << 26;
  constexpr int fewest = 4, useful = 8;
  return bytes >= least && bytes <= most && threads >= fewest ? std::min(threads, useful) : 0;
}

void concatenate(void* to, const plan::ConcatCopy& concat, std::span<const void* const> inputs) {
  int64_t moved = 0;
  for (const plan::ConcatCopy::Part& part : concat.parts) moved += part.chunk * concat.outer;
  const bool narrow =
      std::ranges::all_of(concat.parts, [](const auto& part) { return part.chunk > 0 && part.chunk < ops::short_line; });
  // Threads share the bytes of the output, whatever the parts are, and write each line of it at one go.
  const auto copy_part = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin / concat.row; row * concat.row < end; ++row) {
      const int64_t base = row * concat.row, low = std::max(begin - base, int64_t{0}), high = std::min(end - base, concat.row);
      for (const plan::ConcatCopy::Part& part : concat.parts) {
        const int64_t first = std::max(low, part.offset), last = std::min(high, part.offset + part.chunk);
        if (first < last)
          std::memcpy(static_cast<char*>(to) + base + first,
                      static_cast<const char*>(inputs[part.input]) + row * part.chunk + first - part.offset,
                      static_cast<size_t>(last - first));
      }
    }
  };
  ops::parallel(copy_threads(moved), concat.outer * concat.row, 64, [&](int64_t begin, int64_t end, int) {
    const int64_t first = (begin + concat.row - 1) / concat.row, last = end / concat.row;
    if (!narrow || last <= first) return copy_part(begin, end);
    copy_part(begin, first * concat.row);
    concatenate_rows(static_cast<char*>(to), concat, inputs, first, last);
    copy_part(last * concat.row, end);
  });
}

}  // namespace smelt::run
