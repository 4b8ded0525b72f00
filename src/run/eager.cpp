#include "run/eager.h"

#include "device/cuda/device.h"

namespace smelt::run {
namespace {

int64_t alignment_of(const Tensor& t) {
  const auto address = reinterpret_cast<uintptr_t>(t.raw());
  return address % 16 == 0 ? 16 : static_cast<int64_t>(address & (~address + 1));
}

}  // namespace

Platform eager_platform(int gpu, int tuning_level) {
  Options options;
  options.tuning_level = tuning_level;
  if (gpu >= 0) {
    options.device = std::to_string(gpu);
    options.memory_limit = device::cuda::Device::open(gpu)->limit();  // stays as a session set it
  }
  return platform_for(options, {});
}

void add_to_key(std::vector<int64_t>& key, const Tensor& t) {
  key.push_back(static_cast<int64_t>(t.type()));
  key.insert(key.end(), t.shape().begin(), t.shape().end());
  key.push_back(t.valid() ? -alignment_of(t) : 0);
}

ops::BoundTensor bound_eagerly(const Tensor& t) {
  ops::BoundTensor b;
  if (!t.valid()) return b;
  b.type = t.type();
  b.shape = t.shape();
  b.alignment = alignment_of(t);
  return b;
}

void run_eagerly(EagerKernel& kernel, std::span<const Tensor> in, std::span<Tensor> out, Backend& backend, void* stream,
                 const char* workspace_of) {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const Tensor& t : in) inputs.push_back(t.valid() ? t.raw() : nullptr);
  for (Tensor& t : out) outputs.push_back(t.raw());
  Tensor workspace;
  if (const int64_t bytes = kernel.kernel->workspace(); bytes > 0)
    workspace = backend.allocate_on(DType::u8, {bytes}, workspace_of, stream);
  std::lock_guard lock(kernel.mutex);
  if (workspace.valid() && backend.is_capturing(stream)) kernel.captured.push_back(workspace);
  kernel.kernel->run({inputs, outputs, workspace.raw(), stream});
}

}  // namespace smelt::run
