// A node on a GPU as a list of steps: launches of one source's kernels, fills, copies, and tables that they read. A family writes
// the source and the list; the kernel that is made of them here runs the list.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ops/cuda/gpu.h"
#include "ops/cuda/walk.h"

namespace smelt::ops {

/// A buffer of a node from an offset on: a tensor, the workspace, or a table that the kernel keeps on the device.
struct BufferRef {
  enum Kind : uint8_t { input, output, workspace, table } kind = input;
  size_t index = 0;
  int64_t offset = 0;  // bytes
};

/// One launch and its arguments, in the order of the kernel's parameters.
class Launch {
 public:
  Launch(std::string entry, device::cuda::LaunchShape shape) : entry_(std::move(entry)), shape_(shape) {}

  Launch& at(const BufferRef& buffer);
  Launch& input(size_t i) { return at({BufferRef::input, i, 0}); }
  Launch& output(size_t i) { return at({BufferRef::output, i, 0}); }
  /// A number or a structure by value, laid out as the kernel has it.
  template <class T> Launch& value(const T& v) {
    const auto* p = reinterpret_cast<const std::byte*>(&v);
    return bytes({p, p + sizeof v});
  }
  Launch& bytes(std::vector<std::byte> v);
  Launch& value(const WalkArgument& walk);

 private:
  friend class LaunchedKernel;
  struct Given {
    bool by_value;
    BufferRef buffer;
    std::vector<std::byte> bytes;
  };
  std::string entry_;
  device::cuda::LaunchShape shape_;
  std::vector<Given> given_;
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
  Launch& launch(std::string entry, device::cuda::LaunchShape shape);
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

/// Compiles (or finds) the source, loads it and puts the tables on the device. `in_place`: of the node's inputs, those whose
/// memory may be output 0's.
std::unique_ptr<Kernel> launched(LaunchPlan plan, const Gpu& gpu, std::vector<size_t> in_place = {});

}  // namespace smelt::ops
