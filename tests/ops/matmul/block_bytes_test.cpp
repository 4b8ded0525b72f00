// ai.smelt.BlockMatMul at accuracy_level 4: kernels that round a's rows to 8 bits, against that product in f64.
#include <cmath>

#include "expr/simd/isa.h"
#include "ops/matmul/block_problem.h"
#include "ops/quantize/shifted.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

struct Case {
  int64_t rows, n, k, block;
  DType weights = DType::u4;
  bool zeros = true;  // of each block its own
  DType scales = DType::f32;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.rows << "x" << c.n << "x" << c.k << " " << name(c.weights) << "/" << c.block << (c.zeros ? " zeros" : "");
}

int64_t padded(const Case& c) { return (c.k + c.block - 1) / c.block * c.block; }

Trial trial(const Case& c, int64_t level = 4) {
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "BlockMatMul";
  t.node.attrs["block_size"] = c.block;
  t.node.attrs["accuracy_level"] = level;
  if (c.k < padded(c)) t.node.attrs["K"] = c.k;
  const Shape blocks = {c.n, padded(c) / c.block};
  const IntRange range = int_range(c.weights);
  const auto low = static_cast<double>(range.low), high = static_cast<double>(range.high) + 0.99;
  t.add(random_tensor(DType::f32, {c.rows, c.k}, 1), false);
  t.add(random_tensor(c.weights, {c.n, padded(c)}, 2, low, high), true);
  t.add(random_tensor(c.scales, blocks, 3, 0.01, 0.02), true);
  t.add(c.zeros ? random_tensor(c.weights, blocks, 4, low, high) : Tensor(), true);
  t.result(DType::f32, {c.rows, c.n});
  return t;
}

/// a with groups of `group` elements of each row rounded to 127 steps of their largest.
Tensor rounded(const Tensor& a, int64_t group) {
  const int64_t k = a.shape()[1];
  Tensor out = Tensor::empty(DType::f32, a.shape());
  for (int64_t m = 0; m < a.shape()[0]; ++m)
    for (int64_t begin = 0; begin < k; begin += group) {
      const int64_t end = std::min(k, begin + group);
      float most = 0;
      for (int64_t i = begin; i < end; ++i) most = std::max(most, std::abs(a.data<float>()[m * k + i]));
      const float step = most / 127;
      for (int64_t i = begin; i < end; ++i)
        out.data<float>()[m * k + i] = most > 0 ? step * std::nearbyint(a.data<float>()[m * k + i] * (1 / step)) : 0;
    }
  return out;
}

/// The table's product, its rows in groups as it takes them, K in two parts where it can be.
Tensor product(const matmul::BlockTable& table, const Case& c, const Trial& t, int64_t* unit) {
  matmul::BlockWeights w;
  w.bits = bits(c.weights);
  w.is_signed = int_range(c.weights).low < 0;
  std::vector<uint8_t> zeros;
  if (c.zeros)
    for (double z : t.inputs[3].to_doubles()) zeros.push_back(static_cast<uint8_t>(z + (w.is_signed ? 1 << (w.bits - 1) : 0)));
  w.block = c.block;
  w.k = c.k;
  w.q = static_cast<const uint8_t*>(t.inputs[1].raw());
  w.q_step = padded(c) * w.bits / 8;
  w.scale_kind = c.scales == DType::f32 ? simd::FloatKind::f32 : simd::FloatKind::f16;
  w.scales = t.inputs[2].raw();
  w.blocks = padded(c) / c.block;
  w.zeros = c.zeros ? zeros.data() : nullptr;
  w.zero = w.is_signed ? 1 << (w.bits - 1) : 0;
  w.taken = table.taken(w.bits);
  *unit = table.unit(w);
  const int64_t row = table.row_floats(w), step = std::max(*unit, c.block);
  std::vector<float> a(static_cast<size_t>(c.rows * row)), sums(static_cast<size_t>(c.rows * w.blocks)),
      memory(static_cast<size_t>(4 * w.blocks + matmul::block_memory));
  for (int64_t m = 0; m < c.rows; ++m)
    table.spread(w, t.inputs[0].data<float>() + m * c.k, a.data() + m * row, sums.data() + m * w.blocks);
  Tensor got = Tensor::zeros(DType::f32, {c.rows, c.n});
  for (int64_t m = 0, count = 0; m < c.rows; m += count) {
    const int group = table.rows_of(c.rows - m);
    count = group;
    float* y = got.data<float>() + m * c.n;
    if (c.zeros) table.start(w, c.n, sums.data() + m * w.blocks, w.blocks, group, y, c.n, memory.data());
    const int64_t half = c.k / 2 / step * step;
    if (half) table.add(w, c.n, 0, half, a.data() + m * row, row, group, y, c.n, memory.data());
    table.add(w, c.n, half, c.k, a.data() + m * row, row, group, y, c.n, memory.data());
  }
  return got;
}

std::vector<const matmul::BlockTable*> tables() {
  std::vector<const matmul::BlockTable*> found;
  if (simd::best() == simd::Isa::avx2) found.push_back(&avx2::block_bytes_table());
  if (simd::has_dots()) found.push_back(&avx512::block_bytes_table());
  return found;
}

void check_tables(const Case& c) {
  SCOPED_TRACE(testing::Message() << c);
  Trial t = trial(c);
  for (const matmul::BlockTable* table : tables()) {
    int64_t unit = 0;
    const Tensor got = product(*table, c, t, &unit);
    Trial of_rounded = t;
    of_rounded.inputs[0] = rounded(t.inputs[0], std::min(unit, c.block));
    EXPECT_LE(error(got, expected(of_rounded)), 2e-5) << "units of " << unit;
    EXPECT_LE(rms_error(got, expected(t)), 0.03);
  }
}

TEST(BlockMatMulBytes, is_the_product_of_rows_rounded_to_8_bits) {
  for (DType type : {DType::u2, DType::i2, DType::u4, DType::i4, DType::u8, DType::i8})
    for (int64_t block : {16, 32, 64, 128, 256, 1024})
      for (bool zeros : {false, true})
        for (int64_t k : {5, 320, 400, 777}) {
          if (padded({.rows = 1, .n = 1, .k = k, .block = block}) * bits(type) % 8) continue;
          check_tables({.rows = 3, .n = 7, .k = k, .block = block, .weights = type, .zeros = zeros});
        }
}

TEST(BlockMatMulBytes, takes_any_count_of_rows_and_columns) {
  for (int64_t rows : {1, 2, 4, 5, 7, 8, 11})
    for (int64_t n : {1, 2, 3, 4, 9})
      for (DType type : {DType::u4, DType::u8}) check_tables({.rows = rows, .n = n, .k = 600, .block = 32, .weights = type});
}

TEST(BlockMatMulBytes, takes_scales_of_half_precision) {
  for (int64_t block : {16, 64, 512}) check_tables({.rows = 2, .n = 5, .k = 700, .block = block, .scales = DType::f16});
}

TEST(BlockMatMulBytes, what_is_no_number_stays_none_in_its_row) {
  const Case c{.rows = 3, .n = 6, .k = 300, .block = 32};
  Trial t = trial(c);
  t.inputs[0].data<float>()[40] = std::numeric_limits<float>::quiet_NaN();
  t.inputs[0].data<float>()[600] = std::numeric_limits<float>::infinity();
  for (const matmul::BlockTable* table : tables()) {
    int64_t unit = 0;
    const Tensor got = product(*table, c, t, &unit);
    for (int64_t j = 0; j < c.n; ++j) {
      EXPECT_TRUE(std::isnan(got.data<float>()[j]));
      EXPECT_TRUE(std::isfinite(got.data<float>()[c.n + j]));
      EXPECT_FALSE(std::isfinite(got.data<float>()[2 * c.n + j]));
    }
  }
}

TEST(BlockMatMulBytes, rows_of_zeros_and_of_tiny_numbers_give_zeros) {
  const Case c{.rows = 2, .n = 6, .k = 300, .block = 32};
  Trial t = trial(c);
  for (int64_t i = 0; i < 2 * c.k; ++i) t.inputs[0].data<float>()[i] = i < c.k ? 0.0f : 1e-42f;
  for (const matmul::BlockTable* table : tables()) {
    int64_t unit = 0;
    const Tensor got = product(*table, c, t, &unit);
    for (float v : got.span<float>()) EXPECT_EQ(v, 0.0f);
  }
}

std::vector<std::string> configs(Trial t) {
  t.bound.node = &t.node;
  std::vector<std::string> found;
  for (const Candidate& candidate : offer(t.bound, Machine{}).candidates) found.push_back(candidate.config);
  return found;
}

TEST(BlockMatMulBytes, is_offered_where_the_node_lets_rows_be_rounded) {
  const Case c{.rows = 64, .n = 24, .k = 96, .block = 32};
  const auto rounds = [&](int64_t level) {
    const auto found = configs(trial(c, level));
    return std::ranges::any_of(found, [](const std::string& config) { return config.starts_with("bytes"); });
  };
  EXPECT_EQ(rounds(4), simd::best() == simd::Isa::avx2);
  EXPECT_FALSE(rounds(0));
  EXPECT_FALSE(rounds(1));
}

TEST(BlockMatMulBytes, every_kernel_keeps_to_the_error_of_8_bits) {
  for (int threads : {1, 2})
    for (int64_t rows : {1, 6, 40, 130})
      for (bool zeros : {false, true})
        for (DType type : {DType::u4, DType::i8}) {
          Trial t = trial({.rows = rows, .n = 301, .k = 700, .block = 64, .weights = type, .zeros = zeros});
          EXPECT_FALSE(check(t, 0.02, threads).empty());
        }
}

}  // namespace
}  // namespace smelt::ops
