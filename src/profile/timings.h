// Profiles of any origin in one form: nodes with their scopes and times. smelt's own JSON, PyTorch's, TensorRT's, ONNX Runtime's
// and Nsight Systems' are read into it; tables and comparisons are made of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "profile/profile.h"

namespace smelt::profile {

/// Times are microseconds of one run.
struct NodeTime {
  std::string name, op;
  std::vector<std::string> scope;            // the modules or ranges around it, the outermost first
  std::vector<std::string> sources;          // names of the model's nodes that it stands for; empty: itself
  double calls = 0;                          // in one run
  double self_cpu_us = 0, total_cpu_us = 0;  // total: with what it calls
  double self_gpu_us = 0, total_gpu_us = 0;
  int64_t bytes = 0;  // of memory that it allocates

  double self_us(bool gpu) const { return gpu ? self_gpu_us : self_cpu_us; }
};

struct ScopeTime {
  std::string path;  // "layer1/conv"; "" the whole
  int depth = 0;
  double calls = 0;  // of the nodes inside
  double self_us = 0, total_us = 0;
  double self_cpu_us = 0, total_cpu_us = 0, self_gpu_us = 0, total_gpu_us = 0;
  int64_t bytes = 0;
};

struct Timings {
  std::string origin;  // "PyTorch profiler"
  std::string file;
  int runs = 1;                 // that the times are the mean of
  bool gpu = false;             // times are the GPU's; nodes may have the processor's too
  std::vector<NodeTime> nodes;  // in their order
  std::vector<Advice> advice;   // that the file itself holds: smelt's own

  double total_us() const;
  /// From the outermost in, in the order of the nodes.
  std::vector<ScopeTime> scopes() const;
};

/// Whether a file's first bytes are those of JSON or SQLite, and so no model's.
bool is_profile(const std::filesystem::path& file);
/// Reads any of them, told apart by what is in them. `layers`: what trtexec --exportLayerInfo wrote, beside its --exportProfile.
/// Throws Error (failed) for a file that is damaged, with where; unsupported for JSON and SQLite of another kind.
Timings read_timings(const std::filesystem::path& file, const std::filesystem::path& layers = {});

/// What one side has of a node or a scope; nothing: it has none of it.
struct TimeDifference {
  std::string name;
  int depth = 0;
  std::optional<double> a_us, b_us;
  double change_us() const { return b_us.value_or(0) - a_us.value_or(0); }
};
/// By module path. Modules of either side.
std::vector<TimeDifference> scope_differences(const Timings& a, const Timings& b);
/// By node. Where one side has a node that stands for several of the other's, they are one row.
std::vector<TimeDifference> node_differences(const Timings& a, const Timings& b);

}  // namespace smelt::profile
