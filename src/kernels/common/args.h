// The types that kernels' arguments are made of, for g++ and for NVRTC.
//
// A kernel has one argument, a structure in a header that both compilers include as "kernels/FAMILY/NAME.h". Its members are the
// tensors and numbers of fixed width; it asserts its size, and is in namespace smelt::kernels, which device code uses throughout.
// A template over the elements' types has void for them on the host: pointers have one size.
#pragma once

#ifdef __CUDACC__
#include "common/types.cuh"
#define SMELT_SHARED __host__ __device__
#else
#include <cstdint>
#define SMELT_SHARED
namespace smelt::kernels {
using i8 = int8_t;
using u8 = uint8_t;
using i16 = int16_t;
using u16 = uint16_t;
using i32 = int32_t;
using u32 = uint32_t;
using i64 = int64_t;
using u64 = uint64_t;
}  // namespace smelt::kernels
#endif

namespace smelt::kernels {}
#ifdef __CUDACC__
using namespace smelt::kernels;
#endif
