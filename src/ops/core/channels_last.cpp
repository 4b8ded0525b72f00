#include "ops/core/channels_last.h"

#include "ops/core/strides.h"

namespace smelt::ops {

bool is_same_either_way(const Shape& image) {
  if (image.size() < 3) return true;
  int64_t pixels = 1;
  for (size_t a = 2; a < image.size(); ++a) pixels *= image[a];
  return image[1] == 1 || pixels == 1;
}

bool is_channels_last(const BoundTensor& t) {
  if (t.shape.size() < 3) return false;
  const Shape s = memory_strides(t);
  if (t.shape[1] == 1) return true;
  if (s[1] != 1) return false;
  for (size_t a = 2; a < s.size(); ++a) {
    if (t.shape[a] > 1 && s[a] < t.shape[1]) return false;
  }
  return true;
}

Shape channels_last_strides(const Shape& image) {
  Shape s(image.size(), 1);
  int64_t step = image[1];
  for (size_t axis = image.size(); axis-- > 2; step *= image[axis]) s[axis] = step;
  s[0] = step;
  return s;
}

Shape pixel_steps(const BoundTensor& image) {
  const Shape s = memory_strides(image);
  return {s[0], s[2], s[3]};
}

}  // namespace smelt::ops
