// Matrix products by tensor maps and wgmma on Hopper, generated for the type, the tile and the epilogue.
#include "ops/matmul/cuda_hopper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <tuple>

#include "base/error.h"
#include "device/cuda/early_kernels.h"
#include "kernels/gemm/hopper.h"
#include "kernels/gemm/raster.h"
#include "ops/cuda/dependent_launch.h"
#include "ops/cuda/planned.h"
#include "ops/cuda/source.h"
#include "ops/matmul/cuda_offer.h"

namespace smelt::ops::matmul {
namespace {

namespace abi = device::cuda::abi;
using Args = kernels::HopperGemmArgs;

constexpr int64_t most_blocks = (int64_t{1} << 31) - 1;
constexpr int64_t raster_rows = kernels::raster_rows;

/// The matrices of a batched operand as one more axis of a tensor map: `step` elements from one to the next, of which the batch's
/// axes take whole multiples (0 where they repeat).
struct Matrices {
  int64_t step = 0, count = 1;
  Shape batch;  // in steps
};
Matrices matrices(const CudaOperand& o, const Shape& batch) {
  Matrices r{0, 1, o.batch};
  for (size_t d = 0; d < batch.size(); ++d)
    if (batch[d] != 1) r.step = std::gcd(r.step, o.batch[d]);
  for (size_t d = 0; d < batch.size(); ++d) {
    r.batch[d] = batch[d] == 1 || r.step == 0 ? 0 : o.batch[d] / r.step;
    r.count += (batch[d] - 1) * r.batch[d];
  }
  return r;
}

Views matrix_views(const CudaProblem& p) {
  return in_order(p.batch, {matrices(p.a, p.batch).batch, matrices(p.b, p.batch).batch});
}

/// All of a tensor map but the address.
class OperandMap {
 public:
  /// `box`: of the tile's extent along M or N; a part of it where `sharing` blocks each bring theirs.
  OperandMap(const CudaOperand& o, const Shape& batch, DType type, int64_t extent, int64_t k, int64_t box, int64_t sharing)
      : type_(type == DType::f16 ? abi::tensor_map_f16 : abi::tensor_map_bf16) {
    constexpr int64_t line = 64, element = 2;
    const Matrices all = matrices(o, batch);
    const int64_t inner = o.k_major ? k : extent, lines = o.k_major ? extent : k, step = o.k_major ? o.outer : o.k;
    const auto whole = [](int64_t n) { return static_cast<uint64_t>((n + 7) / 8 * 8 * element); };
    extents_[0] = static_cast<uint64_t>(inner), extents_[1] = static_cast<uint64_t>(lines);
    extents_[2] = static_cast<uint64_t>(all.count);
    // The step of an axis of extent 1 is never taken, but must be one.
    steps_[0] = lines == 1 ? whole(inner) : static_cast<uint64_t>(step * element);
    steps_[1] = all.count == 1 ? whole(inner) : static_cast<uint64_t>(all.step * element);
    box_[0] = line, box_[1] = static_cast<uint32_t>((o.k_major ? box : line) / sharing), box_[2] = 1;
  }
  void encode(kernels::TensorMap& map, const void* address) const {
    constexpr uint32_t ones[] = {1, 1, 1};
    abi::TensorMap made;
    device::cuda::check(
        device::cuda::driver().tensor_map_tiled(&made, type_, 3, const_cast<void*>(address), extents_, steps_, box_, ones,
                                                abi::tensor_map_no_interleave, abi::tensor_map_swizzle_128,
                                                abi::tensor_map_promote_256, abi::tensor_map_fill_zeros),
        "describing a product's operand");
    static_assert(sizeof map == sizeof made);
    std::memcpy(&map, &made, sizeof map);
  }

 private:
  abi::TensorMapType type_;
  uint64_t extents_[3] = {}, steps_[2] = {};
  uint32_t box_[3] = {};
};

using Finishing = kernels::HopperFinishing;

/// Elements from line to line of a transposed b.
int64_t transposed_pitch(const CudaProblem& p) { return (p.k + 7) / 8 * 8; }

/// b as the kernel reads it.
CudaOperand b_of(const CudaProblem& p, const HopperConfig& c) {
  CudaOperand b = p.b;
  if (c.transposed) b.k_major = true, b.k = 1, b.outer = transposed_pitch(p);
  return b;
}

/// [K, N] of 16 bits as [N, pitch].
Tensor transpose(const Tensor& w, int64_t k, int64_t n, int64_t pitch) {
  constexpr int64_t block = 32;  // whose lines of both lie in the cache
  Tensor t = Tensor::zeros(w.type(), {n, pitch});
  const auto* from = static_cast<const uint16_t*>(w.raw());
  auto* to = static_cast<uint16_t*>(t.raw());
  for (int64_t i = 0; i < k; i += block)
    for (int64_t j = 0; j < n; j += block)
      for (int64_t c = j; c < std::min(n, j + block); ++c)
        for (int64_t r = i; r < std::min(k, i + block); ++r) to[c * pitch + r] = from[r * n + c];
  return t;
}

/// As the configuration's kernel applies it: 8 columns at a time where it can.
CudaEpilogue epilogue_of(const CudaProblem& p, const HopperConfig& c) {
  switch (c.finishing) {
    case Finishing::in_registers: return p.epilogue.at_width(8);
    case Finishing::split_by_cluster: return p.epilogue.widened(8);
    case Finishing::by_fours:
    case Finishing::split_by_memory: break;
  }
  return p.epilogue;
}

std::string finishing_source(Finishing f) {
  switch (f) {
    case Finishing::in_registers: return "HopperFinishing::in_registers";
    case Finishing::split_by_cluster: return "HopperFinishing::split_by_cluster";
    case Finishing::split_by_memory: return "HopperFinishing::split_by_memory";
    case Finishing::by_fours: break;
  }
  return "HopperFinishing::by_fours";
}

/// HopperStaging<…>.
std::string staging_source(const CudaEpilogue& e, const HopperConfig& c) {
  using Kind = kernels::HopperOperandKind;
  std::string text = fmt::format("HopperStaging<{}", c.buffers);
  if (c.finishing == Finishing::in_registers)
    for (const Kind k : hopper_operand_kinds(e))
      text += fmt::format(", HopperOperandKind::{}", k == Kind::each     ? "each"
                                                     : k == Kind::staged ? "staged"
                                                     : k == Kind::up     ? "up"
                                                                         : "by_column");
  return text + ">";
}

std::string source_of(const CudaProblem& p, const HopperConfig& c) {
  const WalkArgument batches(matrix_views(p), 1);
  const CudaEpilogue epilogue = epilogue_of(p, c);
  const KernelEntry gemm{"gemm", fmt::format("Tile::block_threads, {}", c.blocks),
                         fmt::format("BatchedHopperArgs<{}>", matrix_views(p).extents.size()), "hopper_block<Tile, Plan>"};
  return std::string(waits_itself) +
         fmt::format("#include \"gemm/hopper.cuh\"\n\nusing Tile = {};\nusing Plan = HopperPlan<{}, {}, {}, {}>;\n\n",
                     hopper_tile_type(p, c), finishing_source(c.finishing), c.cluster() ? c.splits : 1, c.persistent,
                     staging_source(epilogue, c)) +
         epilogue.source(gemm, (sizeof(Args) + batches.size() + alignof(Args) - 1) / alignof(Args) * alignof(Args),
                         alignof(Args)) +
         fmt::format("static_assert(hopper_shared_bytes<Tile, Plan, Epilogue>() == {});\n", c.shared_bytes(p));
}

class HopperProduct final : public CompiledKernel {
 public:
  HopperProduct(const CudaProblem& p, const HopperConfig& c, const Gpu& gpu)
      : CompiledKernel(gpu, {fmt::format("gemm:{}", c.print()), source_of(p, c), {}}, "gemm"),
        device_(gpu.device),
        epilogue_(epilogue_of(p, c)),
        a_(p.a, p.batch, p.type, p.m, p.k, c.tile_m, c.across),
        b_(b_of(p, c), p.batch, p.type, p.n, p.k, c.tile_n, c.down),
        batches_(matrix_views(p), 1) {
    const int64_t tiles_m = c.tiles_m(p), tiles_n = c.tiles_n(p);
    const int64_t steps = (p.k + c.tile_k - 1) / c.tile_k, each = (steps + c.splits - 1) / c.splits;
    const int64_t splits = c.cluster() ? c.splits : (steps + each - 1) / each;  // one that would begin beyond K is none
    tiles_ = tiles_m * tiles_n * p.batches();
    const int64_t cluster = c.cluster_blocks(), resident = c.resident(gpu.info.multiprocessors) / cluster;
    const int64_t blocks = cluster * (c.persistent ? std::min(tiles_, resident) : tiles_);
    shape_ = {.grid = {blocks, c.cluster() ? 1 : splits},
              .block = {static_cast<unsigned>(c.threads()), 1, 1},
              .shared_bytes = c.shared_bytes(p),
              .cluster = static_cast<unsigned>(cluster)};
    // Blocks that begin while others run lie where there is room: no two of a small grid shall share a multiprocessor.
    if (p.constant_b)
      early_shared_bytes_ =
          blocks * shape_.grid[1] > gpu.info.multiprocessors
              ? shape_.shared_bytes
              : std::max<int64_t>(shape_.shared_bytes,
                                  std::min<int64_t>(gpu.info.shared_per_block, gpu.info.shared_per_multiprocessor / 2));
    args_.m = static_cast<uint32_t>(p.m), args_.n = static_cast<uint32_t>(p.n), args_.k = static_cast<uint32_t>(p.k);
    if (tiles_ > most_blocks || raster_rows * tiles_n > most_blocks) fail("{} tiles, {} are counted", tiles_, most_blocks);
    args_.tiles_m = static_cast<uint32_t>(tiles_m);
    args_.tiles = static_cast<uint32_t>(tiles_);
    const auto divider = [](int64_t n) { return Divider(static_cast<uint32_t>(std::max<int64_t>(1, n))); };
    args_.tiles_of_batch = divider(tiles_m * tiles_n), args_.tiles_of_raster = divider(raster_rows * tiles_n);
    args_.split_k = static_cast<uint32_t>(each * c.tile_k);
    if (c.transposed && gpu.device)
      weights_ = gpu.weights->packed(gpu.device, p.weights, "gemm:transposed",
                                     [&p] { return transpose(p.weights, p.k, p.n, transposed_pitch(p)); });
    reads_b_ = !c.transposed;
    if (c.finishing != Finishing::split_by_memory) return;
    partial_bytes_ = tiles_ * splits * c.tile_m * c.tile_n * 4;
    arrived_ = zeroed(gpu, tiles_ * 4, "a product's split tiles");
    if (arrived_) args_.arrived = reinterpret_cast<uint32_t*>(arrived_->address());
  }

  int64_t workspace() const override { return partial_bytes_; }
  bool in_place(size_t i) const override { return i > 1 && epilogue_.in_place(i); }
  bool reads(size_t i) const override { return i != 1 || reads_b_; }

  void run(const Buffers& b) override {
    if (tiles_ == 0) return;
    if (!PlannedLaunches::current()) encode(b);
    const bool ahead = early_shared_bytes_ > 0 && device::cuda::EarlyKernels::in_scope() && !PlannedLaunches::current();
    args_.b_ahead = ahead ? 1 : 0;
    args_.partial = b.workspace;
    Arguments arguments;
    arguments.value(args_).bytes(batches_.data(), batches_.size());
    arguments.bytes(epilogue_.argument(b), epilogue_.bytes(), alignof(Args));  // BatchedHopperArgs is padded to its alignment
    device::cuda::LaunchShape shape = shape_;
    if (ahead) shape.shared_bytes = early_shared_bytes_;
    launch(b, shape, arguments);
    if (ahead) device::cuda::EarlyKernels::note_ahead(static_cast<device::cuda::abi::Stream>(b.stream));
  }

 private:
  /// Tensor maps hold addresses: they are made for the buffers of this run, or recording. The driver looks the addresses up in the
  /// current context.
  void encode(const Buffers& b) {
    if (!device_) fail("a kernel that was compiled for another machine cannot run");
    const device::cuda::Device::Current current(*device_);
    a_.encode(args_.a, b.inputs[0]);
    b_.encode(args_.b, weights_ ? reinterpret_cast<const void*>(weights_->address()) : b.inputs[1]);
  }

  std::shared_ptr<device::cuda::Device> device_;
  CudaEpilogue epilogue_;
  OperandMap a_, b_;
  WalkArgument batches_;
  int64_t tiles_ = 0, partial_bytes_ = 0;
  device::cuda::LaunchShape shape_;
  int64_t early_shared_bytes_ = 0;  // where it begins while the kernel before it runs; 0: it has nothing to do then
  Args args_{};
  std::shared_ptr<device::cuda::Memory> arrived_, weights_;  // weights_: b transposed
  bool reads_b_ = true;
};

}  // namespace

std::unique_ptr<Kernel> hopper_product(const CudaProblem& p, const HopperConfig& c, const Gpu& gpu) {
  return std::make_unique<HopperProduct>(p, c, gpu);
}

void offer_hopper(const CudaProblem& p, const std::shared_ptr<const Gpu>& gpu, Offer& offer) {
  constexpr size_t most_candidates = 20;
  Result<std::vector<HopperConfig>> configs = hopper_configs(p, *gpu);
  if (!configs) return offer.refuse("hopper", configs.refusal());
  // Of one tile few ways to share operands, so that several tiles are tried.
  constexpr int64_t most_of_a_tile = 3;
  std::map<std::tuple<int64_t, int64_t, int64_t, bool, bool, bool, int64_t>, int64_t> of_tile;
  size_t count = 0;
  for (const HopperConfig& c : *configs) {
    if (count == most_candidates) break;
    if (++of_tile[{c.tile_m, c.tile_n, c.groups, c.swap, c.alternate, c.transposed, c.splits}] > most_of_a_tile) continue;
    ++count;
    offer.candidates.push_back(
        {"hopper", c.print(), hopper_estimate_us(p, c, *gpu), [p, c, gpu] { return hopper_product(p, c, *gpu); }});
  }
}

}  // namespace smelt::ops::matmul
