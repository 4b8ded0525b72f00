#include "ops/pointwise/reference.h"

#include <algorithm>

#include "base/error.h"

namespace smelt::ops {

template <class C> OperandStream<C>::OperandStream(const Tensor& t, const Shape& out) : tensor_(t) {
  const Shape full = broadcast_strides(t.shape(), out);
  repeats_ = t.size() == 1;
  for (size_t a = 0; a < out.size(); ++a) {
    if (out[a] == 1) continue;
    if (!extents_.empty() && strides_.back() == full[a] * out[a]) {
      extents_.back() *= out[a];
      strides_.back() = full[a];
    } else {
      extents_.push_back(out[a]);
      strides_.push_back(full[a]);
    }
  }
  if (extents_.empty()) {
    extents_.push_back(1);
    strides_.push_back(1);
  }
  at_.assign(extents_.size(), 0);
}

template <class C> const C* OperandStream<C>::next(int64_t n) {
  if (repeats_) {
    if (!filled_) load(tensor_, 0, 0, pointwise_block, buffer_.data());
    filled_ = true;
    return buffer_.data();
  }
  const size_t last = extents_.size() - 1;
  if (last == 0 && strides_[0] == 1 && tensor_.type() == dtype_of<C>::value) {
    const C* p = tensor_.data<C>() + offset_;
    offset_ += n;
    return p;
  }
  for (int64_t done = 0; done < n;) {
    const int64_t run = std::min(n - done, extents_[last] - at_[last]);
    load(tensor_, offset_, strides_[last], run, buffer_.data() + done);
    done += run;
    at_[last] += run;
    offset_ += run * strides_[last];
    for (size_t a = last; at_[a] == extents_[a] && a > 0; --a) {
      offset_ -= strides_[a] * extents_[a];
      at_[a] = 0;
      ++at_[a - 1];
      offset_ += strides_[a - 1];
    }
  }
  return buffer_.data();
}

template class OperandStream<float>;
template class OperandStream<double>;
template class OperandStream<int64_t>;
template class OperandStream<uint64_t>;

void infer_broadcast(InferContext& c, DType type, size_t count) {
  std::vector<Shape> shapes;
  for (size_t i = 0; i < count; ++i) {
    type_of(c, i);
    if (!c.in(i).shape_known) return c.set_type(0, type);
    shapes.push_back(c.shape(i));
  }
  c.set(0, type, broadcast_all(shapes));
}

void infer_unary(InferContext& c) { same_as(c, 0, 0); }

void infer_predicate(InferContext& c) {
  type_of(c, 0);
  if (c.in(0).shape_known)
    c.set(0, DType::boolean, c.in(0).shape);
  else
    c.set_type(0, DType::boolean);
}

namespace {

DType common_type(const InferContext& c) {
  const DType a = type_of(c, 0), b = type_of(c, 1);
  if (a != b) fail("inputs 0 and 1 have the types {} and {}, expected one type", name(a), name(b));
  return a;
}

}  // namespace

void infer_binary(InferContext& c) { infer_broadcast(c, common_type(c), 2); }

void infer_comparison(InferContext& c) {
  common_type(c);
  infer_broadcast(c, DType::boolean, 2);
}

}  // namespace smelt::ops
