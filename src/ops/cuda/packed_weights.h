// Constants packed for GPU kernels, on the device: uploaded once, shared by every kernel that wants the same constant in the same
// form.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "device/cuda/device.h"
#include "smelt/tensor.h"

namespace smelt::ops {

class DeviceWeights {
 public:
  /// `constant` in the form that `packing` names ("conv:f16:taps3x3:k64:m64"), in the memory of `device`: made on the host by
  /// `pack` and uploaded the first time, shared for as long as anyone holds it. The name must say everything that the form
  /// depends on but the constant. Thread-safe; a form is packed once even when several threads ask for it at the same time. When
  /// pack or the upload throws, the next caller tries again.
  std::shared_ptr<device::cuda::Memory> packed(const std::shared_ptr<device::cuda::Device>& device, const Tensor& constant,
                                               std::string_view packing, const std::function<Tensor()>& pack);

  /// Bytes of all forms that are in use.
  int64_t bytes() const;

 private:
  struct Form {
    Tensor source;  // keeps the constant's memory, and with it the key, from being reused
    std::shared_ptr<device::cuda::Memory> memory;
  };
  struct Entry {
    std::mutex packing;  // held while the form is made
    std::weak_ptr<Form> form;
  };
  /// The device, where the constant lies, as what it is read, and the packing.
  using Key = std::tuple<int, const void*, DType, Shape, std::string>;
  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<Entry>> entries_;
};

}  // namespace smelt::ops
