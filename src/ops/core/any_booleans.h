// What a kernel says that takes bools of any bytes.
#pragma once

#include <cstddef>

namespace smelt::ops {

/// Kernels know the bytes 0 and 1 alone (base/booleans.h), but for inputs of those that are this too.
class TakesAnyBooleans {
 public:
  virtual ~TakesAnyBooleans() = default;
  /// True where every byte but 0 is true in input i, of bools: the caller need not look for others than 0 and 1.
  virtual bool takes_any_boolean(size_t i) const = 0;
};

}  // namespace smelt::ops
