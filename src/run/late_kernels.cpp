#include "run/late_kernels.h"

#include <algorithm>
#include <cstring>

#include "base/memory.h"
#include "ops/core/late_kernel.h"

namespace smelt::run {
namespace {

constexpr int64_t least_bytes = 1 << 14;  // of results: a reference makes fewer before a kernel is chosen
constexpr int64_t most_parameters = 64;   // elements of an input whose values decide what a kernel does

bool has_strings(std::span<const Tensor> in) {
  return std::ranges::any_of(in, [](const Tensor& t) { return t.type() == DType::string; });
}

/// The outputs by the node's rule; empty where not all of them have a shape before they are computed.
std::vector<ops::TensorDesc> described(const Node& node, std::span<const Tensor> in) {
  std::vector<ops::TensorDesc> inputs, outputs(node.outputs.size());
  for (const Tensor& t : in) inputs.push_back({t.type(), t.shape(), t.valid(), t.valid() ? &t : nullptr});
  ops::infer(node, inputs, outputs);
  const bool known = std::ranges::all_of(
      outputs, [](const ops::TensorDesc& d) { return !d.present() || (d.shape_known && d.type != DType::string); });
  return known ? outputs : std::vector<ops::TensorDesc>{};
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.nbytes() == 0 || std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0;
}

/// Whether what was bound before are tensors of these types and extents, with these values where they decide something.
bool fits(const ops::BoundNode& bound, std::span<const Tensor> in) {
  return std::ranges::equal(bound.inputs, in, [](const ops::BoundTensor& b, const Tensor& t) {
    return b.type == t.type() && b.shape == t.shape() && (!b.constant.valid() || same_bytes(b.constant, t));
  });
}

ops::BoundNode bound_node(const Node& node, std::span<const Tensor> in, std::span<const ops::TensorDesc> out) {
  ops::BoundNode bound;
  bound.node = &node;
  for (const Tensor& t : in) {
    bound.inputs.push_back({t.type(), t.shape(), ops::Layout::plain, {}, {}});
    if (t.valid() && t.size() <= most_parameters) bound.inputs.back().constant = t.clone();
  }
  for (size_t i = 0; i < out.size(); ++i) {
    bound.outputs.emplace_back();
    if (node.outputs[i] == ValueId::none) continue;
    bound.outputs.back().type = out[i].type;
    bound.outputs.back().shape = out[i].shape;
  }
  return bound;
}

/// Null where there is none but the reference.
std::unique_ptr<ops::Kernel> best_kernel(const ops::BoundNode& bound, const tune::Tuner& tuner) {
  ops::Offer offer = ops::offer(bound, tuner.machine(), {.at_once = true});
  std::erase_if(offer.candidates, [&](const ops::Candidate& c) { return c.tactic == "reference" || !tuner.allows(c.tactic); });
  const auto best = std::ranges::min_element(offer.candidates, {}, &ops::Candidate::estimate_us);
  return best == offer.candidates.end() ? nullptr : best->prepare();
}

}  // namespace

std::optional<std::vector<Tensor>> LateKernels::run(const Node& node, std::span<const Tensor> in, const tune::Tuner& tuner) {
  if (!ops::has_late_kernel(node) || has_strings(in)) return std::nullopt;
  const std::vector<ops::TensorDesc> out = described(node, in);
  int64_t largest = 0;
  for (const ops::TensorDesc& d : out) {
    if (!d.present()) continue;
    const int64_t size = bytes(d.type, elements(d.shape));
    check_available(size, d.type, d.shape);  // before kernels are offered, which may make lists as long as a tensor
    largest = std::max(largest, size);
  }
  if (largest < least_bytes) return std::nullopt;
  Chosen& c = chosen_[&node];
  if (!c.bound.node || !fits(c.bound, in)) {
    c.kernel.reset();
    c.bound = bound_node(node, in, out);
    c.kernel = best_kernel(c.bound, tuner);
    if (c.kernel) c.workspace = Tensor::empty(DType::u8, {c.kernel->workspace()});
  }
  if (!c.kernel) return std::nullopt;
  std::vector<Tensor> results(out.size());
  std::vector<const void*> from;
  std::vector<void*> to;
  for (const Tensor& t : in) from.push_back(t.raw());
  for (size_t i = 0; i < out.size(); ++i) {
    if (c.bound.outputs[i].type != DType::undefined) results[i] = Tensor::empty(out[i].type, out[i].shape);
    to.push_back(results[i].raw());
  }
  c.kernel->run({from, to, c.workspace.raw(), nullptr});
  return results;
}

}  // namespace smelt::run
