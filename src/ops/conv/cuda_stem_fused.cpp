// A first layer with the conversion of its image and the pooling of its results on a GPU, by one kernel, which writes neither.
#include "ops/conv/cuda_stem.h"
#include "ops/conv/family.h"
#include "ops/conv/int8_problem.h"
#include "ops/conv/stem.h"

namespace smelt::ops {
namespace conv {
namespace {

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

}  // namespace

void offer_stem_cuda(const BoundNode& node, const Machine& machine, Offer& offer) {
  const auto parts = std::make_shared<const StemParts>(node);
  const Wanted any{.at_once = offer.wanted.at_once};
  offer.problem = "stem:" + ops::offer(parts->convolved, machine, any).problem;
  if (parts->image) offer.problem += " of " + ops::offer(parts->converted, machine, any).problem;
  if (parts->pool) offer.problem += " then " + ops::offer(parts->pooled, machine, any).problem;
  offer_one_kernel(node, parts, machine, offer);
}

namespace {
constexpr OperatorTactics stem_operators[] = {{is_stem, nullptr, offer_stem_cuda}};
}  // namespace

}  // namespace conv

constinit const TacticFamily stem_family{conv::stem_operators, true};

}  // namespace smelt::ops
