// Convolutions as products of matrices with a row for each window, against the processor's reference: those whose windows lie side by side,
// over an image that is laid out window by window, along one axis, two and three, of plain and of channels-last images, and what is cut
// off at the end of an axis; and those whose windows are each one run of memory, where they lie or in a copy that has the padding.
#include <set>

#include "gpu_trial.h"

namespace smelt::ops {
namespace {

struct Windows {
  Shape x, w;
  std::vector<int64_t> strides = {}, pads = {};  // left out: side by side
};

/// Of the candidates whose name begins so; how many agreed.
size_t check(const Windows& c, DType type, Layout image, Layout result, bool residual, const char* begins = "patches") {
  const auto name = smelt::name(type);
  SCOPED_TRACE(
      fmt::format("{} {} {} to {}{}", name, to_string(c.x), to_string(c.w), ops::name(image), residual ? " residual" : ""));
  Trial t;
  t.node.op = "Conv";
  t.node.domain = smelt_domain;
  t.node.attrs["segments"] = int64_t{1};
  const std::vector<int64_t> strides = c.strides.empty() ? std::vector<int64_t>(c.w.begin() + 2, c.w.end()) : c.strides;
  const std::vector<int64_t> pads = c.pads.empty() ? std::vector<int64_t>(2 * strides.size(), 0) : c.pads;
  t.node.attrs["strides"] = strides;
  t.node.attrs["pads"] = pads;
  t.add(random_tensor(type, c.x, 1), false, image);
  t.add(random_tensor(type, c.w, 2), true);
  t.add(random_tensor(type, {c.w[0]}, 3), true);
  Shape y{c.x[0], c.w[0]};
  for (size_t a = 0; a < strides.size(); ++a)
    y.push_back((c.x[a + 2] + pads[a] + pads[a + strides.size()] - c.w[a + 2]) / strides[a] + 1);
  expr::Program& p = t.node.program.emplace();
  const expr::Ref sum = p.input(DType::f32);
  p.output(p.cast(residual ? p.call(expr::Fn::add, sum, p.cast(p.input(type), DType::f32)) : p.call(expr::Fn::relu, sum), type));
  if (residual) t.add(random_tensor(type, y, 4), false, result);
  t.result(type, y, result);
  t.bound.node = &t.node;
  Node plain = t.node;
  plain.outputs = {static_cast<ValueId>(100)};
  const Tensor want = evaluate(plain, t.inputs)[0];
  std::set<std::string> tactics;  // of each its first
  for (const Candidate& c : offer(t.bound, gpu_machine()).candidates) {
    if (!c.config.starts_with(begins) || !tactics.insert(c.tactic).second) continue;
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

TEST(GpuPatches, agree_where_windows_are_runs_of_memory) {
  const Windows all[] = {
      {{1, 1, 8000}, {258, 1, 400}, {160}},                        // a spectrum of one signal
      {{2, 1, 1600}, {64, 1, 512}, {160}, {256, 256}},             // with padding
      {{1, 1, 640}, {130, 1, 256}, {128}, {64, 0}},                // a voice detector's
      {{3, 1, 333}, {24, 1, 10}, {5}},                             // wav2vec's: rows that begin at no multiple of 16 bytes
      {{1, 1, 1, 3000}, {40, 1, 1, 250}, {1, 100}, {0, 3, 0, 4}},  // one row of an image
      {{1, 1, 7, 320}, {33, 1, 1, 64}, {2, 32}},                   // several rows
      {{1, 1, 24, 16}, {20, 1, 3, 16}, {2, 1}},                    // whole rows
      {{2, 6, 90}, {16, 6, 9}, {3}, {4, 4}},                       // several channels, channels-last alone
  };
  for (const Windows& c : all)
    for (const Layout image : {Layout::plain, Layout::nhwc}) {
      if (c.x[1] > 1 && image == Layout::plain) continue;
      for (const DType type : {DType::f32, DType::f16})
        for (const Layout result : {Layout::nhwc, Layout::plain})
          EXPECT_GE(check(c, type, image, result, type == DType::f32, "lines"), 1u);
    }
}

}  // namespace
}  // namespace smelt::ops
