#include "ops/pool/direct.h"

#include <algorithm>

#include "ops/core/strides.h"
#include "ops/cpu/rows/rows.h"

namespace smelt::ops::pool {
namespace {

constexpr int64_t longest_padding = 1 << 20;  // that a line is kept with

/// Planes along an axis that no window spans are those of more channels.
void more_channels(Form& f) {
  const bool apart = f.kernel[0] == 1 && f.stride[0] == 1 && f.begin[0] == 0 && f.end[0] == 0 && f.in[0] == f.out[0];
  const bool dense = f.from[1] == f.in[0] * f.from[2] && f.to[1] == f.in[0] * f.to[2];
  if (f.in[0] == 1 || !apart || !dense || (f.indices && f.column_major)) return;
  f.channels *= f.in[0];
  f.from[1] = f.from[2], f.to[1] = f.to[2];
  f.in[0] = f.out[0] = 1;
}

}  // namespace

Result<Form> direct_form(const BoundNode& b) {
  const Node& n = *b.node;
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  Form f;
  f.type = x.type;
  if (n.op == "MaxPool")
    f.kind = Direct::max;
  else if (n.op == "AveragePool")
    f.kind = n.get_int("count_include_pad", 0) != 0 ? Direct::mean : Direct::mean_inside;
  else if (n.op == "LpPool" || n.op == "GlobalLpPool")
    f.kind = Direct::norm;
  else
    return refuse(Reason::unsupported, "not a pooling over windows");
  const bool whole = n.op == "GlobalLpPool";
  const bool bytes = x.type == DType::i8 || x.type == DType::u8;
  if (!float_kind(x.type) && x.type != DType::f64 && !(bytes && f.kind == Direct::max))
    return refuse(Reason::wrong_type, "elements of {}", smelt::name(x.type));
  f.power = n.get_int("p", 2);
  if (f.kind == Direct::norm && f.power < 1) return refuse(Reason::wrong_attribute, "p is {}", f.power);
  f.indices = b.outputs.size() > 1 && b.outputs[1].type != DType::undefined;
  f.column_major = n.get_int("storage_order", 0) != 0;
  if (y.type == DType::undefined) return refuse(Reason::unsupported, "its values are left out");
  if (f.indices && (x.layout != Layout::plain || !is_dense(b.outputs[1])))
    return refuse(Reason::wrong_layout, "indices of a tensor that is not dense");
  if (x.shape.size() < 3 || x.shape.size() > 5)
    return refuse(Reason::wrong_rank, "{} axes; it knows one to three behind batch and channels", x.shape.size());
  if (elements(x.shape) == 0 || elements(y.shape) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  const Shape grid = spatial_of(x.shape), places = spatial_of(y.shape), xs = memory_strides(x), ys = memory_strides(y);
  if ((grid.back() > 1 && xs.back() != 1) || (places.back() > 1 && ys.back() != 1))
    return refuse(Reason::wrong_layout, "pixels that do not lie side by side");
  const Shape ones(grid.size(), 1), none(grid.size(), 0);
  const Window w = whole ? Window{grid, ones, ones, none, none} : window_of(n, kernel_shape(n, grid.size()), grid);
  f.batch = x.shape[0], f.channels = x.shape[1];
  const size_t lead = 3 - grid.size();
  for (size_t k = 0; k < 2; ++k) f.from[k] = xs[k], f.to[k] = ys[k];
  for (size_t k = 0; k < 3; ++k) {
    const bool there = k >= lead;
    const size_t a = there ? k - lead : 0;
    const auto get = [&](const Shape& s, int64_t otherwise) { return there ? s[a] : otherwise; };
    f.in[k] = get(grid, 1), f.out[k] = get(places, 1), f.kernel[k] = get(w.kernel, 1), f.stride[k] = get(w.stride, 1);
    f.dilation[k] = get(w.dilation, 1), f.begin[k] = get(w.pad_begin, 0), f.end[k] = get(w.pad_end, 0);
    if (f.out[k] == 1) f.stride[k] = 1;  // nobody steps: lines are as long as all steps together
    f.from[k + 2] = there ? xs[a + 2] : 0, f.to[k + 2] = there ? ys[a + 2] : 0;
    // Places without any pixel, which no exporter makes: kernels keep lines as long as an image with its padding.
    if (const int64_t reach = (f.kernel[k] - 1) * f.dilation[k];
        f.begin[k] > reach || f.end[k] > reach + f.stride[k] || reach > f.in[k] + longest_padding)
      return refuse(Reason::unsupported, "padding by {} and {} around windows that reach {}", f.begin[k], f.end[k], reach + 1);
  }
  more_channels(f);
  return f;
}

Taps inside(const Form& f, size_t a, int64_t place) {
  const int64_t at = place * f.stride[a] - f.begin[a], d = f.dilation[a];
  const int64_t first = at >= 0 ? 0 : (-at + d - 1) / d, beyond = f.in[a] - at;
  const int64_t last = beyond <= 0 ? 0 : std::min(f.kernel[a], (beyond + d - 1) / d);
  return {std::min(first, std::max(first, last)), std::max(first, last)};
}

int64_t counted(const Form& f, size_t a, int64_t place) {
  if (f.kind == Direct::mean_inside) {
    const Taps t = inside(f, a, place);
    return t.last - t.first;
  }
  int64_t n = 0;
  for (int64_t k = 0; k < f.kernel[a]; ++k) {
    const int64_t at = place * f.stride[a] + k * f.dilation[a] - f.begin[a];
    n += at >= -f.begin[a] && at < f.in[a] + f.end[a];
  }
  return n;
}

}  // namespace smelt::ops::pool
