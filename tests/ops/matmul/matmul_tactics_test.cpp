#include "ops/matmul/problem.h"
#include "ops/tactic_check.h"
#include "smelt/error.h"

namespace smelt::ops {
namespace {

using expr::Fn;
using expr::Program;
using testing::Contains;

Trial matmul(Shape a, Shape b, bool constant_b, DType type = DType::f32) {
  Trial t;
  t.node.op = "MatMul";
  t.add(random_tensor(type, std::move(a), 1), false);
  t.add(random_tensor(type, std::move(b), 2), constant_b);
  return t;
}

TEST(MatMulTactics, agree_with_the_reference_on_every_listed_shape) {
  struct Row {
    Shape a, b, y;
  };
  const Row rows[] = {
      {{7, 5}, {5, 3}, {7, 3}},
      {{1, 2048}, {2048, 40}, {1, 40}},
      {{2, 300}, {300, 17}, {2, 17}},
      {{197, 64}, {64, 96}, {197, 96}},
      {{49, 700}, {700, 33}, {49, 33}},
      {{6, 16}, {16, 16}, {6, 16}},
      {{2, 3, 11, 20}, {20, 9}, {2, 3, 11, 9}},
      {{13, 1}, {1, 8}, {13, 8}},
      {{100, 350}, {350, 300}, {100, 300}},
  };
  for (const Row& row : rows) {
    for (bool constant : {true, false}) {
      Trial t = matmul(row.a, row.b, constant);
      t.result(DType::f32, row.y);
      const auto names = check(t, 2e-6);
      EXPECT_THAT(names, Contains("onednn"));
      EXPECT_EQ(std::ranges::count(names, "avx2"), 1);
    }
  }
}

TEST(MatMulTactics, a_few_rows_read_the_weights_where_they_lie) {
  for (DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (int64_t rows : {1, 2, 3, 4, 5, 8, 9}) {
      for (int64_t trans : {0, 1}) {
        for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1100, 21}, {13, 301}, {1, 5}}) {
          Trial t;
          t.node.op = "Gemm";
          t.node.attrs["transB"] = trans;
          t.node.attrs["alpha"] = rows == 3 ? 0.5f : 1.0f;
          t.add(random_tensor(type, {rows, k}, 1), false);
          t.add(random_tensor(type, trans ? Shape{n, k} : Shape{k, n}, 2), rows % 2 == 0);
          t.result(type, {rows, n});
          const auto names = check(t, type == DType::f32 ? 2e-6 : type == DType::f16 ? 1.0 / 1024 : 1.0 / 128);
          const bool in_place = rows <= 8 || n == 1, shallow = k <= 16;
          EXPECT_EQ(std::ranges::count(names, "cpu"), (in_place ? 1 : 0) + (shallow ? 1 : 0));
        }
      }
    }
  }
}

TEST(MatMulTactics, one_column_reads_the_left_operand_where_it_lies) {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (int64_t rows : {9, 70, 2100})
      for (int64_t trans : {0, 1})
        for (const Shape& c : {Shape{}, Shape{1}, Shape{rows, 1}}) {
          Trial t;
          t.node.op = "Gemm";
          t.node.attrs["transA"] = trans;
          t.node.attrs["alpha"] = rows == 9 ? 0.5f : 1.0f;
          t.add(random_tensor(type, trans ? Shape{301, rows} : Shape{rows, 301}, 1), false);
          t.add(random_tensor(type, {301, 1}, 2), rows == 70);
          t.add(random_tensor(type, c, 3), false);
          t.result(type, {rows, 1});
          const auto names = check(t, type == DType::f32 ? 2e-6 : type == DType::f16 ? 1.0 / 1024 : 1.0 / 128);
          EXPECT_EQ(std::ranges::count(names, "cpu"), 1);
        }
}

TEST(MatMulTactics, broadcast_batches_on_either_side) {
  struct Row {
    Shape a, b, y;
  };
  const Row rows[] = {
      {{2, 3, 5, 4}, {2, 3, 4, 6}, {2, 3, 5, 6}}, {{3, 5, 4}, {2, 1, 4, 6}, {2, 3, 5, 6}}, {{5, 4}, {2, 3, 4, 6}, {2, 3, 5, 6}}};
  for (const Row& row : rows) {
    Trial t = matmul(row.a, row.b, false);
    t.result(DType::f32, row.y);
    EXPECT_THAT(check(t, 2e-6), Contains("onednn"));
  }
}

TEST(MatMulTactics, leave_empty_results_to_the_reference) {
  Trial empty = matmul({0, 5}, {5, 3}, true);
  empty.result(DType::f32, {0, 3});
  EXPECT_TRUE(check(empty, 1e-6).empty());
}

TEST(MatMulTactics, gemm_with_transposes_alpha_beta_and_every_shape_of_c) {
  for (const Shape& c : {Shape{}, Shape{1}, Shape{19}, Shape{1, 19}, Shape{13, 19}, Shape{13, 1}}) {
    for (bool constant : {true, false}) {
      for (int64_t trans : {0, 1}) {
        Trial t;
        t.node.op = "Gemm";
        t.node.attrs["transB"] = trans;
        t.node.attrs["alpha"] = 0.5f;
        t.node.attrs["beta"] = constant ? 1.0f : -2.0f;
        t.add(random_tensor(DType::f32, {13, 40}, 1), false);
        t.add(random_tensor(DType::f32, trans ? Shape{19, 40} : Shape{40, 19}, 2), true);
        t.add(random_tensor(DType::f32, c, 3), constant);
        t.result(DType::f32, {13, 19});
        EXPECT_THAT(check(t, 2e-6), Contains("avx2"));
      }
    }
  }
}

TEST(MatMulTactics, take_a_transposed_left_operand) {
  for (bool constant : {true, false}) {
    Trial t;
    t.node.op = "Gemm";
    t.node.attrs["transA"] = int64_t{1};
    t.add(random_tensor(DType::f32, {40, 13}, 1), false);
    t.add(random_tensor(DType::f32, {40, 19}, 2), constant);
    t.result(DType::f32, {13, 19});
    // oneDNN has one implementation for each instruction set of the CPU.
    std::vector<std::string> names = check(t, 2e-6);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    EXPECT_EQ(names, (std::vector<std::string>{"avx2", "onednn"})) << constant;
  }
}

/// y = f(sums, bias, residual) over an ai.smelt MatMul, from the plain product in f64.
void check_program(const Program& p, double (*f)(double, double, double)) {
  struct Row {
    Shape a, b;
    bool constant;
  };
  constexpr int64_t n = 37;
  for (const Row& row : {Row{{23, 30}, {30, n}, true}, Row{{2, 11, 700}, {700, n}, true}, Row{{2, 11, 70}, {70, n}, false},
                         Row{{3, 70}, {70, n}, true}, Row{{5, 11, 70}, {5, 70, n}, false}, Row{{5, 11, 70}, {5, 70, n}, true},
                         Row{{3, 1, 9, 5}, {2, 5, n}, false}}) {
    Shape y = row.a;
    y.back() = n;
    if (y.size() == 4) y[1] = 2;
    Trial t = matmul(row.a, row.b, row.constant);
    Node plain = t.node;
    plain.inputs.resize(2);
    plain.outputs = {static_cast<ValueId>(9)};
    const std::vector<Tensor> wide = {t.inputs[0].cast(DType::f64), t.inputs[1].cast(DType::f64)};
    Tensor want = evaluate(plain, wide)[0].clone();
    const Tensor bias = random_tensor(DType::f32, {n}, 3), residual = random_tensor(DType::f32, y, 4);
    for (int64_t i = 0; i < want.size(); ++i) {
      double& v = want.data<double>()[i];
      v = f(v, bias.data<float>()[i % n], residual.data<float>()[i]);
    }
    t.node.domain = smelt_domain;
    t.node.program = p;
    t.add(bias, true);
    if (p.input_count() > 2) t.add(residual, false);
    t.result(DType::f32, y);
    t.bound.node = &t.node;
    Machine machine;
    machine.threads = 2;
    const Offer o = offer(t.bound, machine);
    int ran = 0;
    for (const Candidate& c : o.candidates) {
      if (c.tactic == "reference") continue;
      SCOPED_TRACE(o.problem + " " + c.tactic);
      EXPECT_LE(error(run(t, c), want), 4e-6);
      ++ran;
    }
    EXPECT_GE(ran, 2);
  }
}

TEST(MatMulTactics, apply_bias_residual_and_activation) {
  Program p;
  expr::Ref in0 = p.input(DType::f32), in1 = p.input(DType::f32);
  p.output(p.call(Fn::relu, p.call(Fn::add, in0, in1)));
  check_program(p, [](double s, double b, double) { return std::max(s + b, 0.0); });
  p = {};
  in0 = p.input(DType::f32), in1 = p.input(DType::f32);
  expr::Ref in2 = p.input(DType::f32);
  p.output(p.call(Fn::add, in2, p.call(Fn::add, in0, in1)));
  check_program(p, [](double s, double b, double r) { return s + b + r; });
}

TEST(MatMulTactics, run_programs_that_registers_do_not_take) {
  Program p;
  expr::Ref in0 = p.input(DType::f32), in1 = p.input(DType::f32);
  p.output(p.call(Fn::gelu, p.call(Fn::add, in0, in1)));
  check_program(p, [](double s, double b, double) { return (s + b) * 0.5 * (1 + std::erf((s + b) / std::sqrt(2.0))); });
  p = {};
  in0 = p.input(DType::f32), in1 = p.input(DType::f32);
  expr::Ref in2 = p.input(DType::f32);
  p.output(p.call(Fn::mul, in2, p.call(Fn::sub, in0, in1)));
  check_program(p, [](double s, double b, double r) { return r * (s - b); });
}

TEST(MatMulTactics, compute_half_precision_in_f32_and_round_once) {
  for (DType type : {DType::f16, DType::bf16}) {
    for (bool constant : {true, false}) {
      Trial t = matmul({21, 65}, {65, 18}, constant, type);
      t.result(type, {21, 18});
      EXPECT_THAT(check(t, type == DType::f16 ? 1.0 / 1024 : 1.0 / 128), Contains("avx2"));
    }
  }
}

TEST(MatMulProblem, prints_types_batches_extents_storage_and_epilogue) {
  matmul::Problem p;
  p.m = 48, p.n = p.k = 4096;
  p.b_columns = true;
  p.epilogue = "bias+relu";
  EXPECT_EQ(matmul::print(p), "gemm:f32>f32:48x4096x4096:rcr:bias+relu");
  p.a_batch = p.b_batch = {8, 12};
  p.b_computed = true;
  EXPECT_EQ(matmul::print(p), "gemm:f32>f32:8x12*48x4096x4096:rcr,computed:bias+relu");
  p.b_batch = {1, 12};
  EXPECT_EQ(matmul::print(p), "gemm:f32>f32:8x12,1x12*48x4096x4096:rcr,computed:bias+relu");
}

}  // namespace
}  // namespace smelt::ops
