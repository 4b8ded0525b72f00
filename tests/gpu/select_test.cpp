// What kernels find and count on the device (ops/core/data_dependent.h) against the processor's references.
#include "gpu/gpu_batch.h"

namespace smelt::ops {
namespace {

class GpuSelect : public GpuBatch {};

/// Whole numbers in so many of a hundred places, 0 in the others.
Tensor sparse(DType type, const Shape& shape, uint32_t seed, int percent) {
  Tensor t = Tensor::zeros(DType::f64, shape);
  std::mt19937 random(seed);
  for (int64_t i = 0; i < t.size(); ++i)
    if (static_cast<int>(random() % 100) < percent) t.data<double>()[i] = 1 + static_cast<double>(random() % 100);
  return t.cast(type);
}

TEST_F(GpuSelect, non_zero_of_every_type_and_rank) {
  for (const DType type :
       {DType::boolean, DType::u8, DType::i16, DType::f16, DType::bf16, DType::i32, DType::f32, DType::i64, DType::f64})
    expect(finding_trial("NonZero", {sparse(type, {37, 5}, 1, 40)}));
  for (const Shape& s : {Shape{1}, Shape{33}, Shape{1000}, Shape{7, 1, 9}, Shape{3, 4, 5, 6, 7}, Shape{2, 1, 2, 3, 1, 2, 3, 2}})
    expect(finding_trial("NonZero", {sparse(DType::f32, s, 2, 50)}));
}

TEST_F(GpuSelect, non_zero_of_one_block_and_of_tiles_of_few_all_and_none) {
  for (const int percent : {0, 1, 50, 100})
    for (const int64_t n : {31, 4096, 4097, 40003, 1000001})
      expect(finding_trial("NonZero", {sparse(DType::f32, {n}, 3, percent)}));
  expect(finding_trial("NonZero", {sparse(DType::boolean, {90, 300, 91}, 4, 3)}));
}

TEST_F(GpuSelect, a_nan_is_not_zero_and_both_zeros_are) {
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    Tensor x = Tensor::zeros(DType::f64, {40});
    for (const int i : {3, 17}) x.data<double>()[i] = NAN;
    for (const int i : {5, 20}) x.data<double>()[i] = -0.0;
    for (const int i : {7, 39}) x.data<double>()[i] = -INFINITY;
    expect(finding_trial("NonZero", {x.cast(type)}));
  }
}

TEST_F(GpuSelect, unique_of_every_type_sorted_or_not_with_any_of_its_outputs) {
  const auto add = [&](const Tensor& x, int64_t sorted, std::array<bool, 4> wanted) {
    Trial t;
    t.node.op = "Unique";
    t.node.attrs = {{"sorted", sorted}};
    for (int o = 0; o < 4; ++o)
      t.node.outputs.push_back(wanted[static_cast<size_t>(o)] ? static_cast<ValueId>(101 + o) : ValueId::none);
    t.add(x, false);
    t.bound.outputs = bound_at_most(outputs_at_most(t.node, t.bound.inputs));
    expect(std::move(t));
  };
  constexpr std::array all{true, true, true, true};
  for (const int64_t sorted : {0, 1}) {
    for (const DType type : {DType::boolean, DType::u8, DType::f16, DType::i32, DType::f32, DType::i64, DType::f64})
      add(sparse(type, {30, 31}, 8, 60), sorted, all);
    for (const int64_t n : {1, 64, 4097, 20001}) add(random_tensor(DType::f32, {n}, 9, -900, 900).cast(DType::i32), sorted, all);
    add(sparse(DType::f32, {70000}, 10, 0), sorted, all);
    add(random_tensor(DType::f32, {3000}, 11), sorted, {true, false, false, false});
    add(sparse(DType::f32, {3000}, 12, 50), sorted, {true, false, true, false});
    Tensor odd = sparse(DType::f32, {500}, 13, 30);
    for (int i = 0; i < 500; i += 7) odd.data<float>()[i] = i % 2 ? NAN : -0.f;
    add(odd, sorted, all);
  }
}

TEST_F(GpuSelect, compress_of_elements_and_along_every_axis) {
  const auto flags = [](int64_t n, int percent) { return sparse(DType::boolean, {n}, 5, percent); };
  for (const DType type : {DType::boolean, DType::u8, DType::f16, DType::f32, DType::i64}) {
    const Tensor x = random_tensor(type, {6, 35, 9}, 6, 0, 90);
    expect(finding_trial("Compress", {x, flags(x.size(), 30)}));
    expect(finding_trial("Compress", {x, flags(100, 30)}));  // fewer flags than elements
    for (const int64_t axis : {0, 1, 2, -1})
      for (const int percent : {0, 40, 100})
        expect(finding_trial("Compress", {x, flags(x.shape()[static_cast<size_t>((axis + 3) % 3)], percent)}, {{"axis", axis}}));
  }
  expect(finding_trial("Compress", {random_tensor(DType::f16, {3, 20000, 16}, 7), flags(20000, 50)}, {{"axis", int64_t{1}}}));
  expect(finding_trial("Compress", {random_tensor(DType::f32, {7, 5}, 7), flags(3, 100)}, {{"axis", int64_t{0}}}));
  expect(finding_trial("Compress", {random_tensor(DType::f32, {300000}, 7), flags(300000, 50)}));
}

}  // namespace
}  // namespace smelt::ops
