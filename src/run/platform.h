// What a plan is made for: what its kernels are chosen with, and where they run.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda/device.h"
#include "plan/carried_choices.h"
#include "plan/context.h"
#include "plan/embedded_kernels.h"
#include "run/backend.h"

namespace smelt::run {

struct Platform {
  std::shared_ptr<plan::Context> context;
  std::shared_ptr<Backend> backend;
};

/// What a platform is to know of its model.
struct ModelFacts {
  bool tf32 = false;                                             // it asks for products of f32 that round their operands so
  int64_t constant_bytes = std::numeric_limits<int64_t>::max();  // all constants together; not known of what is no whole model
};

/// The platform of a plan of these options. `embedded`: the compiled kernels in the model, taken where they are for this GPU. `carried`: what a plan's file carries, taken where it was chosen
/// on a machine like this one; its profiles count where the options have neither shapes nor profiles. Throws Error (usage) for options that are wrong.
Platform platform_for(const Options& options, const ModelFacts& model, plan::EmbeddedKernels embedded = {},
                      plan::CarriedChoices carried = {});

/// What planning has to know of that memory. The result holds the backend.
plan::Target target_of(const std::shared_ptr<Backend>& backend);

/// Opens the GPU and the libraries that candidates come from while the model is imported, each in a thread of its own. An error
/// is ignored here: it comes again, and is reported, where they are used.
class OpeningInBackground {
 public:
  explicit OpeningInBackground(const Options& options);
  /// Until all are open.
  void wait() { threads_.clear(); }

 private:
  std::shared_ptr<device::cuda::Device> device_;  // stays open while this lives
  std::vector<std::jthread> threads_;
};

/// Begins to make code that the plan in this file names and that all kernels of a library share, in the background: while the
/// model is imported and its kernels are prepared.
void begin_code(const Options& options, const std::string& model);

}  // namespace smelt::run
