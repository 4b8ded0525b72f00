// What the processor's kernels over lines share: tensors as [outer, extent, inner] around an axis.
#pragma once

#include <memory>

#include "base/refusal.h"
#include "ops/core/loops.h"
#include "ops/core/tactic.h"
#include "ops/cpu/parallel.h"
#include "ops/reduce/simd/lines.h"

namespace smelt::ops {

/// x and y as [outer, extent, inner] around the axis; y has `results` elements along it.
struct Lines {
  AxisView view;
  int64_t results = 1;
  LineElement element = LineElement::f32;
  int64_t bytes = 4;  // of an element

  int64_t count() const { return view.outer * view.extent * view.inner; }
};

const LineSimd& line_simd();

/// The lines along `axis`, as x lies; refused for what no kernel over lines takes.
Result<Lines> lines_of(const BoundNode& b, int64_t axis);

/// Offers "cpu": a K of the lines, the arguments and the number of threads.
template <class K, class... A>
void add_lines(Offer& offer, const Lines& l, const Machine& machine, double per_us, A... arguments) {
  const auto count = static_cast<double>(l.count());
  offer.candidates.push_back({"cpu", "", 1 + count / per_us / machine.threads, [l, arguments..., threads = machine.threads] {
                                return std::make_unique<K>(l, arguments..., threads);
                              }});
}

}  // namespace smelt::ops
