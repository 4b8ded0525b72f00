// Bodies of Loop and Scan that an Execution binds once for all their turns.
#include <algorithm>

#include "ops/core/repeated_body.h"
#include "run/execution.h"
#include "run/inner_times.h"

namespace smelt::run {

class ExecutionImpl::Repeated final : public ops::RepeatedBody {
 public:
  Repeated(ExecutionImpl& execution, const std::string& node, const std::string& body)
      : execution_(execution), inside_(node, body), stoppable_(execution) {}
  ~Repeated() override { execution_.release_bound(); }
  void run() override { execution_.run(); }

 private:
  ExecutionImpl& execution_;
  InnerTimes::Inside inside_;
  Stoppable stoppable_;  // of all turns
};

std::unique_ptr<ops::RepeatedBody> ExecutionImpl::repeated(const Node& node, const std::string& name, const Graph& g,
                                                           std::span<const Tensor> inputs, size_t changing) {
  if (!backend_.is_host() || inputs.size() < changing) return nullptr;
  const auto fits = [](const Tensor& t) { return t.valid() && t.type() != DType::string; };
  if (!std::ranges::all_of(inputs, fits)) return nullptr;
  ExecutionImpl& execution = body(g, inputs);
  execution.bound_by_ = nullptr;
  if (execution.plan_->has_if() || execution.running_) return nullptr;  // whose inputs may decide what runs
  auto repeated = std::make_unique<Repeated>(execution, node.name, name);
  execution.active_ = nullptr;
  std::vector<Tensor> all(inputs.begin(), inputs.end());
  for (size_t i = 0; i < changing; ++i) {
    all[i] = Tensor::zeros(all[i].type(), all[i].shape());
    repeated->inputs.push_back(all[i]);
  }
  execution.bind_inputs(all, {});
  if (!execution.is_static()) return nullptr;
  repeated->outputs = execution.fresh_outputs(std::nullopt);
  if (!std::ranges::all_of(repeated->outputs, fits)) return nullptr;
  execution.bind_outputs(repeated->outputs);
  return repeated;
}

}  // namespace smelt::run
