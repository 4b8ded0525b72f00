#include "ops/cpu/igemm/byte_quads.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/number.h"
#include "ops/core/align.h"
#include "ops/cpu/igemm/igemm.h"
#include "ops/cpu/integer/sixteen_bits.h"

namespace smelt::ops::igemm {
namespace {

/// A rest takes about as long as 25 multiply-adds of a tile: one in so many elements of B costs an eighth of what quads save.
constexpr int64_t elements_a_rest = 200;

/// What lies at the beginning of a packed form, in front of its quads, each part aligned.
struct Extents {
  int64_t quads, columns, panels, rests;  // elements of each part

  int64_t columns_at() const { return aligned(sizeof(Extents)) + aligned(quads * 4); }
  int64_t panels_at() const { return columns_at() + aligned(columns * 4); }
  int64_t rests_at() const { return panels_at() + aligned(panels * 4); }
  int64_t bytes() const { return rests_at() + aligned(rests * static_cast<int64_t>(sizeof(ByteQuads::Rest))); }
};

/// Makes the two fit a byte each, and the sum of those of one sign 16 bits with any bytes of A; rest(which, value): what is taken from them.
template <class F> void fit(std::array<int32_t, 2>& pair, F&& rest) {
  const auto take = [&](size_t which, int32_t value) {
    if (value == 0) return;
    pair[which] -= value;
    rest(which, value);
  };
  for (const size_t which : {0, 1}) take(which, pair[which] - std::clamp(pair[which], -128, 127));  // of zero points
  for (const int32_t sign : {1, -1}) {
    const size_t larger = sign * pair[0] >= sign * pair[1] ? 0 : 1;
    take(larger, sign * std::max(0, integer::beyond_16_bits(pair[0], pair[1], sign)));
  }
}

}  // namespace

Tensor ByteQuads::pack(int64_t k, int64_t n, const Row& row) {
  const int64_t quads = divide_up(k, 4), most = k * n / elements_a_rest + 16;
  std::vector<int8_t> bytes(static_cast<size_t>(4 * packed_floats(quads, n)));
  std::vector<int32_t> panels;
  std::vector<uint32_t> columns(static_cast<size_t>(n));
  std::vector<Rest> rests;
  int8_t* to = bytes.data();
  std::array<std::array<int16_t, tile_columns>, 4> of{};
  for (int64_t column = 0; column < n; column += tile_columns) {
    const int64_t width = n - column <= 8 ? 8 : tile_columns, used = std::min<int64_t>(width, n - column);
    panels.push_back(static_cast<int32_t>(rests.size()));
    for (int64_t q = 0; q < quads; ++q, to += 4 * width) {
      for (int64_t i = 0; i < 4; ++i) {
        auto& values = of[static_cast<size_t>(i)];
        if (4 * q + i < k)
          row(4 * q + i, column, used, values.data());
        else
          values = {};
      }
      for (int64_t j = 0; j < used; ++j) {
        for (size_t i = 0; i < 4; i += 2) {
          std::array<int32_t, 2> pair{of[i][static_cast<size_t>(j)], of[i + 1][static_cast<size_t>(j)]};
          columns[static_cast<size_t>(column + j)] += static_cast<uint32_t>(pair[0] + pair[1]);
          fit(pair, [&](size_t which, int32_t value) {
            rests.push_back(
                {static_cast<int32_t>(4 * q + static_cast<int64_t>(i + which)), static_cast<int32_t>(column + j), value});
          });
          for (size_t which = 0; which < 2; ++which)
            to[4 * j + static_cast<int64_t>(i + which)] = static_cast<int8_t>(pair[which]);
        }
      }
      if (std::ssize(rests) > most) return Tensor::zeros(DType::i8, {1});
    }
  }
  panels.push_back(static_cast<int32_t>(rests.size()));
  const Extents e{std::ssize(bytes) / 4, n, std::ssize(panels), std::ssize(rests)};
  Tensor packed = Tensor::zeros(DType::i8, {e.bytes()});
  const auto put = [&](int64_t at, const void* from, size_t size) { std::memcpy(packed.data<int8_t>() + at, from, size); };
  put(0, &e, sizeof e);
  put(aligned(sizeof e), bytes.data(), bytes.size());
  put(e.columns_at(), columns.data(), columns.size() * sizeof columns[0]);
  put(e.panels_at(), panels.data(), panels.size() * sizeof panels[0]);
  if (!rests.empty()) put(e.rests_at(), rests.data(), rests.size() * sizeof rests[0]);
  return packed;
}

ByteQuads::ByteQuads(Tensor packed) : packed_(std::move(packed)) {
  const char* at = static_cast<const char*>(packed_.raw());
  Extents e;
  std::memcpy(&e, at, sizeof e);
  quads_ = reinterpret_cast<const float*>(at + aligned(sizeof e));
  column_sums_ = {reinterpret_cast<const int32_t*>(at + e.columns_at()), static_cast<size_t>(e.columns)};
  panels_ = {reinterpret_cast<const int32_t*>(at + e.panels_at()), static_cast<size_t>(e.panels)};
  rests_ = {reinterpret_cast<const Rest*>(at + e.rests_at()), static_cast<size_t>(e.rests)};
}

std::span<const ByteQuads::Rest> ByteQuads::rests_of(int64_t column, int64_t columns) const {
  const auto first = static_cast<size_t>(column / tile_columns);
  const auto last = std::min(static_cast<size_t>(divide_up(column + columns, tile_columns)), panels_.size() - 1);
  const auto begin = static_cast<size_t>(panels_[first]);
  return rests_.subspan(begin, static_cast<size_t>(panels_[last]) - begin);
}

}  // namespace smelt::ops::igemm
