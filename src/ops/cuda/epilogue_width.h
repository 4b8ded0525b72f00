// How many columns at a time a kernel may take whose lanes have as many side by side as it likes, and what they read once.
#pragma once

#include "ops/cuda/epilogue.h"

namespace smelt::ops {

/// `most`, or a half of it again and again, at which every tensor has whole accesses; else y has. Of those the widest, for results of
/// 8 bits that which leaves least of four lanes' columns beyond y's: their programs are long, and 16 channels of four lanes by 16
/// keep one busy. Where no width has whole accesses 2: elements are stored one by one, and lanes shall at least be neighbours.
int64_t columns_of_lane(const CudaEpilogue& epilogue, int64_t most);

/// A bit for each operand that has one value a column.
uint32_t by_column(const CudaEpilogue& epilogue);

}  // namespace smelt::ops
