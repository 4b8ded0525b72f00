// Models served by streams of one process, and what CUPTI saw of them meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "device/cuda/activity.h"
#include "profile/gpu_contention.h"

namespace smelt::profile {

/// What tells a model's work from others' in a trace.
struct TracedModel {
  std::set<uint64_t> nodes;    // of its CUDA graph
  std::vector<size_t> pieces;  // by step: how many of them in a run
  size_t all() const;
};

/// By model: its runs among what was seen, in their order. Work of nobody's graph is left out. Throws Error where a model's is no
/// whole number of runs.
std::vector<std::vector<TracedRun>> runs_of(std::span<const device::cuda::Activity> seen, std::span<const TracedModel> models);

/// A run's work with what it takes of the GPU: medians of runs that were alone. `first`: what was seen of the first of the runs.
/// Steps are held against the roof, or by their counters where they were counted.
std::vector<GpuWork> work_of(std::span<const TracedRun> runs, std::span<const device::cuda::Activity> first,
                             const TracedModel& model, const device::cuda::DeviceInfo& device, const std::vector<StepRow>& steps);

/// Gives the requests their steps' times: the runs', on the requests' clock. The two clocks are apart by what lets every run lie within its
/// request. Does nothing where a model has more or fewer runs than requests.
void put_on_one_clock(std::span<Served> served, std::span<const std::vector<TracedRun>> runs,
                      std::span<const TracedModel> models);

/// Executions of one GPU, whose inputs are bound.
class GpuServing {
 public:
  /// Traces one run of each. Throws Error: unsupported without CUPTI, and for a plan whose run is not one CUDA graph.
  explicit GpuServing(std::vector<Execution*> executions);
  /// Serves all at once, a thread each, after some requests that do not count; `rates`: requests a second to each, 0 one after the other. `turns`: one request at a time.
  std::vector<Served> serve(double seconds, std::span<const double> rates, bool turns = false);
  /// The same under CUPTI's eyes: the requests kept have their steps' times. Runs by model, as runs_of() has them.
  std::pair<std::vector<Served>, std::vector<std::vector<TracedRun>>> traced(double seconds, std::span<const double> rates,
                                                                             bool turns = false);
  const std::vector<TracedModel>& models() const { return models_; }
  /// Of one that is served alone.
  GpuAlone alone(size_t model, std::span<const TracedRun> runs, const Served& served, const std::vector<StepRow>& steps);

 private:
  std::vector<Served> serve_for(double seconds, std::span<const double> rates, bool turns);

  std::shared_ptr<device::cuda::Device> device_;
  std::vector<Execution*> executions_;
  std::vector<TracedModel> models_;
  std::vector<std::vector<device::cuda::Activity>> first_;  // of each: the work of one run
};

}  // namespace smelt::profile
