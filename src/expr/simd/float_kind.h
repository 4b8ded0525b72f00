// The float types that the row kernels load and store. They compute in f32.
#pragma once

#include <cstdint>

namespace smelt::simd {

enum class FloatKind : uint8_t { f32, f16, bf16 };

}  // namespace smelt::simd
