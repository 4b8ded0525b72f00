// Freed blocks of device memory, and the work that may still use them. Calls nothing of the driver.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "device/cuda/abi/driver.h"

namespace smelt::device::cuda {

/// A point in a stream's work.
class Moment {
 public:
  virtual ~Moment() = default;
  virtual bool passed() const = 0;
  virtual void wait() const = 0;
};

/// The work that a stream was given before a moment.
struct StreamUse {
  abi::Stream stream = nullptr;
  std::shared_ptr<const Moment> end;
};

struct FreeBlock {
  abi::Address address = 0;
  int64_t bytes = 0;
  std::vector<StreamUse> uses;  // of the tensors that lay in it
};

class FreeBlocks {
 public:
  void add(FreeBlock block);
  /// Takes out the smallest block that nothing uses any more, of at least `bytes` and at most an eighth more. `stream`: the first
  /// to use it; that stream's own work on a block does not count, for a stream works in order.
  std::optional<FreeBlock> take(int64_t bytes, std::optional<abi::Stream> stream = {});
  std::vector<FreeBlock> take_all();
  bool empty() const { return blocks_.empty(); }

 private:
  std::multimap<int64_t, FreeBlock> blocks_;  // by size
};

}  // namespace smelt::device::cuda
