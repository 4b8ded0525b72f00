#include "ops/core/loops.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/number.h"

namespace smelt::ops {

Shape broadcast_strides(const Shape& s, const Shape& to) {
  if (s.size() > to.size()) fail("shape {} does not broadcast to {}", to_string(s), to_string(to));
  const Shape own = strides(s);
  const size_t lead = to.size() - s.size();
  Shape result(to.size(), 0);
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] == to[lead + i]) {
      result[lead + i] = own[i];
    } else if (s[i] != 1) {
      fail("shape {} does not broadcast to {}", to_string(s), to_string(to));
    }
  }
  return result;
}

Shape broadcast_all(std::span<const Shape> shapes) {
  Shape result;
  for (const Shape& s : shapes) {
    std::optional<Shape> both = broadcast(result, s);
    if (!both) fail("shapes {} and {} do not broadcast", to_string(result), to_string(s));
    result = std::move(*both);
  }
  return result;
}

LoopNest::LoopNest(Shape extents, std::vector<Shape> operand_strides) : strides_(operand_strides.size()) {
  for (size_t a = 0; a < extents.size(); ++a) {
    if (extents[a] == 0) empty_ = true;
    if (extents[a] == 1) continue;
    bool merges = !extents_.empty();
    for (size_t k = 0; k < strides_.size() && merges; ++k) {
      merges = strides_[k].back() == operand_strides[k][a] * extents[a];
    }
    if (merges) {
      extents_.back() *= extents[a];
      for (size_t k = 0; k < strides_.size(); ++k) strides_[k].back() = operand_strides[k][a];
    } else {
      extents_.push_back(extents[a]);
      for (size_t k = 0; k < strides_.size(); ++k) strides_[k].push_back(operand_strides[k][a]);
    }
  }
  if (extents_.empty()) {
    extents_.push_back(1);
    for (Shape& s : strides_) s.push_back(0);
  }
}

ReductionNest reduction_nest(const Shape& shape, std::span<const int64_t> axes) {
  const Shape all = strides(shape);
  Shape kept, kept_strides, reduced, reduced_strides;
  for (size_t a = 0; a < shape.size(); ++a) {
    const bool reduce = std::find(axes.begin(), axes.end(), static_cast<int64_t>(a)) != axes.end();
    (reduce ? reduced : kept).push_back(shape[a]);
    (reduce ? reduced_strides : kept_strides).push_back(all[a]);
  }
  const int64_t count = elements(reduced);
  return {LoopNest(kept, {kept_strides}), LoopNest(reduced, {reduced_strides}), count};
}

AxisView around_axis(const Shape& shape, int64_t axis) {
  AxisView v;
  for (size_t a = 0; a < shape.size(); ++a) {
    const int64_t at = static_cast<int64_t>(a);
    (at < axis ? v.outer : at == axis ? v.extent : v.inner) *= shape[a];
  }
  return v;
}

std::vector<int64_t> normalize_axes(std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& a : axes) a = normalize_axis(a, rank);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    fail("axis {} is listed twice", *std::adjacent_find(axes.begin(), axes.end()));
  return axes;
}

ComputeClass compute_class(DType t, const char* where) {
  switch (t) {
    case DType::f16:
    case DType::bf16:
    case DType::f32: return ComputeClass::f32;
    case DType::f64: return ComputeClass::f64;
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64: return ComputeClass::i64;
    case DType::u8:
    case DType::u16:
    case DType::u32:
    case DType::u64:
    case DType::boolean: return ComputeClass::u64;
    default: fail_dispatch(t, where);
  }
}

namespace {

/// Half and BFloat convert to and from float only.
template <class To, class From> To convert(From v) {
  if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return std::isnan(v) ? To(0) : truncated<To>(static_cast<double>(v));
  } else if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat>) {
    return static_cast<To>(static_cast<float>(v));
  } else if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat>) {
    return To(static_cast<float>(v));
  } else {
    return static_cast<To>(v);
  }
}

}  // namespace

template <class C> void load(const Tensor& t, int64_t offset, int64_t stride, int64_t n, C* to) {
  dispatch(t.type(), "reading elements", [&]<class S>(S) {
    const S* from = t.data<S>() + offset;
    if (stride == 1) {
      for (int64_t i = 0; i < n; ++i) to[i] = convert<C>(from[i]);
    } else if (stride == 0) {
      std::fill_n(to, n, n > 0 ? convert<C>(*from) : C{});
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = convert<C>(from[i * stride]);
    }
  });
}

template <class C> void store(Tensor& t, int64_t offset, int64_t n, const C* from) {
  dispatch(t.type(), "writing elements", [&]<class S>(S) {
    S* to = t.data<S>() + offset;
    for (int64_t i = 0; i < n; ++i) to[i] = convert<S>(from[i]);
  });
}

template void load<float>(const Tensor&, int64_t, int64_t, int64_t, float*);
template void load<double>(const Tensor&, int64_t, int64_t, int64_t, double*);
template void load<int64_t>(const Tensor&, int64_t, int64_t, int64_t, int64_t*);
template void load<uint64_t>(const Tensor&, int64_t, int64_t, int64_t, uint64_t*);
template void store<float>(Tensor&, int64_t, int64_t, const float*);
template void store<double>(Tensor&, int64_t, int64_t, const double*);
template void store<int64_t>(Tensor&, int64_t, int64_t, const int64_t*);
template void store<uint64_t>(Tensor&, int64_t, int64_t, const uint64_t*);

}  // namespace smelt::ops
