// What the GPUs did, kernel by kernel: CUPTI's activity records, opened when first asked for.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/device.h"
#include "device/cuda/library.h"
#include "smelt/session.h"

struct CUpti_Subscriber_st;

namespace smelt::device::cuda {

struct Activity {
  enum class Kind : uint8_t { kernel, copy, fill };
  Kind kind = Kind::kernel;
  std::string name;                   // a kernel's as it was compiled; "copy host to device", "fill". A fill in a graph that
                                      // is older than the process's first trace is the driver's kernel ("memset32")
  uint64_t begin_ns = 0, end_ns = 0;  // by one clock
  int device = 0, stream = 0;         // CUPTI's numbers for them: the ordinal, and one that stays the same for a stream
  uint32_t correlation = 0;           // the same for all that one launch did: a graph's nodes share it
  uint64_t graph_node = 0;            // the same in every launch of a graph; 0 where it was launched by itself
  int64_t bytes = 0;                  // of a copy or a fill
  CopyTime::Way way = CopyTime::Way::other;               // of a copy
  std::array<int, 3> grid{}, block{};                     // of a kernel, from here on
  int registers = 0;                                      // a thread
  int static_shared_bytes = 0, dynamic_shared_bytes = 0;  // a block
};

/// Collects what all threads of the process do on the GPUs, from its construction to stop(). One at a time.
///
/// Every node of a graph then gets its own timestamps, which takes time: measure latencies without a trace.
class ActivityTrace {
 public:
  /// Throws Error: unsupported without CUPTI, failed where another trace or another profiler (Nsight, PyTorch's,
  /// compute-sanitizer) has it.
  explicit ActivityTrace(std::shared_ptr<Device> device);
  ~ActivityTrace();
  ActivityTrace(const ActivityTrace&) = delete;

  /// Waits for the device, then gives all records, the earliest first. Throws Error where some were lost.
  std::vector<Activity> stop();

 private:
  /// Ends collecting. Returns the records, and how many were lost.
  std::pair<std::vector<Activity>, size_t> detach();

  std::shared_ptr<Device> device_;
  CUpti_Subscriber_st* subscriber_ = nullptr;
};

/// Why an ActivityTrace cannot be made on this machine; empty where it can.
std::string activity_missing();
LibraryState activity_library();

}  // namespace smelt::device::cuda
