// Convolutions as implicit products (src/kernels/conv/implicit.cuh): f16 and bf16 on tensor cores, f32 by multiply-adds, or where
// it may be rounded to tf32 on tensor cores too. Generated for the type, the tile, the width of copies and the epilogue.
#include <fmt/format.h>

#include <algorithm>

#include "expr/cuda.h"
#include "ops/conv/cuda_implicit_problem.h"
#include "ops/conv/cuda_pad.h"
#include "ops/conv/cuda_walked_problem.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cuda/source.h"
#include "ops/matmul/cuda_configs.h"

namespace smelt::ops::conv {
namespace {

using Config = matmul::CudaConfig;

constexpr int64_t most_copies = 8;  // a thread's of the image a tile: each takes four registers

std::string source(const GpuRequest& r, const ImplicitProblem& p, const Config& c) {
  const char* batches = p.transposed() ? "phases" : p.joined > 1 ? "joined" : p.groups > 1 ? "groups" : "none";
  // Where bounds leave the number of blocks open, ptxas spills some of those of joined groups to have more of them at once.
  const KernelEntry conv{
      "conv", p.joined > 1 ? "Tile::threads, 1" : "Tile::threads",
      fmt::format("ImplicitArgs<Tile::A, Tile::Sum, {}>", p.segments.size()),
      fmt::format("implicit_conv<Tile, {}, {}, {}, ImplicitBatches::{}>", p.vec, c.splits > 1, p.depth.has_value(), batches)};
  return fmt::format("#include \"conv/implicit.cuh\"\n\nusing Tile = {};\nstatic_assert(Tile::shared_bytes == {});\n\n",
                     matmul::tile_type(implicit_product(r, p, c.tile_k), c), c.shared_bytes(bytes(p.type, 1))) +
         implicit_epilogue(r, p).source(conv, kernels::implicit_bytes(static_cast<int>(p.segments.size())));
}

class ImplicitKernel final : public CompiledKernel {
 public:
  ImplicitKernel(const GpuRequest& r, const ImplicitProblem& p, const Config& c, const std::string& name)
      : CompiledKernel(*r.gpu, {fmt::format("{} {}", name, c.print()), source(r, p, c), {}}, "conv"),
        epilogue_(implicit_epilogue(r, p)),
        at_(r.at),
        segments_(p.segments.size()),
        image_bytes_(device_aligned(p.padded_bytes())),
        args_(implicit_arguments(p, c)) {
    if (p.padded) pad_ = padding_kernel(r, p);
    const int64_t tiles_n = (p.m + c.tile_n - 1) / c.tile_n, tiles = (p.pixels() + c.tile_m - 1) / c.tile_m * tiles_n;
    const int64_t blocks = tiles * p.batches();
    const int64_t k_tiles = p.k(c.tile_k) / c.tile_k, split_tiles = (k_tiles + c.splits - 1) / c.splits;
    // A split that would begin beyond K is none.
    const int64_t splits = c.splits == 1 ? 1 : (k_tiles + split_tiles - 1) / split_tiles;
    shape_ = {.grid = {blocks, splits, 1},
              .block = {static_cast<unsigned>(c.threads()), 1, 1},
              .shared_bytes = c.shared_bytes(bytes(p.type, 1))};
    if (c.splits > 1) partial_bytes_ = blocks * splits * c.tile_m * c.tile_n * 4;
    if (!r.gpu->device) return;
    weights_ = implicit_weights_there(r, p, c.tile_k);
    args_.w = reinterpret_cast<const void*>(weights_->address());
    if (c.splits == 1) return;
    arrived_ = zeroed(*r.gpu, blocks * 4, "a convolution's split tiles");
    args_.arrived = reinterpret_cast<uint32_t*>(arrived_->address());
  }

  int64_t workspace() const override { return image_bytes_ + partial_bytes_; }
  bool in_place(size_t i) const override { return i >= at_.operands && epilogue_.in_place(i); }
  bool reads(size_t i) const override { return i != at_.w; }

  void run(const Buffers& b) override {
    if (pad_) pad_->run(b);
    for (size_t i = 0; i < segments_; ++i) args_.segments[i].x = pad_ ? b.workspace : b.inputs[i];
    args_.partial = static_cast<char*>(b.workspace) + image_bytes_;
    ops::Arguments arguments;
    arguments.bytes(&args_, kernels::implicit_bytes(static_cast<int>(segments_)));
    arguments.bytes(epilogue_.argument(b), epilogue_.bytes());
    launch(b, shape_, arguments);
  }

 private:
  CudaEpilogue epilogue_;
  conv::Arguments at_;
  size_t segments_;
  int64_t image_bytes_, partial_bytes_ = 0;
  std::unique_ptr<Kernel> pad_;
  device::cuda::LaunchShape shape_;
  ImplicitArguments args_;  // of which the first segments_ are given
  std::shared_ptr<device::cuda::Memory> weights_, arrived_;
};

/// What the walked kernel would take by this tile, guessed; 0 of what it does not take. Its main loop has fewer instructions, and of 329 problems
/// on an H100 (bench/results/gpu-conv-2026-11-26.txt to -28-residual.txt) this one took less time than both walked and hopper, beyond 3%, in none.
double as_walked_us(const ImplicitProblem& p, const Config& c, const GpuRequest& r) {
  WalkedProblem like{p};
  like.element = bytes(p.type, 1);
  if (p.transposed() || r.problem.group > 1 || like.element != 2) return 0;
  const int64_t line = c.tile_k * like.element;
  return walked_estimate_us(like, {.config = c, .chunk = line, .width = 0, .line = line}, *r.gpu, r.moved_bytes());
}

/// How many groups of few channels tensor cores may take side by side: so many that their channels or their outputs fill a line of a tile.
std::vector<int64_t> joined_groups(const GpuRequest& r) {
  const Problem& p = r.problem;
  const bool tensor = p.input == DType::f16 || p.input == DType::bf16 || (p.input == DType::f32 && r.gpu->tf32);
  const int64_t channels = p.channels() / p.group, outputs = p.outputs() / p.group;
  std::vector<int64_t> counts;
  if (p.group == 1 || channels == 1 || p.transposed || !tensor) return counts;  // of one channel: depthwise kernels
  for (const int64_t line : {32, 64, 128}) {
    int64_t count = 1;
    for (int64_t divisor = 2; divisor * std::max(channels, outputs) <= line; ++divisor)
      if (p.group % divisor == 0) count = divisor;
    if (count > 1 && (counts.empty() || counts.back() != count)) counts.push_back(count);
  }
  return counts;
}

struct Ranked {
  double us;
  std::shared_ptr<const ImplicitProblem> problem;
  Config config;
};

/// Adds the tiles that suit the problem.
void add_ranked(const SharedRequest& r, const std::shared_ptr<const ImplicitProblem>& p, const std::vector<Config>& configs,
                std::vector<Ranked>& ranked) {
  matmul::CudaProblem product = implicit_product(*r, *p, 1);
  for (const Config& c : configs) {
    if (c.tile_m * c.tile_k / p->vec > most_copies * c.threads() || c.threads() % (c.tile_k / p->vec) != 0) continue;
    // Its pixels' places beside 32 x 32 sums a warp are more than the registers that it may have: 8 bytes spilled (sm_90a, bf16).
    if (c.tile_m == 32 && c.tile_n == 128) continue;
    // Likewise where each has a depth, and segments differ (sm_80, f16) or phases do (16 bytes, sm_75).
    if (p->depth && (p->segments.size() > 1 || p->transposed()) && c.tile_m == 64 && c.tile_n == 32) continue;
    if (p->joined > 1 && (c.splits > 1 || c.unit == Config::Unit::fma)) continue;
    product.k = p->k(c.tile_k);
    const double us = std::max(matmul::cuda_estimate_us(product, c, *r->gpu), as_walked_us(*p, c, *r));
    ranked.push_back({us + (p->padded ? 2 : 0), p, c});
  }
}

}  // namespace

void offer_implicit_cuda(const SharedRequest& r, Offer& offer) {
  constexpr size_t most_candidates = 12;  // the rest rank behind these by so much that they never won
  std::vector<Ranked> ranked;
  std::optional<Refusal> why;
  std::vector<int64_t> counts{1};
  for (const int64_t more : joined_groups(*r)) counts.push_back(more);
  for (const int64_t joined : counts) {
    auto found = implicit_problem(*r, Groups::taken, joined);
    if (!found) {
      if (!why) why = found.refusal();
      continue;
    }
    const auto p = std::make_shared<const ImplicitProblem>(*std::move(found));
    const auto configs = matmul::cuda_configs(implicit_product(*r, *p, 1), *r->gpu);
    if (configs)
      add_ranked(r, p, *configs, ranked);
    else if (!why)
      why = configs.refusal();
    if (configs && ranked.empty() && !why)
      why = refuse(Reason::too_large, "copies of {} elements, too many a thread in every tile", p->vec);
  }
  if (ranked.empty()) {
    if (why) offer.refuse("cuda", why->at("implicit"));
    return;
  }
  std::ranges::stable_sort(ranked, {}, &Ranked::us);
  if (ranked.size() > most_candidates) ranked.resize(most_candidates);
  for (const auto& [us, p, c] : ranked) {
    const std::string joined = p->joined > 1 ? fmt::format("j{} ", p->joined) : "";
    offer.candidates.push_back(
        {"cuda", fmt::format("implicit {}{}", joined, c.print()), us,
         [r, p = p, c = c, name = offer.problem] { return std::make_unique<ImplicitKernel>(*r, *p, c, name); }});
  }
}

}  // namespace smelt::ops::conv
