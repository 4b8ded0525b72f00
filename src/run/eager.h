// What operators that run at once, without a graph around them, share (eager_norm.h, eager_linear.h): a kernel chosen for tensors
// as they lie in memory, and its run.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "run/platform.h"

namespace smelt::run {

constexpr size_t most_eager_kernels = 1024;  // of a device; beyond these, all are chosen anew (their timings are in the cache)

struct EagerKernel {
  Node node;
  std::unique_ptr<ops::Kernel> kernel;
  std::mutex mutex;              // a kernel is run by one thread at a time
  std::vector<Tensor> captured;  // workspaces of launches that were captured: whoever did so may launch them at any time
};

/// The processor's (gpu = -1) or a GPU's. `tuning_level`: how kernels are chosen.
Platform eager_platform(int gpu, int tuning_level = Options().tuning_level);

/// What a tensor adds to the key of a problem: type, extents and alignment; an absent one its place.
void add_to_key(std::vector<int64_t>& key, const Tensor& t);
/// The tensor as a kernel is chosen for it; undefined where it is not valid().
ops::BoundTensor bound_eagerly(const Tensor& t);

/// Runs the kernel, on a GPU by putting it on `stream`.
void run_eagerly(EagerKernel& kernel, std::span<const Tensor> in, std::span<Tensor> out, Backend& backend, void* stream,
                 const char* workspace_of);

}  // namespace smelt::run
