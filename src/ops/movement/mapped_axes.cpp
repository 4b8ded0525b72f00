#include "ops/movement/mapped_axes.h"

#include <algorithm>
#include <numeric>

#include "ops/core/axis_table.h"
#include "ops/core/strides.h"
#include "ops/movement/pad.h"

namespace smelt::ops {

std::vector<MappedAxis> axes_of(const BoundTensor& x, const BoundTensor& y) {
  const Shape from = memory_strides(x), to = memory_strides(y);
  std::vector<MappedAxis> axes;
  for (size_t a = 0; a < from.size(); ++a) axes.push_back({y.shape[a], from[a], to[a], {}});
  return axes;
}

MergedAxes merged_axes(std::vector<MappedAxis> axes) {
  std::ranges::stable_sort(axes, std::greater{}, &MappedAxis::to);
  // What is moved as it lies: the innermost axes that keep their places are one row, others next to one another one axis.
  MergedAxes m;
  std::vector<MappedAxis>& rest = m.axes;
  const auto stays = [](const MappedAxis& a) { return a.places.empty() && a.tag < 0; };
  for (const MappedAxis& a : axes) {
    if (a.extent == 1 && stays(a)) continue;
    MappedAxis* last = rest.empty() ? nullptr : &rest.back();
    if (last && stays(*last) && stays(a) && last->from == a.from * a.extent && last->to == a.to * a.extent) {
      last->extent *= a.extent, last->from = a.from, last->to = a.to;
    } else {
      rest.push_back(a);
    }
  }
  if (!rest.empty() && stays(rest.back()) && rest.back().from == 1 && rest.back().to == 1) {
    m.width = rest.back().extent;
    rest.pop_back();
  }
  if (rest.empty()) rest.push_back({});
  return m;
}

int64_t MergedAxes::rows() const {
  int64_t rows = 1;
  for (const MappedAxis& a : axes) rows *= a.extent;
  return rows;
}

int64_t MergedAxes::unit() const {
  int64_t unit = 0;
  for (const MappedAxis& a : axes) unit = std::gcd(unit, std::gcd(a.from, a.to));
  return unit;
}

namespace {

/// Each index of an axis less what lies before it, or where `mode` says; -1 outside in mode constant.
std::vector<int64_t> padded(int64_t before, int64_t extent, int64_t result, const std::string& mode) {
  check_axis_table(result);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < result; ++i) {
    const int64_t at = i - before;
    places.push_back(mode != "constant" ? pad_source(mode, at, extent) : at < 0 || at >= extent ? -1 : at);
  }
  return places;
}

}  // namespace

Result<PaddedAxes> padded_axes(const BoundNode& b) {
  const Node& n = *b.node;
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  std::string mode = "constant";
  PaddedAxes p{axes_of(x, y), {}, false};
  Shape before;
  if (n.op == "Pad") {
    if ((b.has(1) && !b.constant(1)) || (b.has(3) && !b.constant(3)))
      return refuse(Reason::not_constant, "its pads are computed");
    mode = n.get_string("mode", "constant");
    if (mode != "constant" && elements(x.shape) == 0) return refuse(Reason::wrong_shape, "nothing to pad with");
    const std::vector<int64_t> listed = b.has(1) ? b.constant(1)->to_ints() : n.get_ints("pads");
    before = pads_of(listed, b.has(3) ? std::optional(b.constant(3)->to_ints()) : std::nullopt, x.shape.size()).before;
    p.computed_fill = mode == "constant" && b.has(2) && !b.constant(2);
    if (mode == "constant" && b.has(2) && !p.computed_fill)
      p.fill = *b.constant(2);
    else if (n.has("value"))
      p.fill = Tensor::scalar<double>(n.get_float("value", 0)).cast(x.type);
  } else {
    for (size_t a = 0; a < x.shape.size(); ++a) {
      const int64_t more = y.shape[a] - x.shape[a];
      before.push_back(more >= 0 ? more / 2 : -(-more / 2));
    }
  }
  for (size_t a = 0; a < x.shape.size(); ++a)
    if (before[a] != 0 || x.shape[a] != y.shape[a]) p.axes[a].places = padded(before[a], x.shape[a], y.shape[a], mode);
  return p;
}

}  // namespace smelt::ops
