// What Hopper's kernel can run of a product: the tiles, and the ways in which blocks have them, the best guess first.
#include <algorithm>
#include <optional>

#include "base/number.h"
#include "ops/cuda/epilogue_width.h"
#include "ops/matmul/cuda_hopper.h"
#include "ops/matmul/cuda_hopper_kernel.h"

namespace smelt::ops::matmul {
namespace {

using Finishing = kernels::HopperFinishing;
using Kind = kernels::HopperOperandKind;

constexpr int64_t tensor_map_step = 16, line_bytes = HopperConfig::line_bytes;

/// Parts of a team's results that are staged one after the other (HopperFinish::parts).
int64_t staged_parts(const HopperConfig& c) { return c.rows() * (c.swap ? 1 : divide_up(c.columns() / (c.gated ? 2 : 1), 64)); }

bool integers(const CudaProblem& p) { return p.type == DType::i8 || p.type == DType::u8; }

/// What of the program that follows decides how sums are finished.
struct After {
  bool in_registers = false;           // where K is not split: results of 16 bits, in vectors
  bool staged = false;                 // an operand is
  bool mapped = false;                 // y is one matrix, which tensor maps can describe
  std::vector<int64_t> column_values;  // the sizes of those of one value a column

  /// `width`: of a lane's neighbouring columns, where sums lie side by side; 0: elsewhere.
  After(const CudaProblem& p, int64_t width) {
    if (width > 0) {
      count(p.epilogue, hopper_operand_kinds(p.epilogue.at_width(width), width));
      return;
    }
    const DType y = p.epilogue.output().type;
    if (integers(p) || (y != DType::f16 && y != DType::bf16) || p.epilogue.columns() % 8 != 0) return;
    const CudaEpilogue e = p.epilogue.at_width(8);
    if (e.access(0) != 1) return;
    in_registers = true;
    mapped = result_pitch(e).has_value();
    count(e, hopper_operand_kinds(e, 8));
  }
  void count(const CudaEpilogue& e, const std::vector<Kind>& kinds) {
    for (size_t i = 0; i < kinds.size(); ++i) {
      if (kinds[i] == Kind::by_column) column_values.push_back(bytes(e.operands()[i].tensor.type, 1));
      staged = staged || kinds[i] == Kind::staged;
    }
  }
  /// HopperColumns::columns_bytes.
  int64_t columns_bytes(int64_t tile_n) const {
    int64_t sum = 0;
    for (const int64_t size : column_values) sum += divide_up(tile_n * size, 16) * 16;
    return sum;
  }
};

/// Whether lanes may have pairs of neighbouring columns where these fill the instruction's 64 rows: bytes of an image, of whole
/// accesses, whose program reads a value a column and what lies as they do.
bool takes_pairs(const CudaProblem& p) {
  constexpr int64_t access = 16;
  if (!integers(p) || p.image_bytes == 0 || bytes(p.epilogue.output().type, 1) != 1 || p.epilogue.columns() % access != 0)
    return false;
  const CudaEpilogue e = p.epilogue.at_width(access);
  return e.access(0) == 1 &&
         std::ranges::all_of(hopper_operand_kinds(e, access), [](Kind k) { return k == Kind::by_column || k == Kind::staged; });
}

/// A tile and the groups of four warps that have it; how many blocks a multiprocessor holds.
struct TileShape {
  int64_t m, n, groups, blocks;
  bool swap = false, alternate = false;
  int64_t registers = 0;
  bool packed = false;
};

/// Every shape that some problem may want, by what bounds them: 64 rows of the instruction a group or 128, up to 256 columns, and
/// so many sums a thread that nothing spills.
std::vector<TileShape> every_tile() {
  std::vector<TileShape> all;
  for (const int64_t n : {256, 240, 224, 208, 192, 176, 160, 144, 128, 112, 96, 64}) all.push_back({128, n, 2, 1});
  for (const int64_t n : {128, 112, 96, 64}) all.push_back({256, n, 2, 1});
  for (const int64_t n : {192, 176, 160, 144}) all.push_back({256, n, 2, 1, false, false, 240});
  for (const int64_t n : {208, 192, 176, 160}) all.push_back({128, n, 2, 1, false, false, 240});
  for (const int64_t n : {160, 144, 128, 112, 96, 64}) all.push_back({192, n, 3, 1});
  for (const int64_t n : {128, 96, 64}) all.push_back({128, n, 1, 2});
  for (const int64_t n : {256, 224, 192, 160, 144, 128, 112, 96, 80, 72, 64}) all.push_back({64, n, 1, 2});
  for (const int64_t n : {192, 144, 128, 112, 96, 80, 72, 64}) all.push_back({64, n, 1, 1});
  for (const int64_t n : {128, 112, 96}) all.push_back({128, n, 2, 1, false, true});
  for (const int64_t n : {192, 176, 160, 144}) all.push_back({128, n, 2, 1, false, true, 240});
  for (const int64_t n : {256, 192}) all.push_back({64, n, 2, 1, false, true});
  // Three or four warps to a quarter of a multiprocessor, where ends take longer than products.
  all.push_back({64, 128, 3, 1, false, true});
  all.push_back({64, 128, 2, 2, false, true});
  all.push_back({128, 64, 3, 1, false, true});
  all.push_back({256, 64, 2, 1, false, true});
  for (const int64_t m : {8, 16, 24, 32, 40, 48, 56, 64})
    for (const int64_t n : {64, 128, 256})
      if (n < 256 || m <= 16) all.push_back({m, n, n == 64 ? 1 : 2, n == 64 ? 2 : 1, true});
  for (const int64_t m : {16, 24, 32, 40, 48, 56, 64}) {
    for (const int64_t n : {64, 128, 256})
      if (n < 256 || m == 16) all.push_back({m, n, n == 64 ? 1 : 2, n == 64 ? 2 : 1, true, false, 0, true});
    all.push_back({m, 64, 1, 1, true, false, 0, true});
  }
  for (const int64_t m : {80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256}) {
    all.push_back({m, 64, 1, m <= 128 ? 2 : 1, true});
    all.push_back({m, 128, 2, 1, true});
  }
  return all;
}

/// Of blocks that share operands: side by side, below each other.
constexpr std::pair<int64_t, int64_t> patches[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}};

/// Neighbouring columns that a lane may have side by side: as many as an access of 16 bytes has of y, of whole parts of the tile,
/// and so few that all tensors lie at whole accesses, where they do.
int64_t lane_columns(const CudaProblem& p, int64_t tile_n) {
  int64_t width = 16 / bytes(p.epilogue.output().type, 1);
  while (width > 2 && tile_n % (4 * width) != 0) width /= 2;
  return columns_of_lane(p.epilogue, width);
}

/// wgmma reads lines that run along M or N of 16-bit types alone.
bool along_k_only(const CudaProblem& p) { return bytes(p.type, 1) != 2; }

/// Registers of a thread as it is launched: each quarter of a multiprocessor shares its own among whole warps.
int64_t launched_registers(const HopperConfig& c) {
  constexpr int64_t of_lane = 65536 / 4 / 32;  // for all warps of a quarter
  return of_lane / divide_up(c.threads() * c.blocks, 128) / 8 * 8;
}

/// Of 8-bit floats a lane has a tile's sums and a stage's (HopperTile::multiply_apart); groups that take turns would not multiply
/// while one adds these.
bool holds_sums_apart(const HopperConfig& c) {
  constexpr int64_t others = 24;  // registers of a lane for all else
  const int64_t granted = std::min<int64_t>(c.registers > 0 ? c.registers : launched_registers(c), 255);
  return !c.alternate && c.rows() * c.columns() + others <= granted;
}

std::optional<Refusal> rejects_types(const CudaProblem& p, const Gpu& gpu) {
  if (p.type == DType::f32 && !gpu.tf32) return refuse(Reason::wrong_type, "a product of f32 that may not be rounded to tf32");
  const bool floats = p.type == DType::f16 || p.type == DType::bf16 || p.type == DType::f32 || p.type == DType::f8e4m3fn;
  if (!floats && !(integers(p) && p.type_b == DType::i8))
    return refuse(Reason::wrong_type,
                  "a product of {} and {}, this one multiplies f16, bf16, f32 as tf32, f8e4m3fn, and 8 bits by i8",
                  smelt::name(p.type), smelt::name(p.type_b));
  if (p.norm != kernels::HopperNorm::none && (bytes(p.type, 1) != 2 || !p.a.k_major))
    return refuse(Reason::wrong_layout, "rows that are normalised first, of other than 16 bits or not along K");
  if (p.zeros != 0) return refuse(Reason::wrong_value, "zero points times the rows' or columns' sums, which it does not take");
  if (along_k_only(p) && !(p.a.k_major && (p.b.k_major || p.weights.valid())))
    return refuse(Reason::wrong_layout, "an operand's lines do not run along K, which those of {} must", smelt::name(p.type));
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> rejects_map(const CudaOperand& o, std::string_view name, int64_t extent, int64_t k, const Shape& batch,
                                   int64_t element) {
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

namespace {

int64_t resident_shared(const Gpu& gpu, int64_t blocks) {
  return std::min<int64_t>(gpu.info.shared_per_block,
                           gpu.info.shared_per_multiprocessor / blocks - gpu.info.reserved_shared_per_block);
}

/// As many stages as fit, then as many buffers; whether two stages do.
bool fill_shared(const CudaProblem& p, const After& after, HopperConfig& c, const Gpu& gpu) {
  const int64_t most_stages = c.packed ? 24 : 12;
  const int64_t most = resident_shared(gpu, c.blocks);
  c.buffers = 1;
  for (c.stages = most_stages; c.stages > 1 && c.shared_bytes(p) > most;) --c.stages;
  if (c.stages < 2) return false;
  if (c.finishing != Finishing::in_registers || c.swap) return true;
  const int64_t wanted = std::min<int64_t>(after.staged ? 4 : 2, staged_parts(c.finished()));
  const auto fill = [&] {
    for (c.buffers = wanted; c.buffers > 1 && c.shared_bytes(p) > most;) --c.buffers;
  };
  fill();
  if (c.buffers < wanted && (after.staged || c.mapped) && c.stages > 4) --c.stages, fill();
  return true;
}

/// Whether blocks may share as c says: there are so many, and each one's part is whole 8 lines.
bool shares(const CudaProblem& p, const HopperConfig& c) {
  const auto whole = [](bool k_major, int64_t lines, int64_t blocks) { return !k_major || lines % (8 * blocks) == 0; };
  return divide_up(p.n, c.tile_n) >= c.across && divide_up(p.m, c.tile_m) >= c.down && whole(p.a.k_major, c.tile_m, c.across) &&
         whole(c.b_k_major(p), c.tile_n, c.down);
}

constexpr int64_t most_cluster = 8;  // blocks that every Hopper GPU takes

/// The same with K split over a cluster whose blocks each finish a share of the columns as a tile of its own, if such a share is one.
std::optional<HopperConfig> shared(const CudaProblem& p, const After& after, HopperConfig c, int64_t splits, const Gpu& gpu) {
  const bool side_by_side = c.finishing == Finishing::side_by_side;
  if ((splits != 2 && splits != 4) || p.type == DType::f8e4m3fn || (!side_by_side && c.finishing != Finishing::in_registers))
    return std::nullopt;
  if (c.columns() % (splits * (c.paired ? 16 : 8)) != 0) return std::nullopt;
  c.splits = splits, c.shares = true;
  const int64_t columns = c.finished().tile_n;
  After of_share = after;
  if (side_by_side) {
    c.width = lane_columns(p, columns);
    if (columns % (4 * c.width) != 0) return std::nullopt;
    of_share = After(p, c.width);
    c.held_bytes = of_share.staged ? c.rows() * 64 * columns * bytes(p.epilogue.output().type, 1) : 0;
  }
  if (!c.paired) c.columns_bytes = of_share.columns_bytes(columns);
  if (!fill_shared(p, of_share, c, gpu)) return std::nullopt;
  return c;
}

/// The configuration, and with k split. Up to 8 blocks are a cluster and send each other their sums; more go through a workspace.
std::vector<HopperConfig> splits(const CudaProblem& p, const After& after, const HopperConfig& c, const Gpu& gpu) {
  const int64_t count = c.tiles(p), steps = divide_up(p.k, c.steps);
  std::vector<HopperConfig> ways{c};
  if (c.alternate || c.registers > 0 || c.gated || p.norm != kernels::HopperNorm::none) return ways;
  for (const int64_t f : {2, 3, 4, 5, 6, 8, 12, 16, 24, 32}) {
    const bool cluster = f <= most_cluster, none_empty = (f - 1) * divide_up(steps, f) < steps;
    if (steps < 2 * f || count * f > 2 * c.blocks * std::max(1, gpu.info.multiprocessors) || (cluster && !none_empty)) continue;
    if (!cluster && count * 8 >= gpu.info.multiprocessors) continue;  // a cluster of 8 fills the GPU
    if (const auto shares = cluster ? shared(p, after, c, f, gpu) : std::nullopt) ways.push_back(*shares);
    HopperConfig split = c;
    split.width = 0, split.paired = false;
    split.splits = f, split.finishing = cluster ? Finishing::split_by_cluster : Finishing::split_by_memory;
    if (!fill_shared(p, after, split, gpu)) continue;
    // Sums of a cluster lie in the ring, as ClusterFinish has them.
    const int64_t lines = c.tile_m + (f - 1) * divide_up(c.tile_m, f);
    if (cluster && lines * (c.tile_n + 8) * 4 > split.stages * split.stage_bytes(p)) continue;
    ways.push_back(split);
  }
  return ways;
}

/// A tile with K split or not, blocks that share operands or not, over several tiles or one; each with its guess.
void add_ways(const CudaProblem& p, const After& after, const HopperConfig& c, const Gpu& gpu,
              std::vector<std::pair<double, HopperConfig>>& ranked) {
  const bool several = c.tiles(p) > c.blocks * gpu.info.multiprocessors;  // for a block, where persistent
  for (HopperConfig& s : splits(p, after, c, gpu)) {
    // Where no multiprocessor has two blocks of 64 rows, one takes all of its shared memory.
    const bool two = s.tiles(p) * s.splits > gpu.info.multiprocessors;
    if (!s.swap && s.tile_m == 64 && s.groups == 1 && two != (s.blocks == 2)) continue;
    for (const auto& [across, down] : patches) {
      s.across = across, s.down = down;
      if ((s.gated && s.patch() > 1) || (s.packed && down > 1)) continue;
      if (s.alternate && s.blocks > 1 && s.patch() > 1) continue;  // of 96 registers a thread, some would be spilled
      // Patches split K in two: clusters of six blocks and eight begin late, and were 3 to 4 us slower than guessed.
      if (s.patch() > 1 && ((s.splits > 1 && !(s.cluster() && s.splits == 2)) || !shares(p, s))) continue;
      // Clusters of four and more leave multiprocessors idle: where there is a second round, two take less.
      if (s.patch() > 2 && s.launched(p) * s.splits > s.resident(gpu.info.multiprocessors)) continue;
      s.persistent = false;
      if (!c.alternate) ranked.emplace_back(hopper_estimate_us(p, s, gpu), s);
      s.persistent = true;
      if (s.splits == 1 && s.patch() <= 2 && several) ranked.emplace_back(hopper_estimate_us(p, s, gpu), s);
    }
  }
}

/// Groups that take turns are in each other's way at the ends of tiles: stores by maps take 0.87 to 1.02 of the time of others where
/// K has up to 18 steps, as long where it has 64. Other groups store as fast themselves, and have the memory for stages.
constexpr int64_t most_steps_stored_by_maps = 24;

/// Whether a thread's sums leave registers for the rest: of windows that slide ptxas 13.0 else spills or gives up.
bool sums_fit(const HopperConfig& c) { return c.rows() * c.columns() / 2 + (c.swap ? 40 : 48) <= launched_registers(c); }

/// Whether a thread's sums leave registers for the moments of rows that are normalised, and what these are made of.
bool moments_fit(const HopperConfig& c) {
  const int64_t granted = std::min<int64_t>(c.registers > 0 ? c.registers : launched_registers(c), 255);
  return c.rows() * c.columns() / 2 + 2 * c.rows() + 56 <= granted;
}

}  // namespace

std::vector<Kind> hopper_operand_kinds(const CudaEpilogue& e, int64_t width) {
  std::vector<Kind> kinds;
  bool staged = false;
  for (size_t i = 0; i < e.operands().size(); ++i) {
    const int64_t size = bytes(e.operands()[i].tensor.type, 1);
    const bool vectors = e.access(i + 1) == 1, rows = e.varies_by_row(i + 1);
    if (rows && !e.operands()[i].by_index && e.operands()[i].input == EpilogueOperand::no_input && !e.operands()[i].memory) {
      kinds.push_back(Kind::up);
      continue;
    }
    Kind kind = Kind::each;
    // They are copied by 4 bytes or two elements at a time, none of them beyond the columns.
    if (vectors && !rows && (size == 4 || (size == 2 && e.columns() % 2 == 0))) kind = Kind::by_column;
    if (vectors && rows && size <= 2 && size == bytes(e.output().type, 1) && e.columns() % width == 0 && !staged)
      kind = Kind::staged, staged = true;
    kinds.push_back(kind);
  }
  return kinds;
}

Result<std::vector<HopperConfig>> hopper_configs(const CudaProblem& p, const Gpu& gpu) {
  if (gpu.info.major != 9)
    return refuse(Reason::wrong_machine, "wgmma is Hopper's alone (9.0), this is {}.{}", gpu.info.major, gpu.info.minor);
  if (auto why = rejects_types(p, gpu)) return *why;
  if (p.k == 0) return refuse(Reason::wrong_shape, "K = 0");
  if (auto why = rejects_map(p.a, "a", p.m, p.k, p.batch, bytes(p.type, 1))) return *why;
  const bool laid_anew = along_k_only(p) && !p.b.k_major;  // by the build
  if (auto why = rejects_map(p.b, "b", p.n, p.k, p.batch, bytes(p.type, 1)); why && !laid_anew) return *why;
  static const std::vector<TileShape> tiles = every_tile();
  const After whole(p, 0);
  const bool along_k = along_k_only(p), pairs = takes_pairs(p);
  std::vector<std::pair<double, HopperConfig>> ranked;
  for (const TileShape& t : tiles) {
    // Few rows: no tile of more than twice as many, and none that fills the 64 rows with them. Images have many: of the sizes that
    // only the instruction's columns have, one may be what its multiprocessors want.
    const bool of_images = p.image_bytes > 0 && (!integers(p) || pairs) && t.m >= 80 && !t.packed && p.m > t.m;
    if (t.swap && !of_images && (p.m > t.m || (t.m > 8 && p.m <= t.m - (t.m <= 64 ? 8 : 16)))) continue;
    if (!t.swap && p.m <= t.m / 2) continue;
    for (const bool transposed : {false, true}) {
      // Chunks of 64 columns are copied whole: a tile of others takes less where b's lines run along K.
      if (transposed && (!p.weights.valid() || (along_k ? p.b.k_major : t.swap || t.n % 64 == 0))) continue;
      if (!transposed && along_k && !p.b.k_major) continue;
      HopperConfig c{t.m, t.n, t.groups, t.blocks, t.swap, t.alternate, 1, 1, t.registers};
      c.transposed = transposed, c.gated = p.gated, c.packed = t.packed;
      c.line = p.line_bytes, c.steps = c.line / bytes(p.type, 1);
      // Of up to 8 rows packed tiles are no faster, and the weights would take memory twice where another kernel reads them.
      if (c.packed && (along_k || !p.weights.valid() || p.m <= 8)) continue;
      // Only lanes that have the sums twice need so many registers for such a tile.
      if (t.m == 128 && t.registers > 0 && !t.alternate && p.type != DType::f8e4m3fn) continue;
      // Beside 192 sums the ends of integers, which read scales and other tensors, have too few registers: ptxas spills.
      if (integers(p) && t.registers > 0 && t.alternate) continue;
      // Of integers wgmma has no such widths.
      if (integers(p) && (c.columns() == 40 || c.columns() == 56 || c.columns() == 72)) continue;
      // b's lines may lie in any order where they are laid so by the build.
      if (!c.swap && ((integers(p) && p.constant_b) || (along_k && transposed)))
        c.finishing = Finishing::side_by_side, c.width = lane_columns(p, c.tile_n);
      if (of_images && c.swap && integers(p)) c.finishing = Finishing::in_registers, c.paired = true;
      const After after = c.width > 0 ? After(p, c.width) : whole;
      if (c.width > 0) c.columns_bytes = after.columns_bytes(c.tile_n);
      if (c.width > 0 && after.staged) c.held_bytes = c.rows() * 64 * c.tile_n * bytes(p.epilogue.output().type, 1);
      if (p.type == DType::f8e4m3fn && !holds_sums_apart(c)) continue;
      // Of gates of few rows and in patches ptxas would serialise the products.
      if (c.gated && (t.swap || t.m < 128 || t.n % 128 != 0 || !after.in_registers)) continue;
      if (p.norm != kernels::HopperNorm::none && (t.swap || !after.in_registers || !moments_fit(c))) continue;
      if (after.in_registers)
        c.finishing = Finishing::in_registers, c.columns_bytes = after.columns_bytes(c.gated ? c.tile_n / 2 : c.tile_n);
      c.mapped = after.mapped && c.alternate && divide_up(p.k, c.steps) <= most_steps_stored_by_maps;
      if (fill_shared(p, after, c, gpu)) add_ways(p, after, c, gpu, ranked);
    }
  }
  if (ranked.empty() && p.norm != kernels::HopperNorm::none)
    return refuse(Reason::wrong_shape, "no tile has rows that are normalised first: {} x {}, results of {}", p.m, p.n,
                  smelt::name(p.epilogue.output().type));
  if (ranked.empty())
    return refuse(Reason::wrong_machine, "no tile fits into {} bytes of shared memory", gpu.info.shared_per_block);
  std::ranges::stable_sort(ranked, {}, &std::pair<double, HopperConfig>::first);
  std::vector<HopperConfig> found;
  for (auto& [us, c] : ranked) found.push_back(c);
  return found;
}

std::vector<HopperConfig> sliding_configs(const CudaProblem& p, const Gpu& gpu, double taps_of_a_buffer, int64_t reach) {
  const After after(p, 0);
  if (!after.in_registers) return {};  // integers neither: no faster so
  std::vector<TileShape> tiles;
  for (const int64_t n : {64, 96, 128, 160, 192, 256}) tiles.push_back({128, n, 2, 1});
  for (const int64_t n : {64, 96, 128, 160}) tiles.push_back({192, n, 3, 1});
  for (const int64_t n : {64, 96, 128}) tiles.push_back({256, n, 2, 1});
  for (const int64_t n : {64, 128}) tiles.push_back({128, n, 1, 2});
  for (const int64_t m : {96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256})
    for (const int64_t groups : {1, 2, 3}) tiles.push_back({m, 64 * groups, groups, groups == 1 ? 2 : 1, true});
  std::vector<std::pair<double, HopperConfig>> ranked;
  for (const TileShape& t : tiles) {
    if (p.m <= t.m || p.n + 63 < t.n) continue;
    HopperConfig c{t.m, t.n, t.groups, t.blocks, t.swap};
    c.taps = taps_of_a_buffer, c.lines = divide_up(t.m + reach, 8) * 8;
    c.finishing = Finishing::in_registers, c.columns_bytes = after.columns_bytes(c.tile_n);
    constexpr int64_t most_lines = 1024;  // of a tensor map's box
    if (c.lines > most_lines || !sums_fit(c) || !fill_shared(p, after, c, gpu) || c.stages < 3) continue;
    const bool several = c.tiles(p) > c.blocks * gpu.info.multiprocessors;
    for (c.persistent = false;; c.persistent = true) {
      ranked.emplace_back(hopper_estimate_us(p, c, gpu), c);
      if (c.persistent || !several) break;
    }
  }
  std::ranges::stable_sort(ranked, {}, &std::pair<double, HopperConfig>::first);
  std::vector<HopperConfig> found;
  for (auto& [us, c] : ranked) found.push_back(c);
  return found;
}

}  // namespace smelt::ops::matmul
