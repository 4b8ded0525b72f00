// TopK, scattering and running sums against the processor's references.
#include "gpu/gpu_batch.h"

namespace smelt::ops {
namespace {

/// Whole numbers, so that many are equal.
Tensor coarse(DType type, const Shape& shape, uint32_t seed, double most) {
  return random_tensor(DType::f64, shape, seed, is_signed(type) || is_float(type) ? -most : 0, most).cast(DType::i64).cast(type);
}

Trial top_k(std::vector<Tensor> inputs, std::map<std::string, Attribute> attributes = {}) {
  return node_trial("TopK", std::move(inputs), std::move(attributes), 2);
}

class GpuTopK : public GpuBatch {};
class GpuScatter : public GpuBatch {};
class GpuScan : public GpuBatch {};

TEST_F(GpuTopK, every_type_axis_and_direction) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64, DType::i32, DType::u8, DType::u64})
    for (const int64_t largest : {0, 1})
      for (const int64_t axis : {0, 1, -1})
        expect(top_k({coarse(type, {9, 70, 5}, 1, 40), Tensor::of<int64_t>({1}, {4})}, {{"largest", largest}, {"axis", axis}}));
}

TEST_F(GpuTopK, long_lines_and_any_k) {
  for (const int64_t k : {1, 300, 5000, 20000})
    for (const int64_t largest : {0, 1})
      expect(top_k({coarse(DType::f32, {3, 20000}, 2, 5000), Tensor::of<int64_t>({1}, {k})}, {{"largest", largest}}));
  expect(top_k({coarse(DType::f64, {2, 9001}, 2, 5000), Tensor::of<int64_t>({1}, {7000})}));
  expect(top_k({coarse(DType::f32, {3234}, 2, 1000), Tensor::of<int64_t>({1}, {300})}));
  expect(top_k({coarse(DType::f32, {5, 4097, 3}, 2, 1000), Tensor::of<int64_t>({1}, {100})}, {{"axis", int64_t{1}}}));
  expect(top_k({coarse(DType::f32, {6, 1}, 2, 10), Tensor::of<int64_t>({1}, {1})}));
}

TEST_F(GpuTopK, nan_is_the_largest_and_zeros_are_equal) {
  Tensor x = coarse(DType::f32, {2, 40}, 3, 4);
  for (const int i : {3, 17, 44}) x.data<float>()[i] = NAN;
  for (const int i : {5, 20, 50}) x.data<float>()[i] = -0.f;
  x.data<float>()[9] = INFINITY, x.data<float>()[60] = -INFINITY;
  for (const int64_t largest : {0, 1}) {
    Trial t = top_k({x, Tensor::of<int64_t>({1}, {40})}, {{"largest", largest}});
    t.bound.node = &t.node;
    const std::vector<Tensor> want = evaluate(t.node, t.inputs);
    for (const Candidate& c : offer(t.bound, gpu_machine()).candidates)
      EXPECT_EQ(run_on_gpu(t, c)[1].to_ints(), want[1].to_ints()) << largest;
  }
}

TEST_F(GpuScatter, elements_and_slices_with_and_without_duplicates) {
  for (const char* reduction : {"none", "add", "mul", "max", "min"})
    for (const DType type : {DType::f32, DType::f16, DType::i64, DType::i32}) {
      const double allowed = type == DType::f32 ? 1e-6 : 0;
      for (const int64_t axis : {0, 1}) {
        const Tensor index = coarse(DType::i64, {7, 11}, 4, 6.9);
        expect(
            node_trial("ScatterElements", {random_tensor(type, {9, 13}, 5, -3, 3), index, random_tensor(type, {7, 11}, 6, -3, 3)},
                       {{"axis", axis}, {"reduction", std::string(reduction)}}),
            allowed);
      }
      for (const int64_t depth : {1, 2})
        expect(node_trial("ScatterND",
                          {random_tensor(type, {6, 8, 12}, 5, -3, 3), coarse(DType::i64, {9, depth}, 4, 5.9),
                           random_tensor(type, depth == 1 ? Shape{9, 8, 12} : Shape{9, 12}, 6, -3, 3)},
                          {{"reduction", std::string(reduction)}}),
               allowed);
    }
  // More rows than a block sorts.
  expect(node_trial(
             "ScatterElements",
             {random_tensor(DType::f32, {50}, 5), coarse(DType::i64, {30000}, 4, 49.9), random_tensor(DType::f32, {30000}, 6)},
             {{"reduction", std::string("add")}}),
         1e-6);
}

TEST_F(GpuScatter, a_cache_is_updated_in_its_places) {
  for (const char* mode : {"linear", "circular"})
    expect(node_trial("TensorScatter",
                      {random_tensor(DType::f16, {3, 2, 10, 8}, 1), random_tensor(DType::f16, {3, 2, 4, 8}, 2),
                       Tensor::of<int64_t>({3}, {0, *mode == 'c' ? 8 : 5, 6})},
                      {{"mode", std::string(mode)}}));
}

TEST_F(GpuScan, sums_and_products_of_every_form) {
  for (const char* op : {"CumSum", "CumProd"})
    for (const DType type : {DType::f32, DType::f16, DType::f64, DType::i32, DType::i64})
      for (const int64_t axis : {0, 1, -1})
        for (const int64_t form : {0, 1, 2, 3}) {
          const Tensor x = *op == 'C' && op[3] == 'P' ? random_tensor(type, {3, 40, 37}, 1, 0.8, 1.25)
                                                      : random_tensor(type, {3, 40, 37}, 1, -3, 5);
          expect(node_trial(op, {x, Tensor::scalar<int64_t>(axis)}, {{"exclusive", form % 2}, {"reverse", form / 2}}),
                 type == DType::f16   ? 1e-3
                 : type == DType::f32 ? 1e-6
                                      : 1e-12);
        }
  expect(node_trial("CumSum", {random_tensor(DType::f32, {2, 100001}, 1, -1, 2), Tensor::scalar<int64_t>(1)}), 1e-6);
  // Lines that threads share: few and long ones, of extents that parts do not divide.
  for (const Shape& shape : {Shape{1, 30000, 9}, Shape{2, 33, 1000}, Shape{3, 515, 2}, Shape{1, 40, 33}})
    for (const int64_t form : {0, 1, 2, 3}) {
      const std::map<std::string, Attribute> how{{"exclusive", form % 2}, {"reverse", form / 2}};
      expect(node_trial("CumSum", {random_tensor(DType::f32, shape, 1, -1, 2), Tensor::scalar<int64_t>(1)}, how), 1e-6);
      expect(node_trial("CumSum", {random_tensor(DType::i64, shape, 1, -100, 100), Tensor::scalar<int64_t>(1)}, how));
    }
}

}  // namespace
}  // namespace smelt::ops
