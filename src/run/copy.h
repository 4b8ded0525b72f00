// Copies within the host's memory, by several threads where it is worth starting them.
#pragma once

#include <cstdint>
#include <span>

#include "plan/segment.h"

namespace smelt::run {

void copy_bytes(void* to, const void* from, int64_t bytes);

/// A concatenation's parts into its rows.
void concatenate(void* to, const plan::ConcatCopy& concat, std::span<const void* const> inputs);

}  // namespace smelt::run
