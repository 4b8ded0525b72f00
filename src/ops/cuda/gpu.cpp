#include "ops/cuda/gpu.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "device/cuda/cudnn_graph.h"
#include "ops/core/facts.h"
#include "ops/cuda/dependent_launch.h"
#include "ops/cuda/planned.h"

namespace smelt::ops {

namespace cuda = device::cuda;

std::shared_ptr<const Gpu> open_gpu(int ordinal, const std::filesystem::path& kernels) {
  auto gpu = std::make_shared<Gpu>();
  gpu->device = cuda::Device::open(ordinal);
  gpu->info = gpu->device->info();
  gpu->cubins = std::make_shared<cuda::CubinStore>(kernels);
  gpu->dnn_plans = cuda::dnn_plan_files(kernels);
  return gpu;
}

std::shared_ptr<const Gpu> gpu_of_arch(std::string_view arch, const std::filesystem::path& kernels) {
  auto gpu = std::make_shared<Gpu>();
  gpu->info = cuda::info_of_arch(arch);
  gpu->cubins = std::make_shared<cuda::CubinStore>(kernels);
  return gpu;
}

std::shared_ptr<cuda::Memory> zeroed(const Gpu& gpu, int64_t bytes, std::string_view what) {
  if (!gpu.device || bytes == 0) return nullptr;
  auto memory = gpu.device->allocate(bytes, what);
  const cuda::Stream stream(gpu.device);  // not the default one, on which another thread's capture would fail
  const cuda::Device::Current current(*gpu.device);
  cuda::check(cuda::driver().fill_bytes(memory->address(), 0, static_cast<size_t>(bytes), stream.get()), "clearing memory");
  stream.synchronize();
  return memory;
}

bool expanded_on_gpu(std::string_view domain, std::string_view op) {
  const OpRow* row = find_row(op, domain);
  return row && row->facts.expands_on_gpu;
}

double gpu_estimate_us(const Gpu& gpu, double bytes, double flops) {
  constexpr double launch_us = 2;  // from the end of one kernel to the end of an empty one after it
  constexpr double reached = 0.9;  // of either peak, by a good kernel
  // Dense f16 on tensor cores, of a multiprocessor in a clock: NVIDIA's white papers.
  const cuda::DeviceInfo& i = gpu.info;
  const int flops_a_clock = i.major == 9 ? 4096 : i.major == 10 ? 8192 : i.major == 8 && i.minor == 0 ? 2048 : 1024;
  const double peak = static_cast<double>(i.multiprocessors) * i.clock_mhz * flops_a_clock;
  const double bandwidth = std::max(i.bandwidth, 1e5);  // a virtual GPU may not say its memory's clock
  return launch_us + std::max(bytes / bandwidth, flops / peak) / reached;
}

size_t Arguments::append(const void* from, size_t size, size_t alignment) {
  const size_t at = (size_ + alignment - 1) / alignment * alignment;
  if (at + size > most_bytes) fail("a kernel takes {} bytes of arguments, these are {}", most_bytes, at + size);
  std::memset(memory_.data() + size_, 0, at - size_);
  std::memcpy(memory_.data() + at, from, size);
  size_ = at + size;
  alignment_ = std::max(alignment_, alignment);
  return at;
}

std::shared_ptr<const cuda::Module> Modules::get(const std::shared_ptr<cuda::Device>& device,
                                                 const std::shared_ptr<const cuda::Cubin>& cubin, const std::string& name) {
  std::lock_guard lock(mutex_);
  auto& module = loaded_[cubin];
  if (!module) module = std::make_shared<cuda::Module>(device, cubin, name);
  return module;
}

CompiledKernel::CompiledKernel(const Gpu& gpu, const cuda::Source& source, const std::string& entry) {
  source_ = std::make_shared<cuda::Source>(cuda::Source{source.name, add_dependency_wait(source.code), source.options});
  cubin_ = gpu.cubins->get(*source_, gpu.info.arch);
  resources_ = cubin_->kernel(entry);
  if (gpu.log) {
    log_ = gpu.log;
    log_->compiled(name_ = log_name(source, entry));
  }
  if (!gpu.device) return;  // compiling it was all
  module_ = gpu.modules->get(gpu.device, cubin_, source.name);
  function_ = &module_->function(entry);
}

void CompiledKernel::launch(const Buffers& b, const cuda::LaunchShape& shape, const Arguments& arguments) const {
  if (auto* planned = PlannedLaunches::current()) return planned->list.push_back({source_, cubin_, resources_.entry, shape});
  if (!function_) fail("a kernel that was compiled for another machine cannot run");
  cuda::LaunchShape early = shape;
  early.programmatic = true;
  void* const parameters[] = {const_cast<std::byte*>(arguments.data())};
  function_->launch(early, parameters, static_cast<cuda::abi::Stream>(b.stream));
  if (log_) log_->launched(name_);
}

// shift = ceil(log2 d); multiplier = floor(2^32 (2^shift - d) / d) + 1. For n below 2^31 the sum in quotient() does not overflow.
Divider::Divider(uint32_t extent) : kernels::Divider{std::max(extent, 1u), 0, 0} {
  const uint32_t d = divisor;
  shift = static_cast<uint32_t>(std::bit_width(d - 1));
  multiplier = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1);
}

}  // namespace smelt::ops
