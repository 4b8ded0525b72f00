// Matrix products of doubles and of integers of 32 and 64 bits on a GPU (src/kernels/gemm/wide.cuh).
#include <fmt/format.h>

#include "expr/cuda.h"
#include "ops/cuda/source.h"
#include "ops/matmul/cuda_offer.h"

namespace smelt::ops::matmul {
namespace {

using Args = kernels::GemmArgs<void, void, void>;

constexpr int64_t tile = 64;
constexpr unsigned threads = 256;

int64_t tiles(int64_t extent) { return (extent + tile - 1) / tile; }

std::string source_of(const CudaProblem& p) {
  const Views batches = p.batch_views();
  const std::string_view type = expr::cuda_type(p.type);
  const KernelEntry entry{"wide", "wide_threads",
                          fmt::format("BatchedGemmArgs<{0}, {0}, {0}, {1}>", type, batches.extents.size()),
                          fmt::format("wide_block<{}, {}>", p.a.k_major, p.b.k_major)};
  return "#include \"gemm/wide.cuh\"\n\n" + p.epilogue.source(entry, sizeof(Args) + WalkArgument(batches, 1).size());
}

class WideCuda final : public CompiledKernel {
 public:
  WideCuda(const CudaProblem& p, const Gpu& gpu)
      : CompiledKernel(gpu, {fmt::format("gemm:wide {}", name(p.type)), source_of(p), {}}, "wide"),
        epilogue_(p.epilogue),
        batches_(p.batch_views(), 1),
        args_(p.gemm_args(tile, tile)),
        blocks_(tiles(p.m) * tiles(p.n) * p.batches()) {}

  bool in_place(size_t i) const override { return i > 1 && epilogue_.in_place(i); }

  void run(const Buffers& b) override {
    if (blocks_ == 0) return;
    args_.a = b.inputs[0];
    args_.b = b.inputs[1];
    Arguments arguments;
    arguments.value(args_).bytes(batches_.data(), batches_.size()).bytes(epilogue_.argument(b), epilogue_.bytes());
    launch(b, {.grid = {blocks_}, .block = {threads, 1, 1}}, arguments);
  }

 private:
  CudaEpilogue epilogue_;
  WalkArgument batches_;
  Args args_;
  int64_t blocks_;
};

}  // namespace

void offer_wide_cuda(const CudaProblem& p, const std::shared_ptr<const Gpu>& gpu, Offer& offer) {
  if (const int64_t blocks = tiles(p.m) * tiles(p.n) * p.batches(); blocks >= int64_t{1} << 31)
    return offer.refuse("cuda", Reason::too_large, "{} tiles; it counts to 2^31", blocks);
  constexpr double slower = 32;  // than f16 on tensor cores, by the peaks of an H100: of doubles without tensor cores
  offer.candidates.push_back({"cuda", "wide", gpu_estimate_us(*gpu, p.moved_bytes(), slower * p.flops()),
                              [p, gpu] { return std::make_unique<WideCuda>(p, *gpu); }});
}

}  // namespace smelt::ops::matmul
