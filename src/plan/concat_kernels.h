// Which concatenations on a GPU are copied by kernels.
#pragma once

#include "plan/segment.h"
#include "tune/tuner.h"

namespace smelt::plan {

/// Whether kernels copy the inputs of a concatenation, wherever they lie: on a GPU, where rows are apart in its result.
bool copies_by_kernels(const Segment& s, const Step& concat, const tune::Tuner& tuner);

/// Such a concatenation becomes a step for each input that does not lie in its place: a Reorder, of the concatenation's name, into
/// a slice of the result. The driver's copies of rows take about twice as long. After assign_buffers, before find_alignments.
void copy_parts_by_kernels(Segment& s, const tune::Tuner& tuner);

}  // namespace smelt::plan
