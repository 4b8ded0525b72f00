#include "device/cuda/early_kernels.h"

#include <utility>

#include "device/cuda/graph.h"

namespace smelt::device::cuda {
namespace {

thread_local EarlyKernels* current = nullptr;

}  // namespace

EarlyKernels::EarlyKernels() : outer_(std::exchange(current, this)) {}
EarlyKernels::~EarlyKernels() { current = outer_; }

bool EarlyKernels::in_scope() { return current != nullptr; }

void EarlyKernels::note(abi::Stream stream) {
  const Capture capture = capture_on(stream);
  if (capture.graph && capture.last.size() == 1) current->nodes_.insert(capture.last.front());
}

void EarlyKernels::note_ahead(abi::Stream stream) {
  const Capture capture = capture_on(stream);
  if (current && capture.graph && capture.last.size() == 1) current->ahead_.insert(capture.last.front());
}

}  // namespace smelt::device::cuda
