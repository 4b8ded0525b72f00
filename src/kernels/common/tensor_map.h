// What a kernel's argument holds of a tensor whose boxes the copy engine of sm_90 brings and stores (common/ptx/copies.cuh).
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

/// CUtensorMap: where a tensor lies and how its boxes are copied. The driver encodes it (cuTensorMapEncodeTiled).
struct alignas(128) TensorMap {
  u64 words[16];
};
static_assert(sizeof(TensorMap) == 128);

}  // namespace smelt::kernels
