// Attention, a warp a query row (src/kernels/attention/plain.cuh): takes every problem.
#include <fmt/format.h>

#include <algorithm>

#include "expr/cuda.h"
#include "ops/attention/cuda_attention.h"

namespace smelt::ops {
namespace {

constexpr int64_t warps = 4;
constexpr int64_t most_columns = 512;  // a block: 16 sums a lane

int64_t held_by(const AttentionCuda& p) { return (std::min(p.shape.value_depth, most_columns) + 31) / 32; }

std::string source_of(const AttentionCuda& p, const CudaScores& scores) {
  const std::string_view type = expr::cuda_type(p.type);
  const KernelEntry attention{"attention", fmt::format("{}, 1", 32 * warps), fmt::format("AttentionProblem<{}>", type),
                              fmt::format("plain_attention<{}, {}, {}, {}>", std::min(p.access(0), p.access(1)), warps,
                                          std::max<int64_t>(held_by(p), 1), scores.type())};
  return "#include \"attention/plain.cuh\"\n" + scores.source(attention, sizeof(kernels::AttentionProblem<void>));
}

class PlainAttention final : public CompiledKernel {
 public:
  PlainAttention(const AttentionCuda& p, const CudaScores& scores, const Gpu& gpu)
      : CompiledKernel(gpu, {kernel_name(p, "plain"), source_of(p, scores), {}}, "attention"),
        p_(p),
        args_(attention_args(p)),
        scores_(scores) {}

  void run(const Buffers& b) override {
    const AttentionShape& s = p_.shape;
    const int64_t rows = s.batch * s.heads * s.queries;
    if (rows == 0 || s.value_depth == 0) return;
    Arguments arguments;
    set_tensors(args_, b);
    arguments.value(args_);
    scores_.pass(b, arguments);
    const int64_t columns = 32 * held_by(p_);
    launch(b, {.grid = {(rows + warps - 1) / warps, (s.value_depth + columns - 1) / columns, 1}, .block = {32 * warps, 1, 1}},
           arguments);
  }

 private:
  AttentionCuda p_;
  kernels::AttentionProblem<void> args_;
  CudaScores scores_;
};

}  // namespace

void offer_plain_attention(const AttentionCuda& p, const Machine& machine, Offer& offer) {
  const AttentionShape& s = p.shape;
  const int64_t rows = s.batch * s.heads * s.queries;
  if (rows >= int64_t{1} << 31) return offer.refuse("cuda", Reason::too_large, "plain: {} rows, it counts to 2^31", rows);
  // Some 3 TFLOP/s, of which what is left of the tensor cores' peak ranks it last wherever there is another.
  const double estimate = gpu_estimate_us(*machine.gpu, p.bytes_moved(), 100 * p.flops());
  offer.candidates.push_back(
      {"cuda", "plain", estimate, [p, gpu = machine.gpu] { return std::make_unique<PlainAttention>(p, CudaScores(p), *gpu); }});
}

}  // namespace smelt::ops
