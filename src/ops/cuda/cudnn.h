// Problems that cuDNN runs: each is described once a process, and each of its engines makes its plan once.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/cuda/cudnn_graph.h"
#include "ops/core/key.h"
#include "ops/cuda/gpu.h"

namespace smelt::ops {

/// Why no problem can be given to it on that GPU; nothing where one can.
std::optional<Refusal> dnn_missing(const Gpu& gpu);

/// A problem's engines. Layers of one shape share it, and tuning finds plans made.
class DnnProblem {
 public:
  using Describe = std::function<void(device::cuda::DnnGraph&)>;
  /// The same for the same `key`, which must say everything that `describe` depends on but the device. Null where cuDNN has no
  /// words for it, or no engine that the GPU's user allows: the offer's rejections say so of `what`. `tensor_cores`: as in
  /// DnnRules.
  static std::shared_ptr<DnnProblem> find(const Gpu& gpu, const Key& key, std::string_view what, Offer& offer,
                                          const Describe& describe, bool tensor_cores = true);
  DnnProblem(const Gpu& gpu, const device::cuda::DnnRules& rules, const Describe& describe);

  const std::vector<device::cuda::DnnGraph::Engine>& engines() const { return engines_; }
  /// Several threads may make plans of different engines at the same time. Throws Error where this one cannot.
  std::shared_ptr<device::cuda::DnnPlan> plan(size_t engine);

 private:
  struct Made {
    std::mutex mutex;
    std::shared_ptr<device::cuda::DnnPlan> plan;
  };
  device::cuda::DnnGraph graph_;
  std::vector<device::cuda::DnnGraph::Engine> engines_;
  std::vector<std::unique_ptr<Made>> made_;  // by engine
  std::shared_ptr<const KeptFiles> kept_;
};

/// The extents and strides of an image [N, C, spatial…] of `rank` axes as cuDNN reads the layout from them: axes of 1 in front of
/// fewer, and the strides of axes of extent 1, which may be any, those of a dense channels-last image.
std::pair<Shape, Shape> dnn_image(const BoundTensor& t, size_t rank);

}  // namespace smelt::ops
