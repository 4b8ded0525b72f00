// Steps that only copy.
#pragma once

#include "run/bound.h"

namespace smelt::run {

/// memcpy, by several threads where it is worth starting them.
void copy_bytes(void* to, const void* from, int64_t bytes);

/// Copies those inputs of a concat step that do not lie in its output, from step.in to step.out.
void run_concat(const Step& step);

}  // namespace smelt::run
