#include "ops/matmul/cuda_hopper_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/value_of.h"
#include "device/cuda/abi/swizzles.h"
#include "device/cuda/early_kernels.h"
#include "kernels/gemm/raster.h"
#include "ops/cuda/dependent_launch.h"
#include "ops/cuda/planned.h"
#include "ops/cuda/source.h"

namespace smelt::ops::matmul {
namespace {

namespace abi = device::cuda::abi;
using Args = kernels::HopperGemmArgs;
using Finishing = kernels::HopperFinishing;

constexpr auto no_swizzle = abi::TensorMapSwizzle{};
constexpr int64_t most_blocks = (int64_t{1} << 31) - 1;
constexpr int64_t raster_rows = kernels::raster_rows;

/// As the configuration's kernel applies it: 8 columns at a time where it can.
CudaEpilogue epilogue_of(const CudaProblem& p, const HopperConfig& c) {
  switch (c.finishing) {
    case Finishing::in_registers: return p.epilogue.at_width(c.paired ? 16 : 8);
    case Finishing::side_by_side: return p.epilogue.at_width(c.width);
    case Finishing::split_by_cluster: return p.epilogue.widened(8);
    case Finishing::by_fours:
    case Finishing::split_by_memory: break;
  }
  return p.epilogue;
}

std::string finishing_source(Finishing f) {
  switch (f) {
    case Finishing::in_registers: return "HopperFinishing::in_registers";
    case Finishing::side_by_side: return "HopperFinishing::side_by_side";
    case Finishing::split_by_cluster: return "HopperFinishing::split_by_cluster";
    case Finishing::split_by_memory: return "HopperFinishing::split_by_memory";
    case Finishing::by_fours: break;
  }
  return "HopperFinishing::by_fours";
}

/// HopperStaging<…>.
std::string staging_source(const CudaEpilogue& e, const HopperConfig& c) {
  using Kind = kernels::HopperOperandKind;
  // As epilogue_of has it: 8 columns are an access where they make all of y's, else 4.
  const int64_t width = c.width > 0 ? c.width : c.paired ? 16 : e.columns() % 8 == 0 ? 8 : 4;
  std::string text = fmt::format("HopperStaging<{}, {}, {}", c.buffers, c.mapped, e.columns() % width == 0);
  if (c.finishing == Finishing::in_registers || c.finishing == Finishing::side_by_side)
    for (const Kind k : hopper_operand_kinds(e, c.width > 0 || c.paired ? width : 8))
      text += fmt::format(", HopperOperandKind::{}", k == Kind::each     ? "each"
                                                     : k == Kind::staged ? "staged"
                                                     : k == Kind::up     ? "up"
                                                                         : "by_column");
  return text + ">";
}

std::string source_of(const CudaProblem& p, const HopperConfig& c, const HopperEntry& e) {
  const CudaEpilogue epilogue = epilogue_of(p, c);
  const KernelEntry entry{e.name, fmt::format("Tile::block_threads, {}", c.blocks), e.arguments,
                          c.lines > 0 ? "sliding_block<Tile, Plan>" : "hopper_block<Tile, Plan>"};
  return std::string(waits_itself) +
         fmt::format("#include \"{}\"\n\nusing Tile = {};\nusing Plan = HopperPlan<{}, {}, {}, {}>;\n\n", e.header,
                     hopper_tile_type(p, c), finishing_source(c.finishing), c.cluster() ? c.splits : 1, c.persistent,
                     staging_source(epilogue, c)) +
         epilogue.source(entry, (sizeof(Args) + e.bytes + alignof(Args) - 1) / alignof(Args) * alignof(Args), alignof(Args)) +
         fmt::format("static_assert(hopper_shared_bytes<Tile, Plan, Epilogue>() == {});\n", c.shared_bytes(p));
}

}  // namespace

OperandMatrices::OperandMatrices(const CudaOperand& o, const Shape& extents) : batch(o.batch) {
  for (size_t d = 0; d < extents.size(); ++d)
    if (extents[d] != 1) step = std::gcd(step, o.batch[d]);
  for (size_t d = 0; d < extents.size(); ++d) {
    batch[d] = extents[d] == 1 || step == 0 ? 0 : o.batch[d] / step;
    count += (extents[d] - 1) * batch[d];
  }
}

Views matrix_views(const CudaProblem& p) {
  return in_order(p.batch, {OperandMatrices(p.a, p.batch).batch, OperandMatrices(p.b, p.batch).batch});
}

abi::TensorMapType tensor_map_type(DType type) {
  return type == DType::f16    ? abi::tensor_map_f16
         : type == DType::bf16 ? abi::tensor_map_bf16
         : type == DType::f32  ? abi::tensor_map_tf32
                               : abi::tensor_map_u8;
}

abi::TensorMapSwizzle tensor_map_swizzle(int64_t line_bytes) {
  return line_bytes == 64 ? abi::tensor_map_swizzle_64 : abi::tensor_map_swizzle_128;
}

OperandMap::OperandMap(const CudaOperand& o, const Shape& batch, DType type, int64_t extent, int64_t k, int64_t box,
                       int64_t sharing, int64_t line_bytes)
    : type_(tensor_map_type(type)), swizzle_(tensor_map_swizzle(line_bytes)) {
  const int64_t element = bytes(type, 1), line = line_bytes / element;
  const OperandMatrices all(o, batch);
  const int64_t inner = o.k_major ? k : extent, lines = o.k_major ? extent : k, step = o.k_major ? o.outer : o.k;
  const auto whole = [&](int64_t n) { return static_cast<uint64_t>((n * element + 15) / 16 * 16); };
  extents_[0] = static_cast<uint64_t>(inner), extents_[1] = static_cast<uint64_t>(lines);
  extents_[2] = static_cast<uint64_t>(all.count);
  // The step of an axis of extent 1 is never taken, but must be one.
  steps_[0] = lines == 1 ? whole(inner) : static_cast<uint64_t>(step * element);
  steps_[1] = all.count == 1 ? whole(inner) : static_cast<uint64_t>(all.step * element);
  box_[0] = static_cast<uint32_t>(line), box_[1] = static_cast<uint32_t>((o.k_major ? box : line) / sharing), box_[2] = 1;
}

void OperandMap::encode(kernels::TensorMap& map, const void* address) const {
  constexpr uint32_t ones[] = {1, 1, 1};
  abi::TensorMap made;
  device::cuda::check(device::cuda::driver().tensor_map_tiled(&made, type_, 3, const_cast<void*>(address), extents_, steps_, box_,
                                                              ones, abi::tensor_map_no_interleave, swizzle_,
                                                              abi::tensor_map_promote_256, abi::tensor_map_fill_zeros),
                      "describing a product's operand");
  static_assert(sizeof map == sizeof made);
  std::memcpy(&map, &made, sizeof map);
}

std::optional<int64_t> result_pitch(const CudaEpilogue& e) {
  const BoundTensor& y = e.output();
  const Shape strides = memory_strides(y);
  if (e.batches() != 1) return std::nullopt;
  Shape extents, steps;  // of the rows
  bool columns = false;
  for (size_t a = 0; a < strides.size(); ++a) {
    if (!columns && strides[a] == 1 && y.shape[a] == e.columns())
      columns = true;
    else
      extents.push_back(y.shape[a]), steps.push_back(strides[a]);
  }
  if (!columns) return std::nullopt;
  const Views rows = in_order(extents, {steps});
  if (rows.extents.empty()) return e.columns();
  return rows.extents.size() == 1 ? std::optional(rows.strides[0][0]) : std::nullopt;
}

ResultMaps::ResultMaps(const CudaEpilogue& e, int64_t rows, int64_t columns_of_tile)
    : type_(tensor_map_type(e.output().type)), rows_(rows), columns_(e.columns()), tile_(columns_of_tile) {
  pitch_ = value_of(result_pitch(e), "rows of one matrix, as tensor maps store them") * bytes(e.output().type, 1);
}

void ResultMaps::encode(kernels::TensorMap (&maps)[2], void* address) const {
  constexpr int64_t whole = kernels::hopper_store_columns;
  constexpr uint32_t ones[] = {1, 1, 1};
  const uint64_t extents[] = {static_cast<uint64_t>(columns_), static_cast<uint64_t>(rows_), 1};
  const uint64_t steps[] = {static_cast<uint64_t>(pitch_), static_cast<uint64_t>(pitch_)};
  for (const int64_t width : {tile_ >= whole ? whole : 0, tile_ % whole}) {
    if (width == 0) continue;
    const uint32_t box[] = {static_cast<uint32_t>(width), kernels::hopper_store_lines, 1};
    abi::TensorMap made;
    device::cuda::check(device::cuda::driver().tensor_map_tiled(&made, type_, 3, address, extents, steps, box, ones,
                                                                abi::tensor_map_no_interleave,
                                                                width == whole ? abi::tensor_map_swizzle_128 : no_swizzle,
                                                                abi::tensor_map_promote_256, abi::tensor_map_fill_zeros),
                        "describing a product's result");
    std::memcpy(&maps[width == whole ? 0 : 1], &made, sizeof made);
  }
}

HopperKernel::HopperKernel(const CudaProblem& p, const HopperConfig& c, const Gpu& gpu, const HopperEntry& entry)
    : CompiledKernel(gpu, {fmt::format("{}:{}", entry.name, c.print()), source_of(p, c, entry), entry.options}, entry.name),
      epilogue_(epilogue_of(p, c)),
      device_(gpu.device) {
  const int64_t tiles_m = c.tiles_m(p), tiles_n = c.tiles_n(p);
  const int64_t steps = (p.k + c.steps - 1) / c.steps, each = (steps + c.splits - 1) / c.splits;
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
    early_shared_bytes_ = blocks * shape_.grid[1] > gpu.info.multiprocessors
                              ? shape_.shared_bytes
                              : std::max<int64_t>(shape_.shared_bytes, std::min<int64_t>(gpu.info.shared_per_block,
                                                                                         gpu.info.shared_per_multiprocessor / 2));
  if (c.mapped) results_.emplace(epilogue_, p.m, c.tile_n / (c.gated ? 2 : 1));
  args_.m = static_cast<uint32_t>(p.m), args_.n = static_cast<uint32_t>(p.n), args_.k = static_cast<uint32_t>(p.k);
  if (tiles_ > most_blocks || raster_rows * tiles_n > most_blocks) fail("{} tiles, {} are counted", tiles_, most_blocks);
  args_.inverse_k = 1 / static_cast<float>(p.k), args_.epsilon = p.epsilon;
  args_.tiles_m = static_cast<uint32_t>(tiles_m);
  args_.tiles = static_cast<uint32_t>(tiles_);
  const auto divider = [](int64_t n) { return Divider(static_cast<uint32_t>(std::max<int64_t>(1, n))); };
  args_.tiles_of_batch = divider(tiles_m * tiles_n), args_.tiles_of_raster = divider(raster_rows * tiles_n);
  args_.split_k = static_cast<uint32_t>(each * c.steps);
  if (c.finishing != Finishing::split_by_memory) return;
  partial_bytes_ = tiles_ * splits * c.tile_m * c.tile_n * 4;
  arrived_ = zeroed(gpu, tiles_ * 4, "a product's split tiles");
  if (arrived_) args_.arrived = reinterpret_cast<uint32_t*>(arrived_->address());
}

void HopperKernel::run(const Buffers& b) {
  if (tiles_ == 0) return;
  if (!PlannedLaunches::current()) {
    if (!device_) fail("a kernel that was compiled for another machine cannot run");
    const device::cuda::Device::Current current(*device_);
    encode(args_, b);
    if (results_) results_->encode(args_.y, b.outputs[0]);
  }
  const bool ahead = early_shared_bytes_ > 0 && device::cuda::EarlyKernels::in_scope() && !PlannedLaunches::current();
  args_.b_ahead = ahead ? 1 : 0;
  args_.partial = b.workspace;
  Arguments arguments;
  arguments.value(args_);
  append(arguments);
  arguments.bytes(epilogue_.argument(b), epilogue_.bytes(), alignof(Args));  // what is before it is padded to its alignment
  device::cuda::LaunchShape shape = shape_;
  if (ahead) shape.shared_bytes = early_shared_bytes_;
  launch(b, shape, arguments);
  if (ahead) device::cuda::EarlyKernels::note_ahead(static_cast<device::cuda::abi::Stream>(b.stream));
}

}  // namespace smelt::ops::matmul
