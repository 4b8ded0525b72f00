// The loops of recurrent networks' kernels, in each instruction set that this CPU has.
#include <random>

#include "expr/simd/isa.h"
#include "ops/one_node.h"
#include "ops/quantize/quantize.h"
#include "ops/rnn/simd/byte_products.h"
#include "ops/rnn/simd/recurrent.h"
#include "ops/rnn/split_bytes.h"
#include "ops/tactic_check.h"

namespace smelt::ops::test {
namespace {

// Every instruction set that this CPU has, whichever would be chosen.
bool has_avx2() { return simd::best() == simd::Isa::avx2; }

TEST(RecurrentSimd, products_of_every_form_agree_with_loops) {
  std::vector<const RecurrentSimd*> tables = {&base::recurrent_simd()};
  if (has_avx2()) tables.push_back(&avx2::recurrent_simd());
  if (simd::widest() == simd::Isa::avx512) tables.push_back(&avx512::recurrent_simd());
  for (const RecurrentSimd* simd : tables) {
    for (int64_t gates = 1; gates <= 4; ++gates) {
      for (int64_t rows : {1, 2, 3, 4, 5, 9, 13, 20}) {
        const int64_t k = rows == 20 ? 1100 : 29, hidden = 13, step = gates * simd->lanes,
                      panels = (hidden + simd->lanes - 1) / simd->lanes, columns = panels * step;
        SCOPED_TRACE(testing::Message() << simd->lanes << " lanes, " << gates << " gates, " << rows << " rows");
        const Tensor w = random_tensor(DType::f32, {gates * hidden, k}, 1), a = random_tensor(DType::f32, {rows, k}, 2);
        const std::vector<double> weights = w.to_doubles(), row = a.to_doubles();
        std::vector<float> packed(static_cast<size_t>(k * columns)), start(static_cast<size_t>(columns), 0.25f),
            sums(static_cast<size_t>(rows * columns));
        simd->pack(simd::FloatKind::f32, w.raw(), hidden, k, 0, gates, 0, panels, packed.data());
        simd->product(
            {static_cast<int>(gates), k, panels, rows, packed.data(), start.data(), a.data<float>(), k, sums.data(), columns});
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t i = 0; i < columns; ++i) {
            const int64_t gate = i / simd->lanes % gates, unit = i / step * simd->lanes + i % simd->lanes;
            double sum = 0.25;
            for (int64_t e = 0; unit < hidden && e < k; ++e)
              sum += row[static_cast<size_t>(r * k + e)] * weights[static_cast<size_t>((gate * hidden + unit) * k + e)];
            ASSERT_NEAR(sums[static_cast<size_t>(r * columns + i)], sum, 2e-4) << "row " << r << ", column " << i;
          }
        }
      }
    }
  }
}

std::vector<const ByteProducts*> byte_tables() {
  std::vector<const ByteProducts*> tables = {&base::byte_products()};
  if (has_avx2()) tables.push_back(&avx2::byte_products());
  if (simd::has_dots()) tables.push_back(&avx2::byte_dot_products());
  return tables;
}

/// Panels as a table wants them.
struct BytePanels {
  std::vector<int8_t> bytes, rests;
  std::vector<int32_t> begin, groups;

  BytePanels(std::vector<int8_t> all, const ByteProducts& simd, int64_t panels, int64_t depth) : bytes(std::move(all)) {
    const auto block = static_cast<size_t>(4 * simd.lanes);
    for (int64_t i = 0; simd.adds_in_16_bits && i < panels * byte_gates; ++i) {
      begin.push_back(static_cast<int32_t>(groups.size()));
      for (int64_t k = 0; k < depth; ++k) {
        rests.resize((groups.size() + 1) * block);
        int8_t* at = bytes.data() + ((i / byte_gates * depth + k) * byte_gates + i % byte_gates) * static_cast<int64_t>(block);
        if (split_block(at, simd.lanes, &rests[groups.size() * block])) groups.push_back(static_cast<int32_t>(k));
      }
    }
    begin.push_back(static_cast<int32_t>(groups.size()));
  }
  SplitGroups split() const { return {begin.data(), groups.data(), rests.data()}; }
};

TEST(RecurrentSimd, halves_of_bytes_fit_and_sum_to_them) {
  for (int first = -128; first < 128; ++first)
    for (int second = -128; second < 128; ++second) {
      int8_t block[4] = {1, 2, static_cast<int8_t>(first), static_cast<int8_t>(second)}, rest[4] = {};
      const bool is_split = split_block(block, 1, rest);
      EXPECT_EQ(is_split, first + second > 128 || first + second < -128);
      EXPECT_EQ(block[2] + rest[2], first);
      EXPECT_EQ(block[3] + rest[3], second);
      for (const int8_t* part : {block, rest})
        for (int i = 0; i < 4; i += 2) {
          EXPECT_LE(255 * (std::max<int>(part[i], 0) + std::max<int>(part[i + 1], 0)), 32767);
          EXPECT_GE(255 * (std::min<int>(part[i], 0) + std::min<int>(part[i + 1], 0)), -32768);
        }
    }
}

TEST(RecurrentSimd, products_of_bytes_agree_with_loops) {
  for (const ByteProducts* simd : byte_tables()) {
    for (int64_t rows : {1, 2, 3, 4, 5, 9, 20}) {
      for (int64_t groups : {1, 7, 8}) {
        const int64_t panels = 3, step = byte_gates * simd->lanes, columns = panels * step, k = groups * simd->group;
        SCOPED_TRACE(testing::Message() << simd->lanes << " lanes of " << simd->group << ", " << rows << " rows");
        std::mt19937 engine(3);
        std::vector<int8_t> bytes(static_cast<size_t>(k * columns));
        for (int8_t& b : bytes) b = static_cast<int8_t>(groups == 7 ? static_cast<int>(engine() % 100) - 50 : engine() % 256);
        // Of 8 groups some have bytes as they are; of 1 where the products are added in 32 bits.
        const bool split = groups != 1;
        const BytePanels packed(bytes, *simd, split ? panels : 0, groups);
        if (simd->adds_in_16_bits) {
          EXPECT_EQ(packed.groups.empty(), groups != 8);
        }
        std::vector<int16_t> wide(static_cast<size_t>(rows * k));
        for (int16_t& v : wide) v = static_cast<int16_t>(engine() % 2 == 0 ? 255 : engine() % 256);
        std::vector<uint8_t> narrow(wide.begin(), wide.end());
        const void* a = simd->value_bytes == 2 ? static_cast<const void*>(wide.data()) : narrow.data();
        std::vector<float> scales, start(static_cast<size_t>(columns), 0.25f), sums(static_cast<size_t>(rows * columns));
        std::vector<int32_t> zeros, offsets;
        for (int64_t i = 0; i < columns; ++i) {
          scales.push_back(0.001f * static_cast<float>(i + 1));
          zeros.push_back(static_cast<int32_t>(i) - 5);
          offsets.push_back(static_cast<int32_t>(i * 100) - 900);
        }
        std::vector<QuantizedRow> ranges;
        for (int32_t r = 0; r < rows; ++r) ranges.push_back({0.01f, r + 100, r * 7 + 3});
        simd->product({groups, panels, rows, packed.bytes.data(), start.data(), scales.data(), zeros.data(), offsets.data(), a,
                       k * simd->value_bytes, ranges.data(), 1, nullptr, sums.data(), columns,
                       split ? packed.split() : SplitGroups()});
        for (int64_t r = 0; r < rows; ++r) {
          const QuantizedRow& q = ranges[static_cast<size_t>(r)];
          for (int64_t i = 0; i < columns; ++i) {
            const int64_t column = i / step * step * k + i % step * simd->group;
            int64_t sum = -int64_t{q.zero} * offsets[static_cast<size_t>(i)] - int64_t{q.sum} * zeros[static_cast<size_t>(i)];
            for (int64_t e = 0; e < k; ++e)
              sum += int64_t{wide[static_cast<size_t>(r * k + e)]} *
                     bytes[static_cast<size_t>(column + e / simd->group * step * simd->group + e % simd->group)];
            const double want = static_cast<double>(sum) * 0.01 * static_cast<double>(scales[static_cast<size_t>(i)]) + 0.25;
            ASSERT_NEAR(sums[static_cast<size_t>(r * columns + i)], want, 1e-5 * std::abs(want) + 1e-5)
                << "row " << r << ", column " << i;
          }
        }
      }
    }
  }
}

TEST(RecurrentSimd, quantises_a_row_as_the_dynamic_quantisation_does) {
  for (const ByteProducts* simd : byte_tables()) {
    for (int64_t n : {1, 7, 8, 19, 64}) {
      const Tensor x = random_tensor(DType::f32, {n}, static_cast<uint32_t>(n), -0.4, 1.7);
      const DynamicQuantized want = dynamic_quantize(x);
      float low = 0, high = 0;
      simd->range(x.data<float>(), n, &low, &high);
      EXPECT_EQ((high - low) / 255, want.scale);
      std::vector<int16_t> wide(static_cast<size_t>(n));
      std::vector<uint8_t> narrow(static_cast<size_t>(n));
      void* to = simd->value_bytes == 2 ? static_cast<void*>(wide.data()) : narrow.data();
      const int32_t sum = simd->quantize(x.data<float>(), n, want.scale, want.zero_point, to);
      int32_t total = 0;
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        EXPECT_EQ(simd->value_bytes == 2 ? wide[i] : narrow[i], want.values.data<uint8_t>()[i]) << "element " << i << " of " << n;
        total += want.values.data<uint8_t>()[i];
      }
      EXPECT_EQ(sum, total);
    }
  }
}

}  // namespace
}  // namespace smelt::ops::test
