// Matrix products on a GPU by kernels of smelt's own (src/kernels/gemm/gemm.cuh), generated for the types, the tile, the widths
// of the operands' copies and the epilogue; extents and strides are arguments.
#include <fmt/format.h>

#include "base/error.h"
#include "base/number.h"
#include "expr/cuda.h"
#include "ops/cuda/epilogue_width.h"
#include "ops/cuda/source.h"
#include "ops/matmul/cuda_configs.h"
#include "ops/matmul/cuda_offer.h"

namespace smelt::ops::matmul {
namespace {

using Unit = CudaConfig::Unit;
using Args = kernels::GemmArgs<void, void, void>;

std::string source_of(const CudaProblem& p, const CudaConfig& c) {
  const Views batches = p.batch_views();
  const CudaEpilogue epilogue = tile_epilogue(p, c);
  const uint32_t bits = by_column(epilogue);
  const KernelEntry gemm{"gemm", "Tile::threads",
                         fmt::format("BatchedGemmArgs<Tile::A, Tile::B, Tile::Sum, {}>", batches.extents.size()),
                         c.streams > 0  ? "gemm_streamed<Tile>"
                         : c.persistent ? fmt::format("gemm_persistent<Tile, {}u>", bits)
                                        : fmt::format("gemm_block<Tile, {}, {}u>", c.splits > 1, bits)};
  return fmt::format("#include \"gemm/gemm.cuh\"\n\nusing Tile = {};\nstatic_assert({} == {});\n\n", tile_type(p, c),
                     c.persistent ? "Tile::ring_bytes + Tile::exchange_bytes" : "Tile::shared_bytes",
                     c.shared_bytes(bytes(p.type, 1))) +
         epilogue.source(gemm, sizeof(Args) + WalkArgument(batches, 1).size());
}

/// All but the addresses.
Args arguments(const CudaProblem& p, const CudaConfig& c) {
  const int64_t steps = (p.k + c.tile_k - 1) / c.tile_k;
  Args args = p.gemm_args(c.tile_m, c.tile_n);
  args.a_zero_known = p.a_zero;
  args.split_k = static_cast<uint32_t>(c.streams > 0 ? c.tiles(p) - c.streamed : (steps + c.splits - 1) / c.splits * c.tile_k);
  return args;
}

class CudaProduct final : public CompiledKernel {
 public:
  CudaProduct(const CudaProblem& p, const CudaConfig& c, const Gpu& gpu)
      : CompiledKernel(gpu, {fmt::format("gemm:{}", c.print()), source_of(p, c), options_of(p)}, "gemm"),
        epilogue_(tile_epilogue(p, c)),
        blocks_(c.persistent ? std::min(c.tiles(p), c.blocks_at_once(bytes(p.type, 1), gpu.info) * gpu.info.multiprocessors)
                             : c.tiles(p) - c.streamed + c.streams),
        // A split that would begin beyond K is none.
        splits_(c.splits == 1 ? 1 : split_count(p, c)),
        shape_{.grid = {blocks_, splits_, 1},
               .block = {static_cast<unsigned>(c.threads()), 1, 1},
               .shared_bytes = c.shared_bytes(bytes(p.type, 1))},
        args_(arguments(p, c)),
        batches_(p.batch_views(), 1),
        zeros_(p.zeros),
        computed_a_zero_(p.computed_a_zero),
        computed_b_zero_(p.computed_b_zero),
        partial_bytes_((c.streams > 0  ? 2 * c.streams
                        : c.splits > 1 ? blocks_ * splits_
                                       : 0) *
                       c.tile_m * c.tile_n * 4) {
    if (c.streams > 0 && (c.splits > 1 || c.streams < c.streamed || c.streams > c.streamed * divide_up(p.k, c.tile_k)))
      fail("{} blocks cannot share {} tiles by steps of K", c.streams, c.streamed);
    if (const int64_t shared = c.streams > 0 ? c.streamed : c.splits > 1 ? blocks_ : 0; shared > 0)
      arrived_ = zeroed(gpu, shared * 4, "a product's split tiles");
    if (arrived_) args_.arrived = reinterpret_cast<uint32_t*>(arrived_->address());
  }

  int64_t workspace() const override { return partial_bytes_; }
  bool in_place(size_t i) const override { return i > 1 && epilogue_.in_place(i); }

  void run(const Buffers& b) override {
    if (blocks_ == 0) return;
    args_.a = b.inputs[0];
    args_.b = b.inputs[1];
    args_.partial = b.workspace;
    if ((zeros_ & kernels::zeros_of_b) && !computed_b_zero_) args_.b_zeros = static_cast<const int32_t*>(b.inputs[2]);
    if (computed_a_zero_) args_.a_zero = b.inputs[3];
    if (computed_b_zero_) args_.b_zero = b.inputs[4];
    Arguments arguments;
    arguments.value(args_).bytes(batches_.data(), batches_.size()).bytes(epilogue_.argument(b), epilogue_.bytes());
    launch(b, shape_, arguments);
  }

 private:
  static std::vector<std::string> options_of(const CudaProblem& p) {
    return p.fused_multiply_add ? std::vector<std::string>{} : std::vector<std::string>{"--fmad=false"};
  }
  static int64_t split_count(const CudaProblem& p, const CudaConfig& c) {
    const int64_t steps = (p.k + c.tile_k - 1) / c.tile_k, each = (steps + c.splits - 1) / c.splits;
    return (steps + each - 1) / each;
  }

  CudaEpilogue epilogue_;
  int64_t blocks_, splits_;
  device::cuda::LaunchShape shape_;
  Args args_;
  WalkArgument batches_;
  uint32_t zeros_;
  bool computed_a_zero_, computed_b_zero_;
  int64_t partial_bytes_;
  std::shared_ptr<device::cuda::Memory> arrived_;
};

}  // namespace

std::string tile_type(const CudaProblem& p, const CudaConfig& c) {
  const std::string tile = fmt::format("{}, {}, {}, {}, {}, {}", c.tile_m, c.tile_n, c.tile_k, c.warps_m, c.warps_n, c.stages);
  const auto copy = [](const CudaOperand& o) { return o.anywhere ? -o.vec : o.vec; };
  const std::string copies = fmt::format("{}, {}, {}, {}", p.a.k_major, copy(p.a), p.b.k_major, copy(p.b));
  if (c.unit == Unit::fma) return fmt::format("FloatTile<{}, {}, {}>", expr::cuda_type(p.type), tile, copies);
  const std::string types =
      c.unit == Unit::tf32 ? "tf32, tf32" : fmt::format("{}, {}", expr::cuda_type(p.type), expr::cuda_type(p.type_b));
  if (c.fed)
    return fmt::format("FedTile<{}, {}, {}, {}, {}, {}, {}, {}, {}>", expr::cuda_type(p.type), c.tile_m, c.tile_n, c.warps_m,
                       c.warps_n, c.stages, c.ring, p.a.k_major, p.b.k_major);
  if (c.ring > 0) return fmt::format("WovenTile<{}, {}, {}, {}>", types, tile, c.ring, copies);
  return fmt::format("TensorTile<{}, {}, {}, {}, {}>", types, tile, c.ahead, copies, p.zeros);
}

CudaEpilogue tile_epilogue(const CudaProblem& p, const CudaConfig& c) {
  constexpr int64_t wide = 8;
  const int64_t lanes = c.tile_n / c.warps_n / wide;  // of a row
  const bool whole = c.splits == 1 && c.streams == 0 && c.unit != Unit::fma && lanes > 0 && 32 % lanes == 0 &&
                     lanes * wide == c.tile_n / c.warps_n;
  return whole ? p.epilogue.widened(wide) : p.epilogue;
}

std::unique_ptr<Kernel> cuda_product(const CudaProblem& p, const CudaConfig& c, const Gpu& gpu) {
  if (c.fed) return fed_product(p, c, gpu);
  return std::make_unique<CudaProduct>(p, c, gpu);
}

void offer_cuda(const CudaProblem& p, const std::shared_ptr<const Gpu>& gpu, Offer& offer, const MakeProduct& make) {
  // The rest rank behind these by so much that they never won.
  constexpr size_t most_candidates = 20, most_streamed = 2;
  Result<std::vector<CudaConfig>> configs = product_configs(p, *gpu);
  if (!configs) return offer.refuse("cuda", configs.refusal());
  if (configs->size() > most_candidates) configs->resize(most_candidates);
  std::vector<CudaConfig> streamed = streamed_configs(p, *gpu);
  if (streamed.size() > most_streamed) streamed.resize(most_streamed);
  configs->insert(configs->end(), streamed.begin(), streamed.end());
  for (const CudaConfig& c : *configs)
    offer.candidates.push_back({"cuda", c.print(), cuda_estimate_us(p, c, *gpu), [make, c] { return make(c); }});
}

}  // namespace smelt::ops::matmul
