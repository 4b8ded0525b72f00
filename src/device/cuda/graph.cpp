#include "device/cuda/graph.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "device/cuda/early_kernels.h"

namespace smelt::device::cuda {
namespace {

constexpr unsigned char all_have_begun = 2;  // CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER: all blocks of the node before

/// Every node but the early ones waits for the whole of the one before it; those with work before their wait may begin when all
/// blocks of it have. Libraries launch kernels that may begin while the
/// kernel before them still runs, and some of cuDNN 9.14's then read what is not written yet: of resnet50's 58 edges at batch 32
/// it made 22 such ones, and the first images' results were off, otherwise at every run.
abi::Result wait_for_whole_nodes(abi::Graph graph, const std::optional<EarlyKernels>& early, size_t& early_nodes) {
  size_t count = 0;
  if (const abi::Result r = driver().graph_edges(graph, nullptr, nullptr, nullptr, &count); r != abi::success) return r;
  std::vector<abi::GraphNode> from(count), to(count);
  std::vector<abi::GraphEdge> edges(count);
  abi::Result result = driver().graph_edges(graph, from.data(), to.data(), edges.data(), &count);
  for (size_t i = 0; i < count && result == abi::success; ++i) {
    if (edges[i].type == 0) continue;
    const bool begins_early = early && early->contains(to[i]), ahead = begins_early && early->ahead(to[i]);
    if (begins_early) ++early_nodes;
    if (begins_early && !ahead) continue;
    result = driver().graph_remove_edges(graph, &from[i], &to[i], &edges[i], 1);
    edges[i].from_port = all_have_begun;
    if (result == abi::success) result = driver().graph_add_edges(graph, &from[i], &to[i], ahead ? &edges[i] : nullptr, 1);
  }
  return result;
}

}  // namespace

CapturedGraph::CapturedGraph(std::shared_ptr<Device> device, const std::function<void(abi::Stream)>& enqueue, bool early)
    : device_(std::move(device)) {
  const Stream stream(device_);
  std::optional<EarlyKernels> kernels;
  if (early) kernels.emplace();
  const Device::Current current(*device_);
  check(driver().stream_begin_capture(stream.get(), abi::capture_thread_local), "beginning a capture");
  try {
    enqueue(stream.get());
  } catch (...) {
    abi::Graph broken = nullptr;
    driver().stream_end_capture(stream.get(), &broken);
    if (broken) driver().graph_destroy(broken);
    throw;
  }
  check(driver().stream_end_capture(stream.get(), &graph_), "ending a capture");
  abi::Result made = driver().graph_nodes(graph_, nullptr, &nodes_);
  if (made == abi::success) made = wait_for_whole_nodes(graph_, kernels, early_nodes_);
  if (made == abi::success) made = driver().graph_instantiate(&exec_, graph_, 0);
  if (made == abi::success) return;
  driver().graph_destroy(graph_);
  check(made, "making a CUDA graph");
}

CapturedGraph::~CapturedGraph() {
  const Device::Current current(*device_);
  driver().graph_exec_destroy(exec_);
  driver().graph_destroy(graph_);
}

void CapturedGraph::launch(abi::Stream stream) const {
  const Device::Current current(*device_);
  check(driver().graph_launch(exec_, stream), "launching a CUDA graph");
}

Capture capture_on(abi::Stream stream) {
  int status = 0;
  uint64_t id = 0;
  Capture c;
  // With edges null, edges that carry data would be an error.
  const abi::GraphEdge* edges = nullptr;
  const abi::GraphNode* last = nullptr;
  size_t count = 0;
  check(driver().stream_capture_info(stream, &status, &id, &c.graph, &last, &edges, &count), "asking for a capture");
  c.last = {last, count};
  return c;
}

size_t captured_nodes(abi::Stream stream) {
  const Capture capture = capture_on(stream);
  if (!capture.graph) fail("the stream is not capturing");
  size_t nodes = 0;
  check(driver().graph_nodes(capture.graph, nullptr, &nodes), "counting a capture's nodes");
  return nodes;
}

std::vector<double> time_graph(const std::shared_ptr<Device>& device, const std::function<void(int, abi::Stream)>& enqueue,
                               const GraphTiming& options) {
  const CapturedGraph graph(
      device,
      [&](abi::Stream stream) {
        for (int i = 0; i < options.calls; ++i) enqueue(i, stream);
      },
      options.early);
  const Stream stream(device);
  const Event begin(device), end(device);
  const auto replay = [&] {
    begin.record(stream.get());
    graph.launch(stream.get());
    end.record(stream.get());
    end.synchronize();
    return end.since(begin);
  };
  replay();
  const double first = replay();
  const int replays = std::clamp(static_cast<int>(options.budget_us / std::max(first, 1.0)), 5, std::max(5, options.replays));
  std::vector<double> samples;
  for (int r = 0; r < replays; ++r) samples.push_back(replay() / options.calls);
  return samples;
}

}  // namespace smelt::device::cuda
