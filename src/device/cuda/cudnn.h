// cuDNN's backend interface, opened at run time: every call checked, its objects owned, its state on a device. What is described
// by them is in cudnn_graph.h.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "device/cuda/abi/cudnn.h"
#include "device/cuda/device.h"
#include "device/cuda/library.h"
#include "smelt/dtype.h"
#include "smelt/tensor.h"

namespace smelt::device::cuda {

/// Why cuDNN cannot be used; empty where it can.
std::string cudnn_missing();
/// "cuDNN 9.19.0", part of the key of what was measured with it. Throws Error (unsupported) where there is none.
std::string cudnn_version();
LibraryState cudnn_library();

/// A backend descriptor: set attributes, then finish() it, once. Every failure throws Error with what was being described.
class DnnObject {
 public:
  DnnObject(abi::DnnDescriptorType type, std::string_view what);

  DnnObject& set(abi::DnnAttribute attribute, int64_t value) { return set(attribute, abi::dnn_is_i64, 1, &value); }
  DnnObject& set(abi::DnnAttribute attribute, std::span<const int64_t> values) {
    return set(attribute, abi::dnn_is_i64, static_cast<int64_t>(values.size()), values.data());
  }
  DnnObject& set(abi::DnnAttribute attribute, bool value) { return set(attribute, abi::dnn_is_bool, 1, &value); }
  DnnObject& set(abi::DnnAttribute attribute, float value) { return set(attribute, abi::dnn_is_float, 1, &value); }
  DnnObject& set(abi::DnnAttribute attribute, abi::DnnType value) { return set(attribute, abi::dnn_is_type, 1, &value); }
  DnnObject& set(abi::DnnAttribute attribute, abi::DnnPointwise value) {
    return set(attribute, abi::dnn_is_pointwise_mode, 1, &value);
  }
  DnnObject& set(abi::DnnAttribute attribute, abi::DnnConvolutionMode value) {
    return set(attribute, abi::dnn_is_convolution_mode, 1, &value);
  }
  DnnObject& set(abi::DnnAttribute attribute, abi::DnnReduction value) {
    return set(attribute, abi::dnn_is_reduction, 1, &value);
  }
  DnnObject& set(abi::DnnAttribute attribute, abi::DnnResample value) {
    return set(attribute, abi::dnn_is_resample_mode, 1, &value);
  }
  DnnObject& set(abi::DnnAttribute attribute, abi::DnnPadding value) {
    return set(attribute, abi::dnn_is_padding_mode, 1, &value);
  }
  DnnObject& set(abi::DnnAttribute attribute, std::span<const abi::DnnFraction> values) {
    return set(attribute, abi::dnn_is_fraction, static_cast<int64_t>(values.size()), values.data());
  }
  DnnObject& set(abi::DnnAttribute attribute, abi::DnnHeuristicMode value) {
    return set(attribute, abi::dnn_is_heuristic_mode, 1, &value);
  }
  DnnObject& set(abi::DnnAttribute attribute, abi::DnnHandle value) { return set(attribute, abi::dnn_is_handle, 1, &value); }
  DnnObject& set(abi::DnnAttribute attribute, std::string_view text) {
    return set(attribute, abi::dnn_is_char, static_cast<int64_t>(text.size()), text.data());
  }
  DnnObject& set(abi::DnnAttribute attribute, const DnnObject& value) {
    const abi::DnnDescriptor descriptor = value.get();
    return set(attribute, abi::dnn_is_descriptor, 1, &descriptor);
  }
  DnnObject& set(abi::DnnAttribute attribute, abi::DnnAttributeType type, int64_t count, const void* values);
  DnnObject& finish();
  /// The same, false where the library says that it does not support this.
  bool try_finish();

  /// How many of `wanted` values there are; they are written to `values`.
  int64_t get(abi::DnnAttribute attribute, abi::DnnAttributeType type, int64_t wanted, void* values) const;
  /// Empty where it has none.
  std::string text(abi::DnnAttribute attribute) const;
  /// Objects that it refers to, at most so many.
  std::vector<DnnObject> objects(abi::DnnAttribute attribute, abi::DnnDescriptorType type, int64_t most) const;
  abi::DnnDescriptor get() const { return descriptor_.get(); }

 private:
  std::string what_;
  std::unique_ptr<void, void (*)(abi::DnnDescriptor)> descriptor_;
};

/// cuDNN's state on a device. One thread at a time uses it.
class DnnContext {
 public:
  /// The same for the same device while anyone holds it. Throws Error (unsupported) without cuDNN.
  static std::shared_ptr<DnnContext> open(const std::shared_ptr<Device>& device);
  explicit DnnContext(std::shared_ptr<Device> device);
  ~DnnContext();
  DnnContext(const DnnContext&) = delete;

  abi::DnnHandle handle() const { return handle_; }
  const std::shared_ptr<Device>& device() const { return device_; }
  void execute(const DnnObject& plan, const DnnObject& pack, abi::Stream stream);

  /// Plans of these engines that were made and that did not compile. An engine none of whose plans compiled will not compile
  /// the next one either, and trying takes up to a second.
  bool compiles(int64_t engine);
  void note(int64_t engine, bool compiled);

  /// Plans are made by many threads, and no two may use one handle: this one is the caller's until it goes.
  class OwnHandle {
   public:
    explicit OwnHandle(DnnContext& context);
    ~OwnHandle();
    OwnHandle(const OwnHandle&) = delete;
    abi::DnnHandle get() const { return handle_; }

   private:
    DnnContext& context_;
    abi::DnnHandle handle_ = nullptr;
  };

 private:
  std::shared_ptr<Device> device_;
  abi::DnnHandle handle_ = nullptr;
  std::mutex mutex_;
  std::mutex making_mutex_;
  std::vector<abi::DnnHandle> free_;
  std::map<int64_t, std::pair<int, int>> compiled_;  // by engine: how many were, how many were not
};

abi::DnnType dnn_type(DType t);  // throws Error for a type that it has none for

}  // namespace smelt::device::cuda
