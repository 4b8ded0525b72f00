#include "ops/cuda/cudnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "ops/core/channels_last.h"
#include "ops/core/strides.h"
#include "ops/core/tactic.h"

namespace smelt::ops {

namespace cuda = device::cuda;

std::optional<Refusal> dnn_missing(const Gpu& gpu) {
  if (!gpu.device) return refuse(Reason::wrong_machine, "its plans are made where they run");
  if (const std::string missing = cuda::cudnn_missing(); !missing.empty()) return refuse(Reason::wrong_machine, "{}", missing);
  return std::nullopt;
}

DnnProblem::DnnProblem(const Gpu& gpu, const cuda::DnnRules& rules, const Describe& describe)
    : graph_(cuda::DnnContext::open(gpu.device)), kept_(gpu.dnn_plans) {
  describe(graph_);
  engines_ = graph_.engines(rules, *kept_);
  for (size_t i = 0; i < engines_.size(); ++i) made_.push_back(std::make_unique<Made>());
}

std::shared_ptr<DnnProblem> DnnProblem::find(const Gpu& gpu, const Key& key, std::string_view what, Offer& offer,
                                             const Describe& describe, bool tensor_cores) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<DnnProblem>> known;
  const cuda::DnnRules rules{.tensor_cores = tensor_cores, .deterministic = !gpu.nondeterministic};
  const std::string whole = fmt::format("{} {} {}", gpu.info.ordinal, print(rules), key.text());
  std::shared_ptr<DnnProblem> problem;
  {
    std::lock_guard lock(mutex);
    if (const auto at = known.find(whole); at != known.end()) problem = at->second;
  }
  if (!problem) {
    try {
      problem = std::make_shared<DnnProblem>(gpu, rules, describe);
    } catch (const Error& e) {  // a graph that it has no words for
      offer.refuse("cudnn", Reason::failed, "{}", e.what());
      return nullptr;
    }
    std::lock_guard lock(mutex);
    problem = known.try_emplace(whole, problem).first->second;
  }
  if (!problem->engines().empty()) return problem;
  const char* kind = rules.deterministic ? " whose results are always the same" : "";
  offer.refuse("cudnn", Reason::unsupported, "no engine for this {}{}", what, kind);
  return nullptr;
}

std::shared_ptr<cuda::DnnPlan> DnnProblem::plan(size_t engine) {
  Made& made = *made_[engine];
  std::lock_guard lock(made.mutex);
  if (!made.plan) made.plan = graph_.plan(engines_[engine], *kept_);
  if (!made.plan) fail("cuDNN's {} cannot run this after all", engines_[engine].name);
  return made.plan;
}

std::pair<Shape, Shape> dnn_image(const BoundTensor& t, size_t rank) {
  const Shape own = memory_strides(t);
  Shape shape(rank - t.shape.size(), 1);
  shape.insert(shape.end(), t.shape.begin(), t.shape.end());
  Shape strides = channels_last_strides(shape);
  for (size_t a = 0; a < own.size(); ++a)
    if (t.shape[a] != 1) strides[rank - own.size() + a] = own[a];
  return {shape, strides};
}

}  // namespace smelt::ops
