// Sets a problem up for timing: buffers with random data, and the candidates' kernels on them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "ops/core/packed_forms.h"
#include "ops/core/tactic.h"
#include "tune/timing.h"

namespace smelt::tune {

/// Fills memory with elements of `type`: floats uniform in [-1, 1), 8-bit integers uniform. Kernels may branch on values (a
/// requantization near a half), and zeros cost less power. Of other types, those of indices, it keeps what there is.
void fill_random(std::span<std::byte> memory, DType type, std::mt19937& random);
/// The same for a tensor's.
void fill_random(Tensor& t, DType type, std::mt19937& random);

/// Memory for so many bytes, as a plan's arena lies: of huge pages where it fills one, so that where a process's pages happen to lie
/// decides nothing.
Tensor trial_memory(int64_t bytes);

class Trial {
 public:
  /// Uses constants as they are. Other floating-point inputs are uniform in [-1, 1); integers and booleans are 0, which is a
  /// valid index everywhere. The trial owns its packed weights and frees them. `given`: memory of the inputs, then of the outputs, that
  /// others share, null for what is to be its own.
  Trial(const ops::BoundNode& node, const ops::Machine& machine, std::span<std::byte* const> given = {});

  struct Runner {
    std::function<void()> run;  // once
    /// What a run reads that lies in no cache when a model comes to the step, for all of its other weights were read since: packed
    /// weights, and constants that the kernel reads as they are. Empty where they are less than a page, and for tables of which a run
    /// reads some rows.
    std::vector<std::span<const std::byte>> cold;
  };
  /// Prepares the candidate. The trial must outlive what it returns.
  Runner runner(const std::string& tactic, const std::string& config);

 private:
  std::vector<std::span<const std::byte>> cold(const std::vector<ops::PackedForms::Form>& packed) const;

  ops::WeightStore weights_{0};
  ops::BoundNode node_;
  ops::Offer offer_;
  Tensor memory_;                   // the inputs that are no constants and the outputs, but for those that are given
  std::vector<Tensor> workspaces_;  // a candidate uses the last one if it is large enough: they run in turn
  std::vector<std::unique_ptr<ops::Kernel>> kernels_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

/// Times them by measure(). `cold`: each with its weights out of the processor's caches; what else it reads stays where the run before
/// it left it, as a model's activations do.
Measured measure(std::span<const Trial::Runner> runners, bool cold, const MeasureOptions& options, const Stopwatch& watch);

}  // namespace smelt::tune
