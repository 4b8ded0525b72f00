// A node on a GPU as a list of steps: launches of one source's kernels, fills, copies, and tables that they read. A family writes
// the source and the list; the kernel that is made of them here runs the list.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/cuda/gpu.h"
#include "ops/cuda/source.h"
#include "ops/cuda/walk.h"

namespace smelt::ops {

/// A buffer of a node from an offset on: a tensor, the workspace, or a table that the kernel keeps on the device.
struct BufferRef {
  enum Kind : uint8_t { input, output, workspace, table } kind = input;
  size_t index = 0;
  int64_t offset = 0;  // bytes
};

/// A pointer of a structure of arguments, and the buffer whose address a run puts there; nothing: it stays as it is.
struct TensorMember {
  template <class T> TensorMember(T* const& pointer, const BufferRef& from) : member(&pointer), buffer(from) {}
  template <class T> TensorMember(T* const& pointer, std::optional<BufferRef> from) : member(&pointer), buffer(from) {}
  const void* member;
  std::optional<BufferRef> buffer;
};

/// One launch and its argument, a structure that is laid out here: whole, or member by member in their order.
class Launch {
 public:
  Launch(KernelEntry entry, device::cuda::LaunchShape shape) : entry_(std::move(entry)), shape_(shape) {}

  /// A structure of src/kernels, of which `tensors` are pointers: args(a, {{a.x, input}, {a.y, output}}).
  template <class A> Launch& args(const A& a, const std::vector<TensorMember>& tensors = {}) {
    const size_t begin = arguments_.append(&a, sizeof a, alignof(A));
    for (const TensorMember& t : tensors) {
      const auto offset = static_cast<const char*>(t.member) - reinterpret_cast<const char*>(&a);
      if (t.buffer) tensors_.push_back({begin + static_cast<size_t>(offset), *t.buffer});
    }
    return *this;
  }
  /// A pointer.
  Launch& at(const BufferRef& buffer);
  Launch& input(size_t i) { return at({BufferRef::input, i, 0}); }
  Launch& output(size_t i) { return at({BufferRef::output, i, 0}); }
  /// A number or a structure without tensors.
  template <class T> Launch& value(const T& v) { return arguments_.value(v), *this; }
  Launch& value(const WalkArgument& walk);
  /// A structure that was laid out at run time.
  Launch& bytes(const std::vector<std::byte>& v) { return arguments_.bytes(v.data(), v.size()), *this; }

 private:
  friend class LaunchedKernel;
  struct Tensor {
    size_t offset;
    BufferRef buffer;
  };
  KernelEntry entry_;
  device::cuda::LaunchShape shape_;
  Arguments arguments_;
  std::vector<Tensor> tensors_;
};

/// As many blocks of `block` threads as `threads` threads need; none for none.
device::cuda::LaunchShape blocks_of(int64_t threads, unsigned block);

class LaunchPlan {
 public:
  LaunchPlan(std::string name_, std::string source_) : name(std::move(name_)), source(std::move(source_)) {}
  std::string name, source;  // the name is for messages
  int64_t workspace = 0;
  std::vector<std::vector<std::byte>> tables;

  /// Bytes of the workspace, 256-byte aligned.
  BufferRef reserve(int64_t bytes);
  template <class T> BufferRef table(const std::vector<T>& values) {
    std::vector<std::byte> bytes(std::max<size_t>(1, values.size() * sizeof(T)));
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), values.size() * sizeof(T));
    return table_of(std::move(bytes));
  }
  /// The steps are run in the order in which they were added.
  Launch& launch(KernelEntry entry, device::cuda::LaunchShape shape);
  void fill(const BufferRef& to, int64_t bytes, unsigned char value);
  /// Nothing where both are the same memory.
  void copy(const BufferRef& from, const BufferRef& to, int64_t bytes);

 private:
  friend class LaunchedKernel;
  BufferRef table_of(std::vector<std::byte> bytes);
  struct Step {
    enum Kind : uint8_t { launch, fill, copy } kind;
    std::unique_ptr<Launch> launched;
    BufferRef from, to;
    int64_t bytes = 0;
    unsigned char value = 0;
  };
  std::vector<Step> steps_;
};

/// Adds the entries of its launches to the source, compiles (or finds) it, loads it and puts the tables on the device.
/// `in_place`: of the node's inputs, those whose memory may be output 0's.
std::unique_ptr<Kernel> launched(LaunchPlan plan, const Gpu& gpu, std::vector<size_t> in_place = {});

}  // namespace smelt::ops
