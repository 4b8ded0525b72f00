#include "base/error.h"
#include "gpu_trial.h"

namespace smelt::ops {
namespace {

using Ints = std::vector<int64_t>;

struct Case {
  std::string op = "MaxPool";
  Shape x;
  Ints kernel, stride, pads, dilation;
  bool ceil = false, count_pad = false, indices = false, column_major = false;
};

Trial trial(const Case& c, DType type, Layout layout, uint32_t seed = 1) {
  Trial t;
  t.node.op = c.op;
  if (!c.kernel.empty()) t.node.attrs["kernel_shape"] = c.kernel;
  if (!c.stride.empty()) t.node.attrs["strides"] = c.stride;
  if (!c.pads.empty()) t.node.attrs["pads"] = c.pads;
  if (!c.dilation.empty()) t.node.attrs["dilations"] = c.dilation;
  if (c.ceil) t.node.attrs["ceil_mode"] = int64_t{1};
  if (c.count_pad) t.node.attrs["count_include_pad"] = int64_t{1};
  if (c.column_major) t.node.attrs["storage_order"] = int64_t{1};
  t.add(random_tensor(type, c.x, seed), false, layout);
  const Shape y = expected(t).shape();
  t.result(type, y, layout);
  if (c.indices) t.result(DType::i64, y);
  return t;
}

double tolerance(DType type) {
  return type == DType::f16 ? 1e-3 : type == DType::bf16 ? 8e-3 : type == DType::f64 ? 1e-14 : 1e-6;
}

std::vector<Case> windows() {
  std::vector<Case> all;
  for (const char* op : {"MaxPool", "AveragePool"}) {
    for (const bool count : {false, true}) {
      if (count && std::string_view(op) == "MaxPool") continue;
      const auto add = [&](Case c) {
        c.op = op;
        c.count_pad = count;
        all.push_back(std::move(c));
      };
      add({.x = {2, 64, 12, 14}, .kernel = {3, 3}, .stride = {2, 2}, .pads = {1, 1, 1, 1}});
      add({.x = {1, 24, 9, 7}, .kernel = {2, 2}, .stride = {2, 2}, .ceil = true});
      add({.x = {1, 5, 11, 13}, .kernel = {3, 2}, .stride = {1, 3}, .pads = {2, 0, 1, 1}, .ceil = true});
      add({.x = {3, 16, 15, 15}, .kernel = {5, 5}, .stride = {1, 1}, .pads = {2, 2, 2, 2}});
      add({.x = {1, 8, 20, 20}, .kernel = {13, 13}, .stride = {1, 1}, .pads = {6, 6, 6, 6}});
      add({.x = {1, 12, 10, 11}, .kernel = {3, 3}, .stride = {1, 2}, .pads = {1, 2, 1, 2}, .dilation = {2, 2}});
      add({.x = {2, 7, 9}, .kernel = {4}, .stride = {3}, .pads = {1, 2}});
      add({.x = {1, 6, 5, 6, 7}, .kernel = {2, 3, 2}, .stride = {2, 1, 2}, .pads = {0, 1, 1, 1, 1, 0}});
      add({.x = {1, 130, 6, 6}, .kernel = {6, 6}});
    }
  }
  return all;
}

TEST(GpuPool, windows_agree_with_the_reference) {
  for (const Case& c : windows())
    for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f64})
      for (const Layout layout : {Layout::plain, Layout::nhwc}) {
        if (type != DType::f32 && type != DType::f16 && layout == Layout::nhwc) continue;
        Trial t = trial(c, type, layout);
        EXPECT_FALSE(check_on_gpu(t, tolerance(type)).empty());
      }
}

TEST(GpuPool, every_number_of_channels) {
  for (int64_t channels = 1; channels <= 130; channels += channels < 18 ? 1 : 7) {
    for (const DType type : {DType::f32, DType::f16}) {
      Trial t = trial({.op = "AveragePool", .x = {2, channels, 7, 5}, .kernel = {3, 3}, .stride = {2, 1}, .pads = {1, 1, 1, 1}},
                      type, Layout::nhwc);
      EXPECT_FALSE(check_on_gpu(t, tolerance(type)).empty());
    }
  }
}

TEST(GpuPool, whole_planes_agree_with_the_reference) {
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool"})
    for (const Shape& x : {Shape{1, 2048, 7, 7}, Shape{3, 33, 5, 9}, Shape{2, 64, 1, 1}, Shape{1, 24, 56, 56}, Shape{2, 10, 31},
                           Shape{1, 9, 3, 4, 5}, Shape{5, 1, 12, 12}})
      for (const DType type : {DType::f32, DType::f16, DType::bf16})
        for (const Layout layout : {Layout::plain, Layout::nhwc}) {
          Trial t = trial({.op = op, .x = x}, type, layout);
          EXPECT_FALSE(check_on_gpu(t, tolerance(type)).empty());
        }
}

TEST(GpuPool, indices_of_the_maxima) {
  for (const bool column_major : {false, true}) {
    Trial t = trial({.x = {2, 3, 9, 8},
                     .kernel = {3, 2},
                     .stride = {2, 2},
                     .pads = {1, 0, 1, 1},
                     .indices = true,
                     .column_major = column_major},
                    DType::f32, Layout::plain);
    EXPECT_FALSE(check_on_gpu(t, 0).empty());
    Trial volume =
        trial({.x = {1, 4, 4, 5, 6}, .kernel = {2, 2, 2}, .stride = {2, 1, 2}, .indices = true, .column_major = column_major},
              DType::f16, Layout::plain);
    EXPECT_FALSE(check_on_gpu(volume, 0).empty());
  }
}

TEST(GpuPool, the_first_of_equals_and_a_nan_stay) {
  Tensor x = Tensor::empty(DType::f32, {1, 1, 4, 4});
  std::fill_n(x.data<float>(), 16, 1.0f);
  x.data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  Trial t;
  t.node.op = "MaxPool";
  t.node.attrs["kernel_shape"] = Ints{2, 2};
  t.add(x, false);
  t.result(DType::f32, {1, 1, 3, 3});
  t.result(DType::i64, {1, 1, 3, 3});
  EXPECT_FALSE(check_on_gpu(t, 0).empty());
}

TEST(GpuPool, bytes_have_a_maximum) {
  for (const DType type : {DType::i8, DType::u8}) {
    Trial t = trial({.x = {2, 48, 9, 9}, .kernel = {3, 3}, .stride = {2, 2}, .pads = {1, 1, 1, 1}}, type, Layout::nhwc);
    EXPECT_FALSE(check_on_gpu(t, 0).empty());
  }
}

TEST(GpuPool, slices_of_other_tensors_and_odd_alignments) {
  for (const int64_t alignment : {2, 8, 16}) {
    Trial t = trial({.x = {2, 24, 8, 8}, .kernel = {2, 2}, .stride = {2, 2}}, DType::f16, Layout::nhwc);
    t.bound.inputs[0].alignment = alignment;
    t.bound.inputs[0].strides = {8 * 8 * 40, 1, 8 * 40, 40};
    EXPECT_FALSE(check_on_gpu(t, tolerance(DType::f16)).empty());
    Trial odd = trial({.op = "GlobalAveragePool", .x = {2, 24, 8, 8}}, DType::f16, Layout::nhwc);
    odd.bound.inputs[0].alignment = alignment;
    odd.bound.inputs[0].strides = {8 * 8 * 27, 1, 8 * 27, 27};
    EXPECT_FALSE(check_on_gpu(odd, tolerance(DType::f16)).empty());
  }
}

TEST(GpuPool, says_what_it_does_not_take) {
  Trial t;
  t.node.op = "AveragePool";
  t.node.attrs["kernel_shape"] = Ints{2, 2, 2, 2};
  t.add(random_tensor(DType::f32, {1, 2, 3, 3, 3, 3}, 1), false);
  t.result(DType::f32, {1, 2, 2, 2, 2, 2});
  t.bound.node = &t.node;
  try {
    offer(t.bound, gpu_machine());
    FAIL() << "a pooling over 4 axes was offered";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("4 spatial axes"));
  }
}

}  // namespace
}  // namespace smelt::ops
