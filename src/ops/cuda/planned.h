// What a node's kernels would launch, said without a GPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/cuda/compiler.h"
#include "device/cuda/module.h"

namespace smelt::ops {

struct PlannedLaunch {
  std::shared_ptr<const device::cuda::Source> source;  // null: a library's kernel, or a fill or copy of memory
  std::shared_ptr<const device::cuda::Cubin> cubin;    // likewise
  std::string entry;                                   // what it is instead, where there is no source: "cuDNN", "copy"
  device::cuda::LaunchShape shape;
  int64_t bytes = 0;  // that a fill or copy writes
};

/// While one lives, kernels that this thread runs launch nothing and say here what they would launch, in that order. Their buffers'
/// addresses are made up meanwhile: they look at none.
class PlannedLaunches {
 public:
  PlannedLaunches();
  ~PlannedLaunches();
  PlannedLaunches(const PlannedLaunches&) = delete;
  /// This thread's; null: launches are meant.
  static PlannedLaunches* current();

  std::vector<PlannedLaunch> list;
  void add_other(std::string what, int64_t bytes = 0) { list.push_back({nullptr, nullptr, std::move(what), {}, bytes}); }

 private:
  PlannedLaunches* before_;
};

}  // namespace smelt::ops
