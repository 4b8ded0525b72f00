// Lines of some bytes, copied and filled without a call, which would take longer than the line.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace smelt::ops {

inline constexpr int64_t short_line = 256;  // bytes; a call, or a walk's step, takes as long as to copy a shorter one

/// Lines of at least `width` bytes, in pieces of that many; the last piece ends with the line, and may copy some bytes again.
template <int width>
void copy_by_pieces(char* to, const char* from, int64_t rows, int64_t bytes, int64_t to_row, int64_t from_row) {
  for (int64_t i = 0; i < rows; ++i, to += to_row, from += from_row) {
    for (int64_t k = 0; k + width < bytes; k += width) std::memcpy(to + k, from + k, width);
    std::memcpy(to + bytes - width, from + bytes - width, width);
  }
}

/// f(std::integral_constant<int, width>{}) with the widest piece that so many bytes have, 64 at most.
template <class F> void with_width(int64_t bytes, F&& f) {
  if (bytes >= 64) return f(std::integral_constant<int, 64>{});
  if (bytes >= 32) return f(std::integral_constant<int, 32>{});
  if (bytes >= 16) return f(std::integral_constant<int, 16>{});
  if (bytes >= 8) return f(std::integral_constant<int, 8>{});
  if (bytes >= 4) return f(std::integral_constant<int, 4>{});
  if (bytes >= 2) return f(std::integral_constant<int, 2>{});
  f(std::integral_constant<int, 1>{});
}

/// At least `width` bytes that are all of one element.
template <int width, class T> void fill_by_pieces(T* to, T value, int64_t columns) {
  constexpr int64_t count = width / static_cast<int64_t>(sizeof(T));
  T piece[count];
  std::fill_n(piece, count, value);
  for (int64_t j = 0; j + count < columns; j += count) std::memcpy(to + j, piece, width);
  std::memcpy(to + columns - count, piece, width);
}

/// `rows` lines of `bytes`, to_row and from_row bytes apart.
inline void copy_lines(void* to, const void* from, int64_t rows, int64_t bytes, int64_t to_row, int64_t from_row) {
  char* y = static_cast<char*>(to);
  const char* x = static_cast<const char*>(from);
  if (bytes >= short_line) {
    for (int64_t i = 0; i < rows; ++i) std::memcpy(y + i * to_row, x + i * from_row, static_cast<size_t>(bytes));
  } else if (bytes > 0) {
    with_width(bytes, [&](auto width) { copy_by_pieces<width>(y, x, rows, bytes, to_row, from_row); });
  }
}

/// One line of any length.
inline void copy_line(void* to, const void* from, int64_t bytes) { copy_lines(to, from, 1, bytes, 0, 0); }

/// `count` elements of one value.
template <class T> void fill_line(T* to, T value, int64_t count) {
  constexpr auto size = static_cast<int64_t>(sizeof(T));
  if (count * size >= short_line) {
    std::fill_n(to, count, value);
  } else if (count > 0) {
    with_width(std::min<int64_t>(count * size, 16), [&](auto width) {
      if constexpr (width <= 16 && width >= static_cast<int>(sizeof(T))) fill_by_pieces<width>(to, value, count);
    });
  }
}

}  // namespace smelt::ops
