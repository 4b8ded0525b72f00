// Matrix products on a GPU by kernels of smelt's own (src/kernels/gemm/gemm.cuh), generated for the types, the tile, the widths
// of the operands' copies and the epilogue; extents and strides are arguments.
#include <fmt/format.h>

#include <cstring>

#include "base/error.h"
#include "expr/cuda.h"
#include "kernels/gemm/gemm.h"
#include "ops/cuda/source.h"
#include "ops/matmul/cuda_configs.h"
#include "ops/matmul/cuda_offer.h"

namespace smelt::ops::matmul {
namespace {

using Unit = CudaConfig::Unit;

Views batch_views(const CudaProblem& p) { return in_order(p.batch, {p.a.batch, p.b.batch}); }

std::string source_of(const CudaProblem& p, const CudaConfig& c) {
  const std::string args = fmt::format("BatchedGemmArgs<{}>", batch_views(p).extents.size());
  return "#include \"gemm/gemm.cuh\"\n" + p.epilogue.source() +
         fmt::format("\nusing Tile = {};\nstatic_assert(Tile::shared_bytes == {});\n", tile_type(p, c),
                     c.shared_bytes(bytes(p.type, 1))) +
         entry_source("gemm", "Tile::threads", {{args, "args"}, {"Epilogue", "epilogue"}},
                      fmt::format("gemm_block<Tile, {}>", c.splits > 1));
}

/// BatchedGemmArgs of the batches' rank.
class Args {
 public:
  Args(const CudaProblem& p, const CudaConfig& c) {
    const int64_t steps = (p.k + c.tile_k - 1) / c.tile_k;
    args_.a_row = p.a.outer;
    args_.a_k = p.a.k;
    args_.b_k = p.b.k;
    args_.b_column = p.b.outer;
    args_.m = static_cast<uint32_t>(p.m);
    args_.n = static_cast<uint32_t>(p.n);
    args_.k = static_cast<uint32_t>(p.k);
    args_.tiles_m = static_cast<uint32_t>((p.m + c.tile_m - 1) / c.tile_m);
    args_.tiles_n = static_cast<uint32_t>((p.n + c.tile_n - 1) / c.tile_n);
    args_.split_k = static_cast<uint32_t>((steps + c.splits - 1) / c.splits * c.tile_k);
    const WalkArgument batches(batch_views(p), 1);
    bytes_.resize(sizeof args_ + batches.size());
    std::memcpy(bytes_.data() + sizeof args_, batches.data(), batches.size());
  }
  /// With the addresses of a run; valid until the next call.
  const void* with(const Buffers& b, bool row_sums, device::cuda::abi::Address arrived) {
    args_.a = b.inputs[0];
    args_.b = b.inputs[1];
    args_.partial = b.workspace;
    args_.arrived = reinterpret_cast<uint32_t*>(arrived);
    args_.b_zeros = row_sums ? static_cast<const int32_t*>(b.inputs[2]) : nullptr;
    std::memcpy(bytes_.data(), &args_, sizeof args_);
    return bytes_.data();
  }
  size_t size() const { return bytes_.size(); }

 private:
  kernels::GemmArgs args_{};
  std::vector<std::byte> bytes_;
};

class CudaProduct final : public CompiledKernel {
 public:
  CudaProduct(const CudaProblem& p, const CudaConfig& c, const Gpu& gpu)
      : CompiledKernel(gpu, {fmt::format("gemm:{}", c.print()), source_of(p, c), options_of(p)}, "gemm"),
        epilogue_(p.epilogue),
        tiles_m_((p.m + c.tile_m - 1) / c.tile_m),
        tiles_n_((p.n + c.tile_n - 1) / c.tile_n),
        blocks_(tiles_m_ * tiles_n_ * p.batches()),
        // A split that would begin beyond K is none.
        splits_(c.splits == 1 ? 1 : split_count(p, c)),
        shape_{.grid = {static_cast<unsigned>(blocks_), static_cast<unsigned>(splits_), 1},
               .block = {static_cast<unsigned>(c.threads()), 1, 1},
               .shared_bytes = c.shared_bytes(bytes(p.type, 1))},
        args_(p, c),
        row_sums_(p.row_sums),
        partial_bytes_(c.splits == 1 ? 0 : blocks_ * splits_ * c.tile_m * c.tile_n * 4) {
    if (c.splits > 1) arrived_ = zeroed(gpu, blocks_ * 4, "a product's split tiles");
  }

  int64_t workspace() const override { return partial_bytes_; }
  bool in_place(size_t i) const override { return i > 1 && epilogue_.in_place(i); }

  void run(const Buffers& b) override {
    if (blocks_ == 0) return;
    Arguments arguments;
    arguments.bytes(args_.with(b, row_sums_, arrived_ ? arrived_->address() : 0), args_.size());
    arguments.bytes(epilogue_.argument(b), epilogue_.bytes());
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
  int64_t tiles_m_, tiles_n_, blocks_, splits_;
  device::cuda::LaunchShape shape_;
  Args args_;
  bool row_sums_;
  int64_t partial_bytes_;
  std::shared_ptr<device::cuda::Memory> arrived_;
};

}  // namespace

std::string tile_type(const CudaProblem& p, const CudaConfig& c) {
  const std::string tile = fmt::format("{}, {}, {}, {}, {}, {}", c.tile_m, c.tile_n, c.tile_k, c.warps_m, c.warps_n, c.stages);
  const std::string copies = fmt::format("{}, {}, {}, {}", p.a.k_major, p.a.vec, p.b.k_major, p.b.vec);
  if (c.unit == Unit::fma) return fmt::format("FloatTile<{}, {}, {}>", expr::cuda_type(p.type), tile, copies);
  const std::string types =
      c.unit == Unit::tf32 ? "tf32, tf32" : fmt::format("{}, {}", expr::cuda_type(p.type), expr::cuda_type(p.type_b));
  return fmt::format("TensorTile<{}, {}, {}, {}, {}>", types, tile, c.ahead, copies, p.row_sums);
}

std::unique_ptr<Kernel> cuda_product(const CudaProblem& p, const CudaConfig& c, const Gpu& gpu) {
  return std::make_unique<CudaProduct>(p, c, gpu);
}

void offer_cuda(const CudaProblem& p, const std::shared_ptr<const Gpu>& gpu, Offer& offer, const MakeProduct& make) {
  // The rest rank behind these by so much that they never won.
  constexpr size_t most_candidates = 16;
  Result<std::vector<CudaConfig>> configs = cuda_configs(p, *gpu);
  if (!configs) return offer.refuse("cuda", configs.refusal());
  if (configs->size() > most_candidates) configs->resize(most_candidates);
  for (const CudaConfig& c : *configs)
    offer.candidates.push_back({"cuda", c.print(), cuda_estimate_us(p, c, *gpu), [make, c] { return make(c); }});
}

}  // namespace smelt::ops::matmul
