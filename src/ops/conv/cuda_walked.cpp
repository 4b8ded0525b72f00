// Convolutions on tensor cores by the kernel whose taps the host lays out (src/kernels/conv/walked.cuh): f16, bf16 and 8-bit
// integers, generated for the filter's size, the tile, the width of copies and the program behind the sums. Those of integers are
// exact. In this order, as the reference has it, without fused multiply-adds:
//
//   sum = Σ x · w' + (bias − zero · Σ w')     w': weights less their zero points; pixels outside of the image are the zero point
//   in0 = float(sum) · scale,   y = program(in0, operands)
//
// Of several inputs that have scales of their own (ai.smelt's QLinearConv of segments) each has its sum and scale, and in0 is
// float(sum_1) · scale_1 + float(sum_2) · scale_2 + … from the first on.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "expr/cuda.h"
#include "ops/conv/cuda_pad.h"
#include "ops/conv/cuda_walked_problem.h"
#include "ops/conv/int8_problem.h"
#include "ops/core/align.h"
#include "ops/cuda/epilogue_width.h"
#include "ops/cuda/source.h"

namespace smelt::ops::conv {
namespace {

/// The product that a convolution is, for what ranks tiles.
matmul::CudaProblem product_of(const GpuRequest& r, const WalkedProblem& p, const CudaEpilogue& epilogue) {
  matmul::CudaProblem product{{p.pixels(), p.m, 0, {1}, {}, {}}, p.type, p.weight, epilogue, {}};
  product.k = p.tap_count();
  int64_t channels = 0;
  for (const ImageSegment& s : p.segments) channels += s.channels;
  product.k *= channels;
  product.a.vec = p.vec;
  product.b.vec = 16 / p.element;
  product.a.batch = product.b.batch = {0};
  for (const Input& x : r.problem.x) product.image_bytes += static_cast<double>(bytes(p.type, elements(x.shape)));
  return product;
}

/// Tiles for results of few channels, of which a wider tile's columns would mostly lie beyond y's.
std::vector<matmul::CudaConfig> narrow_tiles(const WalkedProblem& p) {
  if (p.m > 32) return {};
  return {{.tile_m = 128, .tile_n = p.m <= 16 ? 16 : 32, .tile_k = 64 / p.element, .warps_m = 4, .warps_n = 1, .stages = 4}};
}

std::string source(const WalkedProblem& p, const WalkedTile& t, const CudaEpilogue& epilogue) {
  const matmul::CudaConfig& c = t.config;
  const std::string config = config_source("WalkedConfig", {{"taps_h", p.taps[0]},
                                                            {"taps_w", p.taps[1]},
                                                            {"taps_d", p.depth ? p.depth->taps : 0},
                                                            {"chunk", t.chunk},
                                                            {"copy", p.vec * p.element},
                                                            {"width", t.width},
                                                            {"whole", p.m % t.width == 0},
                                                            {"filled", p.filled},
                                                            {"segments", static_cast<int64_t>(p.segments.size())},
                                                            {"up", p.up},
                                                            {"scaled", p.scaled},
                                                            {"blocked", p.blocked}});
  const std::string tile = fmt::format("TensorTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, true, {}, true, {}>",
                                       expr::cuda_type(p.type), expr::cuda_type(p.weight), c.tile_m, c.tile_n, c.tile_k,
                                       c.warps_m, c.warps_n, c.stages, c.ahead, p.vec, 16 / p.element);
  const KernelEntry conv{"conv", "Tile::threads",
                         fmt::format("WalkedArgs<Tile::A, Tile::Sum, {}, {}>", p.segments.size(), p.steps()),
                         fmt::format("walked_conv<Tile, {}, {}, {:#x}>", config, c.splits > 1, by_column(epilogue))};
  return fmt::format("#include \"conv/walked.cuh\"\n\nusing Tile = {};\nstatic_assert(Tile::shared_bytes == {});\n\n", tile,
                     c.shared_bytes(p.element)) +
         epilogue.source(conv, kernels::walked_bytes(static_cast<int>(p.segments.size()), static_cast<int>(p.steps())));
}

class WalkedKernel final : public CompiledKernel {
 public:
  WalkedKernel(const GpuRequest& r, const WalkedProblem& p, const WalkedTile& t, const std::string& name)
      : CompiledKernel(*r.gpu, {fmt::format("{} {}", name, t.print()), source(p, t, r.epilogue(t.width)), r.compile_options()},
                       "conv"),
        epilogue_(r.epilogue(t.width)),
        at_(r.at),
        segments_(p.segments.size()),
        image_bytes_(device_aligned(p.padded_bytes())),
        arguments_(walked_arguments(p, t)) {
    const matmul::CudaConfig& c = t.config;
    if (p.padded) pad_ = padding_kernel(r, p);
    const int64_t tiles = (p.pixels() + c.tile_m - 1) / c.tile_m * ((p.m + c.tile_n - 1) / c.tile_n);
    const int64_t k_tiles = walked_tiles(p, t), split_tiles = (k_tiles + c.splits - 1) / c.splits;
    // A split that would begin beyond K is none.
    const int64_t splits = c.splits == 1 ? 1 : (k_tiles + split_tiles - 1) / split_tiles;
    shape_ = {
        .grid = {tiles, splits}, .block = {static_cast<unsigned>(c.threads()), 1, 1}, .shared_bytes = c.shared_bytes(p.element)};
    if (c.splits > 1) partial_bytes_ = tiles * splits * c.tile_m * c.tile_n * 4;
    if (!r.gpu->device) return;
    const Tensor& w = r.weight().constant;
    weights_ = r.gpu->weights->packed(r.gpu->device, w, walked_packing(p, t).text(), [&] { return walked_weights(w, p, t); });
    set<&Args::w>(reinterpret_cast<const void*>(weights_->address()));
    if (p.filled) {
      const Shape zeros(p.zeros.begin(), p.zeros.end());
      outside_ = r.gpu->weights->packed(r.gpu->device, w, Key("conv:outside").field(zeros).text(), [&] {
        constexpr int64_t of_segment = 16 * kernels::walked_outside;
        Tensor lines = Tensor::empty(DType::u8, {of_segment * std::ssize(zeros)});
        for (size_t i = 0; i < zeros.size(); ++i)
          std::memset(static_cast<char*>(lines.raw()) + of_segment * static_cast<int64_t>(i), p.zeros[i], of_segment);
        return lines;
      });
      set<&Args::outside>(reinterpret_cast<const void*>(outside_->address()));
    }
    if (p.scaled) {
      KeyHash hash;  // names what is kept beside the weights by all that it depends on but them
      for (size_t i = 0; i < p.segments.size(); ++i) {
        hash.add(fmt::format("{} {}", p.zeros[i], p.segments[i].channels));
        for (const float s : i == 0 ? r.quantization().scales : r.quantization().more[i - 1].scales)
          hash.add(fmt::format("{:a}", s));
      }
      scales_ = r.gpu->weights->packed(r.gpu->device, w, int8_packing(r, "conv:segment scales").field(hash.text()).text(),
                                       [&] { return walked_scales(r, p); });
      set<&Args::scales>(reinterpret_cast<const kernels::WalkedScale*>(scales_->address()));
    }
    if (c.splits == 1) return;
    arrived_ = zeroed(*r.gpu, tiles * 4, "a convolution's split tiles");
    set<&Args::arrived>(reinterpret_cast<uint32_t*>(arrived_->address()));
  }

  int64_t workspace() const override { return image_bytes_ + partial_bytes_; }
  bool in_place(size_t i) const override { return i >= at_.operands && epilogue_.in_place(i); }
  bool reads(size_t i) const override { return (i >= at_.x && i < at_.x + segments_) || epilogue_.reads(i); }

  void run(const Buffers& b) override {
    if (pad_) pad_->run(b);
    for (size_t i = 0; i < segments_; ++i) {
      const void* const x = pad_ ? b.workspace : b.inputs[at_.x + i];
      std::memcpy(arguments_.data() + segments_at + i * sizeof(WalkedSegment), static_cast<const void*>(&x), sizeof x);
    }
    set<&Args::partial>(static_cast<void*>(static_cast<char*>(b.workspace) + image_bytes_));
    ops::Arguments arguments;
    arguments.bytes(arguments_.data(), arguments_.size());
    arguments.bytes(epilogue_.argument(b), epilogue_.bytes());
    launch(b, shape_, arguments);
  }

 private:
  using Args = WalkedHead;
  static constexpr size_t segments_at = offsetof(Args, segments);

  template <auto Member, class T> void set(T* address) {
    Args head;
    std::memcpy(static_cast<void*>(&head), arguments_.data(), segments_at);
    head.*Member = address;
    std::memcpy(arguments_.data(), static_cast<const void*>(&head), segments_at);
  }

  CudaEpilogue epilogue_;
  conv::Arguments at_;
  size_t segments_;
  int64_t image_bytes_, partial_bytes_ = 0;
  std::unique_ptr<Kernel> pad_;
  device::cuda::LaunchShape shape_;
  std::vector<std::byte> arguments_;
  std::shared_ptr<device::cuda::Memory> weights_, outside_, scales_, arrived_;
};

}  // namespace

void offer_walked(const SharedRequest& r, Offer& offer) {
  constexpr size_t most_candidates = 12;  // the rest rank behind these
  const auto own = std::make_shared<GpuRequest>(*r);
  auto found = walked_problem(*own);
  if (!found) return offer.refuse("walked", found.refusal());
  const auto p = std::make_shared<const WalkedProblem>(*std::move(found));
  const matmul::CudaProblem product = product_of(*own, *p, own->epilogue(4));
  const double moved = own->moved_bytes();
  auto configs = matmul::cuda_configs(product, *own->gpu);
  if (!configs) return offer.refuse("walked", configs.refusal());
  std::ranges::copy(narrow_tiles(*p), std::back_inserter(*configs));
  std::vector<std::pair<double, WalkedTile>> ranked;
  for (const matmul::CudaConfig& c : *configs) {
    const auto tile = walked_tile(*p, c, product.epilogue);
    if (!tile) continue;
    ranked.emplace_back(walked_estimate_us(*p, *tile, *own->gpu, moved) + (p->padded ? 2 : 0), *tile);
  }
  if (ranked.empty())
    return offer.refuse("walked", Reason::too_large, "copies of {} elements, too many a thread in every tile", p->vec);
  std::ranges::stable_sort(ranked, {}, &std::pair<double, WalkedTile>::first);
  if (ranked.size() > most_candidates) ranked.resize(most_candidates);
  for (const auto& [us, tile] : ranked)
    offer.candidates.push_back({"walked", tile.print(), us, [own, p, tile = tile, name = offer.problem] {
                                  return std::make_unique<WalkedKernel>(*own, *p, tile, name);
                                }});
}

}  // namespace smelt::ops::conv
