// A transposed convolution as plain ones. Of the results along an axis those that lie a stride apart read the same taps of their pixels,
// every stride-th of the window, and are a plain convolution by these, a pixel apart and the last tap first:
//
//   o + pad = q · stride + tap,   tap = first + j · stride      y[o] = Σ x[q − j] · w[first + j · stride]
//
// So there is a convolution for each place within a stride, a phase, and each writes its own part of y. Where the stride is 1 there is one
// phase, whose taps are as far apart as the window's.
#pragma once

#include <vector>

#include "ops/conv/problem.h"

namespace smelt::ops::conv {

/// A phase's numbers along one axis.
struct PhaseAlong {
  int64_t place;      // of its first result in y; further ones lie the stride apart
  int64_t places;     // results
  int64_t first;      // the first tap of the window that it reads
  int64_t taps;       // how many of them; 0 where the window leaves a gap there
  int64_t pad_begin;  // negative: pixels at the beginning that no tap of it reaches
  int64_t pad_end;    // likewise at the end
};

/// All of them along an axis: min(stride, y's extent). Refused: a stride and a dilation along one axis, negative pads, empty tensors.
Result<std::vector<PhaseAlong>> phases_along(const Problem& p, size_t axis);

/// One entry a spatial axis, each as PhaseAlong has it.
struct Phase {
  Shape place, places, first, taps, pad_begin, pad_end;
};

/// The phases along each axis.
using PhaseAxes = std::vector<std::vector<PhaseAlong>>;
Result<PhaseAxes> phase_axes(const Problem& p);
int64_t phase_count(const PhaseAxes& axes);
/// Number `i` of them all, the last axis' places one after the other.
Phase phase_at(const PhaseAxes& axes, int64_t i);

/// Its taps of the weights [C, M / group, …] as a plain convolution has them: [M, C / group, …].
Tensor phase_weights(const Shape& stride, int64_t group, const Phase& phase, const Tensor& w);

/// All of them, where each is a plain convolution of its own; or why not: more than `most`, gaps, pads that cut off whole strides.
Result<std::vector<Phase>> phases_of(const Problem& p, int64_t most);

/// The plain convolution: its node, and where its result and the program's operands lie.
struct PhaseNode {
  std::shared_ptr<const Node> own;  // what `node` points to
  BoundNode node;
  int64_t begin = 0;            // of its result in y's memory, bytes
  std::vector<int64_t> begins;  // of each input in its memory
};
/// `operands`: the first input that is the program's.
PhaseNode phase_node(const BoundNode& transposed, const Problem& p, const Phase& phase, size_t operands);

}  // namespace smelt::ops::conv
