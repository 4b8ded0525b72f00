// Products of doubles and of integers of 32 and 64 bits against the processor's references.
#include "gpu/gpu_batch.h"

namespace smelt::ops {
namespace {

using GpuWideProduct = GpuBatch;

constexpr DType integers[] = {DType::i32, DType::u32, DType::i64, DType::u64};

/// Numbers whose products and sums leave the type.
Tensor large(DType type, const Shape& shape, uint32_t seed) {
  return random_tensor(type, shape, seed, is_signed(type) ? -2e9 : 0, type == DType::i32 ? 2e9 : 4e9);
}
Tensor doubles(const Shape& shape, uint32_t seed) { return random_tensor(DType::f64, shape, seed); }

TEST_F(GpuWideProduct, extents_of_every_kind) {
  const std::pair<Shape, Shape> shapes[] = {{{1, 1}, {1, 1}},
                                            {{64, 16}, {16, 64}},
                                            {{65, 17}, {17, 66}},
                                            {{130, 200}, {200, 3}},
                                            {{3, 1000}, {1000, 70}},
                                            {{7}, {7, 5}},
                                            {{5, 7}, {7}},
                                            {{9}, {9}},
                                            {{2, 3, 20, 30}, {30, 10}},
                                            {{2, 1, 20, 30}, {3, 30, 10}},
                                            {{4, 1, 9}, {4, 9, 8}}};
  for (const auto& [a, b] : shapes) {
    expect(node_trial("MatMul", {doubles(a, 1), doubles(b, 2)}), 1e-14);
    for (const DType type : integers) expect(node_trial("MatMul", {large(type, a, 1), large(type, b, 2)}));
  }
}

TEST_F(GpuWideProduct, gemm_turns_scales_and_adds) {
  for (const int64_t turn_a : {0, 1})
    for (const int64_t turn_b : {0, 1})
      for (const Shape& c : {Shape{}, Shape{70}, Shape{33, 1}, Shape{33, 70}}) {
        const Shape a = turn_a ? Shape{20, 33} : Shape{33, 20}, b = turn_b ? Shape{70, 20} : Shape{20, 70};
        const std::map<std::string, Attribute> turns = {{"transA", turn_a}, {"transB", turn_b}};
        std::map<std::string, Attribute> scaled = turns;
        scaled["alpha"] = 0.5f, scaled["beta"] = -2.0f;
        expect(node_trial("Gemm", {doubles(a, 1), doubles(b, 2), doubles(c, 3)}, scaled), 1e-14);
        for (const DType type : {DType::i32, DType::i64})
          expect(node_trial("Gemm", {large(type, a, 1), large(type, b, 2), large(type, c, 3)}, turns));
      }
}

TEST_F(GpuWideProduct, slices_as_they_lie) {
  Trial t = node_trial("MatMul", {doubles({2, 20, 30}, 1), doubles({2, 30, 40}, 2)});
  t.bound.inputs[0].strides = {1000, 33, 1};
  t.bound.outputs[0].strides = {2000, 45, 1};
  for (BoundTensor* b : {&t.bound.inputs[0], &t.bound.inputs[1], &t.bound.outputs[0]}) b->alignment = 8;
  expect(std::move(t), 1e-14);
}

}  // namespace
}  // namespace smelt::ops
