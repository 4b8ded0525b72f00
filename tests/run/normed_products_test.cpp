// A normalisation and the product that reads it are one step on Hopper where that is estimated to take less; no GPU is needed.
#include "ops/matmul/normed_product.h"

#include <cmath>

#include "device/cuda/compiler.h"
#include "run/plan.h"
#include "support/graphs.h"
#include "support/random.h"

namespace smelt::run {

using namespace test;

namespace {

struct Form {
  int64_t rows = 4096, width = 512, columns = 1536;
  std::string op = "LayerNormalization";
  DType type = DType::f16;
  bool read_twice = false;
  double gamma = 1;
};

/// x · w of rows that are normalised, of f16.
Graph normed(const Form& f) {
  Builder b;
  const SymShape x = to_sym({f.rows, f.width}), y = to_sym({f.rows, f.columns});
  std::vector<ValueId> inputs = {b.input("x", x, f.type), b.weights("gamma", {f.width}, f.type, f.gamma)};
  if (f.op == "LayerNormalization") inputs.push_back(b.weights("beta", {f.width}, f.type, 1));
  const ValueId rows = b.node("normal", f.op, inputs, x, f.type);
  b.output(b.node("product", "MatMul", {rows, b.weights("w", {f.width, f.columns}, f.type, 0.05)}, y, f.type));
  if (f.read_twice) b.output(b.node("other", "Relu", {rows}, x, f.type));
  return std::move(b.g);
}

std::vector<std::string> problems_of(const Form& f, const std::string& arch) {
  Options o = quick();
  o.skip.clear();
  o.arch = arch;
  const auto plan = Plan::build(normed(f), o);
  std::vector<std::string> problems;
  for (const StepInfo& s : plan->steps()) problems.push_back(s.problem);
  return problems;
}

class NormedProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  }
};

TEST_F(NormedProducts, are_one_step_on_hopper) {
  for (const std::string op : {"LayerNormalization", "RMSNormalization"}) {
    const auto problems = problems_of({.op = op}, "sm_90a");
    ASSERT_EQ(problems.size(), 1u) << op << ' ' << problems.back();
    EXPECT_NE(problems[0].find(op == "RMSNormalization" ? "normed rms " : "normed layer "), std::string::npos) << problems[0];
  }
}

TEST_F(NormedProducts, are_two_steps_where_no_kernel_takes_both) {
  EXPECT_EQ(problems_of({}, "sm_80").size(), 2u) << "no wgmma";
  EXPECT_EQ(problems_of({.type = DType::f32}, "sm_90a").size(), 2u) << "of f32";
  EXPECT_EQ(problems_of({.read_twice = true}, "sm_90a").size(), 3u) << "another reads the rows";
  EXPECT_EQ(problems_of({.gamma = 1e-5}, "sm_90a").size(), 2u) << "gamma times the weights has few bits in f16";
  EXPECT_EQ(problems_of({.rows = 2}, "sm_90a").size(), 2u) << "few rows, which change sides";
}

TEST(NormedWeights, of_columns_that_sum_to_nothing) {
  constexpr int64_t k = 768, n = 40;
  for (const DType type : {DType::f16, DType::bf16}) {
    const Tensor w = random_tensor({k, n}, 1).cast(type), gamma = random_tensor({k}, 2).cast(type),
                 beta = random_tensor({k}, 3).cast(type);
    const auto made = ops::matmul::normed_weights(w, gamma, beta, true);
    const Tensor exact = w.cast(DType::f32), g = gamma.cast(DType::f32), b = beta.cast(DType::f32),
                 rounded = made.weights.cast(DType::f32);
    const double last = type == DType::f16 ? 1.0 / 1024 : 1.0 / 128;  // a unit in the last place of a number of 1
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, mean = 0, added = 0;
      for (int64_t i = 0; i < k; ++i) {
        sum += rounded.data<float>()[i * n + j];
        mean += double{exact.data<float>()[i * n + j]} * g.data<float>()[i] / k;
        added += double{exact.data<float>()[i * n + j]} * b.data<float>()[i];
      }
      EXPECT_LE(std::abs(sum), last) << j;
      EXPECT_NEAR(made.added.data<float>()[j], added, 1e-4);
      for (int64_t i = 0; i < k; ++i) {
        const double want = double{exact.data<float>()[i * n + j]} * g.data<float>()[i] - mean;
        EXPECT_LE(std::abs(rounded.data<float>()[i * n + j] - want), last * std::max(0.01, std::abs(want))) << i << ' ' << j;
      }
    }
  }
}

TEST(NormedWeights, are_the_same_bits_by_any_number_of_threads) {
  for (const auto& [k, n] : {std::pair<int64_t, int64_t>{300, 1000}, {1024, 129}, {70, 64}, {5, 3}, {0, 8}}) {
    for (const DType type : {DType::f16, DType::bf16}) {
      const Tensor w = random_tensor({k, n}, 1).cast(type), gamma = random_tensor({k}, 2).cast(type),
                   beta = random_tensor({k}, 3).cast(type);
      for (const bool centred : {false, true}) {
        const auto one = ops::matmul::normed_weights(w, gamma, beta, centred, 1);
        for (const int threads : {2, 5}) {
          const auto several = ops::matmul::normed_weights(w, gamma, beta, centred, threads);
          EXPECT_EQ(one.weights.to_doubles(), several.weights.to_doubles()) << k << " x " << n << ", " << threads;
          EXPECT_EQ(one.added.to_doubles(), several.added.to_doubles());
          EXPECT_EQ(one.faithful, several.faithful);
        }
      }
    }
  }
}

TEST(NormedWeights, are_not_faithful_where_their_type_does_not_hold_them) {
  for (const bool centre : {false, true}) {
    const auto faithful = [&](DType type, double gamma, double most) {
      const Tensor w = random_tensor(type, {64, 24}, 1, -most, most), g = random_tensor(type, {64}, 2, gamma / 2, gamma);
      return ops::matmul::normed_weights(w, g, {}, centre).faithful;
    };
    EXPECT_TRUE(faithful(DType::f16, 1, 1));
    EXPECT_TRUE(faithful(DType::bf16, 1, 1));
    EXPECT_TRUE(faithful(DType::f16, 0.05, 0.02));
    EXPECT_FALSE(faithful(DType::f16, 1e-3, 1e-3)) << "subnormal";
    EXPECT_TRUE(faithful(DType::bf16, 1e-3, 1e-3));
    EXPECT_FALSE(faithful(DType::f16, 300, 300)) << "too large";
  }
  // One column alone, among others that are large.
  Tensor w = Tensor::of<float>({64, 2}, std::vector<float>(128, 1.0f)).cast(DType::f16);
  for (int64_t i = 0; i < 64; ++i) static_cast<uint16_t*>(w.raw())[2 * i + 1] = 0x0403;  // 6.1e-5
  const Tensor gamma = Tensor::of<float>({64}, std::vector<float>(64, 0.01f)).cast(DType::f16);
  EXPECT_FALSE(ops::matmul::normed_weights(w, gamma, {}, false).faithful);
}

TEST(NormedWeights, of_rows_that_are_not_centred_are_those_times_gamma) {
  const Tensor w = random_tensor({3, 5}, 1).cast(DType::bf16),
               gamma = Tensor::of<float>({3}, {2.0f, 0.5f, 1.0f}).cast(DType::bf16);
  const auto made = ops::matmul::normed_weights(w, gamma, {}, false);
  EXPECT_FALSE(made.added.valid());
  for (int64_t i = 0; i < 15; ++i)
    EXPECT_EQ(made.weights.to_doubles()[static_cast<size_t>(i)],
              w.to_doubles()[static_cast<size_t>(i)] * gamma.to_doubles()[static_cast<size_t>(i / 5)]);
}

}  // namespace
}  // namespace smelt::run
