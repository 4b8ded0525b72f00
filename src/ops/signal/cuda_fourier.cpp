// DFT and STFT on a GPU (src/kernels/fourier/fourier.cuh): lines that fit into shared memory.
#include <algorithm>

#include "kernels/fourier/fourier.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"
#include "ops/signal/fft_plan.h"
#include "ops/signal/offer.h"
#include "ops/signal/problem.h"

namespace smelt::ops {
namespace {

constexpr int64_t most_bytes = 64 << 10;     // of shared memory: every architecture has as much
constexpr int64_t values_of_a_block = 1024;  // where lines are short
constexpr int64_t lines_across = 8;          // side by side in memory: 32 bytes of f32

struct Tiles {
  int64_t lines, threads, bytes;
};

Tiles tiles_of(const FourierProblem& p, int64_t value_bytes) {
  const int64_t values = p.values(), most = most_bytes / (2 * values * value_bytes);
  const bool across = p.step_in != p.parts_in;
  int64_t lines = std::max(values_of_a_block / values, across ? lines_across : int64_t{1});
  lines = std::clamp(std::min(lines, p.count()), int64_t{1}, std::min<int64_t>(most, 32));
  const int64_t threads = std::clamp<int64_t>((lines * values / 4 + 31) / 32 * 32, 64, 256);
  return {lines, threads, 2 * lines * values * value_bytes};
}

template <class C>
std::unique_ptr<Kernel> prepared(const FourierProblem& p, const KernelEntry& entry, const Tiles& tiles, const Gpu& gpu) {
  LaunchPlan plan("fourier", "#include \"fourier/fourier.cuh\"\n");
  if (p.count() > 0) {
    const int64_t values = p.values();
    const bool packed = p.form() == LineForm::real || p.form() == LineForm::half;
    const BufferRef roots = plan.table(roots_of_unity<C>(values, values));
    const BufferRef half_turn = packed ? plan.table(roots_of_unity<C>(p.length, values + 1)) : roots;
    const FourierLines& l = p.lines;
    const kernels::FourierArgs<void, void> a{.x = nullptr,
                                             .window = nullptr,
                                             .y = nullptr,
                                             .roots = nullptr,
                                             .half_turn = nullptr,
                                             .from_outer = l.from_outer,
                                             .from_inner = l.from_inner,
                                             .to_outer = l.to_outer,
                                             .to_inner = l.to_inner,
                                             .step_in = p.step_in,
                                             .step_out = p.step_out,
                                             .scale = p.scale(),
                                             .count = static_cast<uint32_t>(p.count()),
                                             .inner = Divider(static_cast<uint32_t>(l.inner))};
    device::cuda::LaunchShape shape;
    shape.grid = {(p.count() + tiles.lines - 1) / tiles.lines};
    shape.block[0] = static_cast<unsigned>(tiles.threads);
    shape.shared_bytes = tiles.bytes;
    plan.launch(entry, shape)
        .args(a, {{a.x, {BufferRef::input, 0}},
                  {a.window, p.windowed ? std::optional(BufferRef{BufferRef::input, 2}) : std::nullopt},
                  {a.y, {BufferRef::output, 0}},
                  {a.roots, roots},
                  {a.half_turn, half_turn}});
  }
  return launched(std::move(plan), gpu);
}

std::string body_of(const FourierProblem& p, const Tiles& tiles, const std::vector<int64_t>& radices) {
  static constexpr const char* forms[] = {"complex", "real", "half", "odd_half"};
  std::string text = fmt::format("fourier<FourierConfig{{.form = FourierForm::{}, .inverse = {}, .windowed = {}, .across = {}, ",
                                 forms[static_cast<size_t>(p.form())], p.inverse, p.windowed, p.step_in != p.parts_in);
  text += fmt::format(".values = {}, .lines = {}, .length = {}, .read = {}, .written = {}, .parts_in = {}, .parts_out = {}}}",
                      p.values(), tiles.lines, p.length, p.read, p.written, p.parts_in, p.parts_out);
  for (const int64_t radix : radices) text += fmt::format(", {}", radix);
  return text + ">";
}

}  // namespace

void offer_fourier_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Result<FourierProblem> p = fourier_problem(b);
  if (!p) return offer.refuse("cuda", p.refusal());
  const bool wide = p->type == DType::f64;
  const int64_t values = p->values(), value_bytes = wide ? 16 : 8, most = most_bytes / (2 * value_bytes);
  if (values > most)
    return offer.refuse("cuda", Reason::too_large, "lines of {} complex values, expected at most {}", values, most);
  const std::vector<int64_t> radices = radices_of(values);
  if (values > 1 && radices.empty())
    return offer.refuse("cuda", Reason::wrong_shape, "a prime factor of {} is above {}", values, largest_radix);
  if (p->count() >= int64_t{1} << 31) return offer.refuse("cuda", Reason::too_large, "{} lines; it counts to 2^31", p->count());
  const Tiles tiles = tiles_of(*p, value_bytes);
  const KernelEntry entry{"fourier", std::to_string(tiles.threads),
                          fmt::format("FourierArgs<{}, {}>", expr::cuda_type(p->type), wide ? "double" : "float"),
                          body_of(*p, tiles, radices)};
  const double moved = static_cast<double>(storage_bytes(b.inputs[0]) + storage_bytes(b.outputs[0]));
  offer.candidates.push_back(
      {"cuda", "", gpu_estimate_us(*machine.gpu, moved), [problem = *p, entry, tiles, wide, gpu = machine.gpu] {
         return wide ? prepared<double>(problem, entry, tiles, *gpu) : prepared<float>(problem, entry, tiles, *gpu);
       }});
}

}  // namespace smelt::ops
