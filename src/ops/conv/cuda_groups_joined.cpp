// Convolutions of 8-bit integers in groups of few channels as ones of a single group, whose weights are zeros between one group's channels and
// another's outputs: tensor cores multiply these zeros in less time than others multiply what is left. Sums are exact, so that nothing
// of another group reaches them.
#include <algorithm>
#include <cstring>
#include <map>

#include "ops/conv/cuda_request.h"
#include "ops/conv/int8_problem.h"
#include "ops/core/window.h"

namespace smelt::ops::conv {

Tensor joined_weights(const Request& q) {
  const Problem& p = q.problem;
  const Tensor& w = q.weight().constant;
  const int64_t own = p.w[1], channels = own * p.group, outputs = p.w[0] / p.group, taps = elements(spatial_of(p.w));
  Shape shape = p.w;
  shape[1] = channels;
  Tensor to = Tensor::empty(w.type(), shape);
  auto* out = static_cast<uint8_t*>(to.raw());
  const auto* from = static_cast<const uint8_t*>(w.raw());
  const std::vector<int32_t>& zeros = q.quantization().b_zeros;
  for (int64_t m = 0; m < p.w[0]; ++m, out += channels * taps, from += own * taps) {
    const int32_t zero = zeros[zeros.size() > 1 ? static_cast<size_t>(m) : 0];
    std::memset(out, zero, static_cast<size_t>(channels * taps));
    std::memcpy(out + m / outputs * own * taps, from, static_cast<size_t>(own * taps));
  }
  return to;
}

void offer_groups_joined(const Request& q, const std::shared_ptr<const Gpu>& gpu, Offer& offer) {
  constexpr size_t most_of_a_tactic = 3;
  constexpr int64_t most_weights = int64_t{4} << 20;  // bytes
  const Problem& p = q.problem;
  const bool has_own =
      std::ranges::any_of(offer.candidates, [](const Candidate& c) { return c.config.starts_with("depthwise"); });
  if (p.group == 1 || has_own || elements(p.w) == 0) return;  // not what this is for
  if (elements(p.w) * p.group > most_weights)
    return offer.refuse("walked", Reason::too_large, "groups joined: {} bytes of weights, expected at most {}",
                        elements(p.w) * p.group, most_weights);
  Request joined = q;
  auto own = std::make_shared<Node>(*q.node.node);
  own->attrs["group"] = int64_t{1};
  joined.own = own;
  joined.node.node = own.get();
  joined.problem.group = 1;
  joined.problem.w[1] *= p.group;
  BoundTensor& w = joined.node.inputs[joined.at.w];
  const auto made = [&] { return joined_weights(q); };
  w.constant = q.node.weights ? q.node.weights->packed(w.constant, int8_packing(q, "conv:groups joined").text(), made) : made();
  w.shape = joined.problem.w;
  const auto request = int8_gpu_request(joined, gpu);
  if (!request) return offer.refuse("walked", request.refusal().at("groups joined"));
  Offer one;
  one.problem = offer.problem;
  for (const auto tactic : {offer_hopper, offer_walked, offer_stem}) tactic(*request, one);
  for (const RefusedTactic& r : one.refused) offer.refuse(r.tactic, r.why.at("groups joined"));
  std::ranges::stable_sort(one.candidates, {}, &Candidate::estimate_us);
  std::map<std::string, size_t> counts;
  for (Candidate& c : one.candidates) {
    if (++counts[c.tactic] > most_of_a_tactic) continue;
    c.config += " groups joined";
    offer.candidates.push_back(std::move(c));
  }
}

}  // namespace smelt::ops::conv
