// Pad and CenterCropPad. Every mode but constant is a table of source indices per axis; constant and cropping are windows.
#include <algorithm>

#include "base/error.h"
#include "ops/core/copy.h"
#include "ops/core/list_inputs.h"
#include "ops/core/loops.h"
#include "ops/movement/family.h"
#include "ops/movement/pad.h"

namespace smelt::ops {

Pads pads_of(const std::vector<int64_t>& listed, const std::optional<std::vector<int64_t>>& axes, size_t rank) {
  Pads p{Shape(rank, 0), Shape(rank, 0)};
  const size_t count = axes ? axes->size() : rank;
  if (listed.size() != 2 * count) fail("pads has {} entries, expected 2 for each of {} axes", listed.size(), count);
  for (size_t i = 0; i < count; ++i) {
    const size_t a = axes ? static_cast<size_t>(normalize_axis((*axes)[i], static_cast<int64_t>(rank))) : i;
    p.before[a] = listed[i];
    p.after[a] = listed[count + i];
  }
  return p;
}

namespace {

int64_t floor_mod(int64_t a, int64_t n) { return (a % n + n) % n; }

}  // namespace

int64_t pad_source(const std::string& mode, int64_t at, int64_t extent) {
  if (at >= 0 && at < extent) return at;
  if (mode == "edge") return at < 0 ? 0 : extent - 1;
  if (mode == "wrap") return floor_mod(at, extent);
  if (extent == 1) return 0;
  const int64_t period = 2 * (extent - 1), folded = floor_mod(at, period);  // reflect, again and again
  return folded < extent ? folded : period - folded;
}

namespace {

void infer_pad(InferContext& c) {
  const DType type = type_of(c, 0);
  const std::string mode = c.node.get_string("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    fail("mode is '{}', expected 'constant', 'reflect', 'edge' or 'wrap'", mode);
  if (c.has(2) && c.in(2).shape_known && elements(c.shape(2)) != 1)
    fail("the value to fill with has shape {}, expected one element", to_string(c.shape(2)));
  const auto pads = list(c, 1, "pads");
  const auto axes = c.has(3) ? c.ints(3) : std::nullopt;
  if (!pads || (c.has(3) && !axes) || !c.in(0).shape_known) return c.set_type(0, type);
  Shape s = c.shape(0);
  const Pads p = pads_of(*pads, axes, s.size());
  for (size_t a = 0; a < s.size(); ++a) {
    const int64_t extent = s[a];
    if (p.before[a] < -extent || p.after[a] < -extent)
      fail("pads {} and {} crop more than axis {} of extent {} has", p.before[a], p.after[a], a, extent);
    if (__builtin_add_overflow(s[a], p.before[a], &s[a]) || __builtin_add_overflow(s[a], p.after[a], &s[a]) || s[a] < 0) {
      fail("pads {} and {} leave no axis {} of extent {}", p.before[a], p.after[a], a, extent);
    }
  }
  c.set(0, type, std::move(s));
}

/// Places `x` in `y` shifted by `before` (negative: cropped), leaving what lies outside it.
void place(const Tensor& x, const Shape& before, Tensor& y) {
  const Shape in = strides(x.shape()), out = strides(y.shape());
  Shape extents;
  StridedWindow source{0, in}, target{0, out};
  for (size_t a = 0; a < in.size(); ++a) {
    const int64_t skip = std::max<int64_t>(0, -before[a]), lead = std::max<int64_t>(0, before[a]);
    extents.push_back(std::max<int64_t>(0, std::min(x.shape()[a] - skip, y.shape()[a] - lead)));
    source.offset += skip * in[a];
    target.offset += lead * out[a];
  }
  copy_window(extents, x, source, y, target);
}

void pad_constant(ComputeContext& c, const Pads& p) {
  Tensor& y = c.outputs[0];
  if (c.has(2))
    fill(y, c.in(2));
  else if (c.node.has("value"))
    fill(y, Tensor::scalar<double>(c.node.get_float("value", 0)).cast(y.type()));
  else
    fill_zero(y);
  place(c.in(0), p.before, y);
}

void run_pad(ComputeContext& c) {
  const Tensor& x = c.in(0);
  Tensor& y = c.outputs[0];
  const std::string mode = c.node.get_string("mode", "constant");
  const Pads p = pads_of(list(c, 1, "pads"), c.has(3) ? std::optional(c.in(3).to_ints()) : std::nullopt, x.shape().size());
  if (mode == "constant") return pad_constant(c, p);
  if (y.size() == 0) return;
  if (x.size() == 0) fail("mode '{}' cannot pad an empty input of shape {}", mode, to_string(x.shape()));

  // Offset that each output index of each axis contributes; the last axis is walked innermost.
  const Shape in = strides(x.shape());
  std::vector<std::vector<int64_t>> offsets(in.size());
  for (size_t a = 0; a < in.size(); ++a) {
    for (int64_t i = 0; i < y.shape()[a]; ++i) offsets[a].push_back(pad_source(mode, i - p.before[a], x.shape()[a]) * in[a]);
  }
  ElementCopier copier(x, y);
  Shape at(in.size(), 0);
  for (int64_t i = 0; i < y.size(); ++i) {
    int64_t from = 0;
    for (size_t a = 0; a < at.size(); ++a) from += offsets[a][static_cast<size_t>(at[a])];
    copier.copy(from, i);
    for (size_t a = at.size(); a > 0 && ++at[a - 1] == y.shape()[a - 1]; --a) at[a - 1] = 0;
  }
  copier.finish();
}

void infer_center_crop_pad(InferContext& c) {
  const DType type = type_of(c, 0);
  const auto target = c.ints(1);
  if (!target || !c.in(0).shape_known) return c.set_type(0, type);
  Shape s = c.shape(0);
  const auto axes = c.node.get_ints("axes");
  const size_t count = c.node.has("axes") ? axes.size() : s.size();
  if (target->size() != count) fail("shape has {} entries for {} axes", target->size(), count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t a = c.node.has("axes") ? normalize_axis(axes[i], static_cast<int64_t>(s.size())) : static_cast<int64_t>(i);
    if ((*target)[i] < 0) fail("shape has the extent {}", (*target)[i]);
    s[static_cast<size_t>(a)] = (*target)[i];
  }
  c.set(0, type, std::move(s));
}

void run_center_crop_pad(ComputeContext& c) {
  Tensor& y = c.outputs[0];
  Shape before;
  for (size_t a = 0; a < y.shape().size(); ++a) {
    const int64_t more = y.shape()[a] - c.in(0).shape()[a];
    before.push_back(more >= 0 ? more / 2 : -(-more / 2));
  }
  fill_zero(y);
  place(c.in(0), before, y);
}

}  // namespace

std::span<const OpRow> pad_ops() {
  static constexpr OpRow table[] = {
      {{"Pad", onnx_domain, infer_pad, run_pad}},
      {{"CenterCropPad", onnx_domain, infer_center_crop_pad, run_center_crop_pad}},
  };
  return table;
}

}  // namespace smelt::ops
