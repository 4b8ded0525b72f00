// Copies within the host's memory, by several threads where it is worth starting them.
#pragma once

#include <cstdint>
#include <span>

#include "plan/segment.h"

namespace smelt::run {

void copy_bytes(void* to, const void* from, int64_t bytes);
void copy_bytes(void* to, const void* from, int64_t bytes, int threads);

/// How many of so many threads bring bytes to pinned memory before a GPU fetches them; 0 where its driver does so no slower.
int pinning_threads(int64_t bytes, int threads);

/// A concatenation's parts into its rows.
void concatenate(void* to, const plan::ConcatCopy& concat, std::span<const void* const> inputs);

}  // namespace smelt::run
