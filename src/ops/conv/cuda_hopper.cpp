// Convolutions by tensor maps in im2col mode and wgmma on Hopper (src/kernels/conv/hopper.cuh): f16, bf16, 8-bit integers and
// floats where they may be rounded to tf32, generated for the tile and the program behind the sums. In 16 bits windows of one pixel side by side are a product of matrices,
// and run as one. Those of integers are exact, in the order that cuda_walked.cpp has.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "base/value_of.h"
#include "ops/conv/cuda_hopper_windows.h"
#include "ops/matmul/cuda_hopper_kernel.h"

namespace smelt::ops::conv {
namespace {

using matmul::HopperConfig;

class HopperConv final : public matmul::HopperKernel {
 public:
  HopperConv(const GpuRequest& r, const WindowsProblem& p, const matmul::CudaProblem& product, const HopperConfig& c)
      : HopperKernel(product, c, *r.gpu, entry(r, p, c)),
        at_(r.at),
        sliding_(c.lines > 0),
        b_(product.b, product.batch, product.type, windows_lines(p, c.width), product.k, c.tile_n, c.down, c.line) {
    const WindowsProblem begins = sliding_ ? value_of(sliding_windows(p), "windows that slide") : p;
    if (sliding_)
      keep(sliding_argument(p, begins));
    else if (p.depth)
      keep(hopper_windows<3>(p));
    else
      keep(hopper_windows<2>(p));
    for (const ImageSegment& s : p.segments) {
      chunks_.push_back(hopper_chunks(p, s));
      maps_.emplace_back(begins, s, sliding_ ? c.lines : c.tile_m / c.across);
    }
    encoded_.resize(maps_.size() > 1 ? maps_.size() - 1 : 1);
    if (!r.gpu->device) return;
    const Tensor& w = r.weight().constant;
    weights_ = r.gpu->weights->packed(r.gpu->device, w, packing(p, c), [&] { return windows_weights(r, p, c.width, c.paired); });
  }

  bool in_place(size_t i) const override { return i >= at_.operands && epilogue().in_place(i); }
  bool reads(size_t i) const override { return (i >= at_.x && i < at_.x + maps_.size()) || epilogue().reads(i); }

 private:
  static matmul::HopperEntry entry(const GpuRequest& r, const WindowsProblem& p, const HopperConfig& c) {
    const int segments = static_cast<int>(p.segments.size());
    if (c.lines > 0)
      return {"conv", "conv/sliding.cuh", fmt::format("SlidingConvArgs<{}>", segments),
              kernels::conv_bytes<kernels::SlidingWindows>(segments) - sizeof(kernels::HopperGemmArgs), r.compile_options()};
    const uint64_t bytes = p.depth ? kernels::conv_bytes<kernels::HopperWindows<3>>(segments)
                                   : kernels::conv_bytes<kernels::HopperWindows<2>>(segments);
    return {"conv", "conv/hopper.cuh", fmt::format("HopperConvArgs<{}, {}>", segments, p.axes()),
            bytes - sizeof(kernels::HopperGemmArgs), r.compile_options()};
  }
  /// The name of the weights' form: the same where the bytes are.
  static std::string packing(const WindowsProblem& p, const HopperConfig& c) {
    if (!p.integers) return implicit_packing(p, p.line()).text();
    Key key("conv:hopper");
    key.field(c.width).field(c.line).field(c.paired);
    for (const ImageSegment& s : p.segments) key.field(s.channels);
    return key.text();
  }
  void encode(kernels::HopperGemmArgs& args, const Buffers& b) override {
    for (size_t i = 0; i < maps_.size(); ++i) maps_[i].encode(i == 0 ? args.a : encoded_[i - 1], b.inputs[at_.x + i]);
    b_.encode(args.b, reinterpret_cast<const void*>(weights_->address()));
  }
  void append(ops::Arguments& arguments) const override {
    for (const kernels::TensorMap& m : encoded_) arguments.value(m);
    arguments.bytes(windows_.data(), windows_.size(), 4);
    arguments.bytes(chunks_.data(), 4 * chunks_.size(), 4);
  }

  template <class Windows> void keep(const Windows& w) {
    windows_.resize(sizeof w);
    std::memcpy(windows_.data(), &w, sizeof w);
  }

  conv::Arguments at_;
  bool sliding_;
  std::vector<std::byte> windows_;  // kernels::HopperWindows or SlidingWindows
  std::vector<uint32_t> chunks_;
  std::vector<WindowMap> maps_;
  std::vector<kernels::TensorMap> encoded_;  // all but the first
  matmul::OperandMap b_;
  std::shared_ptr<device::cuda::Memory> weights_;
};

double estimate_us(const matmul::CudaProblem& product, const matmul::CudaProblem& sliding, const HopperConfig& c,
                   const Gpu& gpu) {
  return matmul::hopper_estimate_us(c.lines > 0 ? sliding : product, c, gpu);
}

/// Of all windows.
matmul::CudaProblem sliding_product(matmul::CudaProblem product, const WindowsProblem& all) {
  product.m = all.pixels();
  return product;
}

}  // namespace

std::unique_ptr<Kernel> hopper_conv(const GpuRequest& r, const WindowsProblem& p, const matmul::CudaProblem& product,
                                    const HopperConfig& c) {
  if (p.matrix) return matmul::hopper_product(product, c, *r.gpu);
  if (c.lines > 0)
    return std::make_unique<HopperConv>(r, p, sliding_product(product, value_of(sliding_windows(p), "windows that slide")), c);
  return std::make_unique<HopperConv>(r, p, product, c);
}

Result<std::vector<HopperConfig>> windows_configs(const WindowsProblem& p, const matmul::CudaProblem& product, const Gpu& gpu) {
  if (auto why = matmul::uncountable(product)) return *why;
  auto found = matmul::hopper_configs(product, gpu);
  if (!found) return found;
  // Wider tiles than there are channels do the same in more time.
  const int64_t widest = (product.n + 63) / 64 * 64;
  // What sums lack of pixels outside, read at an index, beside so many sums that a cluster adds: 240 bytes spilled (sm_90a, 128 x 64, u8).
  constexpr int64_t most_sums = 32;
  const bool by_index = std::ranges::any_of(product.epilogue.operands(), &EpilogueOperand::by_index);
  std::erase_if(*found, [&](const HopperConfig& c) {
    return c.tile_n > widest || (by_index && c.cluster() && c.rows() * c.columns() / 2 > most_sums);
  });
  const auto sliding = sliding_windows(p);
  if (!sliding || p.element() != 2) return found;  // of others no windows slide
  const auto all = sliding_product(product, *sliding);
  const kernels::SlidingWindows w = sliding_argument(p, *sliding);
  std::vector<HopperConfig> both = *std::move(found);
  std::ranges::copy(matmul::sliding_configs(all, gpu, static_cast<double>(w.taps[0] * w.taps[1]) / (w.phases(0) * w.phases(1)),
                                            sliding_reach(w)),
                    std::back_inserter(both));
  std::ranges::stable_sort(both, {}, [&](const HopperConfig& c) { return estimate_us(product, all, c, gpu); });
  return both;
}

void offer_hopper(const SharedRequest& r, Offer& offer) {
  constexpr size_t most_candidates = 16, most_sliding = 4;
  const auto own = std::make_shared<GpuRequest>(*r);
  const auto found = windows_problem(*own);
  if (!found) return offer.refuse("hopper", found.refusal());
  const auto p = std::make_shared<const WindowsProblem>(*found);
  const auto product = std::make_shared<const matmul::CudaProblem>(windows_product(*own, *p));
  auto configs = windows_configs(*p, *product, *own->gpu);
  if (!configs) return offer.refuse("hopper", configs.refusal());
  // Some of both: their guesses err by more than they differ.
  const auto slide = std::stable_partition(configs->begin(), configs->end(), [](const HopperConfig& c) { return c.lines == 0; });
  std::vector<HopperConfig> offered = matmul::hopper_offered({configs->begin(), slide}, most_candidates);
  std::ranges::copy(matmul::hopper_offered({slide, configs->end()}, most_sliding), std::back_inserter(offered));
  const auto all = sliding_windows(*p);
  const matmul::CudaProblem sliding = all ? sliding_product(*product, *all) : *product;
  std::ranges::stable_sort(offered, {}, [&](const HopperConfig& c) { return estimate_us(*product, sliding, c, *own->gpu); });
  for (const HopperConfig& c : offered)
    offer.candidates.push_back({"hopper", c.print(), estimate_us(*product, sliding, c, *own->gpu),
                                [own, p, product, c] { return hopper_conv(*own, *p, *product, c); }});
}

}  // namespace smelt::ops::conv
