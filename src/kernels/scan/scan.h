// The argument of scan/scan.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

/// T: the elements' type; void on the host.
template <class T> struct ScanArgs {
  const T* x;                   // [outer, extent, inner]
  T* y;                         // [outer, extent, inner]
  u32 lines, extent;            // lines: outer * inner
  Divider inner;
};
static_assert(sizeof(ScanArgs<void>) == 40);

}  // namespace smelt::kernels
