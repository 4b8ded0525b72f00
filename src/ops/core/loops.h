// The loops that reference operators share: broadcast strides, N-dimensional iteration over several operands at once,
// reductions over any set of axes, and blocks of elements widened to the type an operator computes in.
#pragma once

#include <span>
#include <vector>

#include "smelt/tensor.h"

namespace smelt::ops {

/// Row-major strides of an operand of shape `s` seen as shape `to` (numpy broadcasting: 0 where it repeats).
/// Throws when `s` does not broadcast to `to`.
Shape broadcast_strides(const Shape& s, const Shape& to);

/// The broadcast of all shapes; throws naming the two that do not agree.
Shape broadcast_all(std::span<const Shape> shapes);

/// Loops over `extents` with several operands, each with its own element strides. Axes of extent 1 are dropped and
/// neighbours merged wherever every operand allows, so the innermost run is as long as it can be. At least one axis.
class LoopNest {
 public:
  LoopNest(Shape extents, std::vector<Shape> operand_strides);

  int64_t run() const { return extents_.back(); }                            // elements in an innermost run
  int64_t stride(size_t operand) const { return strides_[operand].back(); }  // within a run
  bool is_empty() const { return empty_; }
  /// Calls f(offsets) for every run in row-major order; offsets[k] is operand k's element offset where the run begins.
  template <class F> void for_each_run(F&& f) const;

 private:
  Shape extents_;
  std::vector<Shape> strides_;
  bool empty_ = false;
};

template <class F> void LoopNest::for_each_run(F&& f) const {
  if (empty_) return;
  const size_t outer = extents_.size() - 1;
  std::vector<int64_t> at(outer, 0), offsets(strides_.size(), 0);
  for (;;) {
    f(std::span<const int64_t>(offsets));
    size_t axis = outer;
    for (;; --axis) {
      if (axis == 0) return;
      const size_t a = axis - 1;
      if (++at[a] < extents_[a]) {
        for (size_t k = 0; k < offsets.size(); ++k) offsets[k] += strides_[k][a];
        break;
      }
      at[a] = 0;
      for (size_t k = 0; k < offsets.size(); ++k) offsets[k] -= strides_[k][a] * (extents_[a] - 1);
    }
  }
}

/// A reduction of `shape` over `axes` (normalised, any order): `kept` visits the first element of every result in
/// row-major order of the result, `reduced` visits, from there, every element that goes into it.
struct ReductionNest {
  LoopNest kept, reduced;
  int64_t count;  // elements that go into one result
  /// Calls f(result index, element offset where it begins).
  template <class F> void for_each_result(F&& f) const;
};
ReductionNest reduction_nest(const Shape& shape, std::span<const int64_t> axes);

template <class F> void ReductionNest::for_each_result(F&& f) const {
  int64_t result = 0;
  kept.for_each_run([&](std::span<const int64_t> offsets) {
    for (int64_t i = 0; i < kept.run(); ++i) f(result++, offsets[0] + i * kept.stride(0));
  });
}

/// Shape seen as [outer, extent, inner] around one (normalised) axis.
struct AxisView {
  int64_t outer = 1, extent = 1, inner = 1;
};
AxisView around_axis(const Shape& shape, int64_t axis);

/// Normalises every axis, throws on a repeated one, and sorts them.
std::vector<int64_t> normalize_axes(std::vector<int64_t> axes, int64_t rank);

/// Widens `n` elements of `t`, `stride` elements apart from `offset` on, into `to`. C is float, double, int64_t or
/// uint64_t; any numeric type and bool is read (the narrow formats and 4-bit types through Tensor::cast beforehand).
template <class C> void load(const Tensor& t, int64_t offset, int64_t stride, int64_t n, C* to);
/// The reverse, `n` elements from `offset` on, contiguous: rounds to nearest even for f16, bf16 and f32; integers wrap.
template <class C> void store(Tensor& t, int64_t offset, int64_t n, const C* from);

/// Calls f with a value of the type that a reference computes in for elements of type `t`: float for f16, bf16 and f32,
/// double for f64, int64_t for signed and uint64_t for unsigned integers and bool. Throws, naming `where`, for other types.
template <class F> decltype(auto) dispatch_compute(DType t, const char* where, F&& f);
enum class ComputeClass : uint8_t { f32, f64, i64, u64 };
ComputeClass compute_class(DType t, const char* where);

template <class F> decltype(auto) dispatch_compute(DType t, const char* where, F&& f) {
  switch (compute_class(t, where)) {
    case ComputeClass::f32: return f(float{});
    case ComputeClass::f64: return f(double{});
    case ComputeClass::i64: return f(int64_t{});
    default: return f(uint64_t{});
  }
}

/// The elements of v in type C, repeated to `shape`.
template <class C> std::vector<C> spread(const Tensor& v, const Shape& shape) {
  std::vector<C> out(static_cast<size_t>(elements(shape)));
  const LoopNest nest(shape, {broadcast_strides(v.shape(), shape), strides(shape)});
  nest.for_each_run([&](std::span<const int64_t> at) { load(v, at[0], nest.stride(0), nest.run(), out.data() + at[1]); });
  return out;
}

}  // namespace smelt::ops
