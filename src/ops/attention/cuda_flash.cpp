// Attention by tiles on tensor cores (src/kernels/attention/flash.cuh): generated for the depths, the tile, the program and how
// it hides keys; the other extents and the strides are arguments.
#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "base/error.h"
#include "expr/cuda.h"
#include "kernels/attention/flash.h"
#include "ops/attention/cuda_flash_tile.h"
#include "ops/attention/cuda_mask.h"
#include "ops/core/align.h"

namespace smelt::ops {
namespace {

struct FlashProblem {
  AttentionCuda p;
  ScoreMask mask;
  FlashTile tile;
};

/// A second kernel adds the splits' results.
bool adds_up_after(const FlashTile& t) { return t.splits > 1 && !t.cluster; }

std::string_view name_of(MaskKind m) { return m == MaskKind::none ? "none" : m == MaskKind::causal ? "causal" : "program"; }

/// The scores as the kernel sees them: where it knows how keys are hidden, without the program.
ScoresSource scores_of(const FlashProblem& f) {
  AttentionCuda p = f.p;
  if (f.mask.kind != MaskKind::program) p.program.reset(), p.operands.clear();
  return ScoresSource(p);
}

std::string source_of(const FlashProblem& f) {
  const FlashTile& t = f.tile;
  const ScoresSource scores = scores_of(f);
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
  const std::string in = read_only(f.p.type), out = writable(f.p.type);
  return attention_source(
      "#include \"attention/flash_block.cuh\"\n" + flash, scores, "attention",
      fmt::format("{}, {}", t.threads(), t.least_blocks(f.p.shape)),
      {{in, "q"},
       {in, "k"},
       {in, "v"},
       {out, "y"},
       {"const u8*", "map"},
       {"float*", "partial"},
       {"const AttentionProblem", "problem"},
       {"const FlashPlan", "plan"}},
      fmt::format("flash_block<F, {}, MaskKind::{}, {}, Splits::{}>", t.packed, name_of(f.mask.kind), t.mapped,
                  t.splits == 1 ? "none"
                  : t.cluster   ? "cluster"
                                : "grid"));
}

/// Adds up what the splits have left.
class Combine final : public CompiledKernel {
 public:
  Combine(const FlashProblem& f, const Gpu& gpu)
      : CompiledKernel(gpu,
                       {kernel_name(f.p, "combine"),
                        "#include \"attention/combine.cuh\"\n" +
                            entry_source("combine", "128",
                                         {{"const float*", "partial"},
                                          {writable(f.p.type), "y"},
                                          {"const AttentionProblem", "problem"},
                                          {"const FlashPlan", "plan"},
                                          {"const u32", "splits"}},
                                         fmt::format("combine_parts<{}, {}, {}>", expr::cuda_type(f.p.type),
                                                     f.p.shape.value_depth, f.tile.packed)),
                        {}},
                       "combine"),
        splits_(static_cast<uint32_t>(f.tile.splits)) {}

  void run(const Buffers&) override { fail("a part of attention is not run by itself"); }
  void enqueue(const Buffers& b, const float* partial, const kernels::AttentionProblem& problem, const kernels::FlashPlan& plan,
               int64_t vectors) {
    Arguments arguments;
    arguments.tensor(partial).tensor(b.outputs[0]).value(problem).value(plan).value(splits_);
    launch(b, {.grid = {static_cast<unsigned>((vectors + 127) / 128), 1, 1}, .block = {128, 1, 1}}, arguments);
  }

 private:
  uint32_t splits_;
};

/// Says which tiles a mask hides.
class Map final : public CompiledKernel {
 public:
  static constexpr int64_t group = 16;  // rows: MapRows of src/kernels/attention/map.cuh

  Map(const FlashProblem& f, const ScoresSource& scores, const Gpu& gpu)
      : CompiledKernel(
            gpu,
            {kernel_name(f.p, "map"),
             attention_source(
                 "#include \"attention/map.cuh\"\n", scores, "map", std::to_string(32 * group),
                 {{"u8*", "map"}, {"const AttentionProblem", "problem"}, {"const u32", "heads"}, {"const u32", "rows"}},
                 fmt::format("map_tiles<{}>", f.tile.keys)),
             {}},
            "map") {
    const AttentionShape& s = f.p.shape;
    const auto varies = [&](size_t axis) {
      return std::ranges::any_of(f.p.operands, [&](const ScoreOperand& o) { return o.strides[axis] != 0; });
    };
    batches_ = varies(0) ? s.batch : 1;
    heads_ = static_cast<uint32_t>(varies(1) ? s.heads : 1);
    rows_ = static_cast<uint32_t>(varies(2) ? s.queries : 1);
    groups_ = (rows_ + group - 1) / group;
    key_tiles_ = (s.keys + f.tile.keys - 1) / f.tile.keys;
  }
  int64_t bytes() const { return batches_ * heads_ * groups_ * key_tiles_; }
  void place(kernels::FlashPlan& plan) const {
    plan.map_batch = batches_ > 1 ? static_cast<uint32_t>(heads_ * groups_) : 0;
    plan.map_head = heads_ > 1 ? static_cast<uint32_t>(groups_) : 0;
    plan.map_groups = static_cast<uint32_t>(groups_);
  }

  void run(const Buffers&) override { fail("a part of attention is not run by itself"); }
  void enqueue(const Buffers& b, const AttentionCuda& p, const kernels::AttentionProblem& problem, const ScoresSource& scores) {
    Arguments arguments;
    arguments.tensor(b.workspace).value(problem).value(heads_).value(rows_);
    scores.pass(p, b, arguments);
    launch(b,
           {.grid = {static_cast<unsigned>(groups_), static_cast<unsigned>(batches_ * heads_), 1},
            .block = {static_cast<unsigned>(32 * group), 1, 1},
            .shared_bytes = group * key_tiles_},
           arguments);
  }

 private:
  int64_t batches_, groups_, key_tiles_;
  uint32_t heads_, rows_;
};

class FlashAttention final : public CompiledKernel {
 public:
  FlashAttention(const FlashProblem& f, const ScoresSource& scores, const Gpu& gpu)
      : CompiledKernel(gpu, {kernel_name(f.p, f.tile.config()), source_of(f), {}}, "attention"),
        f_(f),
        args_(attention_args(f.p)),
        scores_(scores) {
    const AttentionShape& s = f.p.shape;
    const FlashTile& t = f.tile;
    plan_.pairs = static_cast<uint32_t>(s.batch * (t.packed ? s.kv_heads : s.heads));
    plan_.row_tiles = static_cast<uint32_t>(t.row_tiles_of(s));
    plan_.splits = static_cast<uint32_t>(t.splits);
    plan_.offset = static_cast<int32_t>(f.mask.offset);
    plan_.scale = static_cast<float>(s.scale);
    plan_.factor = static_cast<float>(s.scale * std::numbers::log2e);
    if (adds_up_after(t)) combine_ = std::make_unique<Combine>(f, gpu);
    if (t.mapped) {
      map_ = std::make_unique<Map>(f, scores, gpu);
      map_->place(plan_);
    }
  }

  int64_t workspace() const override {
    const AttentionShape& s = f_.p.shape;
    const int64_t rows = s.batch * s.heads * s.queries;
    return map_bytes() + (combine_ ? f_.tile.splits * rows * (s.value_depth + 2) * 4 : 0);
  }

  /// A mask that is known to hide nothing, or what is causal, is not read.
  bool reads(size_t i) const override { return i < 3 || f_.mask.kind == MaskKind::program; }

  void run(const Buffers& b) override {
    const AttentionShape& s = f_.p.shape;
    const FlashTile& t = f_.tile;
    float* const partial = reinterpret_cast<float*>(static_cast<char*>(b.workspace) + map_bytes());
    if (map_) map_->enqueue(b, f_.p, args_, scores_);
    Arguments arguments;
    for (size_t i = 0; i < 3; ++i) arguments.tensor(b.inputs[i]);
    arguments.tensor(b.outputs[0]).tensor(b.workspace).tensor(partial).value(args_).value(plan_);
    if (f_.mask.kind == MaskKind::program) scores_.pass(f_.p, b, arguments);
    const int64_t list = t.mapped ? 2 * ((s.keys + t.keys - 1) / t.keys) : 0;
    launch(b,
           {.grid = {static_cast<unsigned>(t.blocks(s)), 1, 1},
            .block = {static_cast<unsigned>(t.threads()), 1, 1},
            .shared_bytes = t.shared_bytes(s) + list,
            .cluster = t.cluster ? static_cast<unsigned>(t.splits) : 1},
           arguments);
    if (combine_) combine_->enqueue(b, partial, args_, plan_, s.batch * s.heads * s.queries * s.value_depth / 4);
  }

 private:
  int64_t map_bytes() const { return map_ ? device_aligned(map_->bytes()) : 0; }

  FlashProblem f_;
  kernels::AttentionProblem args_;
  kernels::FlashPlan plan_{};
  ScoresSource scores_;
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
  if (s.keys == 0 || s.queries == 0 || s.batch == 0) return refuse(Reason::wrong_shape, "an extent is 0");
  return std::nullopt;
}

}  // namespace

void offer_flash_attention(const AttentionCuda& p, ScoreMask mask, const Machine& machine, Offer& offer) {
  const Gpu& gpu = *machine.gpu;
  if (const auto why = rejects(p, gpu)) return offer.refuse("cuda", why->at("flash"));
  if (mask.kind != MaskKind::program && p.shape.scale <= 0) mask = {};  // the largest product would not be the largest score
  const bool maps = mask.kind == MaskKind::program && p.program && p.shape.scale > 0 && adds_or_selects(*p.program);
  for (const FlashTile& t : flash_tiles(p, mask.kind, maps, gpu))
    offer.candidates.push_back({"cuda", t.config(), t.estimate_us, [f = FlashProblem{p, mask, t}, gpu = machine.gpu] {
                                  return std::make_unique<FlashAttention>(f, ScoresSource(f.p), *gpu);
                                }});
}

}  // namespace smelt::ops
