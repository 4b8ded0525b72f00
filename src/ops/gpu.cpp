#include "ops/gpu.h"

#include <bit>

#include "base/error.h"

namespace smelt::ops {

namespace cuda = device::cuda;

CompiledKernel::CompiledKernel(const Gpu& gpu, const cuda::Source& source, const std::string& entry) {
  auto cubin = gpu.cubins->get(source, gpu.info.arch);
  resources_ = cubin->kernel(entry);
  if (!gpu.device) return;   // compiling it was all
  module_ = std::make_shared<cuda::Module>(gpu.device, std::move(cubin), source.name);
  function_ = &module_->function(entry);
}

void CompiledKernel::launch(const Buffers& b, const cuda::LaunchShape& shape, void* const* parameters) const {
  if (!function_) fail("a kernel that was compiled for another machine cannot run");
  function_->launch(shape, parameters, static_cast<cuda::abi::Stream>(b.stream));
}

// shift = ceil(log2 d); multiplier = floor(2^32 (2^shift - d) / d) + 1. For n below 2^31 the sum in quotient() does not overflow.
Divider::Divider(uint32_t d) : divisor(d) {
  shift = static_cast<uint32_t>(std::bit_width(d - 1));
  multiplier = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1);
}

int64_t widest_access(int64_t bytes, int64_t alignment) {
  int64_t width = 16;
  while (width > bytes && (alignment % width != 0)) width /= 2;
  return std::max<int64_t>(1, width / bytes);
}

}  // namespace smelt::ops
