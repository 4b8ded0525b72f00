#include "ops/core/window.h"

#include "base/error.h"

namespace smelt::ops {
namespace {

constexpr int64_t limit = int64_t{1} << 30;         // keeps every product of two of these inside int64_t
constexpr int64_t extent_limit = int64_t{1} << 32;  // and of one of these with a stride

Shape ints_or(const Node& node, const char* attr, size_t count, int64_t otherwise, int64_t lowest) {
  Shape v = node.get_ints(attr);
  if (v.empty()) return Shape(count, otherwise);
  if (v.size() != count) fail("{} has {} entries, expected {}", attr, v.size(), count);
  for (int64_t x : v) {
    if (x < lowest || x > limit) fail("{} has {}, expected {} to {}", attr, x, lowest, limit);
  }
  return v;
}

}  // namespace

Shape kernel_shape(const Node& node, size_t rank) {
  Shape kernel = node.get_ints("kernel_shape");
  if (kernel.size() != rank) fail("kernel_shape has {} entries, expected {}", kernel.size(), rank);
  for (int64_t k : kernel) {
    if (k < 1 || k > limit) fail("kernel_shape has {}, expected 1 to {}", k, limit);
  }
  return kernel;
}

Window window_of(const Node& node, const Shape& kernel, const Shape& spatial) {
  const size_t r = kernel.size();
  if (r == 0 || spatial.size() != r) fail("the window has {} axes, the input {} spatial ones", r, spatial.size());
  for (int64_t k : kernel) {
    if (k < 1 || k > limit) fail("the kernel is {}, expected extents of 1 to {}", to_string(kernel), limit);
  }
  for (int64_t x : spatial) {
    if (x < 0 || x > extent_limit) fail("the input has spatial extents {}, expected 0 to {}", to_string(spatial), extent_limit);
  }
  Window w{kernel, ints_or(node, "strides", r, 1, 1), ints_or(node, "dilations", r, 1, 1), Shape(r, 0), Shape(r, 0)};
  const std::string auto_pad = node.get_string("auto_pad", "NOTSET");
  if (auto_pad == "NOTSET" || auto_pad.empty()) {
    const Shape pads = ints_or(node, "pads", 2 * r, 0, 0);
    w.pad_begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(r));
    w.pad_end.assign(pads.begin() + static_cast<std::ptrdiff_t>(r), pads.end());
  } else if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    for (size_t d = 0; d < r; ++d) {
      const int64_t places = (spatial[d] + w.stride[d] - 1) / w.stride[d];
      const int64_t total = std::max<int64_t>(0, (places - 1) * w.stride[d] + w.extent(d) - spatial[d]);
      w.pad_begin[d] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.pad_end[d] = total - w.pad_begin[d];
    }
  } else if (auto_pad != "VALID") {
    fail("auto_pad is '{}', expected NOTSET, SAME_UPPER, SAME_LOWER or VALID", auto_pad);
  }
  return w;
}

Shape window_places(const Window& w, const Shape& spatial, bool ceil) {
  Shape places(w.rank());
  for (size_t d = 0; d < w.rank(); ++d) {
    const int64_t room = spatial[d] + w.pad_begin[d] + w.pad_end[d] - w.extent(d);
    const bool begins_inside =
        ceil && room > -w.stride[d] && spatial[d] + w.pad_begin[d] > 0;  // one window, which goes beyond the end
    if (room < 0 && !begins_inside)
      fail("a window of {} does not fit into {} + {} padding on spatial axis {}", w.extent(d), spatial[d],
           w.pad_begin[d] + w.pad_end[d], d);
    places[d] = (ceil ? (room + w.stride[d] - 1) / w.stride[d] : room / w.stride[d]) + 1;
    if (ceil && (places[d] - 1) * w.stride[d] >= spatial[d] + w.pad_begin[d]) --places[d];
  }
  return places;
}

Shape with_spatial(int64_t n, int64_t c, const Shape& spatial) {
  Shape s{n, c};
  s.insert(s.end(), spatial.begin(), spatial.end());
  return s;
}

}  // namespace smelt::ops
