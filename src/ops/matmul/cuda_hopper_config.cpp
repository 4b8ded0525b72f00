// One configuration of Hopper's kernel: the bytes that it takes, what it is called, and how long it takes by the model.
#include <fmt/format.h>

#include <algorithm>

#include "base/number.h"
#include "expr/cuda.h"
#include "kernels/conv/walked.h"
#include "ops/matmul/cuda_hopper.h"

namespace smelt::ops::matmul {
namespace {

using Finishing = kernels::HopperFinishing;

constexpr int64_t chunk_bytes = 8192, line_bytes = HopperConfig::line_bytes;

/// HopperOperand::bytes.
int64_t operand_bytes(int64_t extent, bool k_major, int64_t line) {
  return k_major ? extent * line : divide_up(extent, 64) * chunk_bytes;
}

/// HopperTile::exchange_bytes.
int64_t exchange_bytes(const HopperConfig& c) {
  const int64_t columns = c.tile_n;
  const int64_t part = columns % 64 == 0 ? 64 : columns % 32 == 0 ? 32 : columns % 16 == 0 ? 16 : 8;
  return 8 * (c.swap ? 20 : part + 8) * 4;
}

/// HopperFinish::bytes.
int64_t staging_bytes(const HopperConfig& c, int64_t before) {
  const int64_t begin = c.mapped ? divide_up(before, 1024) * 1024 : before;
  return begin - before + c.groups * ((c.swap ? c.tile_m : 4 * 16) * c.buffers * line_bytes + c.columns_bytes);
}

/// SlidingTile::ring_bytes.
int64_t sliding_bytes(const HopperConfig& c) {
  constexpr int64_t buffers = 2;
  return (buffers * c.lines + c.stages * c.tile_n) * line_bytes + divide_up(16 * (buffers + c.stages), 128) * 128;
}

}  // namespace

int64_t HopperConfig::b_lines(int64_t columns) const { return width > 0 ? divide_up(columns, 4 * width) * (4 * width) : columns; }

int64_t HopperConfig::column_of(int64_t line) const {
  if (width == 0) return line;
  const int64_t part = 4 * width;
  return line / part * part + kernels::walked_channel(static_cast<int>(line % part), static_cast<int>(width));
}

HopperConfig HopperConfig::finished() const {
  HopperConfig c = *this;
  if (shares) (swap ? c.tile_m : c.tile_n) /= splits;
  return c;
}

int64_t HopperConfig::tiles(const CudaProblem& p) const { return divide_up(p.m, tile_m) * divide_up(p.n, tile_n) * p.batches(); }

int64_t HopperConfig::tiles_m(const CudaProblem& p) const { return divide_up(divide_up(p.m, tile_m), down); }

int64_t HopperConfig::tiles_n(const CudaProblem& p) const { return divide_up(divide_up(p.n, tile_n), across); }

int64_t HopperConfig::stage_bytes(const CudaProblem& p) const {
  if (lines > 0) return (tile_n + static_cast<int64_t>(static_cast<double>(lines) / taps)) * line_bytes;
  return operand_bytes(tile_m, p.a.k_major, line) + operand_bytes(tile_n, b_k_major(p), line);
}

int64_t HopperConfig::brought_bytes(const CudaProblem& p) const {
  if (lines > 0) return stage_bytes(p);
  return operand_bytes(tile_m, p.a.k_major, line) / across + operand_bytes(tile_n, b_k_major(p), line) / down;
}

int64_t HopperConfig::shared_bytes(const CudaProblem& p) const {
  // ClusterShares::bytes: of four bytes a sum.
  const int64_t received = shares ? (splits - 1) * (tile_m * tile_n / splits) * 4 : 0;
  const int64_t ring =
      1024 + received +
      (lines > 0 ? sliding_bytes(*this) : stages * stage_bytes(p) + divide_up(16 * stages + 8 * groups + 8, 128) * 128);
  switch (finishing) {
    case Finishing::in_registers: {
      const HopperConfig c = finished();
      return ring + (paired ? groups * c.tile_m * 64 * rows() : staging_bytes(c, ring));
    }
    case Finishing::side_by_side: return ring + groups * (columns_bytes + held_bytes);
    case Finishing::split_by_cluster: return ring;
    case Finishing::by_fours:
    case Finishing::split_by_memory: break;
  }
  return ring + 4 * groups * exchange_bytes(*this);
}

std::string HopperConfig::print() const {
  const auto shared = [](std::string_view name, int64_t blocks) {
    return blocks == 1 ? "" : fmt::format(" +{}{}", name, blocks == 2 ? "" : std::to_string(blocks));
  };
  return fmt::format("{}x{}x{}{}{} g{}{}{}{}{} s{} b{}{} {}{}{}{}", tile_m, tile_n, steps,
                     swap         ? " swap"
                     : transposed ? " t"
                                  : "",
                     packed ? " w" : "", groups, alternate ? "a" : "", registers > 0 ? fmt::format(" r{}", registers) : "",
                     shared("a", across), shared("b", down), stages, blocks, persistent ? "p" : "",
                     shares      ? "e"
                     : cluster() ? "c"
                                 : "k",
                     splits, lines > 0 ? fmt::format(" l{}", lines) : "", mapped ? " y" : "");
}

namespace {

/// Of an operand's elements in the kernel.
std::string_view operand_type(DType t) { return t == DType::f8e4m3fn ? "e4m3" : expr::cuda_type(t); }

}  // namespace

std::string hopper_tile_type(const CudaProblem& p, const HopperConfig& c) {
  return fmt::format(
      "{}<{}, HopperTileConfig{{.m = {}, .n = {}, .groups = {}, .stages = {}, .a_k_major = {}, .b_k_major = {}, .swap = "
      "{}, .alternate = {}, .across = {}, .down = {}, .registers = {}, .b_packed = {}{}{}}}{}{}>",
      c.lines > 0 ? "SlidingTile" : "HopperTile", operand_type(p.type), c.tile_m, c.tile_n, c.groups, c.stages, p.a.k_major,
      c.b_k_major(p), c.swap, c.alternate, c.across, c.down, c.registers, c.packed,
      p.norm == kernels::HopperNorm::none
          ? ""
          : fmt::format(", .norm = HopperNorm::{}", p.norm == kernels::HopperNorm::rms ? "rms" : "layer"),
      c.line == line_bytes ? "" : fmt::format(", .line = {}", c.line), c.lines > 0 ? fmt::format(", {}", c.lines) : "",
      p.type_b == p.type ? "" : fmt::format(", {}", operand_type(p.type_b)));
}

// The constants were fitted to the times of 1,600 kernels of 26 problems on an H100 (bench_gpu gemm_every), those of clusters and of
// bytes on their way later to 5,800 of 76 problems, so that what is fastest stands among the first. What is of convolutions alone (windows
// that slide, ends of integers) was fitted to 1,260 kernels of 88 problems on an H200 (bench_gpu conv).
double hopper_estimate_us(const CudaProblem& p, const HopperConfig& c, const Gpu& gpu) {
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const device::cuda::DeviceInfo& i = gpu.info;
  const int64_t all = std::max(1, i.multiprocessors), multiprocessors = c.resident(all) / c.blocks;
  const double clocks_a_us = 0.886 * i.clock_mhz;  // under load
  const int64_t count = c.launched(p) * c.splits;
  const int64_t steps = divide_up(divide_up(p.k, c.steps), c.splits), stage = c.stage_bytes(p);
  const int64_t each = divide_up(count, multiprocessors), together = std::min(c.blocks, each);  // tiles of a multiprocessor
  const double area = real(c.tile_m * c.tile_n);

  // Clocks of a stage on one multiprocessor: of the tensor cores, of shared memory, which gives both operands and takes
  // what the copies bring, and of the copies' way.
  const double columns = real(c.columns()), blocks_of_64 = real(c.swap ? c.tile_n : c.tile_m) / 64;
  // Windows that slide begin at any line: where they are the 64 rows, they are read in more turns.
  const double read = (c.lines > 0 && !c.swap ? 2.3 : 1) * 16 + columns / 4;
  // Rows that are normalised are read once more, three or four instructions an element, beside the products.
  const double moments = p.norm == kernels::HopperNorm::none ? 0 : blocks_of_64 * 110;
  const double products = real(c.line) / 32 * blocks_of_64;
  // Floats rounded to tf32 reach 190 to 300 TFLOP/s, which is a third less than these clocks give: the power is at its limit before.
  const double by_type = p.type == DType::f32 ? 1.5 : 1;
  double step = std::max({moments, by_type * products * std::max(columns / 2, read) / 0.962,
                          0.431 * (products * read + real(stage) / 128 + moments / 2), real(stage) / 67.4});
  if (c.lines > 0) step += 350 / c.taps;  // of the next buffer's coming
  // Lanes that have fewer than 16 bytes side by side store as often as others, each time fewer.
  const double stores = c.width > 0 && bytes(p.epilogue.output().type, 1) == 1 ? 1 + 0.55 * (16 / real(c.width) - 1) : 1;
  // A group alone on a multiprocessor has all of its issue slots.
  const double alone = p.image_bytes > 0 && c.groups == 1 && c.blocks == 1 ? 1.25 : 1;
  const double end = 416 + area / (alone * real(c.sharing())) / 2.75 * stores;
  // Where groups alternate, only the last tile's end is seen; blocks that share a multiprocessor hide each other's.
  const double beside = c.alternate && each > 1 ? 0 : (end + (c.persistent ? 317 : 670)) / real(together);
  // Of integers they issue instructions for longer than short K takes; those of a column serve all rows of a lane.
  const double issued = bytes(p.type, 1) == 1 && p.image_bytes > 0 ? area * (0.03 + 0.1 / real(c.rows())) * stores : 0;
  const double tile = std::max(real(steps) * step + beside, c.alternate && each > 1 ? issued : 0);
  const double compute = (real(each) * tile + (c.alternate ? end : 0)) / clocks_a_us;

  // Bytes a clock and multiprocessor: of convolutions all have tiles at once, and read the same pixels again and again.
  const double l2 = p.image_bytes > 0 ? 34 : 44;
  const double from_l2 = real(c.tiles(p) * c.splits * steps) * real(c.brought_bytes(p)) / (l2 * real(all) * clocks_a_us);
  const double bandwidth = 1.04 * std::max(i.bandwidth, 1e5);
  const double flying = real(std::min(count, multiprocessors) * together * std::min(c.stages - 1, steps) * stage);  // bytes
  const double memory = p.moved_bytes() / std::min(bandwidth, flying / 1.14);  // for so many us each
  const double longest = std::max({compute, from_l2, memory});

  // What is not hidden behind the longest grows with the rest, but where memory alone is waited for no longer than this: two rows by
  // [4096, 40000] take as long by tiles of 53 us of products as by others of 27.
  constexpr double longest_rest = 50;
  const double by_memory = std::clamp(2 * (memory / std::max(compute, from_l2) - 1), 0., 1.);
  const double all_rest = compute + from_l2 + memory - longest,
               rest = all_rest - by_memory * std::max(0., all_rest - longest_rest);

  double us = 2.15 + longest + 0.163 * rest;
  if (c.patch() > 1 && !c.cluster()) us += c.patch() == 2 ? 0.79 : 0.16;
  if (c.cluster()) {
    // Many clusters begin late; sums go from block to block.
    us += 0.3 + 0.81 * real(count) / real(multiprocessors * together);
    us += area * 4 * real(c.splits - 1) / real(c.splits) / (20.3 * clocks_a_us) * real(each) / real(together);
    // Where shares go straight from registers nobody waits for the ring; what that saves is not in these fits.
    if (c.shares) us += 0.1;
  } else if (c.splits > 1) {
    us += 3.0 + 2.0 * real(count) * 4 * real(std::min(p.m, c.tile_m) * c.tile_n) / (2 * bandwidth) + 0.1 * real(c.splits);
  }
  return c.packed || c.mapped ? 0.95 * us : us;
}

}  // namespace smelt::ops::matmul
