#include "ops/matmul/cuda_configs.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>

#include "base/number.h"
#include "kernels/common/line_shares.h"
#include "ops/matmul/cuda_hopper.h"

namespace smelt::ops::matmul {
namespace {

using Unit = CudaConfig::Unit;

// tile, warps, stages; tile_k in bytes of a line, so that one list serves all element types
struct Shape4 {
  int64_t m, n, k_bytes, warps_m, warps_n, stages;
  bool ahead = false;
  int64_t ring = 0;
  bool persistent = false, fed = false;
};
constexpr Shape4 tensor_shapes[] = {
    {256, 128, 64, 4, 2, 3, true}, {128, 256, 64, 2, 4, 3, true},  {256, 64, 64, 4, 1, 4},        {64, 256, 64, 1, 4, 4},
    {128, 128, 64, 2, 2, 4},       {128, 128, 64, 2, 2, 4, true},  {128, 128, 64, 2, 4, 4},       {128, 128, 64, 2, 4, 4, true},
    {128, 128, 128, 2, 4, 3},      {128, 128, 128, 2, 2, 3, true}, {128, 64, 64, 2, 2, 4},        {128, 64, 128, 2, 2, 3, true},
    {64, 128, 64, 2, 2, 4},        {64, 128, 128, 2, 2, 3},        {64, 128, 128, 2, 2, 3, true}, {64, 64, 128, 2, 2, 4},
    {64, 64, 128, 2, 2, 4, true},  {64, 64, 64, 2, 2, 4},          {32, 128, 128, 1, 4, 4},       {32, 64, 128, 2, 2, 5},
    {16, 128, 128, 1, 4, 4},       {16, 64, 128, 1, 4, 6},         {16, 64, 128, 1, 4, 3},        {64, 32, 128, 4, 1, 4},
};
// Woven ones, of 16-bit operands and bytes.
constexpr Shape4 woven_shapes[] = {
    {128, 256, 128, 2, 4, 4, true, 4},
    {128, 256, 128, 2, 4, 3, true, 4, true},
    {256, 128, 128, 4, 2, 4, true, 4},
    {256, 128, 128, 4, 2, 3, true, 4, true},
    {128, 256, 64, 2, 4, 4, true, 2},
    // Warps of 96 x 64: five sixths of the reads a product. Of stages of 64 steps, and of taller blocks, ptxas spills some.
    {192, 256, 64, 2, 4, 5, true, 2},
    {192, 256, 64, 2, 4, 6, true, 3},
    // Fed.
    {128, 256, 128, 2, 4, 4, true, 4, false, true},
    {128, 256, 128, 2, 4, 3, true, 4, true, true},
    {256, 128, 128, 4, 2, 4, true, 4, false, true},
    {256, 128, 128, 4, 2, 3, true, 4, true, true},
    {128, 256, 128, 2, 4, 3, true, 2, true, true},
    {192, 256, 128, 2, 4, 3, true, 2, true, true},
    {128, 128, 128, 2, 2, 3, true, 4, false, true},
    {128, 128, 128, 2, 2, 3, true, 4, true, true},
};
constexpr Shape4 fma_shapes[] = {
    {128, 128, 128, 16, 16, 2}, {128, 64, 128, 16, 16, 2}, {64, 64, 128, 16, 16, 2},
    {64, 64, 128, 16, 8, 2},    {32, 64, 128, 8, 16, 2},   {16, 64, 128, 4, 16, 3},
};

/// Whether the block's threads share an operand's lines (OperandCopy): a tile of 192 rows whose lines run along them has 24 copies of 16
/// bytes a line, which 256 threads do not.
bool shares(const CudaConfig& c, const CudaOperand& o, int64_t tile) {
  const int64_t line = o.k_major ? c.tile_k : tile;
  return line % o.vec == 0 && kernels::all_threads_copy(line / o.vec, c.threads());
}

/// How many copies a thread issues for one stage of an operand.
int64_t copies(const CudaConfig& c, const CudaOperand& o, int64_t tile) {
  return divide_up(tile * c.tile_k / o.vec, c.threads());
}

/// Whether tensor maps take both operands: stages of 64 steps of K of 16 bits, all of K. Of the largest tile ptxas spills some but on Hopper.
bool feeds(const CudaProblem& p, const CudaConfig& c, const Gpu& gpu) {
  if (c.tile_m * c.tile_n >= 192 * 256 && gpu.info.major != 9) return false;
  return gpu.info.major >= 9 && (p.type == DType::f16 || p.type == DType::bf16) && p.type_b == p.type && p.k > 0 &&
         c.splits == 1 && !rejects_map(p.a, "a", p.m, p.k, p.batch, 2) && !rejects_map(p.b, "b", p.n, p.k, p.batch, 2);
}

/// Whether ptxas spills the tile of two computed matrices of bytes: warps of 64 x 64 that have sums over rows and columns too, or whose
/// operands lie across K; of rows across K, long stages whose fragments do not load ahead; the largest woven one.
bool spills(const CudaProblem& p, const CudaConfig& c) {
  if (bytes(p.type, 1) != 1 || p.constant_b) return false;
  if (c.ring > 0) return c.tile_m * c.tile_n >= 192 * 256;
  const bool large = c.tile_m / c.warps_m * (c.tile_n / c.warps_n) >= 64 * 64;
  return (large && (p.zeros != 0 || !p.a.k_major || !p.b.k_major)) || (!p.a.k_major && !c.ahead && c.tile_k >= 128);
}

bool runs(const CudaProblem& p, const CudaConfig& c, const Gpu& gpu) {
  const int64_t element = bytes(p.type, 1);
  if (spills(p, c)) return false;
  if (c.shared_bytes(element) > gpu.info.shared_per_block) return false;
  if (c.fed) return feeds(p, c, gpu);
  if (!shares(c, p.a, c.tile_m) || !shares(c, p.b, c.tile_n)) return false;
  // Narrow copies of a wide tile unroll into more code than compiles in a moment.
  constexpr int64_t most_copies = 32;
  if (copies(c, p.a, c.tile_m) > most_copies || copies(c, p.b, c.tile_n) > most_copies) return false;
  return true;
}

/// Factors to split k by: 1, 2, 4, …, as long as a split has two tiles and the blocks are not more than four a multiprocessor.
std::vector<int64_t> splits(const CudaProblem& p, const CudaConfig& c, const Gpu& gpu) {
  const int64_t tiles = c.tiles(p), steps = divide_up(p.k, c.tile_k);
  std::vector<int64_t> factors{1};
  for (const int64_t f : {2, 3, 4, 6, 8, 12, 16, 24, 32})
    if (steps >= 2 * f && tiles * f <= 4 * std::max(1, gpu.info.multiprocessors)) factors.push_back(f);
  return factors;
}

/// Blocks that a multiprocessor holds at once, registers guessed by the sums: FloatTile has two of each.
int64_t blocks_at_once(const CudaConfig& c, int64_t element, const device::cuda::DeviceInfo& i) {
  const int64_t registers = (c.unit == Unit::fma ? 2 : 1) * c.tile_m * c.tile_n / c.threads() + 64;
  return std::max<int64_t>(
      1, std::min({i.shared_per_multiprocessor / (c.shared_bytes(element) + i.reserved_shared_per_block),
                   i.registers_per_multiprocessor / (registers * c.threads()), i.threads_per_multiprocessor / c.threads()}));
}

/// The config with the last round's tiles dealt out to as many blocks as run at once, each with two steps of K at least. Nothing
/// where there is one round, which K's splits are for, or where the last one is nearly full.
std::optional<CudaConfig> with_streams(const CudaProblem& p, CudaConfig c, const Gpu& gpu) {
  const int64_t at_once = blocks_at_once(c, bytes(p.type, 1), gpu.info) * std::max(1, gpu.info.multiprocessors);
  const int64_t tiles = c.tiles(p), steps = divide_up(p.k, c.tile_k);
  c.splits = 1, c.streamed = tiles % at_once;
  c.streams = std::min(at_once, c.streamed * steps / 2);
  if (tiles < at_once || c.streamed == 0 || 10 * c.streamed > 9 * at_once || c.streams <= c.streamed) return std::nullopt;
  return c;
}

/// Floating-point operations of one multiprocessor in a clock: by mma.sync in f16 (on Hopper that reaches some two thirds of what
/// wgmma does), and by multiply-adds in float.
double flops_a_clock(const device::cuda::DeviceInfo& i, Unit unit, int64_t element) {
  if (unit == Unit::fma) return i.major == 7 || (i.major == 8 && i.minor == 0) ? 128 : 256;
  const double f16 = i.major == 9 ? 2700 : i.major == 10 ? 2700 : i.major == 8 && i.minor == 0 ? 2048 : 1024;
  return unit == Unit::tf32 ? f16 / 2 : element == 1 ? 2 * f16 : f16;
}

/// The best guess first.
void rank(const CudaProblem& p, const Gpu& gpu, std::vector<CudaConfig>& configs) {
  std::vector<std::pair<double, CudaConfig>> ranked;
  for (const CudaConfig& c : configs) ranked.emplace_back(cuda_estimate_us(p, c, gpu), c);
  std::ranges::stable_sort(ranked, {}, &std::pair<double, CudaConfig>::first);
  configs.clear();
  for (auto& [us, c] : ranked) configs.push_back(c);
}

/// What of these shapes can run, with every split of k.
void add(const CudaProblem& p, const Gpu& gpu, Unit unit, std::span<const Shape4> shapes, std::vector<CudaConfig>& found) {
  const int64_t element = bytes(p.type, 1);
  for (const Shape4& s : shapes) {
    CudaConfig c{unit, s.m, s.n, s.k_bytes / element, s.warps_m, s.warps_n, s.stages, s.ahead, 1};
    c.ring = s.ring, c.persistent = s.persistent, c.fed = s.fed;
    while (c.stages > 2 && c.shared_bytes(element) > gpu.info.shared_per_block) --c.stages;
    if (!runs(p, c, gpu)) continue;
    for (const int64_t f : c.persistent || c.fed ? std::vector<int64_t>{1} : splits(p, c, gpu)) {
      c.splits = f;
      found.push_back(c);
    }
  }
}

}  // namespace

int64_t CudaConfig::shared_bytes(int64_t element) const {
  const int64_t ring = stages * (tile_m + tile_n) * tile_k * element;
  const int64_t exchange =
      unit == Unit::fma ? 0 : warps_m * warps_n * 16 * (tile_n / warps_n + 8) * 4;                // TensorTile::exchange_bytes
  if (fed) return 1024 + ring + divide_up(16 * stages, 128) * 128 + (persistent ? exchange : 0);  // fed_shared_bytes
  return persistent ? ring + exchange : std::max(ring, exchange);
}

int64_t CudaConfig::blocks_at_once(int64_t element, const device::cuda::DeviceInfo& info) const {
  return matmul::blocks_at_once(*this, element, info);
}

int64_t CudaConfig::tiles(const CudaProblem& p) const { return divide_up(p.m, tile_m) * divide_up(p.n, tile_n) * p.batches(); }

std::string CudaConfig::print() const {
  return fmt::format("{}{}x{}x{} {}x{} s{}{} {}",
                     unit == Unit::fma    ? "fma "
                     : unit == Unit::tf32 ? "tf32 "
                                          : "",
                     tile_m, tile_n, tile_k, warps_m, warps_n, stages,
                     ring > 0 ? fmt::format("w{}{}{}", ring, persistent ? "p" : "", fed ? "t" : "")
                     : ahead  ? "a"
                              : "",
                     streams > 0 ? fmt::format("stream {}:{}", streamed, streams) : fmt::format("k{}", splits));
}

double cuda_estimate_us(const CudaProblem& p, const CudaConfig& c, const Gpu& gpu) {
  const device::cuda::DeviceInfo& i = gpu.info;
  const int64_t element = bytes(p.type, 1), multiprocessors = std::max(1, i.multiprocessors);
  const int64_t blocks = c.tiles(p) * c.splits, k = divide_up(divide_up(p.k, c.tile_k), c.splits) * c.tile_k;
  const int64_t each = divide_up(blocks, multiprocessors), together = std::min(blocks_at_once(c, element, i), each);
  // What an instruction brings: fragments of small warps' tiles are loaded more often; few warps do not fill the pipes.
  const int64_t rows = c.tile_m / c.warps_m, columns = c.tile_n / c.warps_n;
  const auto warp_m = static_cast<double>(rows), warp_n = static_cast<double>(columns);
  const double reuse =
      c.unit == Unit::fma ? std::min(1.0, warp_m * warp_n / 64) : std::min(1.0, 2 * warp_m * warp_n / (warp_m + warp_n) / 48);
  const double warps = static_cast<double>(together * c.threads()) / 32, filled = std::min(1.0, warps / 8);
  const double rate = flops_a_clock(i, c.unit, element) * i.clock_mhz * (0.25 + 0.75 * reuse) * (0.3 + 0.7 * filled) * 0.85;
  const double rounds =
      c.streams > 0 ? static_cast<double>(blocks) / static_cast<double>(multiprocessors) : static_cast<double>(each);
  const double compute = rounds * 2.0 * static_cast<double>(c.tile_m * c.tile_n) * static_cast<double>(k) / rate;
  // Memory: as fast as the bytes that are on their way allow, a microsecond each.
  const double active = static_cast<double>(std::min(blocks, multiprocessors));
  const double bandwidth = std::max(i.bandwidth, 1e5) * 0.92;
  const double flying = active * static_cast<double>(together * (c.stages - 1) * (c.tile_m + c.tile_n) * c.tile_k * element);
  const double narrow = p.a.vec * element < 4 || p.b.vec * element < 4 ? 3
                        : p.a.anywhere || p.b.anywhere                 ? 1.5
                                                                       : 1;  // waited for
  const double memory = p.moved_bytes() / std::min(bandwidth, flying / 0.9) * narrow;
  const double from_l2 =
      static_cast<double>(blocks) * static_cast<double>((c.tile_m + c.tile_n) * k * element) / (2.5 * bandwidth);
  double us = 3.5 + std::max({compute, memory, from_l2});
  // Parts go through memory twice; a streaming block has some of two tiles.
  const double parts = static_cast<double>(c.streams > 0 ? 2 * c.streams : blocks);
  if (c.streams > 0) us += 2.0;
  if (c.splits > 1 || c.streams > 0)
    us += 1.0 + 2.0 * parts * 4 * static_cast<double>(std::min(p.m, c.tile_m) * c.tile_n) / (2 * bandwidth) +
          0.05 * static_cast<double>(c.splits);
  return us;
}

Result<std::vector<CudaConfig>> cuda_configs(const CudaProblem& p, const Gpu& gpu) {
  const int64_t element = bytes(p.type, 1);
  std::vector<CudaConfig> found;
  const bool ampere = gpu.info.major >= 8;
  if (p.type == DType::f16 || element == 1 || (p.type == DType::bf16 && ampere)) add(p, gpu, Unit::tensor, tensor_shapes, found);
  if (p.type == DType::f32 && gpu.tf32 && ampere) add(p, gpu, Unit::tf32, tensor_shapes, found);
  if (found.empty()) add(p, gpu, Unit::fma, fma_shapes, found);
  if (found.empty())
    return refuse(Reason::wrong_machine, "no tile fits into {} bytes of shared memory", gpu.info.shared_per_block);
  rank(p, gpu, found);
  return found;
}

Result<std::vector<CudaConfig>> product_configs(const CudaProblem& p, const Gpu& gpu) {
  Result<std::vector<CudaConfig>> others = cuda_configs(p, gpu);
  if (!others) return others;
  std::vector<CudaConfig> all;  // woven ones first, which are faster where the guess is the same
  const bool tensor = p.type == DType::f16 || p.type == DType::bf16 || bytes(p.type, 1) == 1;
  const bool along_k = bytes(p.type, 1) > 1 || (p.a.k_major && p.b.k_major);
  if (tensor && gpu.info.major >= 8 && p.zeros == 0 && along_k) add(p, gpu, Unit::tensor, woven_shapes, all);
  all.insert(all.end(), others->begin(), others->end());
  rank(p, gpu, all);
  return all;
}

std::vector<CudaConfig> streamed_configs(const CudaProblem& p, const Gpu& gpu) {
  const Result<std::vector<CudaConfig>> all = cuda_configs(p, gpu);
  std::vector<CudaConfig> found;
  if (!all) return found;
  for (const CudaConfig& c : *all)
    if (c.splits == 1)
      if (const auto streamed = with_streams(p, c, gpu)) found.push_back(*streamed);
  rank(p, gpu, found);
  return found;
}

}  // namespace smelt::ops::matmul
