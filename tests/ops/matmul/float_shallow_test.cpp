// Products of few elements to a sum against plain sums: those of each instruction set, and the tactic over random problems.
#include "ops/matmul/simd/float_shallow.h"
#include "expr/simd/isa.h"
#include "ops/config_check.h"

namespace smelt::ops::test {
namespace {

using matmul::FloatShallow;
using matmul::FloatShallowTable;
using simd::FloatKind;

std::vector<const FloatShallowTable*> tables() {
  std::vector<const FloatShallowTable*> all = {&base::float_shallow()};
  if (simd::best() == simd::Isa::avx2) all.push_back(&avx2::float_shallow());
  if (simd::widest() == simd::Isa::avx512) all.push_back(&avx512::float_shallow());
  return all;
}

int64_t pick(std::mt19937& r, std::initializer_list<int64_t> of) {
  return of.begin()[std::uniform_int_distribution<size_t>(0, of.size() - 1)(r)];
}

TEST(FloatShallow, every_instruction_set_sums_random_rows_and_columns) {
  std::mt19937 r(7);
  for (int trial = 0; trial < 300; ++trial) {
    const int64_t m = pick(r, {1, 2, 3, 4, 5, 9, 17}), n = pick(r, {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100}),
                  k = pick(r, {1, 2, 3, 4, 7, 15, 16}), apart = pick(r, {0, 0, 5}), step = (n + 15) / 16 * 16;
    const bool turned = pick(r, {0, 1}) != 0, biased = pick(r, {0, 1}) != 0, clamps = pick(r, {0, 1}) != 0;
    const float alpha = pick(r, {0, 1}) != 0 ? 1.0f : 0.5f;
    const DType types[] = {DType::f32, DType::f16, DType::bf16};
    const size_t of_b = static_cast<size_t>(pick(r, {0, 1, 2})), of_y = static_cast<size_t>(pick(r, {0, 1, 2}));
    const auto seed = static_cast<uint32_t>(trial);
    const Tensor a = random_tensor(DType::f32, {m, k}, seed), b = random_tensor(types[of_b], {k, n}, seed + 1),
                 bias = random_tensor(DType::f32, {n + 16}, seed + 2);
    const Tensor b32 = b.cast(DType::f32);
    for (const FloatShallowTable* table : tables()) {
      std::vector<float> panel(static_cast<size_t>(k * step), NAN);
      table->pack(static_cast<FloatKind>(of_b), panel.data(), step, b.raw(), k, n, turned ? 1 : n, turned ? k : 1, alpha);
      const auto of = [&](int64_t i, int64_t j) { return alpha * b32.data<float>()[turned ? j * k + i : i * n + j]; };
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < step; ++j) ASSERT_EQ(panel[static_cast<size_t>(i * step + j)], j < n ? of(i, j) : 0.0f);
      const Tensor y = random_tensor(types[of_y], {m, n + apart}, seed + 3), before = y.clone();
      const float inf = std::numeric_limits<float>::infinity();
      table->multiply(static_cast<FloatKind>(of_y),
                      {a.data<float>(), m, k, panel.data(), step, n, biased ? bias.data<float>() : nullptr, clamps ? -0.4f : -inf,
                       clamps ? 0.5f : inf, const_cast<void*>(y.raw()), n + apart});
      const std::vector<double> found = y.to_doubles(), kept = before.to_doubles();
      for (int64_t i = 0; i < m * (n + apart); ++i) {
        const int64_t row = i / (n + apart), column = i % (n + apart);
        const auto at = static_cast<size_t>(i);
        if (column >= n) {
          ASSERT_EQ(found[at], kept[at]) << "what lies between rows";
          continue;
        }
        double want = biased ? static_cast<double>(bias.data<float>()[column]) : 0;
        for (int64_t d = 0; d < k; ++d)
          want += static_cast<double>(a.data<float>()[row * k + d]) * static_cast<double>(of(d, column));
        if (clamps) want = std::clamp(want, static_cast<double>(-0.4f), 0.5);
        ASSERT_NEAR(found[at], want,
                    of_y == 0   ? 1e-5
                    : of_y == 1 ? 8e-3
                                : 6e-2)
            << m << 'x' << n << 'x' << k << " at " << row << ", " << column;
      }
    }
  }
}

TEST(FloatShallow, not_a_number_passes_limits) {
  const float a = NAN, b[16] = {1};
  for (const FloatShallowTable* table : tables()) {
    float y[16];
    table->multiply(FloatKind::f32, {&a, 1, 1, b, 16, 16, nullptr, 0, 6, y, 16});
    EXPECT_TRUE(std::isnan(y[0]));
  }
}

/// The candidate "shallow" of the problem on one and three threads.
void shallow_agrees(const Trial& given, double most) {
  for (const int threads : {1, 3}) {
    Trial t = given;
    config_agrees(t, "shallow", threads, expected(t), most);
  }
}

TEST(FloatShallow, agrees_over_random_products) {
  std::mt19937 r(11);
  for (int trial = 0; trial < 120; ++trial) {
    const DType type = std::array{DType::f32, DType::f16, DType::bf16}[static_cast<size_t>(pick(r, {0, 0, 1, 2}))];
    const int64_t m = pick(r, {1, 3, 8, 33, 200}), n = pick(r, {1, 2, 15, 17, 130, 700, 5000}), k = pick(r, {1, 2, 3, 5, 16});
    const bool gemm = pick(r, {0, 1}) != 0;
    SCOPED_TRACE(testing::Message() << trial << ": " << name(type) << ' ' << m << 'x' << n << 'x' << k
                                    << (gemm ? " Gemm" : " MatMul"));
    Trial t;
    t.node.op = gemm ? "Gemm" : "MatMul";
    const bool constant = pick(r, {0, 1}) != 0;
    const auto seed = static_cast<uint32_t>(trial);
    if (gemm) {
      const int64_t trans_a = pick(r, {0, 1}), trans_b = pick(r, {0, 1});
      t.node.attrs["transA"] = trans_a, t.node.attrs["transB"] = trans_b;
      t.node.attrs["alpha"] = pick(r, {0, 1}) != 0 ? 1.0f : 0.5f;
      t.add(random_tensor(type, trans_a ? Shape{k, m} : Shape{m, k}, seed), false);
      t.add(random_tensor(type, trans_b ? Shape{n, k} : Shape{k, n}, seed + 1), constant);
      const Shape c =
          std::array<Shape, 4>{Shape{}, Shape{n}, Shape{m, 1}, Shape{m, n}}[static_cast<size_t>(pick(r, {0, 1, 2, 3}))];
      if (pick(r, {0, 1}) != 0) t.add(random_tensor(type, c, seed + 2), pick(r, {0, 1}) != 0);
      t.result(type, {m, n});
    } else {
      const int64_t batch = pick(r, {1, 1, 2, 5}), kind = pick(r, {0, 1, 2});
      t.add(random_tensor(type, kind == 1 ? Shape{1, m, k} : Shape{batch, m, k}, seed), false);
      t.add(random_tensor(type, kind == 2 ? Shape{k, n} : Shape{batch, k, n}, seed + 1), constant);
      t.result(type, {batch, m, n});
    }
    shallow_agrees(t, type == DType::f32 ? 1e-6 : type == DType::f16 ? 1.0 / 512 : 1.0 / 64);
  }
}

TEST(FloatShallow, ends_with_programs_of_all_kinds) {
  for (const char* text :
       {"(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = relu(%2):f32; return %3 }",
        "(in0:f32, in1:f32, in2:f32) { %3 = add(in0, in1):f32; %4 = add(in2, %3):f32; return %4 }",
        "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = gelu(%2):f32; return %3 }",
        "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = hard_swish(%2):f32; %4 = cast(%3):f16; return %4 }"})
    for (const int64_t n : {5, 37, 1100}) {
      SCOPED_TRACE(testing::Message() << text << ' ' << n);
      Trial t;
      t.node.domain = smelt_domain;
      t.node.op = "MatMul";
      t.add(random_tensor(DType::f32, {2, 21, 3}, 1), false);
      t.add(random_tensor(DType::f32, {3, n}, 2), false);
      const DType type = t.compute(text, DType::f32);
      t.add(random_tensor(DType::f32, {n}, 3), true);
      if (t.node.program->input_count() > 2) t.add(random_tensor(DType::f32, {2, 21, n}, 4), false);
      t.result(type, {2, 21, n});
      shallow_agrees(t, type == DType::f32 ? 4e-6 : 1.0 / 512);
    }
}

TEST(FloatShallow, deep_products_are_left_to_others) {
  Trial t;
  t.node.op = "MatMul";
  t.add(random_tensor(DType::f32, {4, 17}, 1), false);
  t.add(random_tensor(DType::f32, {17, 40}, 2), false);
  t.result(DType::f32, {4, 40});
  t.bound.node = &t.node;
  for (const Candidate& c : offer(t.bound, Machine{}).candidates) EXPECT_NE(c.config, "shallow");
}

}  // namespace
}  // namespace smelt::ops::test
