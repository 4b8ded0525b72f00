// CUDA graphs: work captured from a stream once, launched as one.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "device/cuda/device.h"

namespace smelt::device::cuda {

class CapturedGraph {
 public:
  /// What `enqueue` puts on the stream that it is given. Nothing runs. Throws Error for work that cannot be captured (an
  /// allocation, a wait), and passes on what `enqueue` throws. `early`: kernels launched with LaunchShape::programmatic may begin
  /// before the node before them has ended, from sm_90 on; all other nodes wait for its end.
  CapturedGraph(std::shared_ptr<Device> device, const std::function<void(abi::Stream)>& enqueue, bool early = false);
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  void launch(abi::Stream stream) const;
  /// Kernels, copies and fills in it.
  size_t nodes() const { return nodes_; }
  /// Those that may begin early.
  size_t early_nodes() const { return early_nodes_; }

 private:
  std::shared_ptr<Device> device_;
  abi::Graph graph_ = nullptr;
  abi::GraphExec exec_ = nullptr;
  size_t nodes_ = 0, early_nodes_ = 0;
};

/// A capture under way; graph: null where the stream is not capturing.
struct Capture {
  abi::Graph graph = nullptr;
  std::span<const abi::GraphNode> last;  // what the stream's next work will wait for; valid until more is captured
};
Capture capture_on(abi::Stream stream);

/// Kernels, copies and fills that the capture under way on this stream has taken so far.
size_t captured_nodes(abi::Stream stream);

struct GraphTiming {
  int calls = 20;  // in the graph
  int replays = 30;
  double budget_us = 1e6;  // fewer replays (at least 5) where they would take longer
  bool early = false;      // as CapturedGraph has it
};

/// Microseconds a call: `enqueue(i, stream)` for i of 0 … calls-1 is captured into one graph, which is replayed; a sample a
/// replay, by events, after two replays to warm up. The caller rotates its buffers by i.
std::vector<double> time_graph(const std::shared_ptr<Device>& device, const std::function<void(int, abi::Stream)>& enqueue,
                               const GraphTiming& options = {});

}  // namespace smelt::device::cuda
