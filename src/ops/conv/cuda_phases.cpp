// Transposed convolutions whose windows overlap, on a GPU: a plain convolution for each phase (phases.h), by the kernels that these have,
// one after the other.
#include <algorithm>
#include <map>

#include "ops/conv/cuda_implicit_problem.h"
#include "ops/conv/cuda_request.h"
#include "ops/conv/phases.h"

namespace smelt::ops::conv {
namespace {

constexpr int64_t most_phases = 16;
constexpr size_t most_of_a_tactic = 2;  // configurations
constexpr size_t weights_input = 1;

struct Phases {
  std::vector<PhaseNode> nodes;
  std::vector<std::map<std::string, std::vector<Candidate>>> ways;  // of each node by tactic, the likeliest first
};

class PhasesKernel final : public Kernel {
 public:
  PhasesKernel(const SharedRequest& r, const Phases& phases, const std::string& tactic, size_t way) {
    for (size_t i = 0; i < phases.nodes.size(); ++i) {
      const PhaseNode& node = phases.nodes[i];
      Part part{phases.ways[i].at(tactic)[way].prepare(), node.begin, node.begins, nullptr};
      if (part.kernel->reads(weights_input) && r->gpu->device) {
        const Tensor& w = node.node.inputs[weights_input].constant;
        part.weights = r->gpu->weights->packed(r->gpu->device, w, "conv:as it is", [&w] { return w; });
      }
      parts_.push_back(std::move(part));
    }
  }

  int64_t workspace() const override {
    int64_t most = 0;
    for (const Part& p : parts_) most = std::max(most, p.kernel->workspace());
    return most;
  }
  bool reads(size_t i) const override {
    return i != weights_input && std::ranges::any_of(parts_, [i](const Part& p) { return p.kernel->reads(i); });
  }

  void run(const Buffers& b) override {
    given_.resize(b.inputs.size());
    for (const Part& p : parts_) {
      for (size_t i = 0; i < given_.size(); ++i)
        given_[i] = b.inputs[i] ? static_cast<const char*>(b.inputs[i]) + p.begins[i] : nullptr;
      given_[weights_input] = p.weights ? reinterpret_cast<const void*>(p.weights->address()) : nullptr;
      void* const y[] = {static_cast<char*>(b.outputs[0]) + p.begin};
      p.kernel->run({given_, y, b.workspace, b.stream});
    }
  }

 private:
  struct Part {
    std::unique_ptr<Kernel> kernel;
    int64_t begin;
    std::vector<int64_t> begins;                    // of the inputs
    std::shared_ptr<device::cuda::Memory> weights;  // where the kernel reads them as the node has them
  };
  std::vector<Part> parts_;
  std::vector<const void*> given_;
};

std::optional<Refusal> rejects(const GpuRequest& r) {
  const Problem& p = r.problem;
  if (p.quantization || p.x.size() > 1) return refuse(Reason::unsupported, "phases: integers or several inputs");
  if (!r.weight().constant.valid()) return refuse(Reason::not_constant, "phases: weights that are not constant");
  if (windows_lie_side_by_side(p) && p.group == 1 && p.spatial() == 2)
    return refuse(Reason::wrong_attribute, "phases: windows side by side, each tap of which is a product");
  return std::nullopt;
}

}  // namespace

void offer_phases(const SharedRequest& r, Offer& offer) {
  if (!r->problem.transposed) return;  // not what this is for
  if (const auto why = rejects(*r)) return offer.refuse("cuda", *why);
  const auto found = phases_of(r->problem, most_phases);
  if (!found) return offer.refuse("cuda", found.refusal());
  const auto phases = std::make_shared<Phases>();
  Machine machine;
  machine.gpu = r->gpu;
  const bool as_batches =
      static_cast<bool>(implicit_problem(*r));  // one launch of all phases: not a launch each of the same kernel
  std::map<std::string, size_t> counts;         // of the ways that every phase has, by tactic
  for (const Phase& phase : *found) {
    const PhaseNode& node = phases->nodes.emplace_back(phase_node(r->node, r->problem, phase, r->at.operands));
    Offer one;
    offer_cuda(node.node, machine, one);
    if (as_batches) std::erase_if(one.candidates, [](const Candidate& c) { return c.config.starts_with("implicit"); });
    std::ranges::stable_sort(one.candidates, {}, &Candidate::estimate_us);
    auto& ways = phases->ways.emplace_back();
    for (Candidate& c : one.candidates)
      if (std::vector<Candidate>& of = ways[c.tactic]; of.size() < most_of_a_tactic) of.push_back(std::move(c));
    for (const auto& [tactic, of] : ways) {
      const auto at = counts.try_emplace(tactic, phases->ways.size() == 1 ? of.size() : 0).first;
      at->second = std::min(at->second, of.size());
    }
    for (auto& [tactic, count] : counts)
      if (!ways.contains(tactic)) count = 0;
  }
  for (const auto& found_ways : counts)
    for (size_t way = 0; way < found_ways.second; ++way) {
      const std::string& tactic = found_ways.first;
      double estimate = 0;
      bool lengthy = false;
      for (const auto& ways : phases->ways) {
        const Candidate& c = ways.at(tactic)[way];
        estimate += c.estimate_us, lengthy |= c.lengthy;
      }
      offer.candidates.push_back({tactic, "phases " + phases->ways[0].at(tactic)[way].config, estimate,
                                  [r, phases, tactic, way] { return std::make_unique<PhasesKernel>(r, *phases, tactic, way); },
                                  lengthy});
    }
}

}  // namespace smelt::ops::conv
