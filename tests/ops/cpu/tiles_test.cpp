#include "ops/cpu/igemm/tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "expr/simd/isa.h"
#include "ops/cpu/igemm/igemm.h"
#include "ops/cpu/igemm/simd/panels.h"
#include "support/random.h"

namespace smelt::ops::igemm {
namespace {

constexpr int64_t most_rows = 29, most_columns = 32;

// Panels side by side over parts of 9, 1 and 40 elements; the rows of the second part are zeros that are left out.
struct Panels {
  std::vector<int32_t> lengths = {9, 1, 40};
  int64_t k = 50, columns;
  std::vector<float> a, b, bias, residual, zeros;
  std::vector<int8_t> bytes;  // b's integers, where they are read as such

  Panels(bool is_integer, int64_t n) : columns(n) {
    const auto values = [&](int64_t count, uint32_t seed) {
      const Tensor t =
          is_integer ? random_tensor(DType::i16, {2 * count}, seed, -255, 255) : random_tensor(DType::f32, {count}, seed);
      std::vector<float> v(static_cast<size_t>(count));
      std::memcpy(v.data(), t.raw(), v.size() * 4);
      return v;
    };
    a = values(most_rows * k, 1), b = values(packed_floats(k, columns), 2), bias = values(columns + tile_columns, 3),
    residual = values(most_rows * columns, 4);
    zeros.assign(1, 0.0f);
  }

  /// Makes b's integers bytes, in b and beside it.
  void narrow() {
    std::vector<int16_t> wide(2 * b.size());
    std::memcpy(wide.data(), b.data(), b.size() * 4);
    for (int16_t& v : wide) bytes.push_back(static_cast<int8_t>(v = static_cast<int8_t>(v)));
    std::memcpy(b.data(), wide.data(), b.size() * 4);
  }

  int64_t stride() const { return 2 * tile_columns; }

  /// `store`: ended results, else sums; columns that are not there keep what they had.
  std::vector<float> run(const Tiles& tiles, int64_t rows, const Ending& end, bool store, bool resume) const {
    std::vector<float> out(static_cast<size_t>(rows * stride()), 0.5f);
    std::vector<const float*> pointers(static_cast<size_t>((rows + tile_rows - 1) / tile_rows) * 3 * tile_rows);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t part = 0, at = 0; part < 3; at += lengths[static_cast<size_t>(part++)])
        pointers[static_cast<size_t>((r / tile_rows * 3 + part) * tile_rows + r % tile_rows)] =
            part == 1 ? zeros.data() : a.data() + r * k + at;
    const int64_t panels = (columns + tile_columns - 1) / tile_columns;
    for (int64_t first = 0; first < panels; first += tiles.most_panels()) {
      const int64_t column = first * tile_columns, count = std::min<int64_t>(tiles.most_panels(), panels - first);
      Tile common{};
      common.lengths = lengths.data(), common.parts = 3, common.zeros = zeros.data();
      common.columns = static_cast<int32_t>(std::min(count * tile_columns, columns - column));
      common.b = b.data() + column * k, common.bias = bias.data() + column;
      if (&tiles.one == &avx2::byte_pair_table()) common.b = reinterpret_cast<const float*>(bytes.data() + 2 * column * k);
      if (count == 2) common.beside = common.b + tile_columns * k;
      common.resume = resume, common.sums_stride = stride(), common.end = end;
      for_tiles(tiles, common, columns - column > 8, rows, [&](int64_t i, int in_tile, TileRows& at, Tile& own) {
        for (int r = 0; r < in_tile; ++r) {
          at.c[r] = out.data() + (i + r) * stride() + column;
          at.residual[r] = residual.data() + (i + r) * columns + column;
        }
        own.rows = pointers.data() + i * 3;
        own.sums = out.data() + i * stride() + column;
        own.c = store ? at.c : nullptr;
        own.residual = store ? at.residual : nullptr;
      });
    }
    if (!store)  // sums of columns that are not there are anyone's
      for (int64_t i = 0; i < rows * stride(); ++i)
        if (i % stride() >= columns) out[static_cast<size_t>(i)] = 0;
    return out;
  }
};

bool same(const std::vector<float>& a, const std::vector<float>& b) { return std::memcmp(a.data(), b.data(), a.size() * 4) == 0; }

TEST(Tiles, wide_ones_give_the_bits_of_small_ones) {
  if (!has_wide_tiles()) GTEST_SKIP() << "no AVX-512";
  const Ending ends[] = {{}, {Activation::clamp, -0.5f, 2}, {Activation::hard_swish}, {Activation::clamp, 0, 1, true, 3, -1}};
  const Tiles one{avx2::tile_table(), nullptr}, one_pair{avx2::pair_table(), nullptr};
  for (int64_t columns : {1, 8, 9, 16, 17, 24, 25, 31, 32}) {
    const Panels floats(false, columns), pairs(true, columns);
    for (int64_t rows = 1; rows <= most_rows; ++rows) {
      SCOPED_TRACE(testing::Message() << rows << " x " << columns);
      for (bool resume : {false, true}) {
        EXPECT_TRUE(same(floats.run(float_tiles(), rows, {}, false, resume), floats.run(one, rows, {}, false, resume)));
        EXPECT_TRUE(same(pairs.run(pair_tiles(), rows, {}, false, resume), pairs.run(one_pair, rows, {}, false, resume)));
        for (const Ending& end : ends)
          EXPECT_TRUE(same(floats.run(float_tiles(), rows, end, true, resume), floats.run(one, rows, end, true, resume)));
      }
    }
  }
}

TEST(Tiles, of_bytes_give_the_sums_of_words) {
  if (simd::best() != simd::Isa::avx2) GTEST_SKIP() << "no AVX2";
  const Tiles words{avx2::pair_table(), nullptr};
  for (int64_t columns : {1, 8, 9, 16, 17, 24, 32}) {
    Panels p(true, columns);
    p.narrow();
    for (int64_t rows = 1; rows <= 13; ++rows)
      for (bool resume : {false, true})
        EXPECT_TRUE(same(p.run(byte_pair_tiles(), rows, {}, false, resume), p.run(words, rows, {}, false, resume)))
            << rows << " x " << columns;
  }
}

// Rows in which not a number, the infinities, and a zero below zero end as they are.
TEST(Tiles, what_is_not_clamped_keeps_its_bits) {
  if (!has_wide_tiles()) GTEST_SKIP() << "no AVX-512";
  Panels p(false, most_columns);
  const float odd[] = {std::numeric_limits<float>::quiet_NaN(), -0.0f, std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  for (size_t i = 0; i < p.bias.size(); ++i) p.bias[i] = odd[i % 4];
  std::ranges::fill(p.a, -0.0f);
  std::ranges::fill(p.b, 0.0f);
  std::ranges::fill(p.residual, -0.0f);
  const Tiles one{avx2::tile_table(), nullptr};
  EXPECT_TRUE(same(p.run(float_tiles(), 13, {}, true, false), p.run(one, 13, {}, true, false)));
}

TEST(Panels, are_packed_from_rows_columns_and_elements_apart) {
  if (simd::best() != simd::Isa::avx2) GTEST_SKIP() << "no AVX2";
  const Tensor source = random_tensor(DType::f32, {64 * 64}, 1);
  const float* from = source.data<float>();
  for (int64_t k : {1, 7, 8, 9, 16, 21, 40})
    for (int64_t used : {1, 5, 8, 9, 15, 16})
      for (const auto& [row, column] : {std::pair{int64_t{33}, int64_t{1}}, {1, 50}, {40, 2}}) {
        const int64_t width = used <= 8 ? 8 : 16;
        std::vector<float> to(static_cast<size_t>(k * width + 1), 7.0f);
        avx2::pack_panel(to.data(), width, from, row, column, k, used, 0.5f);
        for (int64_t i = 0; i < k * width; ++i) {
          const int64_t j = i % width;
          ASSERT_EQ(to[static_cast<size_t>(i)], j < used ? 0.5f * from[i / width * row + j * column] : 0.0f)
              << k << " " << used << " " << row << " " << i;
        }
        EXPECT_EQ(to.back(), 7.0f);
      }
}

}  // namespace
}  // namespace smelt::ops::igemm
