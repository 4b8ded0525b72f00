// Convolutions by tensor maps in im2col mode and wgmma on Hopper (src/kernels/conv/hopper.cuh): f16, bf16 and 8-bit integers,
// generated for the tile and the program behind the sums. In 16 bits windows of one pixel side by side are a product of matrices,
// and run as one. Those of integers are exact, in the order that cuda_walked.cpp has.
#include <fmt/format.h>

#include "ops/conv/cuda_hopper_windows.h"
#include "ops/matmul/cuda_hopper_kernel.h"

namespace smelt::ops::conv {
namespace {

using matmul::HopperConfig;

class HopperConv final : public matmul::HopperKernel {
 public:
  HopperConv(const GpuRequest& r, const WindowsProblem& p, const matmul::CudaProblem& product, const HopperConfig& c)
      : HopperKernel(product, c, *r.gpu,
                     {"conv", "conv/hopper.cuh", fmt::format("HopperConvArgs<{}>", p.segments.size()),
                      kernels::hopper_conv_bytes(static_cast<int>(p.segments.size())) - sizeof(kernels::HopperGemmArgs),
                      r.compile_options()}),
        at_(r.at),
        windows_(hopper_windows(p)),
        b_(product.b, product.batch, product.type, windows_lines(p, c.width), product.k, c.tile_n, c.down) {
    for (const ImageSegment& s : p.segments) {
      chunks_.push_back(hopper_chunks(p, s));
      maps_.emplace_back(p, s, c.tile_m / c.across);
    }
    encoded_.resize(maps_.size() > 1 ? maps_.size() - 1 : 1);
    if (!r.gpu->device) return;
    const Tensor& w = r.weight().constant;
    weights_ = r.gpu->weights->packed(r.gpu->device, w, packing(p, c), [&] { return windows_weights(r, p, c.width); });
  }

  bool in_place(size_t i) const override { return i >= at_.operands && epilogue().in_place(i); }
  bool reads(size_t i) const override { return (i >= at_.x && i < at_.x + maps_.size()) || epilogue().reads(i); }

 private:
  /// The name of the weights' form: the same where the bytes are.
  static std::string packing(const WindowsProblem& p, const HopperConfig& c) {
    if (!p.integers) return implicit_packing(p, p.line()).text();
    Key key("conv:hopper");
    key.field(c.width);
    for (const ImageSegment& s : p.segments) key.field(s.channels);
    return key.text();
  }
  void encode(kernels::HopperGemmArgs& args, const Buffers& b) override {
    for (size_t i = 0; i < maps_.size(); ++i) maps_[i].encode(i == 0 ? args.a : encoded_[i - 1], b.inputs[at_.x + i]);
    b_.encode(args.b, reinterpret_cast<const void*>(weights_->address()));
  }
  void append(ops::Arguments& arguments) const override {
    for (const kernels::TensorMap& m : encoded_) arguments.value(m);
    arguments.value(windows_).bytes(chunks_.data(), 4 * chunks_.size(), 4);
  }

  conv::Arguments at_;
  kernels::HopperWindows windows_;
  std::vector<uint32_t> chunks_;
  std::vector<WindowMap> maps_;
  std::vector<kernels::TensorMap> encoded_;  // all but the first
  matmul::OperandMap b_;
  std::shared_ptr<device::cuda::Memory> weights_;
};

}  // namespace

std::unique_ptr<Kernel> hopper_conv(const GpuRequest& r, const WindowsProblem& p, const matmul::CudaProblem& product,
                                    const HopperConfig& c) {
  if (p.matrix) return matmul::hopper_product(product, c, *r.gpu);
  return std::make_unique<HopperConv>(r, p, product, c);
}

Result<std::vector<HopperConfig>> windows_configs(const matmul::CudaProblem& product, const Gpu& gpu) {
  if (auto why = matmul::uncountable(product)) return *why;
  auto found = matmul::hopper_configs(product, gpu);
  // Wider tiles than there are channels do the same in more time.
  const int64_t widest = (product.n + 63) / 64 * 64;
  if (found) std::erase_if(*found, [&](const HopperConfig& c) { return c.tile_n > widest; });
  return found;
}

void offer_hopper(const SharedRequest& r, Offer& offer) {
  constexpr size_t most_candidates = 16;
  const auto own = std::make_shared<GpuRequest>(*r);
  const auto found = windows_problem(*own);
  if (!found) return offer.refuse("hopper", found.refusal());
  const auto p = std::make_shared<const WindowsProblem>(*found);
  const auto product = std::make_shared<const matmul::CudaProblem>(windows_product(*own, *p));
  const auto configs = windows_configs(*product, *own->gpu);
  if (!configs) return offer.refuse("hopper", configs.refusal());
  for (const HopperConfig& c : matmul::hopper_offered(*configs, most_candidates))
    offer.candidates.push_back({"hopper", c.print(), matmul::hopper_estimate_us(*product, c, *own->gpu),
                                [own, p, product, c] { return hopper_conv(*own, *p, *product, c); }});
}

}  // namespace smelt::ops::conv
