// The float types that kernels read and write a register at a time; they compute in f32.
#pragma once

#include <cstdint>

namespace smelt::simd {

enum class FloatKind : uint8_t { f32, f16, bf16 };

}  // namespace smelt::simd
