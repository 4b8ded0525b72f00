#include <fmt/format.h>

#include <algorithm>

#include "expr/cuda.h"
#include "ops/matmul/cuda_hopper.h"

namespace smelt::ops::matmul {
namespace {

constexpr int64_t element = 2, chunk_bytes = 8192, tensor_map_step = 16;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// HopperOperand::bytes.
int64_t operand_bytes(int64_t extent, bool k_major) { return k_major ? extent * 128 : divide_up(extent, 64) * chunk_bytes; }

/// HopperTile::exchange_bytes.
int64_t exchange_bytes(const HopperConfig& c) {
  const int64_t columns = c.tile_n;
  const int64_t part = columns % 64 == 0 ? 64 : columns % 32 == 0 ? 32 : columns % 16 == 0 ? 16 : 8;
  return 8 * (c.swap ? 20 : part + 8) * 4;
}

struct TileShape {
  int64_t m, n, groups, blocks;
  bool swap = false;
};
constexpr TileShape tiles[] = {
    {128, 256, 2, 1},      {256, 128, 2, 1},      {128, 192, 2, 1},      {128, 128, 2, 1},     {128, 128, 1, 2},
    {64, 256, 1, 2},       {128, 96, 1, 2},       {64, 128, 1, 2},       {64, 96, 1, 2},       {64, 64, 1, 2},
    {64, 128, 2, 1, true}, {64, 64, 1, 2, true},  {48, 128, 2, 1, true}, {48, 64, 1, 2, true}, {32, 128, 2, 1, true},
    {32, 64, 1, 2, true},  {16, 256, 2, 1, true}, {16, 128, 2, 1, true}, {16, 64, 1, 2, true}, {8, 256, 2, 1, true},
    {8, 128, 2, 1, true},  {8, 64, 1, 2, true},
};

/// Why a tensor map cannot describe an operand.
std::optional<Refusal> rejects(const CudaOperand& o, std::string_view name, int64_t extent, int64_t k, const Shape& batch) {
  const int64_t inner = o.k_major ? o.k : o.outer, step = o.k_major ? o.outer : o.k, lines = o.k_major ? extent : k;
  if (inner != 1 && (o.k_major ? k : extent) != 1)
    return refuse(Reason::wrong_layout, "{}'s elements lie {} apart along both axes or more, tensor maps take neighbours", name,
                  inner);
  if (o.alignment % tensor_map_step != 0)
    return refuse(Reason::wrong_layout, "{} begins at a multiple of {} bytes, tensor maps at one of {}", name, o.alignment,
                  tensor_map_step);
  if (lines != 1 && (step * element % tensor_map_step != 0 || step == 0))
    return refuse(Reason::wrong_shape, "{}'s lines are {} bytes apart, tensor maps want a multiple of {}", name, step * element,
                  tensor_map_step);
  for (size_t d = 0; d < batch.size(); ++d)
    if (batch[d] != 1 && o.batch[d] * element % tensor_map_step != 0)
      return refuse(Reason::wrong_shape, "{}'s matrices are {} bytes apart, tensor maps want a multiple of {}", name,
                    o.batch[d] * element, tensor_map_step);
  return std::nullopt;
}

int64_t resident_shared(const Gpu& gpu, int64_t blocks) {
  return std::min<int64_t>(gpu.info.shared_per_block,
                           gpu.info.shared_per_multiprocessor / blocks - gpu.info.reserved_shared_per_block);
}

std::vector<int64_t> splits(const CudaProblem& p, const HopperConfig& c, const Gpu& gpu) {
  const int64_t count = divide_up(p.m, c.tile_m) * divide_up(p.n, c.tile_n) * p.batches(), steps = divide_up(p.k, c.tile_k);
  std::vector<int64_t> factors{1};
  for (const int64_t f : {2, 3, 4, 6, 8, 12, 16, 24, 32})
    if (steps >= 2 * f && count * f <= 2 * c.blocks * std::max(1, gpu.info.multiprocessors)) factors.push_back(f);
  return factors;
}

}  // namespace

int64_t HopperConfig::stage_bytes(const CudaProblem& p) const {
  return operand_bytes(tile_m, p.a.k_major) + operand_bytes(tile_n, p.b.k_major);
}

int64_t HopperConfig::shared_bytes(const CudaProblem& p) const {
  return 1024 + stages * stage_bytes(p) + divide_up(16 * stages, 128) * 128 + 4 * groups * exchange_bytes(*this);
}

std::string HopperConfig::print() const {
  return fmt::format("{}x{}x{}{} g{} s{} b{}{} k{}", tile_m, tile_n, tile_k, swap ? " swap" : "", groups, stages, blocks,
                     persistent ? "p" : "", splits);
}

std::string hopper_tile_type(const CudaProblem& p, const HopperConfig& c) {
  return fmt::format("HopperTile<{}, {}, {}, {}, {}, {}, {}, {}>", expr::cuda_type(p.type), c.tile_m, c.tile_n, c.groups,
                     c.stages, p.a.k_major, p.b.k_major, c.swap);
}

double hopper_estimate_us(const CudaProblem& p, const HopperConfig& c, const Gpu& gpu) {
  const device::cuda::DeviceInfo& i = gpu.info;
  const int64_t multiprocessors = std::max(1, i.multiprocessors);
  const int64_t count = divide_up(p.m, c.tile_m) * divide_up(p.n, c.tile_n) * p.batches() * c.splits;
  const int64_t steps = divide_up(divide_up(p.k, c.tile_k), c.splits);
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  // Clocks of 16 steps of K on one multiprocessor: the tensor cores', or those in which shared memory gives both operands.
  const double columns = real(c.swap ? c.tile_m : c.tile_n), blocks_of_64 = real(c.swap ? c.tile_n : c.tile_m) / 64;
  const double step_clocks = 4 * blocks_of_64 * std::max(columns / 2, 16 + columns / 4) / 0.8;
  // A tile's sums go through shared memory, and the ring begins empty.
  const double epilogue_clocks = real(c.tile_m * c.tile_n) / 8, latency = 1200;
  // Waves: blocks that share a multiprocessor take turns at the tensor cores, and hide each other's beginning and end.
  const int64_t each = divide_up(count, multiprocessors), together = std::min(c.blocks, each);
  const double turns = real(each);
  const double exposed = (epilogue_clocks + (c.persistent ? latency / 2 : latency)) / real(together);
  const double compute = turns * (real(steps) * step_clocks + exposed) / i.clock_mhz;
  const double active = real(std::min(count, multiprocessors));
  const double bandwidth = std::max(i.bandwidth, 1e5) * 0.9;
  const double flying = active * real(together * (c.stages - 1) * c.stage_bytes(p));
  const double memory = p.moved_bytes() / std::min(bandwidth, flying / 1.0);
  const double from_l2 = real(count * steps * c.stage_bytes(p)) / (2.0 * bandwidth);
  double us = 3.0 + latency / i.clock_mhz + std::max({compute, memory, from_l2});
  if (c.splits > 1)
    us += 1.0 + 2.0 * real(count) * 4 * real(std::min(p.m, c.tile_m) * c.tile_n) / (2 * bandwidth) + 0.1 * real(c.splits);
  return us;
}

Result<std::vector<HopperConfig>> hopper_configs(const CudaProblem& p, const Gpu& gpu) {
  if (gpu.info.major != 9)
    return refuse(Reason::wrong_machine, "wgmma is Hopper's alone (9.0), this is {}.{}", gpu.info.major, gpu.info.minor);
  if (p.type != DType::f16 && p.type != DType::bf16)
    return refuse(Reason::wrong_type, "a product of {}, this one multiplies f16 and bf16", smelt::name(p.type));
  if (p.k == 0) return refuse(Reason::wrong_shape, "K = 0");
  if (auto why = rejects(p.a, "a", p.m, p.k, p.batch)) return *why;
  if (auto why = rejects(p.b, "b", p.n, p.k, p.batch)) return *why;
  std::vector<std::pair<double, HopperConfig>> ranked;
  for (const TileShape& t : tiles) {
    // Few rows: no tile of more than twice as many, and none that fills the 64 rows with them.
    if (t.swap && (p.m > t.m || (t.m > 8 && p.m <= t.m / 2))) continue;
    if (!t.swap && p.m <= 32) continue;
    HopperConfig c{t.m, t.n, t.groups, t.blocks, t.swap};
    constexpr int64_t most_stages = 12;
    for (c.stages = most_stages; c.stages > 2 && c.shared_bytes(p) > resident_shared(gpu, t.blocks);) --c.stages;
    if (c.shared_bytes(p) > resident_shared(gpu, t.blocks)) continue;
    const int64_t count = divide_up(p.m, c.tile_m) * divide_up(p.n, c.tile_n) * p.batches();
    for (const int64_t f : splits(p, c, gpu)) {
      c.splits = f;
      c.persistent = false;
      ranked.emplace_back(hopper_estimate_us(p, c, gpu), c);
      c.persistent = true;
      if (f == 1 && count > c.blocks * gpu.info.multiprocessors) ranked.emplace_back(hopper_estimate_us(p, c, gpu), c);
    }
  }
  if (ranked.empty())
    return refuse(Reason::wrong_machine, "no tile fits into {} bytes of shared memory", gpu.info.shared_per_block);
  std::ranges::stable_sort(ranked, {}, &std::pair<double, HopperConfig>::first);
  std::vector<HopperConfig> found;
  for (auto& [us, c] : ranked) found.push_back(c);
  return found;
}

}  // namespace smelt::ops::matmul
