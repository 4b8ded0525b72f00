// Copies along strides against the processor's references.
#include "gpu/gpu_trial.h"

namespace smelt::ops {
namespace {

Trial node(const std::string& op, Tensor x, std::map<std::string, Attribute> attributes = {}) {
  Trial t;
  t.node.op = op;
  t.node.attrs = std::move(attributes);
  t.add(std::move(x), false);
  return t;
}

TEST(GpuMovement, transposes_anything) {
  const std::vector<std::pair<Shape, std::vector<int64_t>>> cases{{{64, 96}, {1, 0}},
                                                                  {{33, 65}, {1, 0}},
                                                                  {{2, 3, 40, 50}, {0, 2, 3, 1}},
                                                                  {{2, 40, 50, 3}, {0, 3, 1, 2}},
                                                                  {{4, 12, 17, 8}, {0, 2, 1, 3}},
                                                                  {{5, 6, 7}, {2, 1, 0}},
                                                                  {{2, 3, 4, 5, 6}, {4, 2, 0, 3, 1}},
                                                                  {{1, 128}, {1, 0}},
                                                                  {{70000, 9}, {1, 0}},
                                                                  {{3, 72, 136}, {0, 2, 1}},
                                                                  {{2, 129, 80, 16}, {0, 3, 1, 2}},
                                                                  {{130, 2, 68}, {2, 1, 0}},
                                                                  {{8, 64, 64}, {1, 2, 0}}};
  for (const DType type : {DType::u8, DType::f16, DType::f32, DType::i64})
    for (const auto& [shape, perm] : cases) {
      Trial t = node("Transpose", random_tensor(type, shape, 1, 0, 100), {{"perm", perm}});
      Shape out;
      for (const int64_t p : perm) out.push_back(shape[static_cast<size_t>(p)]);
      t.result(type, out);
      EXPECT_FALSE(check_on_gpu(t, 0).empty());
    }
}

TEST(GpuMovement, slices_expands_and_splits) {
  for (const DType type : {DType::f16, DType::f32}) {
    Trial slice = node("Slice", random_tensor(type, {6, 40, 33}, 2));
    slice.add(Tensor::of<int64_t>({3}, {1, 39, 2}), true);
    slice.add(Tensor::of<int64_t>({3}, {6, 0, 30}), true);
    slice.add(Tensor::of<int64_t>({3}, {0, 1, 2}), true);
    slice.add(Tensor::of<int64_t>({3}, {2, -1, 1}), true);
    const Tensor want =
        evaluate(slice.node.outputs.empty() ? (slice.node.outputs = {ValueId(101)}, slice.node) : slice.node, slice.inputs)[0];
    slice.node.outputs.clear();
    slice.result(type, want.shape());
    EXPECT_FALSE(check_on_gpu(slice, 0).empty());

    Trial expand = node("Expand", random_tensor(type, {3, 1, 5}, 3));
    expand.add(Tensor::of<int64_t>({4}, {2, 3, 4, 5}), true);
    expand.result(type, {2, 3, 4, 5});
    EXPECT_FALSE(check_on_gpu(expand, 0).empty());

    Trial split = node("Split", random_tensor(type, {4, 24, 9}, 4), {{"axis", int64_t{1}}, {"num_outputs", int64_t{3}}});
    for (int i = 0; i < 3; ++i) split.result(type, {4, 8, 9});
    EXPECT_FALSE(check_on_gpu(split, 0).empty());
  }
}

TEST(GpuMovement, reorders_layouts) {
  for (const DType type : {DType::i8, DType::f16, DType::f32})
    for (const Shape& shape : {Shape{2, 64, 14, 14}, Shape{1, 3, 224, 224}, Shape{3, 5, 7, 9}})
      for (const bool to_nhwc : {false, true}) {
        Trial t;
        t.node.domain = smelt_domain;
        t.node.op = "Reorder";
        t.add(random_tensor(type, shape, 5, -50, 50), false, to_nhwc ? Layout::plain : Layout::nhwc);
        t.result(type, shape, to_nhwc ? Layout::nhwc : Layout::plain);
        EXPECT_FALSE(agree_on_gpu(t, {t.inputs[0]}, 0).empty());
      }
}

TEST(GpuMovement, reorders_images_whose_pixels_begin_at_whole_vectors) {
  for (const DType type : {DType::i8, DType::f16, DType::f32, DType::i64})
    for (const Shape& shape : {Shape{2, 255, 14, 14}, Shape{1, 67, 80, 80}, Shape{3, 9, 7, 9}})
      for (const int64_t pitch : {(shape[1] + 15) / 16 * 16, shape[1] + 1})
        for (const bool to_nhwc : {false, true}) {
          const int64_t row = shape[3] * pitch;
          const Shape strides{shape[2] * row, 1, row, pitch};
          Trial t;
          t.node.domain = smelt_domain;
          t.node.op = "Reorder";
          t.add(random_tensor(type, shape, 5, -50, 50), false, to_nhwc ? Layout::plain : Layout::nhwc);
          t.result(type, shape, to_nhwc ? Layout::nhwc : Layout::plain);
          (to_nhwc ? t.bound.outputs[0] : t.bound.inputs[0]).strides = strides;
          EXPECT_FALSE(agree_on_gpu(t, {t.inputs[0]}, 0).empty());
        }
}

}  // namespace
}  // namespace smelt::ops
