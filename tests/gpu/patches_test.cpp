// Convolutions whose windows lie side by side, as products over an image that is laid out window by window, against the processor's
// reference: along one axis, two and three, of plain and of channels-last images, and what is cut off at the end of an axis.
#include <set>

#include "gpu_trial.h"

namespace smelt::ops {
namespace {

struct Windows {
  Shape x, w;
};

/// Of the candidates that lay the image out; how many agreed.
size_t check(const Windows& c, DType type, Layout image, Layout result, bool residual) {
  const auto name = smelt::name(type);
  SCOPED_TRACE(
      fmt::format("{} {} {} to {}{}", name, to_string(c.x), to_string(c.w), ops::name(image), residual ? " residual" : ""));
  Trial t;
  t.node.op = "Conv";
  t.node.domain = smelt_domain;
  t.node.attrs["segments"] = int64_t{1};
  t.node.attrs["strides"] = std::vector<int64_t>(c.w.begin() + 2, c.w.end());
  t.add(random_tensor(type, c.x, 1), false, image);
  t.add(random_tensor(type, c.w, 2), true);
  t.add(random_tensor(type, {c.w[0]}, 3), true);
  Shape y{c.x[0], c.w[0]};
  for (size_t a = 2; a < c.x.size(); ++a) y.push_back(c.x[a] / c.w[a]);
  t.node.program = expr::Program::parse(
      (residual ? fmt::format("(in0:f32, in1:{}) {{ %2 = cast(in1):f32; %3 = add(in0, %2):f32; ", name)
                : std::string("(in0:f32) { %1 = relu(in0):f32; ")) +
      (type == DType::f32 ? fmt::format("return %{} }}", residual ? 3 : 1)
                          : fmt::format("%{1} = cast(%{0}):{2}; return %{1} }}", residual ? 3 : 1, residual ? 4 : 2, name)));
  if (residual) t.add(random_tensor(type, y, 4), false, result);
  t.result(type, y, result);
  t.bound.node = &t.node;
  Node plain = t.node;
  plain.outputs = {static_cast<ValueId>(100)};
  const Tensor want = evaluate(plain, t.inputs)[0];
  std::set<std::string> tactics;  // of each its first
  for (const Candidate& c : offer(t.bound, gpu_machine()).candidates) {
    if (!c.config.starts_with("patches") || !tactics.insert(c.tactic).second) continue;
    SCOPED_TRACE(c.tactic + " " + c.config);
    EXPECT_LE(error(run_on_gpu(t, c)[0], want), type == DType::f16 ? 1e-3 : type == DType::bf16 ? 8e-3 : 3e-6);
  }
  return tactics.size();
}

TEST(GpuPatches, agree_with_the_reference) {
  const Windows all[] = {
      {{1, 3, 224, 224}, {192, 3, 16, 16}},     // vision transformers'
      {{2, 3, 70, 57}, {64, 3, 14, 14}},        // lines of 28 bytes, and pixels behind the last window
      {{2, 4, 32, 32}, {72, 4, 2, 2}},          // DiT's
      {{1, 3, 64, 48}, {96, 3, 4, 4}},          // Swin's and ConvNeXt's
      {{1, 40, 12, 14}, {48, 40, 2, 2}},        // between their stages
      {{3, 5, 96}, {24, 5, 8}},                 // of sequences
      {{2, 3, 8, 32, 32}, {40, 3, 2, 16, 16}},  // of videos
  };
  for (const Windows& c : all)
    for (const Layout image : {Layout::plain, Layout::nhwc}) {
      EXPECT_GE(check(c, DType::f16, image, Layout::nhwc, true), 2u);
      if (&c != &all[0] && &c != &all[6]) continue;
      for (const DType type : {DType::bf16, DType::f32}) EXPECT_GE(check(c, type, image, Layout::nhwc, false), 1u);
    }
}

}  // namespace
}  // namespace smelt::ops
