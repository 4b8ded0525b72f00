#include "device/cuda/early_kernels.h"

#include <utility>

namespace smelt::device::cuda {
namespace {

thread_local EarlyKernels* current = nullptr;

}  // namespace

EarlyKernels::EarlyKernels() : outer_(std::exchange(current, this)) {}
EarlyKernels::~EarlyKernels() { current = outer_; }

bool EarlyKernels::in_scope() { return current != nullptr; }

void EarlyKernels::note(abi::Stream stream) {
  int status = 0;
  uint64_t id = 0;
  abi::Graph graph = nullptr;
  const abi::GraphNode* last = nullptr;
  const abi::GraphEdge* edges = nullptr;
  size_t count = 0;
  check(driver().stream_capture_info(stream, &status, &id, &graph, &last, &edges, &count), "asking for a capture");
  if (graph && count == 1) current->nodes_.insert(*last);
}

}  // namespace smelt::device::cuda
