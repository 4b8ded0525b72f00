#include "ops/conv/phases.h"

#include <algorithm>

#include "base/number.h"
#include "ops/core/strides.h"
#include "ops/core/window.h"
#include "ops/cpu/strided_copy.h"

namespace smelt::ops::conv {

Result<std::vector<PhaseAlong>> phases_along(const Problem& p, size_t axis) {
  const int64_t stride = p.stride[axis], dilation = p.dilation[axis], window = p.w[axis + 2], out = p.y[axis + 2],
                pad = p.pad_begin[axis];
  if (elements(p.y) == 0 || elements(p.w) == 0 || elements(p.x[0].shape) == 0)
    return refuse(Reason::wrong_shape, "phases: an empty tensor");
  if (stride != 1 && dilation != 1 && window != 1)
    return refuse(Reason::wrong_attribute, "phases: a stride of {} and a dilation of {}", stride, dilation);
  if (pad < 0) return refuse(Reason::wrong_attribute, "phases: pads of {}", pad);
  const int64_t step = window == 1 ? 1 : stride == 1 ? dilation : 1;  // from one tap of a phase to the next, in pixels
  std::vector<PhaseAlong> list;
  for (int64_t place = 0; place < std::min(stride, out); ++place) {
    const int64_t first = (place + pad) % stride, shift = (place + pad) / stride;
    const int64_t taps = first < window ? divide_up(window - first, stride) : 0, places = divide_up(out - place, stride);
    const int64_t span = std::max<int64_t>(taps - 1, 0) * step, begin = span - shift;
    list.push_back({place, places, first, taps, begin, places + span - p.x[0].shape[axis + 2] - begin});
  }
  return list;
}

Result<PhaseAxes> phase_axes(const Problem& p) {
  PhaseAxes axes;
  for (size_t a = 0; a < p.spatial(); ++a) {
    auto along = phases_along(p, a);
    if (!along) return along.refusal();
    axes.push_back(*std::move(along));
  }
  return axes;
}

int64_t phase_count(const PhaseAxes& axes) {
  int64_t count = 1;
  for (const auto& along : axes) count *= static_cast<int64_t>(along.size());
  return count;
}

Phase phase_at(const PhaseAxes& axes, int64_t i) {
  const Shape none(axes.size(), 0);
  Phase f{none, none, none, none, none, none};
  for (size_t a = axes.size(); a-- > 0;) {
    const auto count = static_cast<int64_t>(axes[a].size());
    const PhaseAlong& one = axes[a][static_cast<size_t>(i % count)];
    f.place[a] = one.place, f.places[a] = one.places, f.first[a] = one.first;
    f.taps[a] = one.taps, f.pad_begin[a] = one.pad_begin, f.pad_end[a] = one.pad_end;
    i /= count;
  }
  return f;
}

Tensor phase_weights(const Shape& stride, int64_t group, const Phase& phase, const Tensor& w) {
  const Shape window = spatial_of(w.shape()), tap_steps = strides(window);
  const int64_t taps = elements(window), own = elements(phase.taps), outputs = w.shape()[1], channels = w.shape()[0] / group;
  Shape to{group * outputs, channels};
  to.insert(to.end(), phase.taps.begin(), phase.taps.end());
  Tensor packed = Tensor::empty(w.type(), to);
  if (own == 0) return packed;
  // Along [group, output of the group, channel, taps…].
  Shape extents{group, outputs, channels}, from{channels * outputs * taps, taps, outputs * taps},
      at{outputs * channels * own, channels * own, own};
  int64_t last = 0;  // the tap that comes first
  const Shape own_steps = strides(phase.taps);
  for (size_t a = 0; a < phase.taps.size(); ++a) {
    extents.push_back(phase.taps[a]), from.push_back(-stride[a] * tap_steps[a]), at.push_back(own_steps[a]);
    last += (phase.first[a] + (phase.taps[a] - 1) * stride[a]) * tap_steps[a];
  }
  const int64_t size = bytes(w.type(), 1);
  StridedCopy(extents, from, at, size, 1).run(packed.raw(), static_cast<const char*>(w.raw()) + last * size);
  return packed;
}

}  // namespace smelt::ops::conv
