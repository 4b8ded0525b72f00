// Movement that need not move: Transpose, Slice, Split, Gather at one index, Reorder and Reshape whose readers, or whose maker,
// follow strides.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "plan/segment.h"

namespace smelt::plan {

/// Makes a view of each step that only moves data where that is estimated to cost less than the copy, in one of two ways:
///   - forwards: its outputs lie in its input's memory, with strides, which their readers' kernels follow. What only moves those
///     outputs on becomes a view with it;
///   - backwards: its input lies in its output's memory, and the kernel that makes it writes there through strides.
/// An input of a plain concatenation that only this reads is written into its place likewise.
/// After assign_layouts, before assign_buffers. Left dense: the segment's inputs as they are, its results, constants, what
/// dynamic steps read and make, images in other layouts than the plain one. What a kernel reads or writes keeps the elements of
/// its rows (the innermost axis) side by side, but for reductions.
void assign_views(Segment& s, const tune::Tuner& tuner);

/// The same for these steps alone, where they only move data.
void assign_views(Segment& s, std::span<const size_t> steps, const tune::Tuner& tuner);

/// What becomes of steps that only move the outputs of a Split on which its readers read in place.
enum class Movers : uint8_t { become_views, copy };

/// What read_in_place made.
struct ReadInPlace {
  std::vector<size_t> readers;  // the kernel steps that read otherwise now
  Movers movers;
};

/// Makes views of the outputs of the step at `split`, a Split, which their readers follow by strides; what only moves them on
/// becomes a view too, or copies out of them, whichever is estimated to cost less. Nothing, with the segment as it was, where
/// some reader follows no strides.
std::optional<ReadInPlace> read_in_place(Segment& s, size_t split, const tune::Tuner& tuner);

/// The same where that was decided before, for other extents: false, with the segment as it was, where `runs` says that no
/// kernel takes a step's tensors then.
bool read_in_place(Segment& s, size_t split, Movers movers, const tune::Tuner& tuner,
                   const std::function<bool(const Step&, const ops::BoundNode&)>& runs);

}  // namespace smelt::plan
