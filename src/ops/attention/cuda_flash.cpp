// Attention by tiles on tensor cores (src/kernels/attention/flash.cuh): generated for the depths, the tile, the program and how
// it hides keys; the other extents and the strides are arguments.
#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "base/error.h"
#include "expr/cuda.h"
#include "kernels/attention/cache.h"
#include "kernels/attention/flash.h"
#include "kernels/attention/map.h"
#include "ops/attention/cuda_flash_tile.h"
#include "ops/attention/cuda_mask.h"
#include "ops/core/align.h"

namespace smelt::ops {
namespace {

using FlashArgs = kernels::FlashArgs<void>;
using CachedFlashArgs = kernels::CachedFlashArgs<void>;

struct FlashProblem {
  AttentionCuda p;  // where the kernel knows how keys are hidden, without the program
  ScoreMask mask;
  FlashTile tile;
};

/// A second kernel adds the splits' results.
bool adds_up_after(const FlashTile& t) { return t.splits > 1 && !t.cluster; }

std::string_view name_of(MaskKind m) { return m == MaskKind::none ? "none" : m == MaskKind::causal ? "causal" : "program"; }

std::string source_of(const FlashProblem& f, const CudaScores& scores) {
  const FlashTile& t = f.tile;
  const std::string_view type = expr::cuda_type(f.p.type);
  const std::string config = config_source("FlashConfig", {{"depth", f.p.shape.depth},
                                                           {"value_depth", f.p.shape.value_depth},
                                                           {"row_tiles", t.row_tiles},
                                                           {"row_warps", t.row_warps},
                                                           {"key_warps", t.key_warps},
                                                           {"keys", t.keys},
                                                           {"stages", t.stages},
                                                           {"held_queries", t.held}});
  const std::string flash = fmt::format("\nusing F = Flash<{}, {}>;\nstatic_assert(F::shared_bytes == {} && F::rows == {});\n",
                                        type, config, t.shared_bytes(f.p.shape), t.rows());
  const std::string_view splits = t.splits == 1 ? "none" : t.cluster ? "cluster" : "grid";
  const KernelEntry attention{"attention", fmt::format("{}, {}", t.threads(), t.least_blocks(f.p.shape)),
                              fmt::format("{}FlashArgs<{}>", f.p.cache ? "Cached" : "", type),
                              fmt::format("flash_block<F, {}, MaskKind::{}, {}, Splits::{}, {}>", t.packed, name_of(f.mask.kind),
                                          t.mapped, splits, scores.type())};
  return "#include \"attention/flash_block.cuh\"\n" + flash +
         scores.source(attention, f.p.cache ? sizeof(CachedFlashArgs) : sizeof(FlashArgs));
}

std::string combine_source(const FlashProblem& f) {
  const KernelEntry combine{"combine", "128", fmt::format("FlashArgs<{}>", expr::cuda_type(f.p.type)),
                            fmt::format("combine_parts<{}, {}>", f.p.shape.value_depth, f.tile.packed)};
  return "#include \"attention/combine.cuh\"\n" + entry_source(combine, sizeof(FlashArgs));
}

/// Adds up what the splits have left.
class Combine final : public CompiledKernel {
 public:
  Combine(const FlashProblem& f, const Gpu& gpu)
      : CompiledKernel(gpu, {kernel_name(f.p, "combine"), combine_source(f), {}}, "combine") {}

  void run(const Buffers&) override { fail("a part of attention is not run by itself"); }
  void enqueue(const Buffers& b, const FlashArgs& args, int64_t vectors) {
    Arguments arguments;
    arguments.value(args);
    launch(b, {.grid = {(vectors + 127) / 128, 1, 1}, .block = {128, 1, 1}}, arguments);
  }
};

/// Says which tiles a mask hides.
class Map final : public CompiledKernel {
 public:
  static constexpr int64_t group = 16;  // rows: MapRows of src/kernels/attention/map.cuh

  Map(const FlashProblem& f, const CudaScores& scores, const Gpu& gpu)
      : CompiledKernel(gpu, {kernel_name(f.p, "map"), source(f, scores), {}}, "map") {
    const AttentionShape& s = f.p.shape;
    const auto varies = [&](size_t axis) {
      return std::ranges::any_of(f.p.operands, [&](const ScoreOperand& o) { return o.strides[axis] != 0; });
    };
    batches_ = varies(0) ? s.batch : 1;
    args_.heads = static_cast<uint32_t>(varies(1) ? s.heads : 1);
    args_.rows = static_cast<uint32_t>(varies(2) ? s.queries : 1);
    args_.keys = static_cast<uint32_t>(s.keys);
    groups_ = (args_.rows + group - 1) / group;
    key_tiles_ = (s.keys + f.tile.keys - 1) / f.tile.keys;
  }
  int64_t bytes() const { return batches_ * args_.heads * groups_ * key_tiles_; }
  void place(kernels::FlashPlan& plan) const {
    plan.map_batch = batches_ > 1 ? static_cast<uint32_t>(args_.heads * groups_) : 0;
    plan.map_head = args_.heads > 1 ? static_cast<uint32_t>(groups_) : 0;
    plan.map_groups = static_cast<uint32_t>(groups_);
  }

  void run(const Buffers&) override { fail("a part of attention is not run by itself"); }
  void enqueue(const Buffers& b, const CudaScores& scores) {
    args_.map = static_cast<uint8_t*>(b.workspace);
    Arguments arguments;
    arguments.value(args_);
    scores.pass(b, arguments);
    launch(b,
           {.grid = {groups_, batches_ * args_.heads, 1},
            .block = {static_cast<unsigned>(32 * group), 1, 1},
            .shared_bytes = group * key_tiles_},
           arguments);
  }

 private:
  static std::string source(const FlashProblem& f, const CudaScores& scores) {
    const KernelEntry map{"map", std::to_string(32 * group), "MapArgs",
                          fmt::format("map_tiles<{}, {}>", f.tile.keys, scores.type())};
    return "#include \"attention/map.cuh\"\n" + scores.source(map, sizeof(kernels::MapArgs));
  }
  int64_t batches_, groups_, key_tiles_;
  kernels::MapArgs args_{};
};

class FlashAttention final : public CompiledKernel {
 public:
  FlashAttention(const FlashProblem& f, const CudaScores& scores, const Gpu& gpu)
      : CompiledKernel(gpu, {kernel_name(f.p, f.tile.config()), source_of(f, scores), {}}, "attention"), f_(f), scores_(scores) {
    const AttentionShape& s = f.p.shape;
    args_.problem = attention_args(f.p);
    kernels::FlashPlan& plan = args_.plan;
    const FlashTile& t = f.tile;
    plan.pairs = static_cast<uint32_t>(s.batch * (t.packed ? s.kv_heads : s.heads));
    plan.row_tiles = static_cast<uint32_t>(t.row_tiles_of(s));
    plan.splits = static_cast<uint32_t>(t.splits);
    plan.offset = static_cast<int32_t>(f.mask.offset);
    plan.scale = static_cast<float>(s.scale);
    plan.factor = static_cast<float>(s.scale * std::numbers::log2e);
    if (const auto& cache = f.p.cache) {
      kernels::CacheArgs<void>& c = args_.cache;
      c.past = static_cast<uint32_t>(cache->past);
      int64_t* const strides[] = {c.k_strides, c.v_strides, c.present_k_strides, c.present_v_strides};
      for (size_t i = 0; i < 4; ++i) std::copy_n(cache->strides[i].begin(), 3, strides[i]);
    }
    if (adds_up_after(t)) combine_ = std::make_unique<Combine>(f, gpu);
    if (t.mapped) {
      map_ = std::make_unique<Map>(f, scores, gpu);
      map_->place(plan);
    }
  }

  int64_t workspace() const override {
    const AttentionShape& s = f_.p.shape;
    const int64_t rows = s.batch * s.heads * s.queries;
    return map_bytes() + (combine_ ? f_.tile.splits * rows * (s.value_depth + 2) * 4 : 0);
  }

  /// A mask that is known to hide nothing, or what is causal, is not read.
  bool reads(size_t i) const override { return i < f_.p.first_operand || f_.mask.kind == MaskKind::program; }

  void run(const Buffers& b) override {
    const AttentionShape& s = f_.p.shape;
    const FlashTile& t = f_.tile;
    if (map_) map_->enqueue(b, scores_);
    set_tensors(args_.problem, b);
    args_.map = map_ ? static_cast<const uint8_t*>(b.workspace) : nullptr;
    args_.partial = combine_ ? reinterpret_cast<float*>(static_cast<char*>(b.workspace) + map_bytes()) : nullptr;
    Arguments arguments;
    if (f_.p.cache) {
      args_.cache.k = b.inputs[3], args_.cache.v = b.inputs[4];
      args_.cache.present_k = b.outputs[1], args_.cache.present_v = b.outputs[2];
      arguments.value(args_);
    } else {
      arguments.value(static_cast<const FlashArgs&>(args_));
    }
    scores_.pass(b, arguments);
    const int64_t list = t.mapped ? 2 * ((s.keys + t.keys - 1) / t.keys) : 0;
    launch(b,
           {.grid = {t.blocks(s), 1, 1},
            .block = {static_cast<unsigned>(t.threads()), 1, 1},
            .shared_bytes = t.shared_bytes(s) + list,
            .cluster = t.cluster ? static_cast<unsigned>(t.splits) : 1},
           arguments);
    if (combine_) combine_->enqueue(b, args_, s.batch * s.heads * s.queries * s.value_depth / 4);
  }

 private:
  int64_t map_bytes() const { return map_ ? device_aligned(map_->bytes()) : 0; }

  FlashProblem f_;
  CachedFlashArgs args_{};
  CudaScores scores_;
  std::unique_ptr<Combine> combine_;
  std::unique_ptr<Map> map_;
};

std::optional<Refusal> rejects(const AttentionCuda& p, const Gpu& gpu) {
  const AttentionShape& s = p.shape;
  if (gpu.info.major < 8) return refuse(Reason::wrong_machine, "{} has no cp.async", gpu.info.arch);
  if (p.type != DType::f16 && p.type != DType::bf16)
    return refuse(Reason::wrong_type, "its type is {}; tensor cores take f16 and bf16", name(p.type));
  for (const int64_t d : {s.depth, s.value_depth})
    if (d % 8 != 0 || d < 8 || d > 256)
      return refuse(Reason::wrong_shape, "a depth of {}; expected a multiple of 8 up to 256 (16-byte loads)", d);
  constexpr std::string_view names[] = {"q", "k", "v", "y"};
  for (size_t t = 0; t < 4; ++t)
    if (const int64_t access = p.access(t), wanted = t == 3 ? 2 : 8; access < wanted)
      return refuse(Reason::wrong_layout, "{}'s rows can be accessed {} elements at a time; expected {}", names[t], access,
                    wanted);
  constexpr int64_t most_keys = 128, most_bytes = int64_t{1} << 31;  // of a tile; what the kernel counts in (attention/flash.cuh)
  for (const size_t t : {1, 2})
    if (const int64_t apart = std::abs(p.strides[t][2]) * bytes(p.type, 1); apart >= most_bytes / most_keys)
      return refuse(Reason::too_large, "{}'s rows are {} bytes apart, it counts to 2^31 over {} of them", names[t], apart,
                    most_keys);
  for (size_t t = 0; p.cache && t < 4; ++t)
    if (const int64_t access = p.cache_access(t); access < 8)
      return refuse(Reason::wrong_layout, "{} can be accessed {} elements at a time; expected 8",
                    t < 2 ? "new rows" : "the cache's rows", access);
  if (s.keys == 0 || s.queries == 0 || s.batch == 0) return refuse(Reason::wrong_shape, "an extent is 0");
  return std::nullopt;
}

}  // namespace

void offer_flash_attention(const AttentionCuda& p, ScoreMask mask, const Machine& machine, Offer& offer) {
  const Gpu& gpu = *machine.gpu;
  if (const auto why = rejects(p, gpu)) return offer.refuse("cuda", why->at("flash"));
  if (p.cache && mask.kind == MaskKind::causal && p.shape.queries + mask.offset < p.shape.keys)
    return offer.refuse("cuda", Reason::wrong_shape, "no query sees the last keys, which go to the cache");
  if (mask.kind != MaskKind::program && p.shape.scale <= 0) mask = {};  // the largest product would not be the largest score
  const bool maps = !p.cache && mask.kind == MaskKind::program && p.program && p.shape.scale > 0 && adds_or_selects(*p.program);
  AttentionCuda seen = p;
  if (mask.kind != MaskKind::program) seen.program.reset(), seen.operands.clear();
  const int64_t group = p.shape.heads / p.shape.kv_heads;
  for (const FlashTile& t : flash_tiles(p, mask.kind, maps, gpu)) {
    if (p.cache && (t.row_tiles_of(p.shape) > 1 || (group > 1 && !t.packed))) continue;  // two blocks would write the same rows
    offer.candidates.push_back({"cuda", t.config(), t.estimate_us, [f = FlashProblem{seen, mask, t}, gpu = machine.gpu] {
                                  return std::make_unique<FlashAttention>(f, CudaScores(f.p), *gpu);
                                }});
  }
  if (p.cache && offer.candidates.empty())
    offer.refuse("cuda", Reason::wrong_shape, "{} queries of {} heads that share keys are more than one tile of rows",
                 p.shape.queries, group);
}

}  // namespace smelt::ops
