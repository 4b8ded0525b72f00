// cuDNN's backend: operations over tensors described as a graph, the engines that can run it, and their plans. Opened at run
// time, every call checked, its objects owned.
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

/// Why there is none; empty where there is.
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
  DnnObject& set(abi::DnnAttribute attribute, abi::DnnHeuristicMode value) {
    return set(attribute, abi::dnn_is_heuristic_mode, 1, &value);
  }
  DnnObject& set(abi::DnnAttribute attribute, abi::DnnHandle value) { return set(attribute, abi::dnn_is_handle, 1, &value); }
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
  abi::DnnDescriptor get() const { return descriptor_.get(); }

 private:
  std::string what_;
  std::unique_ptr<void, void (*)(abi::DnnDescriptor)> descriptor_;
};

/// cuDNN's state on a device; one at a time uses it.
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
  std::map<int64_t, std::pair<int, int>> compiled_;   // by engine: how many were, how many were not
};

abi::DnnType dnn_type(DType t);   // throws Error for a type that it has none for

/// One engine with its settings, compiled where it needs that.
class DnnPlan {
 public:
  int64_t workspace() const { return workspace_; }
  /// Enqueues it: `pointers` in the order of `ids` when the graph was made. Any thread may call it, and one after
  /// the other they do. Captured where the stream is capturing.
  void run(std::span<const void* const> pointers, void* workspace, abi::Stream stream);

 private:
  friend class DnnGraph;
  DnnPlan(std::shared_ptr<DnnContext> context, DnnObject plan, std::vector<int64_t> ids);
  std::shared_ptr<DnnContext> context_;
  DnnObject plan_;
  std::vector<int64_t> ids_;
  int64_t workspace_ = 0;
};

/// What an engine may do to the numbers.
struct DnnRules {
  bool tensor_cores = true;        // false for exact f32: they would round it to tf32
};

/// Operations over tensors. Tensors are numbered as they are made.
class DnnGraph {
 public:
  explicit DnnGraph(std::shared_ptr<DnnContext> context) : context_(std::move(context)) {}

  /// A tensor in memory; its place in `pointers` of DnnPlan::run is that among the calls of this function.
  size_t tensor(DType type, const Shape& shape, const Shape& strides, int64_t alignment);
  /// A result that is never written.
  size_t between(DType type, const Shape& shape, const Shape& strides);
  /// y = the cross-correlation of x [N, C, spatial…] with w [M, C / group, kernel…], summed in `sums`.
  void convolve(size_t x, size_t w, size_t y, DType sums, const Shape& stride, const Shape& dilation, const Shape& pad_begin,
                const Shape& pad_end);
  void pointwise(abi::DnnPointwise mode, size_t x, size_t y);
  void pointwise(abi::DnnPointwise mode, size_t x, size_t b, size_t y);

  struct Engine {
    std::string name;              // "a0 engine 12": its place in the list, and its number
    int64_t number = 0;
    std::shared_ptr<const DnnObject> config;
  };
  /// What the library thinks can run the graph, the best guess first, without engines whose results differ from run to run, that
  /// round their inputs or sums, or that break the rules. Ends the description. Empty where it has none.
  std::vector<Engine> engines(const DnnRules& rules);
  /// Null where the engine cannot after all.
  std::unique_ptr<DnnPlan> plan(const Engine& engine) const;

 private:
  size_t add_tensor(DType type, const Shape& shape, const Shape& strides, int64_t alignment, bool is_virtual);
  std::shared_ptr<DnnContext> context_;
  std::vector<DnnObject> tensors_, parts_, operations_;   // parts: what operations refer to
  std::vector<int64_t> ids_;                              // of the tensors in memory
  std::unique_ptr<DnnObject> graph_;
};

}  // namespace smelt::device::cuda
