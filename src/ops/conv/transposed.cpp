#include "ops/conv/transposed.h"

#include "base/error.h"

namespace smelt::ops {

TransposedConv transposed_conv(const Node& node, const Shape& x, const Shape& w) {
  if (x.size() < 3) fail("X has shape {}, expected [N, C, spatial…]", to_string(x));
  if (w.size() != x.size()) fail("W has shape {}, expected rank {}", to_string(w), x.size());
  TransposedConv t{x[0], x[1], 0, node.get_int("group", 1), spatial_of(x), {}, {}};
  if (t.group < 1 || t.c % t.group) fail("group {} does not divide C = {}", t.group, t.c);
  if (w[0] != t.c) fail("W has shape {}, expected {} (C) first", to_string(w), t.c);
  t.m = w[1] * t.group;
  const size_t r = t.in.size();
  const Shape kernel = spatial_of(w);
  if (node.has("kernel_shape") && node.get_ints("kernel_shape") != kernel) {
    fail("kernel_shape is {}, but W has shape {}", to_string(node.get_ints("kernel_shape")), to_string(w));
  }
  Node plain = node;  // window_of would resolve SAME_* for a convolution over x; here it depends on the output
  plain.attrs["auto_pad"] = std::string("NOTSET");
  const std::string auto_pad = node.get_string("auto_pad", "NOTSET");
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!same && auto_pad != "VALID" && auto_pad != "NOTSET")
    fail("auto_pad is '{}', expected NOTSET, SAME_UPPER, SAME_LOWER or VALID", auto_pad);
  if (auto_pad != "NOTSET") plain.attrs.erase("pads");
  t.window = window_of(plain, kernel, t.in);

  Shape extra = node.get_ints("output_padding", Shape(r, 0)), wanted = node.get_ints("output_shape");
  if (wanted.size() == r + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);  // exporters that give N and C too
  if (extra.size() != r) fail("output_padding has {} entries, expected {}", extra.size(), r);
  if (!wanted.empty() && wanted.size() != r) fail("output_shape has {} entries, expected {}", wanted.size(), r);
  t.out.resize(r);
  for (size_t d = 0; d < r; ++d) {
    if (extra[d] < 0 || extra[d] >= std::max(t.window.stride[d], t.window.dilation[d])) {
      fail("output_padding {} on spatial axis {}, expected 0 to less than stride or dilation", extra[d], d);
    }
    const int64_t full = t.window.stride[d] * (t.in[d] - 1) + extra[d] + t.window.extent(d);
    if (!wanted.empty() || same) {
      t.out[d] = wanted.empty() ? t.in[d] * t.window.stride[d] : wanted[d];
      const int64_t total = std::max<int64_t>(0, full - t.out[d]);
      t.window.pad_begin[d] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      t.window.pad_end[d] = total - t.window.pad_begin[d];
    } else {
      t.out[d] = full - t.window.pad_begin[d] - t.window.pad_end[d];
    }
    if (t.out[d] < 0)
      fail("pads {} + {} exceed the full extent {} on spatial axis {}", t.window.pad_begin[d], t.window.pad_end[d], full, d);
  }
  return t;
}

template <class T>
void transposed_plane(const TransposedConv& t, int64_t n, int64_t m, const T* x, const T* w, const T* bias, T* y) {
  const int64_t in_plane = elements(t.in), out_plane = elements(t.out), taps = elements(t.window.kernel);
  const int64_t group_c = t.c / t.group, group_m = t.m / t.group, stride = t.window.stride.back();
  std::vector<double> sums(static_cast<size_t>(out_plane), bias ? static_cast<double>(bias[m]) : 0.0);
  for (int64_t k = 0; k < group_c; ++k) {
    const int64_t c = (m / group_m) * group_c + k;
    const T* plane = x + (n * t.c + c) * in_plane;
    const T* weight = w + (c * group_m + m % group_m) * taps;
    Shape tap(t.window.rank(), 0);
    do {
      const double factor = static_cast<double>(*weight++);
      for_runs(t.window, t.in, t.out, tap, [&](int64_t place, int64_t point, int64_t count) {
        for (int64_t i = 0; i < count; ++i)
          sums[static_cast<size_t>(point + i * stride)] += factor * static_cast<double>(plane[place + i]);
      });
    } while (advance(tap, t.window.kernel));
  }
  std::transform(sums.begin(), sums.end(), y + (n * t.m + m) * out_plane, [](double v) { return static_cast<T>(v); });
}

template void transposed_plane<float>(const TransposedConv&, int64_t, int64_t, const float*, const float*, const float*, float*);
template void transposed_plane<double>(const TransposedConv&, int64_t, int64_t, const double*, const double*, const double*,
                                       double*);

}  // namespace smelt::ops
