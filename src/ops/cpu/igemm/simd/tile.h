// The inner kernel of matrix products and convolutions: a tile of up to 6 rows and 16 columns of C in registers (with AVX-512: 12 and
// 32), over the rows of A wherever they lie. For *.simd.cpp sources and the driver (ops/cpu/igemm/igemm.h).
#pragma once

#include <cstdint>

namespace smelt::ops::igemm {

inline constexpr int tile_rows = 6, tile_columns = 16;
/// Rows of a panel of B between those that a tile reads and those that it asks the caches for: where few rows of A share B, it comes
/// from memory, which takes some 100 ns to answer; a step of K takes some 4.
inline constexpr int64_t prefetched_ahead = 32;

enum class Activation : uint8_t { none, clamp, hard_swish };

/// What is applied to sums before they are stored: activation(sum), or activation(sum) · scale + shift, rounded twice.
struct Ending {
  Activation activation = Activation::none;
  float low = 0, high = 0;  // clamp's bounds
  bool is_scaled = false;
  float scale = 1, shift = 0;
};

inline float activated(float x, const Ending& end) {
  switch (end.activation) {
    case Activation::none: return x;
    case Activation::clamp: {
      const float above = end.low > x ? end.low : x;
      return end.high < above ? end.high : above;
    }
    case Activation::hard_swish: {
      const float gate = x * (1.0f / 6) + 0.5f, above = gate > 0 ? gate : 0;
      return x * (above < 1 ? above : 1);
    }
  }
  return x;
}

/// The same as the registers' (simd/activate.h), of one value.
inline float ended(float x, const Ending& end) {
  x = activated(x, end);
  return end.is_scaled ? x * end.scale + end.shift : x;
}

/// C[r, 0..columns) = end(sums + residual), where sums = start + Σ over parts of A[part][r, :] · B[part, 0..columns).
struct Tile {
  const float* const* rows;  // [parts][tile_rows]: where each row of A begins
  const int32_t* lengths;    // [parts]: elements of K in each part
  const float* zeros;        // parts whose rows all begin here add nothing and are left out; null: none
  int32_t parts;
  int32_t columns;      // 1 … 16 of each panel; the last one is 8 wide up to 8, else 16
  const float* b;       // the panel: one row of 8 or 16 for each element of K
  const float* beside;  // the panel to its right, for WideTable's tiles of two; null: none
  const float* bias;    // 16 values for each panel to start from; null: 0
  float* sums;          // [rows], sums_stride apart: where an earlier part of K left its sums, or where to leave them
  int64_t sums_stride;
  bool resume;                   // start from sums
  float* const* c;               // [rows]: where each row of C begins; null: leave the sums instead
  const float* const* residual;  // [rows]: added before `end`; null: none
  Ending end;
};

/// Tiles of 1 … 6 rows; [rows - 1][0]: 8 columns, [1]: 16.
struct TileTable {
  void (*run[tile_rows][2])(const Tile&);
};

/// Tiles of 1 … 12 rows: those from the seventh on are the second tile's, which differs in where its rows, sums and results lie. Panels
/// of 8 columns are read, summed and left as if they had 16: behind each lie as many elements as that takes (packed_floats).
/// [rows - 1][0]: one panel, [1]: two.
struct WideTable {
  void (*run[2 * tile_rows][2])(const Tile& first, const Tile& second);
};

}  // namespace smelt::ops::igemm

namespace smelt::avx2 {
const ops::igemm::TileTable& tile_table();
/// Groups of four channels and four results, two or four side by side: column j sums over A's elements j / 4 · 4 … + 3 of each part,
/// whose length is 4, with B's four rows.
const ops::igemm::TileTable& quad_table();
/// The same over 16-bit integers: an element of A or B is a pair of them, sums and bias are 32-bit integers, and results stay in
/// `sums`.
const ops::igemm::TileTable& pair_table();
/// The same where B's integers have 8 bits.
const ops::igemm::TileTable& byte_pair_table();
/// The same where an element of A is four unsigned bytes and one of B four signed ones; the products of the first two and of the last two
/// must fit 16 bits, added up.
const ops::igemm::TileTable& byte_quad_table();
/// to[i] = from[i]; n is a multiple of 16.
void widen_pairs(int16_t* to, const int8_t* from, int64_t n);
}  // namespace smelt::avx2
namespace smelt::avx512 {
/// What avx2's tile_table and pair_table give, bit for bit.
const ops::igemm::WideTable& wide_tile_table();
const ops::igemm::WideTable& wide_pair_table();
}  // namespace smelt::avx512
