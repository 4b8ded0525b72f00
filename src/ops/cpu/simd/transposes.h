// Bands of elements of 4 bytes, transposed in squares as large as the registers.
#pragma once

#include <cstdint>

namespace smelt::ops {

/// to[i * to_row + j] = from[j * from_column + i] for i < rows, j < columns; both at least 16.
using Transpose4 = void (*)(uint32_t* to, const uint32_t* from, int64_t rows, int64_t columns, int64_t to_row,
                            int64_t from_column);

}  // namespace smelt::ops

namespace smelt::base {
ops::Transpose4 transpose_4();
}
namespace smelt::avx2 {
ops::Transpose4 transpose_4();
}
namespace smelt::avx512 {
ops::Transpose4 transpose_4();
}
