#include "ops/cpu/igemm/tiles.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "expr/simd/isa.h"
#include "support/random.h"

namespace smelt::ops::igemm {
namespace {

constexpr int64_t most_rows = 29, columns = 16;

// One panel over parts of 9, 1 and 40 elements; the rows of the second part are zeros that are left out.
struct Panel {
  std::vector<int32_t> lengths = {9, 1, 40};
  int64_t k = 50;
  std::vector<float> a, b, bias, residual, zeros;

  explicit Panel(bool is_integer) {
    const auto values = [&](int64_t n, uint32_t seed) {
      const Tensor t = is_integer ? random_tensor(DType::i16, {2 * n}, seed, -255, 255) : random_tensor(DType::f32, {n}, seed);
      std::vector<float> v(static_cast<size_t>(n));
      std::memcpy(v.data(), t.raw(), v.size() * 4);
      return v;
    };
    a = values(most_rows * k, 1), b = values(k * columns, 2), bias = values(columns, 3),
    residual = values(most_rows * columns, 4);
    zeros.assign(1, 0.0f);
  }

  /// `store`: ended results, else sums.
  std::vector<float> run(const Tiles& tiles, int64_t rows, int width, const Ending& end, bool store, bool resume) const {
    std::vector<float> out(static_cast<size_t>(rows * columns), 0.5f);
    std::vector<const float*> pointers(static_cast<size_t>((rows + tile_rows - 1) / tile_rows) * 3 * tile_rows);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t part = 0, at = 0; part < 3; at += lengths[static_cast<size_t>(part++)])
        pointers[static_cast<size_t>((r / tile_rows * 3 + part) * tile_rows + r % tile_rows)] =
            part == 1 ? zeros.data() : a.data() + r * k + at;
    Tile common{};
    common.lengths = lengths.data(), common.parts = 3, common.columns = width, common.zeros = zeros.data();
    common.b = b.data(), common.bias = bias.data(), common.resume = resume, common.sums_stride = columns;
    common.end = end;
    for_tiles(tiles, common, true, rows, [&](int64_t i, int count, TileRows& at, Tile& own) {
      for (int r = 0; r < count; ++r) {
        at.c[r] = out.data() + (i + r) * columns;
        at.residual[r] = residual.data() + (i + r) * columns;
      }
      own.rows = pointers.data() + i * 3;
      own.sums = out.data() + i * columns;
      own.c = store ? at.c : nullptr;
      own.residual = store ? at.residual : nullptr;
    });
    return out;
  }
};

bool same(const std::vector<float>& a, const std::vector<float>& b) { return std::memcmp(a.data(), b.data(), a.size() * 4) == 0; }

TEST(Tiles, two_at_once_give_the_bits_of_one) {
  if (simd::best() != simd::Isa::avx2) GTEST_SKIP() << "no AVX2";
  if (!avx2::wide_tile_table() || !avx2::wide_pair_table()) GTEST_SKIP() << "no AVX-512";
  const Panel floats(false), pairs(true);
  const Ending ends[] = {{}, {Activation::clamp, -0.5f, 2}, {Activation::hard_swish}, {Activation::clamp, 0, 1, true, 3, -1}};
  for (int64_t rows = 1; rows <= most_rows; ++rows) {
    SCOPED_TRACE(rows);
    for (bool resume : {false, true}) {
      const Tiles one{avx2::tile_table(), nullptr}, one_pair{avx2::pair_table(), nullptr};
      EXPECT_TRUE(same(floats.run(float_tiles(), rows, 16, {}, false, resume), floats.run(one, rows, 16, {}, false, resume)));
      EXPECT_TRUE(same(pairs.run(pair_tiles(), rows, 16, {}, false, resume), pairs.run(one_pair, rows, 16, {}, false, resume)));
      for (const Ending& end : ends)
        for (int width : {9, 16})
          EXPECT_TRUE(
              same(floats.run(float_tiles(), rows, width, end, true, resume), floats.run(one, rows, width, end, true, resume)));
    }
  }
}

}  // namespace
}  // namespace smelt::ops::igemm
