// Which of smelt's kernels were compiled and which were launched.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "device/cuda/compiler.h"

namespace smelt::ops {

/// "gemm/gemm.cuh TensorTile: gemm": the header of src/kernels that a source is made of, the templates that it names types by,
/// and the entry.
std::string log_name(const device::cuda::Source& source, const std::string& entry);

/// By log_name(). Thread-safe. For tests of whether every kernel runs.
class KernelLog {
 public:
  void compiled(const std::string& name);
  void launched(const std::string& name);
  std::set<std::string> compiled() const;
  std::set<std::string> launched() const;

 private:
  mutable std::mutex mutex_;
  std::set<std::string> compiled_, launched_;
};

}  // namespace smelt::ops
