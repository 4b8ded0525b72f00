// Blocks of device memory that nobody holds any more, and the work that may still use them. Knows nothing of the driver.
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

/// All that a stream was given before a moment.
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
  /// Takes out the smallest block of at least `bytes`, of an eighth more at most, that nothing uses any more. For what will be
  /// used on `stream` first, what that stream itself still does with a block does not count: its work comes in turn.
  std::optional<FreeBlock> take(int64_t bytes, std::optional<abi::Stream> stream = {});
  std::vector<FreeBlock> take_all();
  bool empty() const { return blocks_.empty(); }

 private:
  std::multimap<int64_t, FreeBlock> blocks_;  // by size
};

}  // namespace smelt::device::cuda
