// What plain pooling computes: windows over one to three axes.
#pragma once

#include "ops/pool/problem.h"

namespace smelt::ops::pool {

enum class Direct : uint8_t { max, mean, mean_inside, norm };

/// Three spatial axes: unit ones in front of what the image has.
struct Form {
  Direct kind = Direct::max;
  DType type = DType::f32;
  bool indices = false, column_major = false;
  int64_t power = 2;
  int64_t batch = 0, channels = 0;
  int64_t in[3], out[3], kernel[3], stride[3], dilation[3], begin[3], end[3];
  int64_t from[5], to[5];  // elements along batch, channels and space

  bool mean() const { return kind == Direct::mean || kind == Direct::mean_inside; }
};

/// MaxPool, AveragePool, LpPool and the Global ones over plain images; refused for other nodes and layouts.
Result<Form> direct_form(const BoundNode& b);

/// The taps [first, last) of an axis' place that lie on the grid.
struct Taps {
  int64_t first, last;
};
Taps inside(const Form& f, size_t axis, int64_t place);
/// Taps along an axis that a mean divides by.
int64_t counted(const Form& f, size_t axis, int64_t place);

/// "cpu", "side by side": many small planes.
void offer_small_planes(const Form& f, const Machine& machine, Offer& offer);

/// MaxPool with its indices: for forms that ask for them.
std::unique_ptr<Kernel> indexed_max(const Form& f, int threads);

}  // namespace smelt::ops::pool
