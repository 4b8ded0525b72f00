// Products whose rows are normalised first by Hopper's own instructions, against the normalisation and the product in f32. Each kernel runs
// twice, and both runs must agree bit for bit.
#include "ops/matmul/normed_product.h"
#include "hopper_gemm.h"
#include "ops/matmul/gated_product.h"

namespace smelt::ops::hopper {
namespace {

constexpr float epsilon = 1e-3f;

/// The rows of x as ai.smelt's Norm has them, in f32.
Tensor normalised(const std::string& kind, const Tensor& x, const Tensor& gamma, const Tensor& beta) {
  Node n;
  n.domain = smelt_domain, n.op = "Norm";
  n.attrs = {{"kind", kind}, {"epsilon", epsilon}};
  n.inputs = {static_cast<ValueId>(0), ValueId::none, static_cast<ValueId>(2),
              beta.valid() ? static_cast<ValueId>(3) : ValueId::none};
  n.outputs = {static_cast<ValueId>(100)};
  return evaluate(
      n, std::vector{x.cast(DType::f32), Tensor{}, gamma.cast(DType::f32), beta.valid() ? beta.cast(DType::f32) : Tensor{}})[0];
}

Tensor product(const Tensor& a, const Tensor& b) {
  Node n;
  n.op = "MatMul";
  n.inputs = {static_cast<ValueId>(0), static_cast<ValueId>(1)};
  n.outputs = {static_cast<ValueId>(100)};
  return evaluate(n, std::vector{a, b.cast(DType::f32)})[0];
}

class GpuNormedProduct : public GpuHopperGemm {};

TEST_F(GpuNormedProduct, every_tile_on_extents_that_they_do_not_divide) {
  struct Case {
    DType type;
    std::string kind;
  };
  struct Size {
    int64_t m, k;
    size_t most;
  };
  for (const auto& [type, kind] : {Case{DType::f16, "layer"}, Case{DType::bf16, "rms"}, Case{DType::bf16, "layer"}})
    for (const auto& [m, k, most] : {Size{70, 328, 8}, Size{331, 328, every}, Size{1100, 1024, few}}) {
      SCOPED_TRACE(fmt::format("{} {} {} x {}", smelt::name(type), kind, m, k));
      const int64_t n = 584;
      const auto name = smelt::name(type);
      // Rows whose mean is as large as their deviation.
      const Tensor x = random_tensor(type, {m, k}, 1, -0.5, 1.5), w = random_tensor(type, {k, n}, 2, -0.3, 0.3),
                   gamma = random_tensor(type, {k}, 3, 0.2, 1.5),
                   beta = kind == "layer" ? random_tensor(type, {k}, 4, -1, 1) : Tensor{}, bias = random_tensor(type, {n}, 5);
      const auto made = matmul::normed_weights(w, gamma, beta, kind == "layer");
      const std::string program =
          beta.valid() ? fmt::format(
                             "(in0:f32, in1:{0}, in2:f32) {{ %3 = cast(in1):f32; %4 = add(in0, %3):f32; %5 = add(%4, "
                             "in2):f32; %6 = cast(%5):{0}; return %6 }}",
                             name)
                       : fmt::format(
                             "(in0:f32, in1:{0}) {{ %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = cast(%3):{0}; return "
                             "%4 }}",
                             name);
      std::vector<Tensor> operands{bias};
      if (beta.valid()) operands.push_back(made.added);
      Trial t = trial({.type = type, .a = {m, k}, .b = {k, n}, .y = {m, n}, .program = program, .operands = operands, .k = k});
      t.node.attrs[matmul::norm_attribute] = kind;
      t.node.attrs[matmul::norm_epsilon_attribute] = epsilon;
      t.inputs[0] = x, t.inputs[1] = made.weights;
      t.bound.inputs[1].constant = made.weights;
      Node add;
      add.op = "Add", add.inputs = {static_cast<ValueId>(0), static_cast<ValueId>(1)}, add.outputs = {static_cast<ValueId>(100)};
      const Tensor want =
          evaluate(add, std::vector{product(normalised(kind, x, gamma, beta), w), bias.cast(DType::f32)})[0].cast(type);
      std::set<std::tuple<int64_t, int64_t, int64_t, int64_t, bool, bool>> seen;
      const auto each = [&](const HopperConfig& c) {
        return seen.emplace(c.tile_m, c.tile_n, c.groups, c.patch(), c.alternate, c.persistent).second;
      };
      EXPECT_GE(expect(t, k, each, want, most), 4u);
    }
}

TEST_F(GpuNormedProduct, gates_with_what_they_gate) {
  const int64_t n = 448, k = 328;
  for (const int64_t m : {200, 600}) {
    const DType type = DType::bf16;
    const Tensor x = random_tensor(type, {m, k}, 1, -1, 1), gate = random_tensor(type, {k, n}, 2, -0.3, 0.3),
                 up = random_tensor(type, {k, n}, 3, -0.3, 0.3), gamma = random_tensor(type, {k}, 4, 0.2, 1.5);
    const auto made = matmul::normed_weights(matmul::gated_weights(gate, up), gamma, {}, false);
    const std::string program =
        "(in0:f32, in1:bf16) { %2 = silu(in0):f32; %3 = cast(in1):f32; %4 = mul(%2, %3):f32; %5 = cast(%4):bf16; return %5 }";
    Trial t = trial({.type = type, .a = {m, k}, .b = {k, 2 * n}, .y = {m, n}, .program = program, .operands = {}, .k = k});
    t.node.attrs[matmul::gate_attribute] = int64_t{1};
    t.node.attrs[matmul::norm_attribute] = std::string("rms");
    t.node.attrs[matmul::norm_epsilon_attribute] = epsilon;
    t.inputs[0] = x, t.inputs[1] = made.weights;
    t.bound.inputs[1].constant = made.weights;
    const Tensor rows = normalised("rms", x, gamma, {});
    const Tensor of_gate = product(rows, gate), of_up = product(rows, up).cast(type).cast(DType::f32);
    Tensor want = Tensor::empty(DType::f32, {m, n});
    for (int64_t i = 0; i < m * n; ++i) {
      const float g = of_gate.data<float>()[i];
      want.data<float>()[i] = g / (1 + std::exp(-g)) * of_up.data<float>()[i];
    }
    EXPECT_GE(expect(
                  t, k, [](const HopperConfig&) { return true; }, want.cast(type)),
              2u);
  }
}

}  // namespace
}  // namespace smelt::ops::hopper
