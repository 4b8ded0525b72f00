// Products with more around them, and of vectors, against the reference.
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

Trial trial(const std::string& op, std::map<std::string, Attribute> attrs = {}) {
  Trial t;
  t.node.op = op;
  t.node.domain = microsoft_domain;
  t.node.attrs = std::move(attrs);
  return t;
}

std::vector<std::string> ran(Trial t, double tolerance) {
  const Tensor y = expected(t);
  t.result(y.type(), y.shape());
  return check(t, tolerance);
}

TEST(ComposedProducts, gemm_has_its_activation_behind_it) {
  for (const char* name : {"Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "Elu", "Softplus", ""}) {
    for (int64_t transposed : {0, 1}) {
      Trial t = trial("FusedGemm", {{"activation", std::string(name)}, {"transB", transposed}, {"alpha", 0.5f}});
      t.add(random_tensor(DType::f32, {17, 40}, 1), false);
      t.add(random_tensor(DType::f32, transposed ? Shape{24, 40} : Shape{40, 24}, 2), true);
      t.add(random_tensor(DType::f32, {24}, 3), true);
      EXPECT_FALSE(ran(std::move(t), 1e-5).empty()) << name;
    }
  }
}

TEST(ComposedProducts, scale_integer_sums_to_floats) {
  for (const DType type : {DType::u8, DType::i8}) {
    for (const bool zeros : {false, true}) {
      for (const bool by_column : {false, true}) {
        Trial t = trial("MatMulIntegerToFloat");
        t.add(random_tensor(type, {2, 9, 32}, 1, type == DType::u8 ? 0 : -99, 99), false);
        t.add(random_tensor(DType::i8, {32, 20}, 2, -60, 60), true);
        t.add(Tensor::scalar(0.02f), false);
        t.add(by_column ? random_tensor(DType::f32, {20}, 3, 0.1, 0.2) : Tensor::scalar(0.1f), true);
        if (zeros) {
          t.add(random_tensor(type, {}, 4, 5, 9), false);
          t.add(random_tensor(DType::i8, {}, 5, 1, 3), true);
          t.add(random_tensor(DType::f32, {20}, 6), true);
        }
        EXPECT_FALSE(ran(std::move(t), 1e-5).empty());
      }
    }
  }
}

TEST(ComposedProducts, quantise_the_left_operand_in_the_run) {
  Trial t = trial("DynamicQuantizeMatMul");
  t.add(random_tensor(DType::f32, {5, 64}, 1, -3, 2), false);
  t.add(random_tensor(DType::i8, {64, 24}, 2, -60, 60), true);
  t.add(Tensor::scalar(0.1f), true);
  t.add(Tensor(), true);
  t.add(random_tensor(DType::f32, {24}, 6), true);
  EXPECT_FALSE(ran(std::move(t), 1e-5).empty());
}

TEST(ComposedProducts, take_vectors_on_either_side) {
  const auto product = [](const Shape& a, const Shape& b, bool constant) {
    Trial t;
    t.node.op = "MatMul";
    t.add(random_tensor(DType::f32, a, 1), false);
    t.add(random_tensor(DType::f32, b, 2), constant);
    return ran(std::move(t), 1e-5);
  };
  for (const bool constant : {false, true}) {
    EXPECT_FALSE(product({3, 17, 40}, {40}, constant).empty());
    EXPECT_FALSE(product({40}, {40, 24}, constant).empty());
    EXPECT_FALSE(product({40}, {3, 40, 24}, constant).empty());
    EXPECT_FALSE(product({40}, {40}, constant).empty());
  }
}

}  // namespace
}  // namespace smelt::ops
