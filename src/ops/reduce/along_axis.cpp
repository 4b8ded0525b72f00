// Operators that look at one line of elements along an axis at a time: ArgMax, ArgMin, TopK, Hardmax, CumSum, CumProd.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ops/core/copy.h"
#include "ops/pointwise/reference.h"
#include "ops/reduce/family.h"
#include "ops/reduce/lines.h"

namespace smelt::ops {
namespace {

/// Calls f(line, offset): `line` holds the elements along the axis, which lie view.inner apart from `offset` on.
template <class C, class F> void for_each_line(const Tensor& x, const AxisView& view, F&& f) {
  std::vector<C> line(static_cast<size_t>(view.extent));
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i = 0; i < view.inner; ++i) {
      const int64_t offset = o * view.extent * view.inner + i;
      load(x, offset, view.inner, view.extent, line.data());
      f(line, offset);
    }
  }
}

// --- ArgMax, ArgMin -----------------------------------------------------------------------------------------------

void infer_arg(InferContext& c) {
  type_of(c, 0);
  if (!c.in(0).shape_known) return c.set_type(0, DType::i64);
  Shape s = c.shape(0);
  const int64_t axis = normalize_axis(c.node.get_int("axis", 0), static_cast<int64_t>(s.size()));
  if (s[static_cast<size_t>(axis)] == 0) fail("axis {} of {} has no elements", axis, to_string(s));
  if (c.node.get_int("keepdims", 1) != 0)
    s[static_cast<size_t>(axis)] = 1;
  else
    s.erase(s.begin() + axis);
  c.set(0, DType::i64, std::move(s));
}

template <bool largest> void run_arg(ComputeContext& c) {
  const Tensor& x = c.in(0);
  const AxisView v = around_axis(x.shape(), normalize_axis(c.node.get_int("axis", 0), x.rank()));
  const bool last = c.node.get_int("select_last_index", 0) != 0;
  int64_t* out = c.outputs[0].data<int64_t>();
  dispatch_compute(x.type(), "ArgMax", [&]<class C>(C) {
    for_each_line<C>(x, v, [&](const std::vector<C>& line, int64_t) {
      size_t best = 0;
      // NaN is found first by either, as numpy has it.
      const auto before = [](C a, C b) { return largest || a != a || b != b ? is_larger(a, b) : a < b; };
      for (size_t i = 1; i < line.size(); ++i) {
        if (before(line[i], line[best]) || (last && !before(line[best], line[i]))) best = i;
      }
      *out++ = static_cast<int64_t>(best);
    });
  });
}

// --- TopK ---------------------------------------------------------------------------------------------------------

void infer_top_k(InferContext& c) {
  const DType type = type_of(c, 0);
  c.set_type(0, type);
  c.set_type(1, DType::i64);
  const auto k = c.has(1) ? c.ints(1) : std::vector<int64_t>{c.node.get_int("k", -1)};
  if (!k || !c.in(0).shape_known) return;
  Shape s = c.shape(0);
  const size_t axis = static_cast<size_t>(normalize_axis(c.node.get_int("axis", -1), static_cast<int64_t>(s.size())));
  if (k->size() != 1 || k->front() < 0 || k->front() > s[axis])
    fail("K is {}, expected one number in [0, {}]", to_string(*k), s[axis]);
  s[axis] = k->front();
  c.set(0, type, s);
  c.set(1, DType::i64, s);
}

/// Equal elements keep their order, the lower index first. The result is always sorted, which `sorted` = 0 allows.
void run_top_k(ComputeContext& c) {
  const Tensor& x = c.in(0);
  const bool largest = c.node.get_int("largest", 1) != 0;
  const int64_t axis = normalize_axis(c.node.get_int("axis", -1), x.rank());
  const AxisView v = around_axis(x.shape(), axis);
  const int64_t k = c.in(1).valid() ? c.in(1).to_ints()[0] : c.node.get_int("k", 0);
  dispatch_compute(x.type(), "TopK", [&]<class C>(C) {
    std::vector<int64_t> order(static_cast<size_t>(v.extent));
    for_each_line<C>(x, v, [&](const std::vector<C>& line, int64_t offset) {
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) {
        const C va = line[static_cast<size_t>(a)], vb = line[static_cast<size_t>(b)];
        if (largest ? is_larger(va, vb) : is_smaller(va, vb)) return true;
        if (largest ? is_larger(vb, va) : is_smaller(vb, va)) return false;
        return a < b;
      });
      const int64_t inner = offset % v.inner, begin = offset / (v.inner * std::max<int64_t>(v.extent, 1)) * k * v.inner + inner;
      for (int64_t i = 0; i < k; ++i) {
        const int64_t from = order[static_cast<size_t>(i)];
        if (c.wants(0)) store(c.outputs[0], begin + i * v.inner, 1, &line[static_cast<size_t>(from)]);
        if (c.wants(1)) c.outputs[1].data<int64_t>()[begin + i * v.inner] = from;
      }
    });
  });
}

// --- Hardmax ------------------------------------------------------------------------------------------------------

void run_hardmax(ComputeContext& c) {
  const Tensor& x = c.in(0);
  const AxisView v = around_axis(x.shape(), normalize_axis(c.node.get_int("axis", -1), x.rank()));
  fill_zero(c.outputs[0]);
  dispatch_compute(x.type(), "Hardmax", [&]<class C>(C) {
    for_each_line<C>(x, v, [&](const std::vector<C>& line, int64_t offset) {
      if (line.empty()) return;
      const auto top = std::max_element(line.begin(), line.end(), [](C a, C b) { return is_larger(b, a); }) - line.begin();
      const C one = 1;
      store(c.outputs[0], offset + top * v.inner, 1, &one);
    });
  });
}

// --- CumSum, CumProd ----------------------------------------------------------------------------------------------

struct RunningSum {
  static constexpr int start = 0;
  template <class A> static A next(A total, A x) { return wrapping_add(total, x); }
};
struct RunningProduct {
  static constexpr int start = 1;
  template <class A> static A next(A total, A x) { return wrapping_mul(total, x); }
};

template <class F> void run_cumulative(ComputeContext& c) {
  const Tensor& x = c.in(0);
  const std::vector<int64_t> axis = c.in(1).to_ints();
  const AxisView v = around_axis(x.shape(), normalize_axis(axis[0], x.rank()));
  const bool exclusive = c.node.get_int("exclusive", 0) != 0, reverse = c.node.get_int("reverse", 0) != 0;
  dispatch_compute(x.type(), "CumSum", [&]<class C>(C) {
    using A = std::conditional_t<std::is_floating_point_v<C>, double, C>;
    for_each_line<A>(x, v, [&](const std::vector<A>& line, int64_t offset) {
      A total = F::start;
      for (int64_t i = 0; i < v.extent; ++i) {
        const int64_t at = reverse ? v.extent - 1 - i : i;
        const A after = F::next(total, line[static_cast<size_t>(at)]);
        store(c.outputs[0], offset + at * v.inner, 1, exclusive ? &total : &after);
        total = after;
      }
    });
  });
}

void infer_same(InferContext& c) { same_as(c, 0, 0); }
void infer_cumulative(InferContext& c) {
  same_as(c, 0, 0);
  if (c.in(1).shape_known && elements(c.shape(1)) != 1) fail("axis has {} elements, expected 1", elements(c.shape(1)));
}

}  // namespace

std::span<const OpRow> along_axis_ops() {
  static constexpr OpRow table[] = {
      {{"ArgMax", onnx_domain, infer_arg, run_arg<true>}, {.flops = {.of_input = 1}}},
      {{"ArgMin", onnx_domain, infer_arg, run_arg<false>}, {.flops = {.of_input = 1}}},
      {{"TopK", onnx_domain, infer_top_k, run_top_k}, {.autocast = Autocast::fp32}},
      {{"Hardmax", onnx_domain, infer_same, run_hardmax}, {.shape = OutShape::input}},
      {{"CumSum", onnx_domain, infer_cumulative, run_cumulative<RunningSum>},
       {.shape = OutShape::input, .flops = {.of_input = 1}, .autocast = Autocast::fp32}},
      {{"CumProd", onnx_domain, infer_cumulative, run_cumulative<RunningProduct>},
       {.shape = OutShape::input, .autocast = Autocast::fp32}},
  };
  return table;
}

}  // namespace smelt::ops
