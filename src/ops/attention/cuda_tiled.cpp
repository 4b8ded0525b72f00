// Attention by tiles in float (src/kernels/attention/tiled.cuh): f32, and what tensor cores cannot load.
#include <fmt/format.h>

#include <algorithm>

#include "expr/cuda.h"
#include "kernels/attention/tiled.h"
#include "ops/attention/cuda_attention.h"

namespace smelt::ops {
namespace {

constexpr int64_t rows = 64, keys = 64, threads = 256;

int64_t shared_bytes(const AttentionShape& s) {
  const int64_t pitch = (s.depth + 3) / 4 * 4 + 4, value_pitch = (s.value_depth + 15) / 16 * 16;
  return 4 * ((rows + keys) * pitch + keys * value_pitch + rows * (keys + 4));
}

/// Neighbouring elements of q, k and v that are read in one access.
int64_t width_of(const AttentionCuda& p) { return std::min({p.access(0), p.access(1), p.access(2), int64_t{4}}); }

std::string source_of(const AttentionCuda& p, const CudaScores& scores) {
  const std::string_view type = expr::cuda_type(p.type);
  const std::string tiled =
      fmt::format("\nusing Tiled = TiledAttention<{}, {}, {}, {}>;\nstatic_assert(Tiled::shared_bytes == {});\n", type,
                  p.shape.depth, p.shape.value_depth, width_of(p), shared_bytes(p.shape));
  const KernelEntry attention{"attention", fmt::format("{}, 1", threads), fmt::format("TiledArgs<{}>", type),
                              fmt::format("Tiled::run<{}>", scores.type())};
  return "#include \"attention/tiled.cuh\"\n" + tiled + scores.source(attention, sizeof(kernels::TiledArgs<void>));
}

class TiledAttention final : public CompiledKernel {
 public:
  TiledAttention(const AttentionCuda& p, const ScoreMask& mask, const CudaScores& scores, const Gpu& gpu)
      : CompiledKernel(gpu, {kernel_name(p, "tiled"), source_of(p, scores), {}}, "attention"),
        p_(p),
        args_{.problem = attention_args(p), .causal = mask.kind == MaskKind::causal, .offset = static_cast<int32_t>(mask.offset)},
        kind_(mask.kind),
        scores_(scores) {}

  bool reads(size_t i) const override { return i < 3 || kind_ == MaskKind::program; }

  void run(const Buffers& b) override {
    const AttentionShape& s = p_.shape;
    Arguments arguments;
    set_tensors(args_.problem, b);
    arguments.value(args_);
    scores_.pass(b, arguments);
    launch(b,
           {.grid = {(s.queries + rows - 1) / rows, s.batch * s.heads, 1},
            .block = {threads, 1, 1},
            .shared_bytes = shared_bytes(s)},
           arguments);
  }

 private:
  AttentionCuda p_;
  kernels::TiledArgs<void> args_;
  MaskKind kind_;
  CudaScores scores_;
};

std::optional<Refusal> rejects(const AttentionCuda& p, const Gpu& gpu) {
  constexpr int64_t most_depth = 256, most_heads = 65535;  // a grid's second extent
  const AttentionShape& s = p.shape;
  if (p.type == DType::f64) return refuse(Reason::wrong_type, "its type is f64; it computes in f32");
  for (const int64_t d : {s.depth, s.value_depth})
    if (d < 1 || d > most_depth) return refuse(Reason::wrong_shape, "a depth of {}; expected 1 to {}", d, most_depth);
  if (shared_bytes(s) > gpu.info.shared_per_block)
    return refuse(Reason::too_large, "{} bytes of shared memory; a block has {}", shared_bytes(s), gpu.info.shared_per_block);
  if (s.batch * s.heads > most_heads)
    return refuse(Reason::too_large, "{} heads in all; a grid has {}", s.batch * s.heads, most_heads);
  if (s.keys == 0 || s.queries == 0 || s.batch == 0) return refuse(Reason::wrong_shape, "an extent is 0");
  return std::nullopt;
}

}  // namespace

void offer_tiled_attention(const AttentionCuda& p, ScoreMask mask, const Machine& machine, Offer& offer) {
  const Gpu& gpu = *machine.gpu;
  const AttentionShape& s = p.shape;
  if (const auto why = rejects(p, gpu)) return offer.refuse("cuda", why->at("tiled"));
  AttentionCuda bare = p;
  if (mask.kind != MaskKind::program) bare.program.reset(), bare.operands.clear();
  // Some 15 TFLOP/s: of what tensor cores do the fiftieth part.
  const int64_t blocks = (s.queries + rows - 1) / rows;
  const double padded = static_cast<double>(blocks * rows) / static_cast<double>(s.queries);
  const double estimate =
      gpu_estimate_us(gpu, p.bytes_moved(), 50 * padded * p.flops() * (mask.kind == MaskKind::causal ? 0.55 : 1));
  offer.candidates.push_back({"cuda", "tiled", estimate, [bare, mask, gpu = machine.gpu] {
                                return std::make_unique<TiledAttention>(bare, mask, CudaScores(bare), *gpu);
                              }});
}

}  // namespace smelt::ops
