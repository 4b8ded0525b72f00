// Transposed convolutions as plain ones, phase by phase, against the processor's reference: every stride, pads, what is cut off and
// added, groups, one to three axes, both layouts, slices.
#include "gpu_trial.h"

namespace smelt::ops {
namespace {

struct Case {
  Shape x, w;
  std::vector<int64_t> strides, pads = {}, output_padding = {}, dilations = {};
  int64_t group = 1;
};

Trial trial(const Case& c, DType type, Layout layout) {
  Trial t;
  t.node.op = "ConvTranspose";
  t.node.attrs["strides"] = c.strides;
  if (!c.pads.empty()) t.node.attrs["pads"] = c.pads;
  if (!c.output_padding.empty()) t.node.attrs["output_padding"] = c.output_padding;
  if (!c.dilations.empty()) t.node.attrs["dilations"] = c.dilations;
  t.node.attrs["group"] = c.group;
  t.add(random_tensor(type, c.x, 1), false, layout);
  t.add(random_tensor(type, c.w, 2), true);
  t.add(random_tensor(type, {c.w[1] * c.group}, 3), true);
  return t;
}

double tolerance(DType type) { return type == DType::f16 ? 1e-3 : type == DType::bf16 ? 8e-3 : 3e-6; }

/// Others are GpuConv.transposed's.
bool is_phased(const Candidate& c) { return c.config.starts_with("phases"); }

std::vector<std::string> check(Trial t, DType type, Layout layout) {
  const Tensor want = expected(t);
  t.result(want.type(), want.shape(), layout);
  return agree_on_gpu(t, {want}, tolerance(type), is_phased);
}

TEST(GpuTransposedConv, agree_phase_by_phase) {
  const Case all[] = {
      {{1, 64, 14, 15}, {64, 32, 4, 4}, {2, 2}, {1, 1, 1, 1}},              // GANs'
      {{2, 32, 9, 7}, {32, 24, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},        // of encoders and decoders
      {{1, 48, 40}, {48, 24, 16}, {8}, {4, 4}},                             // vocoders'
      {{1, 16, 21}, {16, 8, 7}, {3}, {2, 2}, {1}},                          // a window that strides do not divide
      {{1, 24, 8, 9}, {24, 16, 5, 5}, {1, 1}, {2, 2, 2, 2}},                // strides of 1: the window turned
      {{1, 24, 8, 9}, {24, 16, 3, 3}, {1, 2}, {2, 1, 2, 1}, {}, {2, 1}},    // a dilation where the stride is 1
      {{1, 12, 7, 6}, {12, 10, 3, 5}, {2, 3}, {0, 1, 1, 0}},                // pads that differ
      {{1, 16, 4, 6, 5}, {16, 8, 2, 4, 4}, {2, 2, 2}, {0, 1, 1, 0, 1, 1}},  // volumes
      {{1, 8, 3, 5, 4}, {8, 16, 2, 2, 2}, {2, 2, 2}},                       // windows of volumes side by side
      {{2, 40, 13}, {40, 16, 4}, {4}},                                      // of sequences
      {{1, 64, 1, 1}, {64, 48, 4, 4}, {1, 1}},                              // from one pixel
  };
  for (const Case& c : all)
    for (const DType type : {DType::f32, DType::f16, DType::bf16})
      for (const Layout layout : {Layout::nhwc, Layout::plain}) {
        if (type == DType::bf16 && &c != &all[0] && &c != &all[5]) continue;
        SCOPED_TRACE(fmt::format("{} {} by {} {}", name(type), to_string(c.x), to_string(c.w), name(layout)));
        EXPECT_THAT(check(trial(c, type, layout), type, layout), testing::Contains(testing::HasSubstr("phases")));
      }
}

TEST(GpuTransposedConv, of_groups_and_each_channel_by_its_own_filter) {
  for (const int64_t group : {3, 24}) {
    const Case c{{1, 24, 9, 8}, {24, group == 3 ? 10 : 1, 4, 4}, {2, 2}, {1, 1, 1, 1}, {}, {}, group};
    for (const DType type : {DType::f32, DType::f16})
      for (const Layout layout : {Layout::nhwc, Layout::plain})
        EXPECT_THAT(check(trial(c, type, layout), type, layout), testing::Contains(testing::HasSubstr("phases")));
  }
}

TEST(GpuTransposedConv, into_slices_of_other_tensors) {
  for (const int64_t alignment : {2, 16}) {
    Trial t = trial({{1, 32, 6, 7}, {32, 16, 4, 4}, {2, 2}, {1, 1, 1, 1}}, DType::f16, Layout::nhwc);
    const Tensor want = expected(t);
    t.result(DType::f16, want.shape(), Layout::nhwc);
    t.bound.outputs[0].strides = {12 * 14 * 40, 1, 14 * 40, 40};
    t.bound.outputs[0].alignment = alignment;
    EXPECT_THAT(agree_on_gpu(t, {want}, 1e-3, is_phased), testing::Contains(testing::HasSubstr("phases")));
  }
}

}  // namespace
}  // namespace smelt::ops
