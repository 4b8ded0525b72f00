// Matrix products by tensor maps and wgmma on Hopper, generated for the type, the tile and the epilogue.
#include "ops/matmul/cuda_hopper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "kernels/gemm/hopper.h"
#include "ops/matmul/cuda_hopper_kernel.h"
#include "ops/matmul/cuda_offer.h"

namespace smelt::ops::matmul {
namespace {

/// Elements from line to line of a transposed b.
int64_t transposed_pitch(const CudaProblem& p) {
  const int64_t vector = 16 / bytes(p.type, 1);
  return (p.k + vector - 1) / vector * vector;
}

/// b as the kernel reads it.
CudaOperand b_of(const CudaProblem& p, const HopperConfig& c) {
  CudaOperand b = p.b;
  if (c.transposed) b.k_major = true, b.k = 1, b.outer = transposed_pitch(p);
  return b;
}

/// [K, N] as lines of `pitch`, each a column.
template <class T> Tensor transpose(const CudaProblem& p, const HopperConfig& c, int64_t pitch) {
  constexpr int64_t block = 32;  // whose lines of both lie in the cache
  const int64_t lines = c.b_lines(p.n);
  Tensor t = Tensor::zeros(p.weights.type(), {lines, pitch});
  const auto* from = static_cast<const T*>(p.weights.raw());
  auto* to = static_cast<T*>(t.raw());
  for (int64_t i = 0; i < p.k; i += block)
    for (int64_t j = 0; j < lines; j += block)
      for (int64_t l = j; l < std::min(lines, j + block); ++l) {
        const int64_t column = c.column_of(l);
        for (int64_t r = i; r < std::min(p.k, i + block) && column < p.n; ++r) to[l * pitch + r] = from[r * p.n + column];
      }
  return t;
}

/// [K, N] of 16 bits as stages of `tile_n` columns by 64 steps of K, those of the same steps of `tiles` tiles side by side, as a
/// tensor map would bring them (kernels/gemm/hopper_operand.cuh): chunks of 64 columns, a line a step of K, its vectors swizzled.
Tensor pack_stages(const Tensor& w, int64_t k, int64_t n, int64_t tile_n, int64_t tiles) {
  constexpr int64_t line = 64, vector = 8, steps = HopperConfig::tile_k;
  const int64_t stages = (k + steps - 1) / steps, chunks = (tile_n + line - 1) / line;
  Tensor t = Tensor::zeros(w.type(), {stages, tiles, chunks, steps, line});
  const auto* from = static_cast<const uint16_t*>(w.raw());
  auto* to = static_cast<uint16_t*>(t.raw());
  for (int64_t r = 0; r < k; ++r)
    for (int64_t c = 0; c < n; c += vector) {
      const int64_t of_tile = c % tile_n, chunk = of_tile / line, place = (of_tile % line / vector) ^ (r % 8);
      const int64_t at = (((r / steps * tiles + c / tile_n) * chunks + chunk) * steps + r % steps) * line + place * vector;
      std::memcpy(to + at, from + r * n + c, static_cast<size_t>(std::min(vector, n - c)) * sizeof(uint16_t));
    }
  return t;
}

class HopperProduct final : public HopperKernel {
 public:
  HopperProduct(const CudaProblem& p, const HopperConfig& c, const Gpu& gpu, const WalkArgument& batches)
      : HopperKernel(
            p, c, gpu,
            {"gemm", "gemm/hopper.cuh", fmt::format("BatchedHopperArgs<{}>", matrix_views(p).extents.size()), batches.size(),
             p.fused_multiply_add ? std::vector<std::string>{} : std::vector<std::string>{"--fmad=false"}}),
        a_(p.a, p.batch, p.type, p.m, p.k, c.tile_m, c.across),
        b_(b_of(p, c), p.batch, p.type, c.b_lines(p.n), p.k, c.tile_n, c.down),
        batches_(batches) {
    if (c.transposed && gpu.device)
      weights_ = gpu.weights->packed(gpu.device, p.weights,
                                     c.width > 0 ? fmt::format("gemm:transposed for {}", c.width) : "gemm:transposed", [&p, &c] {
                                       const int64_t pitch = transposed_pitch(p), size = bytes(p.type, 1);
                                       return size == 1   ? transpose<uint8_t>(p, c, pitch)
                                              : size == 2 ? transpose<uint16_t>(p, c, pitch)
                                                          : transpose<uint32_t>(p, c, pitch);
                                     });
    const int64_t tiles = c.tiles_n(p) * c.across;
    if (c.packed && gpu.device)
      weights_ = gpu.weights->packed(gpu.device, p.weights, fmt::format("gemm:{} stages of {}", tiles, c.tile_n),
                                     [&] { return pack_stages(p.weights, p.k, p.n, c.tile_n, tiles); });
    packed_tiles_ = c.packed ? static_cast<uint64_t>(tiles) : 0;
    reads_b_ = !c.transposed && !c.packed;
  }

  bool in_place(size_t i) const override { return i > 1 && epilogue().in_place(i); }
  bool reads(size_t i) const override { return i != 1 || reads_b_; }

 private:
  void encode(kernels::HopperGemmArgs& args, const Buffers& b) override {
    a_.encode(args.a, b.inputs[0]);
    if (packed_tiles_ > 0)
      args.b = {{weights_->address(), packed_tiles_}};
    else
      b_.encode(args.b, weights_ ? reinterpret_cast<const void*>(weights_->address()) : b.inputs[1]);
  }
  void append(Arguments& arguments) const override { arguments.bytes(batches_.data(), batches_.size()); }

  OperandMap a_, b_;
  WalkArgument batches_;
  uint64_t packed_tiles_ = 0;                      // of columns of b; 0: b is not packed
  std::shared_ptr<device::cuda::Memory> weights_;  // b transposed or packed
  bool reads_b_ = true;
};

}  // namespace

std::unique_ptr<Kernel> hopper_product(const CudaProblem& p, const HopperConfig& c, const Gpu& gpu) {
  return std::make_unique<HopperProduct>(p, c, gpu, WalkArgument(matrix_views(p), 1));
}

std::vector<HopperConfig> hopper_offered(const std::vector<HopperConfig>& configs, size_t most) {
  constexpr int64_t most_of_a_tile = 3;
  std::map<std::tuple<int64_t, int64_t, int64_t, bool, bool, bool, bool, bool, int64_t>, int64_t> of_tile;
  std::vector<HopperConfig> offered;
  for (const HopperConfig& c : configs) {
    if (offered.size() == most) break;
    if (++of_tile[{c.tile_m, c.tile_n, c.groups, c.swap, c.alternate, c.transposed, c.packed, c.lines > 0,
                   c.shares ? -c.splits : c.splits}] > most_of_a_tile)
      continue;
    offered.push_back(c);
  }
  return offered;
}

void offer_hopper(const CudaProblem& p, const std::shared_ptr<const Gpu>& gpu, Offer& offer, const MakeHopperProduct& make) {
  constexpr size_t most_candidates = 20;
  const Result<std::vector<HopperConfig>> configs = hopper_configs(p, *gpu);
  if (!configs) return offer.refuse("hopper", configs.refusal());
  for (const HopperConfig& c : hopper_offered(*configs, most_candidates))
    offer.candidates.push_back({"hopper", c.print(), hopper_estimate_us(p, c, *gpu), [make, c] { return make(c); }});
}

void offer_hopper(const CudaProblem& p, const std::shared_ptr<const Gpu>& gpu, Offer& offer) {
  offer_hopper(p, gpu, offer, [p, gpu](const HopperConfig& c) { return hopper_product(p, c, *gpu); });
}

}  // namespace smelt::ops::matmul
