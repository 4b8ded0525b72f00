// How elementwise references run: operands are streamed in the output's element order, block by block, widened to the
// type the operator computes in (dispatch_compute), so that one loop body serves every element type.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "ops/core/list_inputs.h"
#include "ops/core/loops.h"
#include "ops/core/operator.h"

namespace smelt::ops {

inline constexpr int64_t pointwise_block = 512;

/// An operand broadcast to the output's shape, read front to back as elements of C.
template <class C> class OperandStream {
 public:
  OperandStream(const Tensor& t, const Shape& out);
  /// The next `n` (at most pointwise_block) elements; valid until the next call.
  const C* next(int64_t n);

 private:
  const Tensor& tensor_;
  Shape extents_, strides_, at_;  // merged axes; position of the next element
  int64_t offset_ = 0;
  bool repeats_ = false;  // one element for all
  bool filled_ = false;
  std::array<C, pointwise_block> buffer_;
};

/// out[i] = f(operands[i]…): every operand is read as C; f returns C, or bool for an output of bools.
template <class C, class F, class... T> void map_elements(Tensor& out, F&& f, const T&... operands) {
  using R = decltype(f((static_cast<void>(operands), C{})...));
  std::array<R, pointwise_block> buffer;
  const auto loop = [&](auto&&... streams) {
    for (int64_t begin = 0; begin < out.size(); begin += pointwise_block) {
      const int64_t n = std::min(pointwise_block, out.size() - begin);
      R* result = out.type() == dtype_of<R>::value ? static_cast<R*>(out.raw()) + begin : buffer.data();
      [&](const auto*... p) {
        for (int64_t i = 0; i < n; ++i) result[i] = f(p[i]...);
      }(streams.next(n)...);
      if constexpr (!std::is_same_v<R, bool>) {
        if (result == buffer.data()) store(out, begin, n, result);
      }
    }
  };
  loop(OperandStream<C>(operands, out.shape())...);
}

/// A functor made from the node where it has parameters (Elu's alpha), plainly otherwise.
template <class F> F make_function(const Node& node) {
  if constexpr (std::is_constructible_v<F, const Node&>)
    return F(node);
  else
    return F();
}

/// Calls f with the value type to compute elements of type `t` in, only for those classes that F accepts.
template <class F, class G> void for_compute_type(DType t, G&& g) {
  dispatch_compute(t, "element type", [&]<class C>(C c) {
    if constexpr (F::template accepts<C>)
      g(c);
    else
      fail_dispatch(t, "element type");
  });
}

/// Which compute types a functor is defined for: inherit one of these.
struct OnFloats {
  template <class C> static constexpr bool accepts = std::is_floating_point_v<C>;
};
struct OnIntegers {
  template <class C> static constexpr bool accepts = std::is_integral_v<C>;
};
struct OnNumbers {
  template <class C> static constexpr bool accepts = true;
};

template <class F> void run_unary(ComputeContext& c) {
  const F f = make_function<F>(c.node);
  for_compute_type<F>(c.in(0).type(), [&]<class C>(C) { map_elements<C>(c.outputs[0], f, c.in(0)); });
}

template <class F> void run_binary(ComputeContext& c) {
  const F f = make_function<F>(c.node);
  for_compute_type<F>(c.in(0).type(), [&]<class C>(C) { map_elements<C>(c.outputs[0], f, c.in(0), c.in(1)); });
}

/// The broadcast of the first `count` inputs; sets only the type where a shape is not known.
void infer_broadcast(InferContext& c, DType type, size_t count);
void infer_unary(InferContext& c);       // input 0's type and shape
void infer_predicate(InferContext& c);   // bool in input 0's shape
void infer_binary(InferContext& c);      // both inputs of one type, broadcast
void infer_comparison(InferContext& c);  // the same, result bool

/// Two's-complement arithmetic without undefined overflow; floats compute as they do.
template <class C> C wrapping_add(C a, C b) {
  if constexpr (std::is_integral_v<C>)
    return static_cast<C>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}
template <class C> C wrapping_sub(C a, C b) {
  if constexpr (std::is_integral_v<C>)
    return static_cast<C>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  else
    return a - b;
}
template <class C> C wrapping_mul(C a, C b) {
  if constexpr (std::is_integral_v<C>)
    return static_cast<C>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}

}  // namespace smelt::ops
