// The GPU that kernels are chosen for, and what its kernels have in common.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <typeindex>

#include "device/cuda/cubins.h"
#include "device/cuda/device.h"
#include "device/cuda/module.h"
#include "kernels/common/divider.h"
#include "ops/core/tactic.h"
#include "ops/cuda/kernel_log.h"
#include "ops/cuda/packed_weights.h"

namespace smelt::ops {

/// Kernels loaded on a device: each cubin once, for as long as this lives. Thread-safe.
class Modules {
 public:
  std::shared_ptr<const device::cuda::Module> get(const std::shared_ptr<device::cuda::Device>& device,
                                                  const std::shared_ptr<const device::cuda::Cubin>& cubin,
                                                  const std::string& name);

 private:
  std::mutex mutex_;
  std::map<std::shared_ptr<const device::cuda::Cubin>, std::shared_ptr<const device::cuda::Module>> loaded_;
};

/// What families keep for a device: one object of each type, made by the first get(), alive as long as this. Thread-safe.
class DeviceCaches {
 public:
  template <class T> T& get() {
    std::lock_guard lock(mutex_);
    std::shared_ptr<void>& cache = caches_[typeid(T)];
    if (!cache) cache = std::make_shared<T>();
    return *static_cast<T*>(cache.get());
  }

 private:
  std::mutex mutex_;
  std::map<std::type_index, std::shared_ptr<void>> caches_;
};

/// Which device, and where its compiled kernels are kept.
struct Gpu {
  device::cuda::DeviceInfo info;
  std::shared_ptr<device::cuda::Device> device;  // null where kernels are only compiled, for another machine
  std::shared_ptr<device::cuda::CubinStore> cubins;
  std::shared_ptr<const KeptFiles> dnn_plans;  // cuDNN's, where kernels are kept; null without a device
  std::shared_ptr<Modules> modules = std::make_shared<Modules>();
  bool tf32 = false;               // products of f32 may round their operands to 10 bits of mantissa
  bool nondeterministic = false;   // engines whose results differ from run to run are candidates
  std::shared_ptr<KernelLog> log;  // of what is compiled and launched; null: none is kept
  std::shared_ptr<DeviceCaches> caches = std::make_shared<DeviceCaches>();
  std::shared_ptr<DeviceWeights> weights = std::make_shared<DeviceWeights>();  // constants that kernels keep packed on the device
};

/// A GPU of this machine; its kernels, cuDNN's too, are kept in `kernels` (empty: in memory only). Throws as Device::open does.
std::shared_ptr<const Gpu> open_gpu(int ordinal, const std::filesystem::path& kernels = {});
/// A GPU that need not be here, to compile kernels for: info_of_arch. Throws as that does.
std::shared_ptr<const Gpu> gpu_of_arch(std::string_view arch, const std::filesystem::path& kernels = {});

/// Whether an operator has no kernel for a GPU, but every node of its definition in ONNX's other operators has one: for a GPU,
/// import replaces it by that definition.
bool expanded_on_gpu(std::string_view domain, std::string_view op);

/// Device memory of zeros, for counters that kernels leave at zero; null where the GPU is not here.
std::shared_ptr<device::cuda::Memory> zeroed(const Gpu& gpu, int64_t bytes, std::string_view what);

/// Microseconds of a kernel in a CUDA graph that moves so many bytes and does so many multiplications and additions on tensor
/// cores (counted as if in f16: 8-bit types do two in the time of one, tf32 takes twice). Ranks candidates that are not measured.
double gpu_estimate_us(const Gpu& gpu, double bytes, double flops = 0);

/// A kernel's argument: one structure, whose members are appended in their order and lie there as the compiler of the kernel has
/// them, each aligned as its type.
class Arguments {
 public:
  static constexpr size_t most_tensors = 60;
  static constexpr size_t most_bytes = 8192;  // such tensors of 8 axes want half; drivers before CUDA 12.1 take 4096
  Arguments() = default;
  Arguments(const Arguments&) = delete;

  /// A tensor's address.
  Arguments& tensor(const void* memory) { return value(memory); }
  /// A number, or a structure whose size is a multiple of its alignment.
  template <class T> Arguments& value(const T& v) { return bytes(&v, sizeof v, alignof(T)); }
  /// A structure that was laid out at run time.
  Arguments& bytes(const void* from, size_t size, size_t alignment = 8) { return append(from, size, alignment), *this; }
  /// The same; returns where it lies.
  size_t append(const void* from, size_t size, size_t alignment);

  /// Writes the address at an offset of what was appended.
  void set(size_t offset, const void* memory) {
    std::memcpy(memory_.data() + offset, static_cast<const void*>(&memory), sizeof memory);
  }

  const std::byte* data() const { return memory_.data(); }
  /// Of the structure so far, padded to its alignment.
  size_t size() const { return (size_ + alignment_ - 1) / alignment_ * alignment_; }

 private:
  alignas(16) std::array<std::byte, most_bytes> memory_;
  size_t size_ = 0, alignment_ = 1;
};

/// A kernel of smelt's own. Its constructor compiles it, or finds it in the cache.
class CompiledKernel : public Kernel {
 public:
  CompiledKernel(const Gpu& gpu, const device::cuda::Source& source, const std::string& entry);

  const device::cuda::KernelResources& resources() const { return resources_; }

 protected:
  /// Enqueues it on the stream of `b`, or says so (ops/cuda/planned.h).
  void launch(const Buffers& b, const device::cuda::LaunchShape& shape, const Arguments& arguments) const;

 private:
  std::shared_ptr<const device::cuda::Source> source_;
  std::shared_ptr<const device::cuda::Cubin> cubin_;
  std::shared_ptr<const device::cuda::Module> module_;
  const device::cuda::KernelFunction* function_ = nullptr;
  device::cuda::KernelResources resources_;
  std::shared_ptr<KernelLog> log_;
  std::string name_;  // in the log
};

/// For a divisor of 1 … 2^31 - 1, or of 0, the extent of an axis of which nothing is divided: as of 1.
struct Divider : kernels::Divider {
  explicit Divider(uint32_t d = 1);
};

}  // namespace smelt::ops
