#include "ops/conv/phases.h"

#include <algorithm>
#include <numeric>

#include "base/number.h"
#include "ops/core/key.h"
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

Result<std::vector<Phase>> phases_of(const Problem& p, int64_t most) {
  const auto axes = phase_axes(p);
  if (!axes) return axes.refusal();
  const int64_t count = phase_count(*axes);
  if (count > most) return refuse(Reason::too_large, "phases: {} of them, expected at most {}", count, most);
  for (size_t a = 0; a < axes->size(); ++a)
    for (const PhaseAlong& one : (*axes)[a]) {
      if (one.taps == 0)
        return refuse(Reason::wrong_attribute, "phases: windows of {} pixels, {} apart, which leave gaps", p.w[a + 2],
                      p.stride[a]);
      if (one.pad_begin < 0) return refuse(Reason::wrong_attribute, "phases: pads of {} cut whole strides off", p.pad_begin[a]);
    }
  std::vector<Phase> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(phase_at(*axes, i));
  return all;
}

namespace {

/// The phase's part of y, or of what broadcasts to it from the last axis; returns where it begins, bytes.
int64_t take_part(BoundTensor& t, const Problem& p, const Phase& phase) {
  const Shape steps = memory_strides(t);
  int64_t begin = 0;
  const size_t rank = t.shape.size();
  for (size_t back = 1; back <= std::min(rank, p.spatial()); ++back) {
    const size_t axis = rank - back, a = p.spatial() - back;
    if (t.shape[axis] == 1 && p.y[a + 2] != 1) continue;  // one for all
    if (t.strides.empty()) t.strides = steps, t.constant = {};
    begin += phase.place[a] * steps[axis];
    t.strides[axis] *= p.stride[a];
    t.shape[axis] = phase.places[a];
  }
  begin = bytes(t.type, begin);
  if (begin > 0) t.alignment = std::gcd(t.alignment, begin);
  return begin;
}

}  // namespace

PhaseNode phase_node(const BoundNode& transposed, const Problem& p, const Phase& phase, size_t operands) {
  const size_t spatial = p.spatial();
  auto own = std::make_shared<Node>(*transposed.node);
  own->op = "Conv";
  own->attrs.clear();
  own->attrs["group"] = p.group;
  own->attrs["strides"] = std::vector<int64_t>(spatial, 1);
  std::vector<int64_t> pads = phase.pad_begin, dilations(spatial, 1);
  for (size_t a = 0; a < spatial; ++a) {
    pads.push_back(std::max<int64_t>(0, phase.pad_end[a]));
    if (p.stride[a] == 1 && phase.taps[a] > 1) dilations[a] = p.dilation[a];
  }
  own->attrs["pads"] = std::move(pads);
  own->attrs["dilations"] = std::move(dilations);

  PhaseNode made{own, transposed, 0, std::vector<int64_t>(transposed.inputs.size(), 0)};
  made.node.node = own.get();
  BoundTensor &x = made.node.inputs[0], &w = made.node.inputs[1];
  if (std::ranges::any_of(phase.pad_end, [](int64_t pad) { return pad < 0; })) {
    x.strides = memory_strides(x);
    for (size_t a = 0; a < spatial; ++a) x.shape[a + 2] += std::min<int64_t>(0, phase.pad_end[a]);
  }
  Key key("conv:phase");
  key.field(p.w).option("g", p.group).option("s", p.stride).field(phase.first).field(phase.taps);
  const auto pack = [&p, &phase, constant = w.constant] { return phase_weights(p.stride, p.group, phase, constant); };
  w.constant = transposed.weights ? transposed.weights->packed(w.constant, key.text(), pack) : pack();
  w.shape = w.constant.shape();
  made.begin = take_part(made.node.outputs[0], p, phase);
  for (size_t i = operands; i < made.node.inputs.size(); ++i)
    if (made.node.inputs[i].type != DType::undefined) made.begins[i] = take_part(made.node.inputs[i], p, phase);
  return made;
}

}  // namespace smelt::ops::conv
