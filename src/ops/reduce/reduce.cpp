// Reductions over any set of axes. Floats accumulate in double, integers in 64 bits; one rounding at the end.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "ops/pointwise/reference.h"
#include "ops/reduce/family.h"

namespace smelt::ops {
namespace {

/// Input 1 (or the attribute, below opset 13 and 18) lists the axes; none means all, or no axis with noop_with_empty_axes.
std::vector<int64_t> reduced_axes(const Node& node, std::vector<int64_t> listed, int64_t rank) {
  if (!listed.empty()) return normalize_axes(std::move(listed), rank);
  if (node.get_int("noop_with_empty_axes", 0) == 0) {
    listed.resize(static_cast<size_t>(rank));
    std::iota(listed.begin(), listed.end(), 0);
  }
  return listed;
}

Shape reduced_shape(const Shape& s, const std::vector<int64_t>& axes, bool keep) {
  Shape result;
  for (size_t a = 0; a < s.size(); ++a) {
    const bool reduce = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(a));
    if (!reduce)
      result.push_back(s[a]);
    else if (keep)
      result.push_back(1);
  }
  return result;
}

void infer_reduce(InferContext& c) {
  const DType type = type_of(c, 0);
  const auto listed = list(c, 1, "axes");
  if (!listed || !c.in(0).shape_known) return c.set_type(0, type);
  const Shape& s = c.shape(0);
  const auto axes = reduced_axes(c.node, *listed, static_cast<int64_t>(s.size()));
  c.set(0, type, reduced_shape(s, axes, c.node.get_int("keepdims", 1) != 0));
}

/// Each reduction is a state: add takes an element, result gives the value of `n` elements. A is double, int64_t or uint64_t.
template <class A> struct SumOf {
  A total = 0;
  void add(A x) { total = wrapping_add(total, x); }
  A result(int64_t) const { return total; }
};
template <class A> struct MeanOf : SumOf<A> {
  A result(int64_t n) const {
    if constexpr (std::is_integral_v<A>)
      return n == 0 ? A(0) : this->total / static_cast<A>(n);
    else
      return this->total / static_cast<A>(n);
  }
};
template <class A> struct ProdOf {
  A total = 1;
  void add(A x) { total = wrapping_mul(total, x); }
  A result(int64_t) const { return total; }
};
template <class A> struct AbsSumOf : SumOf<A> {
  void add(A x) { SumOf<A>::add(x < A(0) ? wrapping_sub<A>(0, x) : x); }
};
template <class A> struct SquareSumOf : SumOf<A> {
  void add(A x) { SumOf<A>::add(wrapping_mul(x, x)); }
};
template <class A> struct NormOf {
  double total = 0;
  void add(A x) { total += static_cast<double>(x) * static_cast<double>(x); }
  double result(int64_t) const { return std::sqrt(total); }
};
template <class A> struct LogSumOf {
  double total = 0;
  void add(A x) { total += static_cast<double>(x); }
  double result(int64_t) const { return std::log(total); }
};
/// Keeps the sum relative to the largest element so far, so that no exponential overflows.
template <class A> struct LogSumExpOf {
  double top = -std::numeric_limits<double>::infinity(), total = 0;
  void add(A v) {
    const double x = static_cast<double>(v);
    if (x > top) {
      total = std::isinf(x) ? 1 : total * std::exp(top - x) + 1;
      top = x;
    } else if (!std::isinf(top) || std::isnan(x)) {
      total += std::exp(x - top);
    }
  }
  double result(int64_t) const { return top + std::log(total); }
};

/// Calls f(element) for every element that goes into the result that begins at `offset`.
template <class A, class F> void for_each_element(const Tensor& x, const ReductionNest& nest, int64_t offset, F&& f) {
  std::array<A, pointwise_block> block;
  const int64_t step = nest.reduced.stride(0);
  nest.reduced.for_each_run([&](std::span<const int64_t> at) {
    for (int64_t begin = 0; begin < nest.reduced.run(); begin += pointwise_block) {
      const int64_t n = std::min(pointwise_block, nest.reduced.run() - begin);
      load(x, offset + at[0] + begin * step, step, n, block.data());
      for (int64_t i = 0; i < n; ++i) f(block[static_cast<size_t>(i)]);
    }
  });
}

template <template <class> class State, class A> void reduce_as(const Tensor& x, Tensor& y, const ReductionNest& nest) {
  nest.for_each_result([&](int64_t result, int64_t offset) {
    State<A> state;
    for_each_element<A>(x, nest, offset, [&](A v) { state.add(v); });
    const auto value = state.result(nest.count);
    store(y, result, 1, &value);
  });
}

template <class F> void with_accumulator(DType t, F&& f) {
  dispatch_compute(t, "reduction", [&]<class C>(C) {
    if constexpr (std::is_floating_point_v<C>)
      f(double{});
    else
      f(C{});
  });
}

ReductionNest nest_of(const ComputeContext& c) {
  const Tensor& x = c.in(0);
  return reduction_nest(x.shape(), reduced_axes(c.node, list(c, 1, "axes"), x.rank()));
}

template <template <class> class State> void run_reduce(ComputeContext& c) {
  const ReductionNest nest = nest_of(c);
  with_accumulator(c.in(0).type(), [&]<class A>(A) { reduce_as<State, A>(c.in(0), c.outputs[0], nest); });
}

/// An extreme starts from the type's own other end, which is the result over no elements: -infinity or lowest for the maximum.
template <bool largest> void run_extreme(ComputeContext& c) {
  const ReductionNest nest = nest_of(c);
  const Tensor& x = c.in(0);
  Tensor& y = c.outputs[0];
  if (nest.count == 0) {
    dispatch(y.type(), "reduction", [&]<class S>(S) {
      using Limits = std::numeric_limits<S>;
      S end{};
      if constexpr (std::is_integral_v<S>)
        end = largest ? Limits::lowest() : Limits::max();
      else
        end = S(largest ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity());
      std::fill_n(y.data<S>(), y.size(), end);
    });
    return;
  }
  dispatch_compute(x.type(), "reduction", [&]<class C>(C) {
    nest.for_each_result([&](int64_t result, int64_t offset) {
      C best;
      load(x, offset, 1, 1, &best);
      for_each_element<C>(x, nest, offset, [&](C v) {
        if ((largest ? best < v : v < best) || v != v) best = v;  // NaN wins and stays
      });
      store(y, result, 1, &best);
    });
  });
}

}  // namespace

std::span<const OpRow> reduce_ops() {
  static constexpr OpRow table[] = {
      {{"ReduceSum", onnx_domain, infer_reduce, run_reduce<SumOf>}, {.flops = {.of_input = 1}, .autocast = Autocast::fp32}},
      {{"ReduceMean", onnx_domain, infer_reduce, run_reduce<MeanOf>}, {.flops = {.of_input = 1}, .autocast = Autocast::fp32}},
      {{"ReduceProd", onnx_domain, infer_reduce, run_reduce<ProdOf>}, {.flops = {.of_input = 1}, .autocast = Autocast::fp32}},
      {{"ReduceMax", onnx_domain, infer_reduce, run_extreme<true>}, {.flops = {.of_input = 1}}},
      {{"ReduceMin", onnx_domain, infer_reduce, run_extreme<false>}, {.flops = {.of_input = 1}}},
      {{"ReduceL1", onnx_domain, infer_reduce, run_reduce<AbsSumOf>}, {.flops = {.of_input = 2}, .autocast = Autocast::fp32}},
      {{"ReduceL2", onnx_domain, infer_reduce, run_reduce<NormOf>}, {.flops = {.of_input = 2}, .autocast = Autocast::fp32}},
      {{"ReduceSumSquare", onnx_domain, infer_reduce, run_reduce<SquareSumOf>},
       {.flops = {.of_input = 2}, .autocast = Autocast::fp32}},
      {{"ReduceLogSum", onnx_domain, infer_reduce, run_reduce<LogSumOf>}, {.flops = {.of_input = 1}, .autocast = Autocast::fp32}},
      {{"ReduceLogSumExp", onnx_domain, infer_reduce, run_reduce<LogSumExpOf>},
       {.flops = {.of_input = 2}, .autocast = Autocast::fp32}},
  };
  return table;
}

}  // namespace smelt::ops
