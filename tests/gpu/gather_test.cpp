// Gathers, and the maps of rows that Pad, Resize, Trilu, OneHot and others are, against the processor's references.
#include "gpu/gpu_batch.h"

namespace smelt::ops {
namespace {

Tensor indices(const Shape& shape, int64_t extent, uint32_t seed, DType type = DType::i64) {
  return random_tensor(DType::f64, shape, seed, static_cast<double>(-extent) + 0.001, static_cast<double>(extent) - 0.001)
      .cast(DType::i64)
      .cast(type);
}

class GpuGather : public GpuBatch {};
class GpuPad : public GpuBatch {};
class GpuResize : public GpuBatch {};
class GpuGenerate : public GpuBatch {};

TEST_F(GpuGather, rows_of_every_width_type_and_axis) {
  for (const DType type : {DType::u8, DType::f16, DType::f32, DType::i64})
    for (const Shape& shape : {Shape{50, 64}, {7, 33}, {9, 4, 16}, {5, 3, 7}})
      for (int64_t axis = -1; axis < static_cast<int64_t>(shape.size()); ++axis) {
        const int64_t extent = shape[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis)];
        for (const DType index : {DType::i32, DType::i64})
          expect(
              node_trial("Gather", {random_tensor(type, shape, 1, 0, 100), indices({3, 5}, extent, 2, index)}, {{"axis", axis}}));
      }
  expect(node_trial("Gather", {random_tensor(DType::f16, {4, 6}, 1), Tensor::of<int64_t>({}, {-2})}, {{"axis", int64_t{1}}}));
  Trial t = node_trial("Gather", {random_tensor(DType::f16, {90, 24}, 1), indices({40}, 90, 2)});
  t.bound.inputs[0].alignment = 2;
  expect(std::move(t));
}

TEST_F(GpuGather, an_index_outside_reads_nothing) {
  Trial t = node_trial("Gather", {random_tensor(DType::f32, {4, 8}, 1), Tensor::of<int64_t>({3}, {0, 1, 2})});
  t.inputs[1] = t.bound.inputs[1].constant = Tensor::of<int64_t>({3}, {4, 1, -5});
  t.bound.node = &t.node;
  const Tensor y = run_on_gpu(t, offer(t.bound, gpu_machine()).candidates.front())[0];
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(y.data<float>()[i], 0);
    EXPECT_EQ(y.data<float>()[8 + i], t.inputs[0].data<float>()[8 + i]);
    EXPECT_EQ(y.data<float>()[16 + i], 0);
  }
}

TEST_F(GpuGather, elements_and_slices) {
  for (const int64_t axis : {0, 1, -1})
    for (const DType index : {DType::i32, DType::i64})
      expect(node_trial("GatherElements", {random_tensor(DType::f32, {6, 7, 5}, 1), indices({4, 3, 5}, 5, 2, index)},
                        {{"axis", axis}}));
  for (const int64_t batch : {0, 1})
    for (const int64_t depth : {1, 2})
      expect(node_trial("GatherND", {random_tensor(DType::f16, {4, 6, 8, 16}, 1), indices({4, 9, depth}, 4, 2)},
                        {{"batch_dims", batch}}));
}

TEST_F(GpuPad, every_mode_layout_and_cropping) {
  for (const char* mode : {"constant", "reflect", "edge", "wrap"})
    for (const DType type : {DType::i8, DType::f16, DType::f32, DType::f64})
      for (const Layout layout : {Layout::plain, Layout::nhwc}) {
        Trial t = node_trial("Pad",
                             {random_tensor(type, {2, 8, 7, 5}, 1, -50, 50), Tensor::of<int64_t>({8}, {0, 0, 2, -1, 0, 0, 3, 4})},
                             {{"mode", std::string(mode)}});
        t.bound.inputs[0].layout = t.bound.outputs[0].layout = layout;
        expect(std::move(t));
        expect(node_trial("Pad", {random_tensor(type, {3, 9}, 1, -50, 50), Tensor::of<int64_t>({4}, {1, 2, 0, 20})},
                          {{"mode", std::string(mode)}}));
      }
  expect(node_trial("Pad", {random_tensor(DType::f32, {3, 9}, 1), Tensor::of<int64_t>({2}, {1, 2}), Tensor::scalar(2.5f),
                            Tensor::of<int64_t>({1}, {-1})}));
  for (const DType type : {DType::u8, DType::f16, DType::f32, DType::i64}) {  // a value that the run computes
    Trial t = node_trial("Pad", {random_tensor(type, {3, 9, 16}, 1, 0, 50), Tensor::of<int64_t>({6}, {1, 2, 0, 0, 3, 16}),
                                 Tensor::scalar(7.f).cast(type)});
    t.bound.inputs[2].constant = {};
    expect(std::move(t));
  }
  expect(node_trial("CenterCropPad", {random_tensor(DType::f32, {9, 4, 6}, 1), Tensor::of<int64_t>({3}, {4, 9, 6})}));
}

TEST_F(GpuResize, nearest_of_every_rule_and_layout) {
  for (const char* rule : {"asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"})
    for (const char* nearest : {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"})
      for (const Layout layout : {Layout::plain, Layout::nhwc}) {
        Trial t = node_trial(
            "Resize",
            {random_tensor(DType::f16, {2, 16, 10, 9}, 1), Tensor(), Tensor(), Tensor::of<int64_t>({4}, {2, 16, 20, 7})},
            {{"mode", std::string("nearest")},
             {"coordinate_transformation_mode", std::string(rule)},
             {"nearest_mode", std::string(nearest)}});
        t.bound.inputs[0].layout = t.bound.outputs[0].layout = layout;
        expect(std::move(t));
      }
}

TEST_F(GpuResize, linear_and_cubic_of_every_rule_and_layout) {
  for (const char* rule : {"asymmetric", "half_pixel", "half_pixel_symmetric", "align_corners", "pytorch_half_pixel"})
    for (const char* mode : {"linear", "cubic"})
      for (const int64_t antialias : {0, 1})
        for (const Layout layout : {Layout::plain, Layout::nhwc}) {
          const DType type = antialias ? DType::f16 : DType::f32;
          Trial t = node_trial(
              "Resize", {random_tensor(type, {2, 16, 10, 9}, 1), Tensor(), Tensor(), Tensor::of<int64_t>({4}, {2, 16, 21, 4})},
              {{"mode", std::string(mode)},
               {"coordinate_transformation_mode", std::string(rule)},
               {"exclude_outside", antialias},
               {"antialias", antialias}});
          t.bound.inputs[0].layout = t.bound.outputs[0].layout = layout;
          expect(std::move(t), antialias ? 1.0 / 1024 : 2e-6);
        }
  expect(node_trial("Resize",
                    {random_tensor(DType::f32, {1, 3, 8, 8}, 1), Tensor::of<float>({8}, {0, 0, 0.4f, 0.6f, 1, 1, 1.2f, 1.7f}),
                     Tensor(), Tensor::of<int64_t>({4}, {1, 3, 5, 6})},
                    {{"mode", std::string("linear")},
                     {"coordinate_transformation_mode", std::string("tf_crop_and_resize")},
                     {"extrapolation_value", 7.f}}),
         2e-6);
  expect(node_trial("Resize", {random_tensor(DType::f64, {5, 6, 7}, 1), Tensor(), Tensor::of<float>({3}, {1.5f, 0.5f, 2.f})},
                    {{"mode", std::string("linear")}}),
         1e-12);
}

TEST_F(GpuGenerate, triangles_diagonals_and_one_hot) {
  for (const int64_t upper : {0, 1})
    for (const int64_t k : {-3, 0, 2, 40})
      for (const DType type : {DType::boolean, DType::f16, DType::i64})
        expect(node_trial("Trilu", {random_tensor(type, {3, 7, 9}, 1, 1, 100), Tensor::scalar<int64_t>(k)}, {{"upper", upper}}));
  expect(node_trial("EyeLike", {random_tensor(DType::f32, {5, 8}, 1)}, {{"k", int64_t{-1}}, {"dtype", int64_t{10}}}));
  for (const int64_t axis : {0, 1, -1})
    expect(node_trial("OneHot", {indices({4, 5}, 8, 2), Tensor::scalar<int64_t>(7), Tensor::of<float>({2}, {-1, 3})},
                      {{"axis", axis}}));
}

TEST_F(GpuGenerate, ranges_fills_tiles_and_blocks) {
  expect(node_trial("Range", {Tensor::scalar<int64_t>(-3), Tensor::scalar<int64_t>(400), Tensor::scalar<int64_t>(7)}));
  expect(node_trial("Range", {Tensor::scalar(1.5f), Tensor::scalar(-30.f), Tensor::scalar(-0.25f)}), 1e-6);
  expect(node_trial("ConstantOfShape", {Tensor::of<int64_t>({2}, {33, 71})}, {{"value", Tensor::of<float>({1}, {2.5f})}}));
  expect(node_trial("ConstantOfShape", {Tensor::of<int64_t>({3}, {5, 0, 2})}));
  expect(node_trial("Tile", {random_tensor(DType::f16, {3, 4, 8}, 1), Tensor::of<int64_t>({3}, {2, 3, 2})}));
  expect(node_trial("Tile", {random_tensor(DType::f32, {7}, 1), Tensor::of<int64_t>({1}, {0})}));
  for (const char* mode : {"DCR", "CRD"})
    expect(node_trial("DepthToSpace", {random_tensor(DType::f16, {2, 24, 5, 6}, 1)},
                      {{"blocksize", int64_t{2}}, {"mode", std::string(mode)}}));
  expect(node_trial("SpaceToDepth", {random_tensor(DType::f16, {2, 3, 8, 12}, 1)}, {{"blocksize", int64_t{4}}}));
  for (const int64_t batch : {0, 1})
    expect(node_trial("ReverseSequence", {random_tensor(DType::f32, {6, 6, 5}, 1), Tensor::of<int64_t>({6}, {1, 6, 3, 0, 5, 2})},
                      {{"batch_axis", batch}, {"time_axis", 1 - batch}}));
}

TEST_F(GpuGenerate, blocks_of_channels_last_images_and_of_slices) {
  const auto lie = [&](Trial t, int64_t pitch) {
    t.bound.inputs[0].layout = t.bound.outputs[0].layout = Layout::nhwc;
    const Shape& y = t.bound.outputs[0].shape;
    if (pitch > 0) t.bound.outputs[0].strides = {y[2] * y[3] * pitch, 1, y[3] * pitch, pitch};
    expect(std::move(t));
  };
  for (const DType type : {DType::u8, DType::f16, DType::f32})
    for (const int64_t channels : {3, 16, 24, 64})
      for (const char* mode : {"DCR", "CRD"})
        for (const int64_t pitch : {int64_t{0}, 2 * channels})
          lie(node_trial("DepthToSpace", {random_tensor(type, {2, 4 * channels, 5, 6}, 1, 0, 100)},
                         {{"blocksize", int64_t{2}}, {"mode", std::string(mode)}}),
              pitch);
  lie(node_trial("SpaceToDepth", {random_tensor(DType::u8, {2, 16, 8, 12}, 1, 0, 100)}, {{"blocksize", int64_t{4}}}), 0);
  lie(node_trial("Tile", {random_tensor(DType::u8, {2, 16, 3, 5}, 1, 0, 100), Tensor::of<int64_t>({4}, {1, 2, 1, 3})}), 0);
}

}  // namespace
}  // namespace smelt::ops
