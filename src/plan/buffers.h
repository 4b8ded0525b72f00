// Which tensors share memory.
#pragma once

#include <string>
#include <vector>

#include "plan/segment.h"

namespace smelt::plan {

/// Gives every tensor a buffer and an offset into it:
///   - a view's outputs lie in its input's buffer (and view steps are dropped);
///   - the past of a cache lies in its present's;
///   - with join_concat_inputs, an input of a concatenation whose buffer is its own lies in the output, when its bytes are
///     contiguous there or its strides are already those of the slice; concat steps with nothing left to copy are dropped;
///   - results get buffers of their own: where a result shares memory with something else, a copy step is added.
void assign_buffers(Segment& s, bool join_concat_inputs);

/// Tells each tensor how its first element is aligned in its buffer, for kernels with accesses of several bytes: blocks of an
/// arena and constants as `block`, what a caller may give as `caller`. After assign_buffers.
void find_alignments(Segment& s, int64_t block, int64_t caller);

/// Lets kernels write over an input that nothing reads afterwards, where they allow it. After choose_kernels.
void share_in_place(Segment& s);

/// Lifetimes, workspaces' buffers, and offsets in one arena, multiples of `alignment`. After share_in_place.
void place_buffers(Segment& s, int64_t alignment);

/// By step. After place_buffers.
std::vector<StepMemory> held_by_step(const Segment& s);

/// What the arena is needed for, in words: the step at which it holds the most bytes, and how many. After place_buffers.
std::string arena_text(const Segment& s);

/// Throws Error, naming that step, where the host's memory or the session's limit does not leave as many bytes as the arena has.
void check_arena(const Segment& s);

}  // namespace smelt::plan
