// Matrix products by mma.sync whose stages tensor maps bring (src/kernels/gemm/fed.cuh), generated for the type, the tile and the
// epilogue.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "kernels/gemm/raster.h"
#include "ops/cuda/dependent_launch.h"
#include "ops/cuda/epilogue_width.h"
#include "ops/cuda/planned.h"
#include "ops/cuda/source.h"
#include "ops/matmul/cuda_hopper_kernel.h"
#include "ops/matmul/cuda_offer.h"

namespace smelt::ops::matmul {
namespace {

using Args = kernels::HopperGemmArgs;

std::string source_of(const CudaProblem& p, const CudaConfig& c, size_t batches) {
  const CudaEpilogue epilogue = tile_epilogue(p, c);
  const KernelEntry entry{"gemm", "Tile::threads", fmt::format("BatchedHopperArgs<{}>", matrix_views(p).extents.size()),
                          fmt::format("fed_block<Tile, {}, {}u>", c.persistent, by_column(epilogue))};
  return std::string(waits_itself) +
         fmt::format("#include \"gemm/fed.cuh\"\n\nusing Tile = {};\nstatic_assert(fed_shared_bytes<Tile, {}>() == {});\n\n",
                     tile_type(p, c), c.persistent, c.shared_bytes(bytes(p.type, 1))) +
         epilogue.source(entry, (sizeof(Args) + batches + alignof(Args) - 1) / alignof(Args) * alignof(Args), alignof(Args));
}

class FedProduct final : public CompiledKernel {
 public:
  FedProduct(const CudaProblem& p, const CudaConfig& c, const Gpu& gpu, const WalkArgument& batches)
      : CompiledKernel(gpu, {fmt::format("gemm:{}", c.print()), source_of(p, c, batches.size()), {}}, "gemm"),
        epilogue_(tile_epilogue(p, c)),
        device_(gpu.device),
        a_(p.a, p.batch, p.type, p.m, p.k, c.tile_m, 1),
        b_(p.b, p.batch, p.type, p.n, p.k, c.tile_n, 1),
        batches_(batches) {
    constexpr int64_t most = (int64_t{1} << 31) - 1;
    const int64_t tiles = c.tiles(p), tiles_m = (p.m + c.tile_m - 1) / c.tile_m, tiles_n = (p.n + c.tile_n - 1) / c.tile_n;
    if (tiles > most || kernels::raster_rows * tiles_n > most) fail("{} tiles, {} are counted", tiles, most);
    const int64_t at_once = c.blocks_at_once(bytes(p.type, 1), gpu.info) * std::max(1, gpu.info.multiprocessors);
    shape_ = {.grid = {c.persistent ? std::min(tiles, at_once) : tiles, 1, 1},
              .block = {static_cast<unsigned>(c.threads()), 1, 1},
              .shared_bytes = c.shared_bytes(bytes(p.type, 1))};
    const auto divider = [](int64_t n) { return Divider(static_cast<uint32_t>(std::max<int64_t>(1, n))); };
    args_.m = static_cast<uint32_t>(p.m), args_.n = static_cast<uint32_t>(p.n), args_.k = static_cast<uint32_t>(p.k);
    args_.tiles_m = static_cast<uint32_t>(tiles_m), args_.tiles = static_cast<uint32_t>(tiles);
    args_.tiles_of_batch = divider(tiles_m * tiles_n), args_.tiles_of_raster = divider(kernels::raster_rows * tiles_n);
  }

  bool in_place(size_t i) const override { return i > 1 && epilogue_.in_place(i); }

  void run(const Buffers& b) override {
    if (args_.tiles == 0) return;
    if (!PlannedLaunches::current()) {
      if (!device_) fail("a kernel that was compiled for another machine cannot run");
      const device::cuda::Device::Current current(*device_);
      a_.encode(args_.a, b.inputs[0]), b_.encode(args_.b, b.inputs[1]);
    }
    Arguments arguments;
    arguments.value(args_).bytes(batches_.data(), batches_.size());
    arguments.bytes(epilogue_.argument(b), epilogue_.bytes(), alignof(Args));
    launch(b, shape_, arguments);
  }

 private:
  CudaEpilogue epilogue_;
  std::shared_ptr<device::cuda::Device> device_;
  OperandMap a_, b_;
  WalkArgument batches_;
  device::cuda::LaunchShape shape_;
  Args args_{};
};

}  // namespace

std::unique_ptr<Kernel> fed_product(const CudaProblem& p, const CudaConfig& c, const Gpu& gpu) {
  return std::make_unique<FedProduct>(p, c, gpu, WalkArgument(matrix_views(p), 1));
}

}  // namespace smelt::ops::matmul
