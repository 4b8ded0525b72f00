// Copies within the host's memory, by several threads where it is worth starting them.
#pragma once

#include <cstdint>

namespace smelt::run {

void copy_bytes(void* to, const void* from, int64_t bytes);

/// `rows` times `width` bytes, the rows `to_step` and `from_step` bytes apart.
void copy_rows(void* to, int64_t to_step, const void* from, int64_t from_step, int64_t width, int64_t rows);

}  // namespace smelt::run
