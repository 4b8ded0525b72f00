// Convolutions of f16 and bf16 by the kernel that is written with CuTe (src/kernels/conv/cute.cuh): channels-last images, several in
// turn, whatever program behind the sums. It compiles for seconds, so it is a candidate only where --tactics names it.
#include <fmt/format.h>

#include <algorithm>

#include "device/cuda/cutlass.h"
#include "ops/conv/cuda_implicit_problem.h"
#include "ops/core/tactic_names.h"
#include "ops/cuda/asked_tactics.h"
#include "ops/cuda/source.h"

namespace smelt::ops::conv {
namespace {

using Config = matmul::CudaConfig;

constexpr int64_t width = 8;  // neighbouring channels of y that a thread has side by side

/// Shared memory of conv/cute_tile.cuh: the stages, or in their place the sums.
int64_t shared_bytes(const Config& c) {
  return std::max(c.stages * (c.tile_m + c.tile_n) * c.tile_k * 2, c.tile_m * c.tile_n * int64_t{4});
}

std::string print(const Config& c) { return fmt::format("{}x{}x{} s{}", c.tile_m, c.tile_n, c.tile_k, c.stages); }

std::string source(const GpuRequest& r, const ImplicitProblem& p, const Config& c) {
  const char* const element = p.type == DType::f16 ? "half_t" : "bfloat16_t";
  const size_t segments = p.segments.size();
  const KernelEntry conv{"conv", "Tile::threads", fmt::format("ImplicitArgs<Tile::Element, float, {}>", segments),
                         fmt::format("cute_conv<Tile, {}>", segments)};
  return fmt::format(
             "#include \"conv/cute.cuh\"\n\nusing Tile = CuteTile<cute::{}, {}, {}, {}, {}>;\n"
             "static_assert(Tile::shared_bytes == {});\n\n",
             element, c.tile_m, c.tile_n, c.tile_k, c.stages, shared_bytes(c)) +
         r.epilogue(width).source(conv, kernels::implicit_bytes(static_cast<int>(segments)));
}

class CuteKernel final : public CompiledKernel {
 public:
  CuteKernel(const GpuRequest& r, const ImplicitProblem& p, const Config& c, const std::string& name)
      : CompiledKernel(*r.gpu, {fmt::format("{} cute {}", name, print(c)), source(r, p, c), {device::cuda::cutlass_option()}},
                       "conv"),
        epilogue_(r.epilogue(width)),
        at_(r.at),
        segments_(p.segments.size()),
        args_(implicit_arguments(p, c)) {
    shape_ = {.grid = {static_cast<int64_t>(args_.tiles), 1, 1},
              .block = {static_cast<unsigned>(c.threads()), 1, 1},
              .shared_bytes = shared_bytes(c)};
    if (!r.gpu->device) return;
    weights_ = implicit_weights_there(r, p, c.tile_k);
    args_.w = reinterpret_cast<const void*>(weights_->address());
  }

  int64_t workspace() const override { return 0; }
  bool in_place(size_t i) const override { return i >= at_.operands && epilogue_.in_place(i); }
  bool reads(size_t i) const override { return i != at_.w; }

  void run(const Buffers& b) override {
    for (size_t i = 0; i < segments_; ++i) args_.segments[i].x = b.inputs[at_.x + i];
    ops::Arguments arguments;
    arguments.bytes(&args_, kernels::implicit_bytes(static_cast<int>(segments_)));
    arguments.bytes(epilogue_.argument(b), epilogue_.bytes());
    launch(b, shape_, arguments);
  }

 private:
  CudaEpilogue epilogue_;
  conv::Arguments at_;
  size_t segments_;
  device::cuda::LaunchShape shape_;
  ImplicitArguments args_;  // of which the first segments_ are given
  std::shared_ptr<device::cuda::Memory> weights_;
};

/// The problem, or why the kernel does not take it.
Result<ImplicitProblem> cute_problem(const GpuRequest& r) {
  if (const std::string& missing = device::cuda::cutlass_headers().missing; !missing.empty())
    return refuse(Reason::unsupported, "{}", missing);
  if (r.problem.input != DType::f16 && r.problem.input != DType::bf16)
    return refuse(Reason::wrong_type, "{}, expected f16 or bf16", name(r.problem.input));
  if (r.gpu->info.major < 8) return refuse(Reason::unsupported, "{}, expected sm_80 or newer", r.gpu->info.arch);
  if (r.problem.transposed) return refuse(Reason::unsupported, "a transposed convolution");
  auto p = implicit_problem(r);
  if (!p) return p;
  if (p->depth) return refuse(Reason::unsupported, "a volume");
  constexpr int64_t most = int64_t{1} << 31;
  if (p->padded || p->vec < 8)
    return refuse(Reason::wrong_layout, "copies of {} bytes, expected 16: the channels of a pixel, or its strides", p->vec * 2);
  for (size_t i = 0; i < p->segments.size(); ++i)
    if (p->segments[i].shift != 0) return refuse(Reason::unsupported, "input {} is upsampled", i);
  if (p->m * p->k(64) >= most || p->pixels() + 128 >= most)
    return refuse(Reason::too_large, "{} pixels, {} weights; it counts to 2^31", p->pixels(), p->m * p->k(64));
  return p;
}

/// What may suit: K in steps of 64 channels, or of 32 where those leave fewer zeros behind the channels.
std::vector<Config> configs(const ImplicitProblem& p, const Gpu& gpu) {
  const int64_t tile_k = p.k(32) * 5 <= p.k(64) * 4 ? 32 : 64;
  std::vector<Config> found;
  for (const int64_t tile_m : {64, 128})
    for (const int64_t tile_n : {64, 128}) {
      const Config c{.tile_m = tile_m,
                     .tile_n = tile_n,
                     .tile_k = tile_k,
                     .warps_m = 2,
                     .warps_n = tile_m * tile_n > 128 * 64 ? 4 : 2,
                     .stages = tile_k == 32 ? 4 : 3,
                     .ahead = true};
      if (shared_bytes(c) <= gpu.info.shared_per_block) found.push_back(c);
    }
  return found;
}

}  // namespace

void offer_cute(const SharedRequest& r, Offer& offer) {
  if (!r->gpu->caches->get<AskedTactics>().cute) return;
  auto found = cute_problem(*r);
  if (!found) return offer.refuse(std::string(cute), found.refusal());
  const auto p = std::make_shared<const ImplicitProblem>(*std::move(found));
  matmul::CudaProblem product = implicit_product(*r, *p, 1);
  std::vector<std::pair<double, Config>> ranked;
  for (const Config& c : configs(*p, *r->gpu)) {
    product.k = p->k(c.tile_k);
    ranked.emplace_back(matmul::cuda_estimate_us(product, c, *r->gpu), c);
  }
  std::ranges::stable_sort(ranked, {}, &std::pair<double, Config>::first);
  for (const auto& [us, c] : ranked)
    offer.candidates.push_back({std::string(cute), print(c), us,
                                [r, p, c = c, name = offer.problem] { return std::make_unique<CuteKernel>(*r, *p, c, name); }});
}

}  // namespace smelt::ops::conv
