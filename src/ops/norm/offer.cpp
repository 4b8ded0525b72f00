// Normalisation's operators and their tactics.
#include "ops/norm/offer.h"

#include "ops/cuda/gpu.h"
#include "ops/cuda/launches.h"
#include "ops/norm/family.h"

namespace smelt::ops {
namespace {

bool is_norm(const Node& n) { return n.is("Norm", smelt_domain) || n.is("LayerNormalization") || n.is("RMSNormalization"); }
bool is_grouped(const Node& n) { return n.is("GroupNormalization") || n.is("InstanceNormalization"); }
bool is_batch(const Node& n) { return n.is("BatchNormalization"); }
bool is_mean_variance(const Node& n) { return n.is("MeanVarianceNormalization"); }
bool is_lp(const Node& n) { return n.is("LpNormalization"); }
bool is_lrn(const Node& n) { return n.is("LRN"); }

void offer_norm_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const bool plain = offer_plain_norm_rows(b, machine, offer);
  std::optional<Refusal> why = norm_unknown(b);
  if (!why) why = norm_rows_apart(b);
  if (!why) {
    const NormParts p(b);
    if (p.mean != NormParts::none || p.inverse != NormParts::none)
      why = refuse(Reason::unsupported, "the mean or the deviation is an output too");
  }
  if (why) {
    if (!plain) offer.refuse("cpu", *why);
    return;
  }
  if (!plain) offer_norm_rows(b, machine, offer);
  offer_norm_onednn(b, machine, offer);
}

/// Of rows without elements: nothing is normalised, and what a mean over nothing is, NaN, has all bits set.
void offer_empty_rows_cuda(const BoundNode& b, const NormParts& parts, const std::shared_ptr<const Gpu>& gpu, Offer& offer) {
  std::vector<std::pair<size_t, int64_t>> filled;
  for (const size_t o : {parts.mean, parts.inverse})
    if (o != NormParts::none) filled.emplace_back(o, bytes(b.outputs[o].type, elements(b.outputs[o].shape)));
  offer.candidates.push_back({"cuda", "empty", 1, [filled, gpu] {
                                LaunchPlan plan("norm_of_nothing", "");
                                for (const auto& [o, size] : filled) plan.fill({BufferRef::output, o}, size, 0xff);
                                return launched(std::move(plan), *gpu);
                              }});
}

void offer_norm_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = norm_unknown(b)) return offer.refuse("cuda", *why);
  if (elements(b.inputs[0].shape) == 0) return offer_empty_rows_cuda(b, NormParts(b), machine.gpu, offer);
  if (const auto why = norm_rows_apart(b))
    offer.refuse("cuda", *why);
  else
    offer_whole_rows_cuda(b, *machine.gpu, offer);
  // Rows in pieces too where whole ones are long and leave multiprocessors idle.
  constexpr int64_t long_bytes = 32 << 10;
  const Shape& shape = b.inputs[0].shape;
  const int64_t rows = elements(Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(NormParts(b).axis)));
  const bool few = rows < machine.gpu->info.multiprocessors && bytes(b.inputs[0].type, elements(shape)) >= long_bytes * rows;
  if (offer.candidates.empty() || few) offer_split_rows_cuda(b, *machine.gpu, offer);
}

constexpr OperatorTactics operators[] = {
    {is_norm, offer_norm_cpu, offer_norm_cuda},               // rows: layer and root-mean-square normalisation
    {is_grouped, offer_grouped_cpu, offer_grouped_cuda},      // groups of channels
    {is_batch, offer_batch_norm_cpu, offer_batch_norm_cuda},  // by statistics that are inputs
    {is_lp, offer_lp_norm_cpu, offer_lp_norm_cuda},           // lines
    {is_mean_variance, offer_mean_variance_cpu, nullptr},     // any axes
    {is_lrn, offer_lrn_cpu, offer_lrn_cuda},                  // neighbouring channels
};

}  // namespace

constinit const TacticFamily norm_family{operators};

}  // namespace smelt::ops
