// Operators that pick elements by their values: the size of the result is known only afterwards.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ops/core/copy.h"
#include "ops/core/data_dependent.h"
#include "ops/core/list_inputs.h"
#include "ops/core/loops.h"
#include "ops/select/family.h"

namespace smelt::ops {
namespace {

/// A tensor without `axis` is seen as one long row of elements.
AxisView selection_axis(const Node& node, const Tensor& x) {
  if (!node.has("axis")) return {1, x.size(), 1};
  return around_axis(x.shape(), normalize_axis(node.get_int("axis", 0), x.rank()));
}

/// The picked slices of x along the node's axis, in this order.
Tensor take(const Node& node, const Tensor& x, const std::vector<int64_t>& picked) {
  const AxisView v = selection_axis(node, x);
  Shape s = node.has("axis") ? x.shape() : Shape{0};
  s[node.has("axis") ? static_cast<size_t>(normalize_axis(node.get_int("axis", 0), x.rank())) : 0] =
      static_cast<int64_t>(picked.size());
  Tensor y = Tensor::empty(x.type(), s);
  copy_slices(x, v, picked, y);
  return y;
}

/// Kernels that take all elements as one row do not read the axis.
void check_axis(const InferContext& c) {
  if (c.node.has("axis") && c.in(0).shape_known)
    normalize_axis(c.node.get_int("axis", 0), static_cast<int64_t>(c.in(0).shape.size()));
}

void infer_compress(InferContext& c) {
  check_axis(c);
  if (type_of(c, 1) != DType::boolean) fail("the condition has type {}, expected bool", name(c.in(1).type));
  c.set_type(0, type_of(c, 0));
}

void run_compress(ComputeContext& c) {
  const std::span<const bool> keep = c.in(1).span<bool>();
  const int64_t extent = selection_axis(c.node, c.in(0)).extent;
  std::vector<int64_t> picked;
  for (int64_t i = 0; i < std::min(extent, static_cast<int64_t>(keep.size())); ++i) {
    if (keep[static_cast<size_t>(i)]) picked.push_back(i);
  }
  c.outputs[0] = take(c.node, c.in(0), picked);
}

void infer_non_zero(InferContext& c) {
  type_of(c, 0);
  c.set_type(0, DType::i64);
}

void run_non_zero(ComputeContext& c) {
  const Tensor& x = c.in(0);
  std::vector<int64_t> found;
  dispatch_compute(x.type(), "NonZero", [&]<class C>(C) {
    std::vector<C> values(static_cast<size_t>(x.size()));
    load(x, 0, 1, x.size(), values.data());
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != C(0)) found.push_back(static_cast<int64_t>(i));
    }
  });
  const int64_t count = static_cast<int64_t>(found.size());
  Tensor y = Tensor::empty(DType::i64, {x.rank(), count});
  const Shape step = strides(x.shape());
  for (int64_t a = 0; a < x.rank(); ++a) {
    const size_t axis = static_cast<size_t>(a);
    for (int64_t i = 0; i < count; ++i) {
      y.data<int64_t>()[a * count + i] = found[static_cast<size_t>(i)] / step[axis] % x.shape()[axis];
    }
  }
  c.outputs[0] = y;
}

// --- Unique -------------------------------------------------------------------------------------------------------

/// Three-way order of two elements; NaN comes last and equals itself, so that sorting is well defined.
template <class E> int order(const E& a, const E& b) {
  if (a < b) return -1;
  if (b < a) return 1;
  if constexpr (std::is_floating_point_v<E>) return static_cast<int>(std::isnan(a)) - static_cast<int>(std::isnan(b));
  return 0;
}

/// Slices along the axis, sorted and grouped: `first` their first occurrences in result order, `inverse` each slice's group.
struct Groups {
  std::vector<int64_t> first, inverse, counts;
};

/// compare(a, b): the order of two slices.
template <class Compare> Groups group(int64_t extent, bool sorted, Compare&& compare) {
  std::vector<int64_t> rows(static_cast<size_t>(extent));
  std::iota(rows.begin(), rows.end(), 0);
  std::stable_sort(rows.begin(), rows.end(), [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
  Groups g;
  g.inverse.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == 0 || compare(rows[i - 1], rows[i]) != 0) {
      g.first.push_back(rows[i]);
      g.counts.push_back(0);
    }
    ++g.counts.back();
    g.inverse[static_cast<size_t>(rows[i])] = static_cast<int64_t>(g.first.size()) - 1;
  }
  if (sorted) return g;
  std::vector<int64_t> by_occurrence(g.first.size()), place(g.first.size());
  std::iota(by_occurrence.begin(), by_occurrence.end(), 0);
  std::sort(by_occurrence.begin(), by_occurrence.end(),
            [&](int64_t a, int64_t b) { return g.first[static_cast<size_t>(a)] < g.first[static_cast<size_t>(b)]; });
  Groups result;
  for (size_t i = 0; i < by_occurrence.size(); ++i) {
    const size_t from = static_cast<size_t>(by_occurrence[i]);
    result.first.push_back(g.first[from]);
    result.counts.push_back(g.counts[from]);
    place[from] = static_cast<int64_t>(i);
  }
  for (int64_t group : g.inverse) result.inverse.push_back(place[static_cast<size_t>(group)]);
  return result;
}

void infer_unique(InferContext& c) {
  check_axis(c);
  c.set_type(0, type_of(c, 0));
  for (size_t i = 1; i < 4; ++i) c.set_type(i, DType::i64);
}

void run_unique(ComputeContext& c) {
  const Tensor& x = c.in(0);
  const AxisView v = selection_axis(c.node, x);
  const int64_t width = v.outer * v.inner;
  const bool sorted = c.node.get_int("sorted", 1) != 0;
  // Of values that lie as x does, [outer, extent, inner].
  const auto compare_in = [&](const auto& values) {
    return [&](int64_t a, int64_t b) {
      for (int64_t o = 0; o < v.outer; ++o)
        for (int64_t i = 0; i < v.inner; ++i) {
          const auto at = [&](int64_t slice) { return static_cast<size_t>((o * v.extent + slice) * v.inner + i); };
          if (const int found = order(values[at(a)], values[at(b)])) return found;
        }
      return 0;
    };
  };
  Groups g;
  if (x.type() == DType::string) {
    g = group(v.extent, sorted, compare_in(x.strings()));
  } else if (width == 1) {
    dispatch_compute(x.type(), "Unique", [&]<class C>(C) {
      std::vector<C> values(static_cast<size_t>(x.size()));
      load(x, 0, 1, x.size(), values.data());
      g = group(v.extent, sorted, compare_in(values));
    });
  } else {
    // Most slices differ in their first elements: no more of them are read than that takes.
    dispatch_compute(x.type(), "Unique", [&]<class C>(C) {
      const bool by_outer = v.inner == 1;
      const int64_t lines = by_outer ? 1 : v.outer, line = by_outer ? v.outer : v.inner, step = by_outer ? v.extent : 1;
      g = group(v.extent, sorted, [&](int64_t a, int64_t b) {
        constexpr int64_t most = 64;
        C left[most], right[most];
        for (int64_t o = 0; o < lines; ++o)
          for (int64_t i = 0; i < line; i += most) {
            const int64_t n = std::min(most, line - i), first = o * v.extent * v.inner + i * step;
            load(x, first + a * v.inner, step, n, left);
            load(x, first + b * v.inner, step, n, right);
            for (int64_t e = 0; e < n; ++e)
              if (const int found = order(left[e], right[e])) return found;
          }
        return 0;
      });
    });
  }
  const std::vector<int64_t>* indices[] = {&g.first, &g.inverse, &g.counts};
  c.outputs[0] = take(c.node, x, g.first);
  for (size_t i = 1; i < c.outputs.size(); ++i) {
    if (c.wants(i)) c.outputs[i] = Tensor::of({static_cast<int64_t>(indices[i - 1]->size())}, *indices[i - 1]);
  }
}

// --- ReverseSequence ----------------------------------------------------------------------------------------------

void infer_reverse_sequence(InferContext& c) {
  same_as(c, 0, 0);
  const int64_t batch_axis = c.node.get_int("batch_axis", 1), time_axis = c.node.get_int("time_axis", 0);
  const bool batch_first = batch_axis == 0 && time_axis == 1, time_first = batch_axis == 1 && time_axis == 0;
  const Shape& x = c.shape(0);
  if (x.size() < 2 || !(batch_first || time_first))
    fail("batch_axis {} and time_axis {} of an input of shape {}: expected 0 and 1", batch_axis, time_axis, to_string(x));
  if (c.shape(1) != Shape{x[static_cast<size_t>(batch_axis)]})
    fail("sequence_lens has shape {}, expected [{}]", to_string(c.shape(1)), x[static_cast<size_t>(batch_axis)]);
}

void run_reverse_sequence(ComputeContext& c) {
  const Tensor& x = c.in(0);
  const int64_t batch_axis = c.node.get_int("batch_axis", 1), time_axis = c.node.get_int("time_axis", 0);
  const int64_t batch = x.shape()[static_cast<size_t>(batch_axis)], time = x.shape()[static_cast<size_t>(time_axis)];
  const Shape step = strides(x.shape());
  const int64_t batch_step = step[static_cast<size_t>(batch_axis)], time_step = step[static_cast<size_t>(time_axis)];
  const std::vector<int64_t> lengths = c.in(1).to_ints();
  const int64_t width = std::min(batch_step, time_step);
  ElementCopier copier(x, c.outputs[0]);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = lengths[static_cast<size_t>(b)];
    if (length < 0 || length > time) fail("sequence {} has length {}, time has {} steps", b, length, time);
    for (int64_t t = 0; t < time; ++t) {
      const int64_t from = t < length ? length - 1 - t : t;
      copier.copy(b * batch_step + from * time_step, b * batch_step + t * time_step, width);
    }
  }
  copier.finish();
}

/// Types that the kernels that find elements know.
bool can_be_found(DType t) {
  return t == DType::f32 || t == DType::f64 || t == DType::f16 || t == DType::bf16 || t == DType::boolean ||
         (is_integer(t) && bits(t) >= 8);
}

std::vector<AtMost> non_zero_at_most(const Node&, std::span<const TensorDesc> in) {
  const TensorDesc& x = in[0];
  if (!can_be_found(x.type) || x.shape.empty() || x.shape.size() > 8) return {};
  return {{DType::i64, {static_cast<int64_t>(x.shape.size()), elements(x.shape)}, 1}};
}

std::vector<AtMost> compressed_at_most(const Node& n, std::span<const TensorDesc> in) {
  const TensorDesc &x = in[0], &keep = in[1];
  if (!can_be_found(x.type) || keep.type != DType::boolean || keep.shape.size() != 1) return {};
  Shape most{elements(x.shape)};
  size_t axis = 0;
  if (n.has("axis")) {
    axis = static_cast<size_t>(normalize_axis(n.get_int("axis", 0), static_cast<int64_t>(x.shape.size())));
    most = x.shape;
  }
  most[axis] = std::min(most[axis], keep.shape[0]);
  return {{x.type, most, static_cast<int64_t>(axis)}};
}

/// Over all elements; slices along an axis have no kernel.
std::vector<AtMost> unique_at_most(const Node& n, std::span<const TensorDesc> in) {
  const TensorDesc& x = in[0];
  if (!can_be_found(x.type) || (n.has("axis") && x.shape.size() != 1)) return {};
  const Shape all{elements(x.shape)};
  std::vector<AtMost> most{{x.type, all, 0}, {DType::i64, all, 0}, {DType::i64, all, -1}, {DType::i64, all, 0}};
  most.resize(n.outputs.size());
  for (size_t i = 0; i < most.size(); ++i)
    if (n.outputs[i] == ValueId::none) most[i] = {};
  return most;
}

}  // namespace

std::span<const OpRow> select_ops() {
  static constexpr OpRow table[] = {
      {{"Compress", onnx_domain, infer_compress, run_compress},
       {.elements = Elements::moved, .data_dependent = true, .at_most = compressed_at_most}},
      {{"NonZero", onnx_domain, infer_non_zero, run_non_zero}, {.data_dependent = true, .at_most = non_zero_at_most}},
      {{"Unique", onnx_domain, infer_unique, run_unique}, {.data_dependent = true, .at_most = unique_at_most}},
      {{"ReverseSequence", onnx_domain, infer_reverse_sequence, run_reverse_sequence},
       {.elements = Elements::moved, .shape = OutShape::input}},
  };
  return table;
}

}  // namespace smelt::ops
