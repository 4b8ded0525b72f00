// Models on streams of one GPU: what each kernel takes of it alone, the slow-down to be expected of that, and what each model lost
// to the others' kernels.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "profile/contention.h"

namespace smelt::profile {

/// A kernel, copy or fill of a run as it is alone, and what it takes of the GPU meanwhile.
struct GpuWork {
  std::string name;
  size_t step = 0;
  double before_us = 0;  // from the end of the work before it, or of the run's beginning
  double us = 0;
  double waves = 0;                        // its blocks over those that the GPU holds at a time; 0: a copy or a fill
  double share = 1;                        // of registers, shared memory or warps, whichever most, that a whole wave holds
  double compute = 0, memory = 0, l2 = 0;  // of what the GPU can do, from 0 to 1
  bool is_copy() const { return waves == 0; }
};

/// One model alone, as the prediction takes it.
struct GpuAlone {
  std::vector<GpuWork> work;  // of a run, in its order
  double beside_us = 0;       // of a request, beside its time on the GPU: launching it, and seeing that it is done
};

/// The slow-down of each that is to be expected of what each takes alone: the runs are played through, kernel by kernel. Kernels
/// get multiprocessors in the order in which they came, and keep others from them until the blocks of their last wave end, which
/// these do one after the other. Those that are there together take longer by what the others have of the multiprocessors, and
/// share arithmetic, memory and L2 where all want more than there is. `rate`: requests a second to each; 0: one after the other.
std::vector<double> predicted_gpu_slow_downs(std::span<const GpuAlone> models, double rate);

/// When a piece of work ran, by the GPU's clock.
struct Interval {
  int64_t begin_ns = 0, end_ns = 0;
};
/// A request's work, as many pieces as GpuAlone::work has.
using TracedRun = std::vector<Interval>;

/// Of a model, what it lost on the GPU, on average over its traced runs beside the others'; in microseconds of a request.
struct GpuLoss {
  SlowDown whole;  // of what was traced: alone_us and together_us are spans on the GPU
  std::vector<StepSlowDown> steps;
};
/// What a piece is longer by than alone is shared out by what its own work and the others' there at the same time take: of the
/// multiprocessors, of memory's bandwidth, of the L2. What it waits longer than alone before it begins is queueing.
GpuLoss gpu_loss(size_t model, std::span<const GpuAlone> alone, std::span<const std::vector<TracedRun>> together, size_t steps);

/// The loss of whole requests: what was traced, scaled to what a request took longer untraced.
SlowDown gpu_slow_down(const Served& alone, const Served& together, const GpuLoss& loss);

}  // namespace smelt::profile
