// A first layer with the conversion of its image and the pooling of its results on a GPU: by one kernel, which writes neither, or by one
// for each part.
#include <fmt/format.h>

#include <algorithm>

#include "ops/conv/cuda_stem.h"
#include "ops/conv/family.h"
#include "ops/conv/int8_problem.h"
#include "ops/conv/stem.h"
#include "ops/core/align.h"
#include "ops/core/wanted_inside.h"

namespace smelt::ops {
namespace conv {
namespace {

class PartsKernel final : public Kernel {
 public:
  /// image, pool: null where there is none; the bytes of what they write and read.
  PartsKernel(std::unique_ptr<Kernel> convolution, std::unique_ptr<Kernel> image, std::unique_ptr<Kernel> pool,
              const StemParts& parts)
      : convolution_(std::move(convolution)),
        image_(std::move(image)),
        pool_(std::move(pool)),
        converted_(image_ ? device_aligned(storage_bytes(parts.converted.outputs[0])) : 0),
        between_(pool_ ? device_aligned(storage_bytes(parts.convolved.outputs[0])) : 0) {}

  int64_t workspace() const override {
    int64_t most = convolution_->workspace();
    for (const auto* other : {image_.get(), pool_.get()})
      if (other) most = std::max(most, other->workspace());
    return converted_ + between_ + most;
  }
  bool reads(size_t i) const override { return convolution_->reads(i); }

  void run(const Buffers& b) override {
    char* const memory = static_cast<char*>(b.workspace);
    void *const converted[] = {memory}, *const between[] = {memory + converted_}, *const rest = memory + converted_ + between_;
    std::vector<const void*> inputs(b.inputs.begin(), b.inputs.end());
    if (image_) {
      const void* const x[] = {inputs[0]};
      image_->run({x, converted, rest, b.stream});
      inputs[0] = memory;
    }
    convolution_->run({inputs, pool_ ? std::span<void* const>(between) : b.outputs, rest, b.stream});
    const void* const convolved[] = {between[0]};
    if (pool_) pool_->run({convolved, b.outputs, rest, b.stream});
  }

 private:
  std::unique_ptr<Kernel> convolution_, image_, pool_;
  int64_t converted_, between_;
};

/// The request of the convolution, floats or integers.
Result<SharedRequest> request(const BoundNode& node, const Machine& machine) {
  if (!is_int8_conv(*node.node)) return gpu_request(node, machine);
  auto q = int8_request(node, machine.threads);
  if (!q) return q.refusal();
  if (q->quantization().a_zero_input) return refuse(Reason::not_constant, "the image's zero point is not constant");
  return int8_gpu_request(*q, machine.gpu);
}

void offer_one_kernel(const BoundNode& node, const std::shared_ptr<const StemParts>& parts, const Machine& machine,
                      Offer& offer) {
  BoundNode seen = parts->convolved;  // the image where it lies
  seen.inputs[0].strides = node.inputs[0].strides;
  const auto made = request(seen, machine);
  if (!made) return offer.refuse("stem", made.refusal());
  const auto own = std::make_shared<GpuRequest>(**made);
  StemAround around;
  if (parts->image) around.image = parts->image->program, around.image_type = node.inputs[0].type;
  if (parts->pool) {
    const Shape grid = spatial_of(parts->convolved.outputs[0].shape);
    around.pool = window_of(*parts->pool, kernel_shape(*parts->pool, grid.size()), grid);
    around.y = parts->pooled.outputs[0];
  }
  if (auto why = rejects_stem(*own, around)) return offer.refuse("stem", *why);
  for (const StemTile& t : stem_tiles(*own, around))
    offer.candidates.push_back({"stem", t.print(), stem_estimate_us(*own, around, t),
                                [own, parts, around, t, name = offer.problem] { return stem_kernel(*own, around, t, name); }});
}

/// The candidate that ranks first, but for the reference.
const Candidate* best_of(const Offer& offer) {
  const Candidate* best = nullptr;
  for (const Candidate& c : offer.candidates)
    if (c.tactic != "reference" && (!best || c.estimate_us < best->estimate_us)) best = &c;
  return best;
}

}  // namespace

void offer_stem_cuda(const BoundNode& node, const Machine& machine, Offer& offer) {
  constexpr size_t most = 4;
  const auto parts = std::make_shared<const StemParts>(node);
  const WantedInside wanted(offer.wanted, in_parts);
  Offer convolution = ops::offer(parts->convolved, machine, wanted.wraps() ? wanted.wanted() : Wanted{}), image, pool;
  offer.problem = "stem:" + convolution.problem;
  if (parts->image) {
    image = ops::offer(parts->converted, machine);
    offer.problem += " of " + image.problem;
  }
  if (parts->pool) {
    pool = ops::offer(parts->pooled, machine);
    offer.problem += " then " + pool.problem;
  }
  offer_one_kernel(node, parts, machine, offer);
  const Candidate *const before = best_of(image), *const behind = best_of(pool);
  if (!wanted.wraps() || (parts->image && !before) || (parts->pool && !behind)) return;
  wanted.keep(convolution.candidates);
  std::erase_if(convolution.candidates, [](const Candidate& c) { return c.tactic == "reference"; });
  std::ranges::stable_sort(convolution.candidates, {}, &Candidate::estimate_us);
  std::vector<std::string> met;  // the best of each tactic: their guesses err by more than they differ
  std::erase_if(convolution.candidates, [&](const Candidate& c) {
    if (std::ranges::find(met, c.tactic) != met.end() || met.size() == most) return true;
    met.push_back(c.tactic);
    return false;
  });
  const double others = (before ? before->estimate_us : 0) + (behind ? behind->estimate_us : 0);
  using Prepare = decltype(Candidate::prepare);
  for (const Candidate& c : convolution.candidates)
    offer.candidates.push_back(
        {c.tactic, fmt::format("{}{}{}", c.config, c.config.empty() ? "" : ", ", in_parts), c.estimate_us + others,
         [parts, convolve = c.prepare, convert = before ? before->prepare : Prepare(),
          reduce = behind ? behind->prepare : Prepare()] {
           return std::make_unique<PartsKernel>(convolve(), convert ? convert() : nullptr, reduce ? reduce() : nullptr, *parts);
         },
         c.lengthy});
}

namespace {
constexpr OperatorTactics stem_operators[] = {{is_stem, nullptr, offer_stem_cuda}};
}  // namespace

}  // namespace conv

constinit const TacticFamily stem_family{conv::stem_operators, true};

}  // namespace smelt::ops
