// Products of bytes by quads: every sum is that of integers, however large the weights are.
#include "ops/cpu/igemm/byte_quads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "expr/simd/isa.h"
#include "ops/cpu/igemm/igemm.h"
#include "ops/cpu/integer/widened_rows.h"

namespace smelt::ops::igemm {
namespace {

/// Keeps sums as rows of `columns`.
class Kept final : public Finish {
 public:
  Kept(int64_t rows, int64_t columns) : sums(static_cast<size_t>(rows * columns)), columns_(columns) {}
  void take(const Sums& s) const override {
    for (int64_t i = 0; i < s.rows; ++i)
      std::copy_n(reinterpret_cast<const int32_t*>(s.sums) + i * s.stride, s.columns,
                  sums.data() + (s.row + i) * columns_ + s.column);
  }
  mutable std::vector<int32_t> sums;

 private:
  int64_t columns_;
};

struct Product {
  int64_t m, k, n;
  bool is_signed;
  std::vector<uint8_t> a;
  std::vector<int16_t> b;

  int32_t left(int64_t row, int64_t i) const {
    const uint8_t byte = a[static_cast<size_t>(row * k + i)];
    return is_signed ? static_cast<int8_t>(byte) : byte;
  }
  Tensor packed() const {
    return ByteQuads::pack(k, n, [&](int64_t row, int64_t column, int64_t count, int16_t* to) {
      std::copy_n(b.data() + row * n + column, count, to);
    });
  }
  std::vector<int32_t> by_definition() const {
    std::vector<int32_t> sums;
    for (int64_t row = 0; row < m; ++row)
      for (int64_t column = 0; column < n; ++column) {
        uint32_t sum = 0;
        for (int64_t i = 0; i < k; ++i) sum += static_cast<uint32_t>(left(row, i) * b[static_cast<size_t>(i * n + column)]);
        sums.push_back(static_cast<int32_t>(sum));
      }
    return sums;
  }
  std::vector<int32_t> by_quads(int threads) const {
    const ByteQuads quads(packed());
    const std::vector<Part> parts = split(std::vector<int64_t>{(k + 3) / 4});
    integer::WidenedRows rows(RowMap(Shape{m}, Shape{k}), k, is_signed, parts, true);
    rows.set(a.data(), 0);
    Schedule s = schedule(m, n, parts, true, threads);
    s.row_bytes = rows.copy_bytes(s.block_tiles * tile_rows);
    // Signed bytes are 128 more in the copy.
    std::vector<int32_t> start(static_cast<size_t>(n + tile_columns));
    for (size_t i = 0; is_signed && i < static_cast<size_t>(n); ++i)
      start[i] = static_cast<int32_t>(0U - 128U * static_cast<uint32_t>(quads.column_sums()[i]));
    const Kept kept(m, n);
    const Tensor memory = Tensor::empty(DType::u8, {workspace(s) + 64});
    Run r{.integer = true, .quads = &quads};
    r.rows = &rows, r.b = quads.quads(), r.bias = reinterpret_cast<const float*>(start.data()), r.finish = &kept;
    r.workspace = const_cast<void*>(memory.raw());
    run(s, r);
    return kept.sums;
  }
};

/// Weights of which one in `seldom` is as large as they come, the others at most 64.
Product product(int64_t m, int64_t k, int64_t n, bool is_signed, int seldom, int16_t low = -128, int16_t high = 127) {
  std::mt19937 random(static_cast<uint32_t>(m * k + n));
  Product p{m, k, n, is_signed, {}, {}};
  for (int64_t i = 0; i < m * k; ++i) p.a.push_back(random() % 3 == 0 ? 255 : static_cast<uint8_t>(random()));
  for (int64_t i = 0; i < k * n; ++i) {
    const bool is_large = random() % static_cast<uint32_t>(seldom) == 0;
    p.b.push_back(is_large ? (random() % 2 == 0 ? low : high) : static_cast<int16_t>(static_cast<int>(random() % 129) - 64));
  }
  return p;
}

class Quads : public testing::Test {
 protected:
  void SetUp() override {
    if (simd::best() != simd::Isa::avx2) GTEST_SKIP() << "no AVX2";
  }
};
using ByteQuadsTest = Quads;

TEST_F(ByteQuadsTest, give_the_sums_of_integers) {
  for (const auto& [m, k, n] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{{1, 1, 1},
                                                                                  {1, 7, 8},
                                                                                  {5, 64, 9},
                                                                                  {6, 33, 16},
                                                                                  {7, 130, 17},
                                                                                  {13, 512, 40},
                                                                                  {61, 255, 72},
                                                                                  {100, 1300, 24},
                                                                                  {2, 3, 300}})
    for (const bool is_signed : {false, true})
      for (const int threads : {1, 2}) {
        const Product p = product(m, k, n, is_signed, 400);
        ASSERT_TRUE(ByteQuads::fits(p.packed()));
        EXPECT_EQ(p.by_quads(threads), p.by_definition()) << m << " x " << k << " x " << n << (is_signed ? " of i8" : " of u8");
      }
}

TEST_F(ByteQuadsTest, take_weights_that_zero_points_take_beyond_a_byte) {
  const Product p = product(9, 200, 33, false, 500, -255, 255);
  ASSERT_TRUE(ByteQuads::fits(p.packed()));
  EXPECT_EQ(p.by_quads(1), p.by_definition());
}

TEST_F(ByteQuadsTest, take_the_largest_pairs_that_fit_and_a_step_more) {
  for (const int16_t second : {0, 1, 2}) {
    Product p{3, 4, 2, false, std::vector<uint8_t>(12, 255), {}};
    const int16_t large = 127, low = -128, less = static_cast<int16_t>(-second);
    p.b = {large, low, second, less, second, less, large, low};
    ASSERT_TRUE(ByteQuads::fits(p.packed()));
    EXPECT_EQ(p.by_quads(1), p.by_definition()) << second;
  }
}

TEST_F(ByteQuadsTest, do_not_fit_where_many_weights_are_large) {
  EXPECT_FALSE(ByteQuads::fits(product(1, 512, 64, false, 3).packed()));
}

}  // namespace
}  // namespace smelt::ops::igemm
