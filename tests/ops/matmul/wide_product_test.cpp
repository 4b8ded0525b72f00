// Products of doubles and of integers of 32 and 64 bits (ops/matmul/cpu_wide.cpp).
#include <limits>

#include "ops/cpu/wide/gemm.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using expr::Fn;
using expr::Program;
using testing::ElementsAre;

constexpr DType types[] = {DType::f64, DType::i32, DType::u32, DType::i64, DType::u64};

double tolerance(DType type) { return type == DType::f64 ? 1e-14 : 0; }

Trial product(DType type, const Shape& a, const Shape& b, bool constant) {
  Trial t;
  t.node.op = "MatMul";
  t.add(random_tensor(type, a, 1), false);
  t.add(random_tensor(type, b, 2), constant);
  return t;
}

TEST(WideProduct, agrees_with_the_reference_for_every_type_and_shape) {
  struct Row {
    Shape a, b, y;
  };
  const Row rows[] = {{{7, 5}, {5, 3}, {7, 3}},
                      {{1, 700}, {700, 1100}, {1, 1100}},
                      {{4, 33}, {33, 17}, {4, 17}},
                      {{700, 300}, {300, 1}, {700, 1}},
                      {{97, 513}, {513, 65}, {97, 65}},
                      {{4001, 4}, {4, 4}, {4001, 4}},
                      {{133, 300}, {300, 6}, {133, 6}},
                      {{200, 257}, {257, 16}, {200, 16}},
                      {{65, 600}, {600, 27}, {65, 27}},
                      {{40, 3}, {3, 700}, {40, 700}},
                      {{7, 1}, {1, 1100}, {7, 1100}},
                      {{9, 2}, {2, 33}, {9, 33}},
                      {{3, 5, 8}, {8, 515}, {3, 5, 515}},
                      {{6, 7}, {7, 513}, {6, 513}},
                      {{2, 3, 11, 20}, {20, 9}, {2, 3, 11, 9}},
                      {{2, 3, 9, 4}, {2, 3, 4, 6}, {2, 3, 9, 6}},
                      {{3, 9, 4}, {2, 1, 4, 6}, {2, 3, 9, 6}},
                      {{9, 4}, {2, 3, 4, 6}, {2, 3, 9, 6}},
                      {{40}, {40, 9}, {9}},
                      {{2, 9, 40}, {40}, {2, 9}},
                      {{40}, {40}, {}}};
  for (DType type : types)
    for (const Row& row : rows)
      for (bool constant : {true, false}) {
        Trial t = product(type, row.a, row.b, constant);
        t.result(type, row.y);
        EXPECT_THAT(check(t, tolerance(type)), ElementsAre("cpu")) << name(type);
      }
}

/// Around the rows, registers and depths that kernels take at once.
TEST(WideProduct, agrees_at_every_width_and_small_depth) {
  for (DType type : {DType::f64, DType::i32, DType::i64})
    for (int64_t m : {1, 4, 5, 9, 14})
      for (int64_t n = 1; n <= 35; ++n)
        for (int64_t k : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13}) {
          Trial t = product(type, {m, k}, {k, n}, false);
          t.result(type, {m, n});
          EXPECT_THAT(check(t, tolerance(type), 1), ElementsAre("cpu")) << name(type) << m << "x" << k << "x" << n;
        }
}

TEST(WideProduct, takes_a_gemm_of_every_transpose_with_its_addend) {
  for (DType type : types)
    for (int64_t trans_a : {0, 1})
      for (int64_t trans_b : {0, 1})
        for (const auto& [m, n] : {std::pair<int64_t, int64_t>{13, 19}, {3, 50}, {50, 1}, {129, 40}})
          for (const Shape& c : {Shape{}, Shape{n}, Shape{m, 1}}) {
            Trial t;
            t.node.op = "Gemm";
            t.node.attrs["transA"] = trans_a;
            t.node.attrs["transB"] = trans_b;
            if (type == DType::f64) t.node.attrs["alpha"] = 0.5f, t.node.attrs["beta"] = -2.0f;
            t.add(random_tensor(type, trans_a ? Shape{40, m} : Shape{m, 40}, 1), false);
            t.add(random_tensor(type, trans_b ? Shape{n, 40} : Shape{40, n}, 2), true);
            t.add(random_tensor(type, c, 3), false);
            t.result(type, {m, n});
            EXPECT_THAT(check(t, tolerance(type)), ElementsAre("cpu")) << name(type) << trans_a << trans_b << m;
          }
}

TEST(WideProduct, ends_with_a_program) {
  Program p;
  const expr::Ref sum = p.input(DType::f64), bias = p.input(DType::f64);
  p.output(p.call(Fn::relu, p.call(Fn::add, sum, bias)));
  for (const Shape& c : {Shape{70}, Shape{9, 1}, Shape{9, 70}}) {
    Trial t = product(DType::f64, {2, 9, 33}, {33, 70}, true);
    t.node.domain = smelt_domain;
    t.node.program = p;
    t.add(random_tensor(DType::f64, c, 3), false);
    t.result(DType::f64, {2, 9, 70});
    EXPECT_THAT(check(t, 1e-14), ElementsAre("cpu"));
  }
}

TEST(WideProduct, scales_integers_in_double) {
  Trial t = product(DType::i32, {7, 5}, {5, 3}, true);
  t.node.op = "Gemm";
  t.node.attrs["alpha"] = 0.5f;
  t.result(DType::i32, {7, 3});
  EXPECT_THAT(check(t, 0), ElementsAre("cpu"));
}

TEST(WideGemm, of_integers_wraps) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  const int64_t a[] = {most, most, 3}, b[] = {2, most, most};
  int64_t c = 0;
  const wide::Gemm gemm(wide::Type::i64, 1, 1, 3, 1);
  std::vector<char> memory(static_cast<size_t>(gemm.workspace()));
  gemm.run({a, 3, 1}, {b, 1, 1}, &c, 1, memory.data());
  EXPECT_EQ(c, static_cast<int64_t>(2 * static_cast<uint64_t>(most) + static_cast<uint64_t>(most) * static_cast<uint64_t>(most) +
                                    3 * static_cast<uint64_t>(most)));
}

// Few rows read b where it lies, but for the last columns; more rows and deep products go by packed blocks.
TEST(WideGemm, takes_rows_and_columns_around_tiles_and_blocks_however_the_operands_lie) {
  for (const int64_t m : {1, 5, 8, 17, 25, 97})
    for (const int64_t n : {1, 3, 9, 17, 33, 65, 300})
      for (const int64_t k : {7, 31, 257, 513}) {
        if (m * n * k > 1'000'000) continue;
        const Tensor a = random_tensor(DType::i64, {m, k}, 1), b = random_tensor(DType::i64, {k, n}, 2);
        const Tensor a_turned = random_tensor(DType::i64, {k, m}, 1), b_turned = random_tensor(DType::i64, {n, k}, 2);
        for (const int threads : {1, 2})
          for (const int turned : {0, 1, 2, 3}) {
            const wide::Matrix left = turned & 1 ? wide::Matrix{a_turned.raw(), 1, m} : wide::Matrix{a.raw(), k, 1};
            const wide::Matrix right = turned & 2 ? wide::Matrix{b_turned.raw(), 1, k} : wide::Matrix{b.raw(), n, 1};
            const wide::Gemm gemm(wide::Type::i64, m, n, k, threads);
            std::vector<char> memory(static_cast<size_t>(gemm.workspace()));
            std::vector<int64_t> y(static_cast<size_t>(m * n), -1);
            gemm.run(left, right, y.data(), n, memory.data());
            int64_t wrong = 0;
            for (int64_t i = 0; i < m; ++i)
              for (int64_t j = 0; j < n; j += 1 + (n > 40 ? 5 : 0)) {
                int64_t sum = 0;
                for (int64_t l = 0; l < k; ++l)
                  sum += static_cast<const int64_t*>(left.data)[i * left.row + l * left.column] *
                         static_cast<const int64_t*>(right.data)[l * right.row + j * right.column];
                wrong += y[static_cast<size_t>(i * n + j)] != sum;
              }
            EXPECT_EQ(wrong, 0) << m << "x" << n << "x" << k << " turned " << turned << " threads " << threads;
          }
      }
}

TEST(WideGemm, is_the_same_on_any_number_of_threads_and_of_nothing_it_is_zero) {
  constexpr int64_t m = 211, n = 130, k = 300;
  const Tensor a = random_tensor(DType::f64, {m, k}, 1), b = random_tensor(DType::f64, {k, n}, 2);
  Tensor one = Tensor::empty(DType::f64, {m, n}), many = Tensor::empty(DType::f64, {m, n});
  for (auto& [y, threads] : {std::pair<Tensor&, int>{one, 1}, {many, 3}}) {
    const wide::Gemm gemm(wide::Type::f64, m, n, k, threads);
    std::vector<char> memory(static_cast<size_t>(gemm.workspace()));
    gemm.run({a.raw(), k, 1}, {b.raw(), n, 1}, y.raw(), n, memory.data());
  }
  EXPECT_TRUE(std::ranges::equal(one.span<double>(), many.span<double>()));
  wide::Gemm(wide::Type::f64, m, n, 0, 1).run({a.raw(), 0, 1}, {b.raw(), n, 1}, one.raw(), n, nullptr);
  EXPECT_TRUE(std::ranges::all_of(one.span<double>(), [](double v) { return v == 0; }));
}

}  // namespace
}  // namespace smelt::ops
