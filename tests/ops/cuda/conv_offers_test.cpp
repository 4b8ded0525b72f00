// Convolutions in groups of few channels, depthwise and transposed ones, of every type, layout and number of axes, on a GPU that need not be
// here: each has a kernel that is meant for it, and the guess prefers it to plain multiply-adds (`direct`).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/cuda/forms.h"
#include "ops/cuda/gpu.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using Ints = std::vector<int64_t>;

struct Window {
  int64_t taps, stride = 1, dilation = 1;
};

/// So many groups of `channels` to `outputs`, by windows alike along each axis.
struct Groups {
  int64_t groups, channels, outputs;
  size_t axes = 2;
  Window window{3};
  DType type = DType::f16;  // of 8 bits: QLinearConv
  Layout layout = Layout::nhwc;
  bool transposed = false, sums = false;  // sums: ConvInteger
  int64_t extent = 20;

  std::string print() const {
    return fmt::format("{} of {} to {}, {} axes, {} taps {} apart, dilation {}, {} {}{}", groups, channels, outputs, axes,
                       window.taps, window.stride, window.dilation, name(type), name(layout),
                       transposed ? ", transposed"
                       : sums     ? ", sums"
                                  : "");
  }
  Form form() const {
    const int64_t reach = (window.taps - 1) * window.dilation + 1, pad = (reach - 1) / 2;
    const int64_t out =
        transposed ? (extent - 1) * window.stride + reach - 2 * pad : (extent + 2 * pad - reach) / window.stride + 1;
    Shape x{2, groups * channels}, y{2, groups * outputs};
    Shape w = transposed ? Shape{groups * channels, outputs} : Shape{groups * outputs, channels};
    for (size_t a = 0; a < axes; ++a) x.push_back(extent), y.push_back(out), w.push_back(window.taps);
    const bool bytes = type == DType::u8 || type == DType::i8;
    Form f(transposed ? "ConvTranspose"
           : !bytes   ? "Conv"
           : sums     ? "ConvInteger"
                      : "QLinearConv",
           "",
           {{"group", groups},
            {"strides", Ints(axes, window.stride)},
            {"dilations", Ints(axes, window.dilation)},
            {"pads", Ints(2 * axes, pad)}});
    f.in(type, x, layout);
    if (!bytes) return f.in(Tensor::zeros(type, w)).out(type, y, layout);
    const Tensor scale = Tensor::scalar(0.5f), zero = Tensor::scalar<int64_t>(3).cast(type);
    if (sums) return f.in(Tensor::zeros(DType::i8, w)).in(zero).in(Tensor::scalar<int8_t>(0)).out(DType::i32, y, layout);
    f.in(scale).in(zero).in(Tensor::zeros(DType::i8, w)).in(scale).in(Tensor::scalar<int8_t>(0)).in(scale).in(zero);
    return f.out(type, y, layout);
  }
};

/// The candidates, the best guess first.
std::vector<Candidate> offered(const Groups& g, std::string_view arch) {
  Form f = g.form();
  f.bound.node = &f.node;
  Machine machine;
  machine.gpu = gpu_of_arch(arch);
  std::vector<Candidate> all = offer(f.bound, machine).candidates;
  std::ranges::stable_sort(all, {}, &Candidate::estimate_us);
  return all;
}

void expect_own_kernel(const Groups& g) {
  for (const char* arch : {"sm_75", "sm_90a"}) {
    const std::vector<Candidate> all = offered(g, arch);
    ASSERT_FALSE(all.empty()) << arch << ' ' << g.print();
    EXPECT_FALSE(all.front().config.find("direct") != std::string::npos)
        << arch << ' ' << g.print() << ": " << all.front().config << ' ' << all.front().estimate_us;
  }
}

constexpr DType types[] = {DType::f16, DType::bf16, DType::f32, DType::u8, DType::i8};

TEST(ConvOffers, have_a_kernel_for_each_depthwise_convolution) {
  for (const Window& w : {Window{1}, Window{3}, Window{5, 2}, Window{7, 1, 2}, Window{13}, Window{3, 1, 6}, Window{3, 5}})
    for (size_t axes = 1; axes <= 3; ++axes)
      for (const int64_t channels : {5, 24, 130})
        for (const int64_t filters : {1, 2, 3})
          for (const DType type : types)
            for (const Layout layout : {Layout::plain, Layout::nhwc}) {
              if (axes == 3 && (w.taps > 7 || channels > 24)) continue;
              expect_own_kernel({channels, 1, filters, axes, w, type, layout});
            }
}

TEST(ConvOffers, have_a_kernel_for_groups_of_few_channels) {
  for (size_t axes = 1; axes <= 3; ++axes)
    for (const auto& [groups, channels, outputs] :
         {std::tuple{32, 4, 4}, std::tuple{3, 8, 20}, std::tuple{8, 30, 15}, std::tuple{7, 3, 5}, std::tuple{6, 16, 16},
          std::tuple{4, 24, 24}, std::tuple{17, 2, 1}, std::tuple{5, 13, 11}})
      for (const Window& w : {Window{1}, Window{3}, Window{5, 2, 2}})
        for (const DType type : types)
          for (const Layout layout : {Layout::plain, Layout::nhwc})
            expect_own_kernel({groups, channels, outputs, axes, w, type, layout, false, false, axes == 3 ? 8 : 20});
}

TEST(ConvOffers, have_a_kernel_for_sums_of_groups) {
  for (const auto& [groups, channels, outputs] :
       {std::tuple{32, 4, 4}, std::tuple{24, 1, 1}, std::tuple{7, 3, 5}, std::tuple{8, 1, 3}})
    for (const Layout layout : {Layout::plain, Layout::nhwc})
      expect_own_kernel({groups, channels, outputs, 2, {3}, DType::u8, layout, false, true});
}

TEST(ConvOffers, have_a_kernel_for_transposed_convolutions) {
  for (const Window& w :
       {Window{2, 2}, Window{4, 2}, Window{16, 8}, Window{3, 1, 2}, Window{3, 2, 2}, Window{3, 4, 6}, Window{5, 7}})
    for (size_t axes = 1; axes <= 3; ++axes)
      for (const auto& [groups, channels, outputs] :
           {std::tuple{21, 1, 1}, std::tuple{8, 4, 4}, std::tuple{1, 24, 16}, std::tuple{3, 5, 7}})
        for (const DType type : {DType::f16, DType::bf16, DType::f32})
          for (const Layout layout : {Layout::plain, Layout::nhwc}) {
            if (axes == 3 && w.taps > 5) continue;
            expect_own_kernel({groups, channels, outputs, axes, w, type, layout, true, false, axes == 3 ? 4 : 10});
          }
}

TEST(ConvOffers, multiply_groups_side_by_side_on_tensor_cores) {
  for (const DType type : {DType::f16, DType::bf16, DType::u8}) {
    Groups resnext{32, 4, 4, 2, {3}, type, Layout::nhwc};
    resnext.extent = 56;
    const std::vector<Candidate> all = offered(resnext, "sm_90a");
    const auto joined = [](const Candidate& c) {
      return c.config.starts_with("implicit j") || c.config.ends_with("groups joined");
    };
    EXPECT_TRUE(std::ranges::any_of(all, joined)) << name(type);
    EXPECT_TRUE(std::ranges::any_of(all, [](const Candidate& c) { return c.config.starts_with("grouped"); })) << name(type);
  }
}

}  // namespace
}  // namespace smelt::ops
