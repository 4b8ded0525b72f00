// ai.smelt.BlockMatMul: its shape rule, and its kernels against its reference.
#include "expr/simd/isa.h"
#include "ops/matmul/block_problem.h"
#include "ops/quantize/shifted.h"
#include "ops/tactic_check.h"
#include "smelt/error.h"

namespace smelt::ops {
namespace {

using expr::Fn;
using testing::ElementsAre;
using testing::HasSubstr;

/// a [rows, k] times n rows of `row` weights in blocks.
struct Case {
  int64_t rows, n, k, row, block;
  DType weights = DType::u4, scales = DType::f32, a = DType::f32;
  bool zeros = true;
};

Trial trial(const Case& c, const std::optional<expr::Program>& program = {}) {
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "BlockMatMul";
  t.node.attrs["block_size"] = c.block;
  if (c.k < c.row) t.node.attrs["K"] = c.k;
  t.node.program = program;
  const Shape blocks = {c.n, (c.row + c.block - 1) / c.block};
  const IntRange range = int_range(c.weights);
  const auto low = static_cast<double>(range.low), high = static_cast<double>(range.high) + 0.99;
  t.add(random_tensor(c.a, {c.rows, c.k}, 1), false);
  t.add(random_tensor(c.weights, {c.n, c.row}, 2, low, high), true);
  t.add(random_tensor(c.scales, blocks, 3, 0.01, 0.02), true);
  t.add(c.zeros ? random_tensor(c.weights, blocks, 4, low, high) : Tensor(), true);
  return t;
}

double tolerance(DType a) { return a == DType::f32 ? 2e-5 : a == DType::f16 ? 1.0 / 1024 : 1.0 / 128; }

std::vector<std::string> check(const Case& c, int threads = 2) {
  SCOPED_TRACE(testing::Message() << c.rows << "x" << c.n << "x" << c.k << " of " << c.row << "/" << c.block);
  Trial t = trial(c);
  t.result(c.a, {c.rows, c.n});
  return check(t, tolerance(c.a), threads);
}

TEST(BlockMatMul, agrees_with_the_reference_for_every_width_block_and_zero_point) {
  for (DType type : {DType::u2, DType::i2, DType::u4, DType::i4, DType::u8, DType::i8})
    for (int64_t block : {16, 32, 64, 128, 256})
      for (bool zeros : {false, true})
        for (int64_t k : {320, 400}) {
          const int64_t row = (k + block - 1) / block * block;
          EXPECT_THAT(check({.rows = 3, .n = 21, .k = k, .row = row, .block = block, .weights = type, .zeros = zeros}),
                      ElementsAre("cpu", "avx2"));
        }
}

TEST(BlockMatMul, takes_part_blocks_with_padding_behind_them_and_without) {
  for (DType type : {DType::u2, DType::u4, DType::i8})
    for (int64_t rows : {1, 7})
      for (const auto& [k, row] : {std::pair<int64_t, int64_t>{70, 96}, {72, 72}, {33, 64}, {16, 16}, {5, 16}, {1000, 1000}})
        check({.rows = rows, .n = 19, .k = k, .row = row, .block = 32, .weights = type});
}

TEST(BlockMatMul, agrees_for_every_count_of_rows_and_threads) {
  for (int threads : {1, 2})
    for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 20, 33, 250}) {
      const auto names = check({.rows = rows, .n = 300, .k = 700, .row = 704, .block = 64}, threads);
      EXPECT_EQ(std::ranges::count(names, "cpu"), rows <= 32 ? 1 : 0);
      EXPECT_EQ(std::ranges::count(names, "avx2"), 1);
    }
}

TEST(BlockMatMul, reads_a_long_row_in_parts_that_stay_in_the_cache) {
  for (int64_t block : {32, 8192})
    for (int64_t rows : {1, 4}) check({.rows = rows, .n = 9, .k = 9000, .row = 9024, .block = block});
}

TEST(BlockMatMul, takes_scales_and_rows_of_half_precision) {
  for (DType scales : {DType::f32, DType::f16, DType::bf16})
    for (DType a : {DType::f32, DType::f16, DType::bf16})
      for (int64_t rows : {1, 40}) check({.rows = rows, .n = 24, .k = 96, .row = 96, .block = 32, .scales = scales, .a = a});
}

TEST(BlockMatMul, takes_one_zero_point_for_all_blocks) {
  Trial t = trial({.rows = 2, .n = 24, .k = 96, .row = 96, .block = 32});
  t.inputs[3] = random_tensor(DType::u4, {24, 3}, 5, 8, 8.5);
  t.bound.inputs[3].constant = t.inputs[3];
  t.result(DType::f32, {2, 24});
  check(t, 2e-5);
}

/// y = (in0 + bias) and then relu, or gelu and a residual's product.
expr::Program program(bool simple) {
  expr::Program p;
  const expr::Ref in0 = p.input(DType::f32), bias = p.input(DType::f32), residual = p.input(DType::f32);
  const expr::Ref sum = p.call(Fn::add, in0, bias);
  p.output(simple ? p.call(Fn::relu, p.call(Fn::add, sum, residual)) : p.call(Fn::mul, p.call(Fn::gelu, sum), residual));
  return p;
}

TEST(BlockMatMul, applies_programs) {
  for (bool simple : {true, false})
    for (int64_t rows : {1, 6, 70})
      for (int64_t n : {40, 531}) {
        Trial t = trial({.rows = rows, .n = n, .k = 96, .row = 96, .block = 32}, program(simple));
        t.add(random_tensor(DType::f32, {n}, 5), true);
        t.add(random_tensor(DType::f32, {rows, n}, 6), false);
        t.result(DType::f32, {rows, n});
        EXPECT_FALSE(check(t, 2e-5).empty());
      }
}

TEST(BlockMatMul, kernels_of_a_processor_without_avx2_agree) {
  // The same rows by the base table: y = Σ a · scale · (q - zero).
  const matmul::BlockTable& table = base::block_product_table();
  for (const auto& [type, bits] : {std::pair{DType::u2, 2}, {DType::u4, 4}, {DType::u8, 8}})
    for (int64_t block : {16, 32, 128}) {
      constexpr int64_t n = 5, k = 200;
      const int64_t row = (k + block - 1) / block * block, blocks = row / block;
      Trial t = trial({.rows = 1, .n = n, .k = k, .row = row, .block = block, .weights = type});
      t.result(DType::f32, {1, n});
      const Tensor want = expected(t), zeros = t.inputs[3].cast(DType::u8);
      const float* a = t.inputs[0].data<float>();
      const matmul::BlockWeights w{bits,
                                   false,
                                   block,
                                   k,
                                   static_cast<const uint8_t*>(t.inputs[1].raw()),
                                   row * bits / 8,
                                   simd::FloatKind::f32,
                                   t.inputs[2].raw(),
                                   blocks,
                                   zeros.data<uint8_t>()};
      std::vector<float> spread(static_cast<size_t>(table.row_floats(w))), sums(static_cast<size_t>(blocks)),
          memory(static_cast<size_t>(4 * blocks + matmul::block_memory));
      table.spread(w, a, spread.data(), sums.data());
      Tensor got = Tensor::zeros(DType::f32, {1, n});
      table.start(w, n, sums.data(), blocks, 1, got.data<float>(), n, memory.data());
      table.add(w, n, 0, k, spread.data(), k, 1, got.data<float>(), n, memory.data());
      EXPECT_LE(error(got, want), 2e-5) << name(type) << " " << block;
    }
}

TEST(BlockMatMul, says_what_no_kernel_takes) {
  EXPECT_THAT(matmul::rejects_blocks(DType::u4, 96, 24)->text, HasSubstr("blocks of 24"));
  EXPECT_THAT(matmul::rejects_blocks(DType::u4, 33, 32)->text, HasSubstr("begin within bytes"));
  EXPECT_THAT(matmul::rejects_blocks(DType::u16, 96, 32)->text, HasSubstr("u16"));
  EXPECT_FALSE(matmul::rejects_blocks(DType::i4, 96, 32));
}

TEST(BlockMatMul, its_rule_says_what_does_not_fit) {
  const auto message = [](const Case& c, const std::function<void(Trial&)>& change) {
    Trial t = trial(c);
    change(t);
    try {
      expected(t);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  const Case c{.rows = 2, .n = 24, .k = 96, .row = 96, .block = 32};
  EXPECT_THAT(message(c, [](Trial& t) { t.node.attrs["block_size"] = int64_t{0}; }), HasSubstr("block_size is 0"));
  EXPECT_THAT(message(c, [](Trial& t) { t.node.attrs["K"] = int64_t{97}; }), HasSubstr("K is 97"));
  EXPECT_THAT(message(c, [](Trial& t) { t.node.attrs["K"] = int64_t{95}; }), HasSubstr("expected [.., 95]"));
  EXPECT_THAT(message(c,
                      [](Trial& t) {
                        t.inputs[2] = random_tensor(DType::f32, {24, 2}, 1);
                      }),
              HasSubstr("the scale has shape"));
  EXPECT_THAT(message(c,
                      [](Trial& t) {
                        t.inputs[3] = random_tensor(DType::u4, {3, 24}, 1);
                      }),
              HasSubstr("the zero point has shape"));
  EXPECT_THAT(message(c, [](Trial& t) { t.inputs[3] = t.inputs[3].cast(DType::u8); }), HasSubstr("the zero point is u8"));
}

}  // namespace
}  // namespace smelt::ops
