// Runs candidates on GPU 0, over the layouts and slices that tensors may have, and holds them against the processor's reference.
#pragma once

#include <functional>
#include <future>

#include "base/error.h"
#include "base/file.h"
#include "ops/cuda/gpu.h"
#include "ops/tactic_check.h"

namespace smelt::ops {

inline std::shared_ptr<const Gpu> test_gpu() {
  static const std::shared_ptr<const Gpu> gpu = [] {
    auto made = std::make_shared<Gpu>(*open_gpu(0));
    made->log = std::make_shared<KernelLog>();
    return made;
  }();
  return gpu;
}

inline Machine gpu_machine() {
  Machine machine;
  machine.gpu = test_gpu();
  return machine;
}

/// Device memory with 256 bytes of guard on either side.
class Guarded {
 public:
  static constexpr int64_t guard = 256;
  Guarded(int64_t bytes, int64_t offset) : bytes_(bytes), offset_(offset) {
    memory_ = test_gpu()->device->allocate(bytes + offset + 2 * guard, "a test");
  }
  device::cuda::abi::Address address() const { return memory_->address() + guard + static_cast<uint64_t>(offset_); }
  void upload(const void* data) {
    std::vector<uint8_t> all(static_cast<size_t>(bytes_ + offset_ + 2 * guard), 0xa5);
    std::memcpy(all.data() + guard + offset_, data, static_cast<size_t>(bytes_));
    const device::cuda::Device::Current current(*test_gpu()->device);
    device::cuda::check(device::cuda::driver().copy_to_device(memory_->address(), all.data(), all.size(), nullptr), "uploading");
  }
  /// The bytes; a failed expectation where the guards were written.
  void download(void* data) const {
    std::vector<uint8_t> all(static_cast<size_t>(bytes_ + offset_ + 2 * guard));
    const device::cuda::Device::Current current(*test_gpu()->device);
    device::cuda::check(device::cuda::driver().copy_to_host(all.data(), memory_->address(), all.size(), nullptr), "downloading");
    device::cuda::check(device::cuda::driver().stream_synchronize(nullptr), "downloading");
    std::memcpy(data, all.data() + guard + offset_, static_cast<size_t>(bytes_));
    for (int64_t i = 0; i < guard; ++i)
      if (all[static_cast<size_t>(i)] != 0xa5 || all[all.size() - 1 - static_cast<size_t>(i)] != 0xa5) {
        ADD_FAILURE() << "written outside of a tensor, " << i << " bytes from its guard's end";
        return;
      }
  }

 private:
  int64_t bytes_, offset_;
  std::shared_ptr<device::cuda::Memory> memory_;
};

/// Runs a candidate's kernel; its outputs in logical order. Twice, and the two runs must agree bit for bit.
inline std::vector<Tensor> run_on_gpu(Trial& t, Kernel& kernel) {
  t.bound.node = &t.node;
  std::vector<std::unique_ptr<Guarded>> memory;
  std::vector<const void*> in;
  std::vector<void*> out;
  const auto place = [&](const BoundTensor& b) -> Guarded& {
    // The alignment that the tensor claims and no more.
    memory.push_back(std::make_unique<Guarded>(storage_bytes(b), b.alignment < 256 ? b.alignment : 0));
    return *memory.back();
  };
  std::vector<Guarded*> written;  // by output; null where it is left out
  for (size_t i = 0; i < t.inputs.size(); ++i) {
    if (!t.inputs[i].valid()) {
      in.push_back(nullptr);
      continue;
    }
    std::vector<uint8_t> bytes = poisoned(t.bound.inputs[i]);
    scatter(t.bound.inputs[i], bytes.data(), t.inputs[i].raw(), true);
    Guarded& m = place(t.bound.inputs[i]);
    m.upload(bytes.data());
    in.push_back(reinterpret_cast<const void*>(m.address()));
  }
  for (const BoundTensor& b : t.bound.outputs) {
    written.push_back(b.type == DType::undefined ? nullptr : &place(b));
    out.push_back(written.back() ? reinterpret_cast<void*>(written.back()->address()) : nullptr);
  }
  Guarded workspace(std::max<int64_t>(kernel.workspace(), 1), 0);
  std::vector<Tensor> results;
  for (const bool again : {false, true}) {
    for (size_t o = 0; o < out.size(); ++o)
      if (written[o]) written[o]->upload(poisoned(t.bound.outputs[o]).data());
    workspace.upload(std::vector<uint8_t>(static_cast<size_t>(std::max<int64_t>(kernel.workspace(), 1)), 0xff).data());
    kernel.run({in, out, reinterpret_cast<void*>(workspace.address())});
    for (size_t o = 0; o < out.size(); ++o) {
      const BoundTensor& b = t.bound.outputs[o];
      if (!written[o]) {
        if (!again) results.emplace_back();
        continue;
      }
      std::vector<uint8_t> bytes(poisoned(b).size());
      written[o]->download(bytes.data());
      Tensor result = Tensor::empty(b.type, b.shape);
      scatter(b, bytes.data(), result.raw(), false);
      if (!again)
        results.push_back(result);
      else
        EXPECT_EQ(std::memcmp(result.raw(), results[o].raw(), static_cast<size_t>(result.nbytes())), 0) << "two runs differ";
    }
  }
  return results;
}

inline std::vector<Tensor> run_on_gpu(Trial& t, const Candidate& c) { return run_on_gpu(t, *c.prepare()); }

/// Every candidate for the GPU that `is_meant` (empty: every one) agrees with `want`, output by output; their names and configurations.
inline std::vector<std::string> agree_on_gpu(Trial& t, const std::vector<Tensor>& want, double tolerance,
                                             const std::function<bool(const Candidate&)>& is_meant = {}) {
  t.bound.node = &t.node;
  std::vector<std::string> names;
  Offer o = offer(t.bound, gpu_machine());
  if (is_meant) std::erase_if(o.candidates, [&](const Candidate& c) { return !is_meant(c); });
  std::vector<std::future<std::unique_ptr<Kernel>>> kernels;  // compiled side by side
  for (const Candidate& c : o.candidates) kernels.push_back(std::async(std::launch::async, c.prepare));
  for (size_t k = 0; k < kernels.size(); ++k) {
    const Candidate& c = o.candidates[k];
    SCOPED_TRACE(o.problem + " " + c.tactic + " " + c.config);
    std::vector<Tensor> got;
    try {
      got = run_on_gpu(t, *kernels[k].get());
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
      throw;
    }
    for (size_t i = 0; i < want.size(); ++i) EXPECT_LE(error(got[i], want[i]), tolerance) << "output " << i;
    names.push_back(c.tactic + " " + c.config);
  }
  return names;
}

/// The same against what the reference makes of it.
inline std::vector<std::string> check_on_gpu(Trial& t, double tolerance,
                                             const std::function<bool(const Candidate&)>& is_meant = {}) {
  return agree_on_gpu(t, evaluate(t.node, t.inputs), tolerance, is_meant);
}

}  // namespace smelt::ops
