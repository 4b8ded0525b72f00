// A small tensor (scale, bias, zero point) read at the elements of the larger one that it broadcasts to.
#pragma once

#include <algorithm>

#include "ops/core/loops.h"

namespace smelt::ops {

template <class T> class BroadcastOperand {
 public:
  /// `t` may be left out (not valid()); otherwise its shape, or `as` where given, must broadcast to `over`.
  BroadcastOperand(const Tensor& t, const Shape& over) : BroadcastOperand(t, over, t.shape()) {}
  BroadcastOperand(const Tensor& t, const Shape& over, const Shape& as) : data_(t.valid() ? t.data<T>() : nullptr) {
    if (!data_) return;
    shape_ = over;
    strides_ = broadcast_strides(as, over);
    for (size_t d = over.size(); d-- > 0 && row_ < t.size();) row_ *= over[d];
    // The last axes, whole.
    const auto first = std::find_if(as.begin(), as.end(), [](int64_t d) { return d != 1; });
    const auto own = static_cast<size_t>(as.end() - first);
    whole_ = row_ == t.size() && own <= over.size() && std::equal(first, as.end(), over.end() - static_cast<ptrdiff_t>(own));
  }
  bool given() const { return data_ != nullptr; }
  /// The value for flat element i of the larger tensor, or `otherwise` when the parameter is left out.
  T at(int64_t i, T otherwise) const {
    if (!data_) return otherwise;
    if (whole_) return data_[i % row_];
    int64_t offset = 0;
    for (size_t d = shape_.size(); d-- > 0;) {
      offset += i % shape_[d] * strides_[d];
      i /= shape_[d];
    }
    return data_[offset];
  }

 private:
  const T* data_;
  Shape shape_, strides_;
  int64_t row_ = 1;
  bool whole_ = false;
};

/// The shape of a 1-D parameter that lies along the axis with `trailing` axes behind it; any other shape as it is.
inline Shape along(const Shape& s, size_t trailing) {
  if (s.size() != 1) return s;
  Shape out = s;
  out.resize(1 + trailing, 1);
  return out;
}

}  // namespace smelt::ops
