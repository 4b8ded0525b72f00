// Operators that make tensors from parameters.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/core/copy.h"
#include "ops/core/list_inputs.h"
#include "ops/core/loops.h"
#include "ops/core/type_attribute.h"
#include "ops/generate/family.h"

namespace smelt::ops {
namespace {

// --- Constant, ConstantOfShape ------------------------------------------------------------------------------------

Tensor constant_value(const Node& n) {
  if (n.has("value")) return n.get_tensor("value");
  if (n.has("value_float")) return Tensor::scalar(n.get_float("value_float", 0));
  if (n.has("value_int")) return Tensor::scalar(n.get_int("value_int", 0));
  if (n.has("value_string")) return Tensor::of_strings({}, {n.get_string("value_string", "")});
  const auto vector = [](const auto& values) { return Tensor::of({static_cast<int64_t>(values.size())}, values); };
  if (n.has("value_floats")) return vector(n.get_floats("value_floats"));
  if (n.has("value_ints")) return vector(n.get_ints("value_ints"));
  if (n.has("value_strings")) {
    std::vector<std::string> values = n.get_strings("value_strings");
    const auto count = static_cast<int64_t>(values.size());  // before the call, which may take the values first
    return Tensor::of_strings({count}, std::move(values));
  }
  fail("the constant has no value attribute that smelt reads (value, value_float(s), value_int(s), value_string(s))");
}

void infer_constant(InferContext& c) {
  const Tensor value = constant_value(c.node);
  c.set(0, value.type(), value.shape());
}

void run_constant(ComputeContext& c) { copy_all(constant_value(c.node), c.outputs[0]); }

void infer_constant_of_shape(InferContext& c) {
  const DType type = c.node.has("value") ? c.node.get_tensor("value").type() : DType::f32;
  const auto shape = c.ints(0);
  if (!shape) return c.set_type(0, type);
  elements(*shape);  // throws for negative and overflowing extents
  c.set(0, type, *shape);
}

void run_constant_of_shape(ComputeContext& c) {
  if (c.node.has("value"))
    fill(c.outputs[0], c.node.get_tensor("value"));
  else
    fill_zero(c.outputs[0]);
}

// --- Range --------------------------------------------------------------------------------------------------------

int64_t range_length(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  for (const Tensor* t : {&start, &limit, &delta}) {
    if (t->size() != 1) fail("start, limit and delta must be scalars, found shape {}", to_string(t->shape()));
  }
  if (is_float(start.type())) {
    const double step = delta.to_doubles()[0], n = std::ceil((limit.to_doubles()[0] - start.to_doubles()[0]) / step);
    if (step == 0 || !(n < 9e15))
      fail("the range from {} to {} in steps of {} has no end", start.to_doubles()[0], limit.to_doubles()[0], step);
    return n > 0 ? static_cast<int64_t>(n) : 0;
  }
  const int64_t from = start.to_ints()[0], to = limit.to_ints()[0], step = delta.to_ints()[0];
  if (step == 0) fail("delta is 0");
  if (step > 0 ? from >= to : from <= to) return 0;
  const uint64_t span = step > 0 ? static_cast<uint64_t>(to) - static_cast<uint64_t>(from)
                                 : static_cast<uint64_t>(from) - static_cast<uint64_t>(to);
  const uint64_t width = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  const uint64_t n = (span - 1) / width + 1;
  if (n > static_cast<uint64_t>(INT64_MAX)) fail("the range from {} to {} has {} elements", from, to, n);
  return static_cast<int64_t>(n);
}

void infer_range(InferContext& c) {
  const DType type = type_of(c, 0);
  if (type_of(c, 1) != type || type_of(c, 2) != type) fail("start, limit and delta must have one type");
  if (!c.in(0).value || !c.in(1).value || !c.in(2).value) return c.set_type(0, type);
  c.set(0, type, {range_length(*c.in(0).value, *c.in(1).value, *c.in(2).value)});
}

void run_range(ComputeContext& c) {
  Tensor& y = c.outputs[0];
  dispatch_compute(y.type(), "Range", [&]<class C>(C) {
    C start, delta;
    load(c.in(0), 0, 1, 1, &start);
    load(c.in(2), 0, 1, 1, &delta);
    C values[1024];
    for (int64_t i = 0; i < y.size(); i += std::ssize(values)) {
      const int64_t n = std::min<int64_t>(std::ssize(values), y.size() - i);
      for (int64_t k = 0; k < n; ++k) values[k] = start + static_cast<C>(i + k) * delta;
      store(y, i, n, values);
    }
  });
}

// --- EyeLike, OneHot, Trilu ---------------------------------------------------------------------------------------

void infer_eye_like(InferContext& c) {
  const DType from = type_of(c, 0), type = c.node.has("dtype") ? type_attribute(c.node, "dtype") : from;
  if (!c.in(0).shape_known) return c.set_type(0, type);
  if (c.shape(0).size() != 2) fail("the input has shape {}, expected rank 2", to_string(c.shape(0)));
  c.set(0, type, c.shape(0));
}

void run_eye_like(ComputeContext& c) {
  Tensor& y = c.outputs[0];
  const int64_t rows = y.shape()[0], columns = y.shape()[1], k = std::clamp(c.node.get_int("k", 0), -rows, columns);
  fill_zero(y);
  const Tensor one = Tensor::scalar(1.0).cast(y.type());
  ElementCopier copier(one, y);
  for (int64_t r = 0; r < rows; ++r) {
    if (r + k >= 0 && r + k < columns) copier.copy(0, r * columns + r + k);
  }
  copier.finish();
}

int64_t one_hot_axis(const Node& node, int64_t rank) { return normalize_axis(node.get_int("axis", -1), rank); }

void infer_one_hot(InferContext& c) {
  const DType type = type_of(c, 2);
  const TensorDesc &depth = c.in(1), &values = c.in(2);
  if (values.shape_known && elements(values.shape) != 2)
    fail("values have shape {}, expected [2]: off and on", to_string(values.shape));
  if (!c.in(0).shape_known || !depth.value) return c.set_type(0, type);
  if (depth.value->size() != 1) fail("depth has shape {}, expected a scalar", to_string(depth.shape));
  const double given = depth.value->to_doubles()[0];
  if (!(given >= 0 && given < 9e15)) fail("depth is {}", given);
  const int64_t extent = static_cast<int64_t>(given);
  Shape s = c.shape(0);
  const int64_t axis = one_hot_axis(c.node, static_cast<int64_t>(s.size()) + 1);
  s.insert(s.begin() + axis, extent);
  c.set(0, type, std::move(s));
}

/// Indices outside [-depth, depth) give a row that is off everywhere.
void run_one_hot(ComputeContext& c) {
  Tensor& y = c.outputs[0];
  const Tensor& values = c.in(2);
  const AxisView v = around_axis(y.shape(), one_hot_axis(c.node, y.rank()));
  copy_window(y.shape(), values, {0, Shape(y.shape().size(), 0)}, y, {0, strides(y.shape())});
  const std::vector<double> indices = c.in(0).to_doubles();
  ElementCopier copier(values, y);
  for (int64_t o = 0; o < v.outer; ++o) {
    for (int64_t i = 0; i < v.inner; ++i) {
      double at = std::trunc(indices[static_cast<size_t>(o * v.inner + i)]);
      if (at < 0) at += static_cast<double>(v.extent);
      if (at >= 0 && at < static_cast<double>(v.extent)) copier.copy(1, (o * v.extent + static_cast<int64_t>(at)) * v.inner + i);
    }
  }
  copier.finish();
}

void infer_trilu(InferContext& c) {
  same_as(c, 0, 0);
  if (c.in(0).shape_known && c.shape(0).size() < 2)
    fail("the input has shape {}, expected rank 2 or more", to_string(c.shape(0)));
  if (c.has(1) && c.in(1).shape_known && elements(c.shape(1)) != 1)
    fail("k has shape {}, expected a scalar", to_string(c.shape(1)));
}

void run_trilu(ComputeContext& c) {
  const Tensor& x = c.in(0);
  Tensor& y = c.outputs[0];
  const bool upper = c.node.get_int("upper", 1) != 0;
  const int64_t columns = y.shape().back(), rows = y.shape()[y.shape().size() - 2];
  const int64_t k = std::clamp(c.has(1) ? c.in(1).to_ints()[0] : 0, -rows - 1, columns + 1);
  fill_zero(y);
  if (y.size() == 0) return;
  ElementCopier copier(x, y);
  for (int64_t row = 0; row < y.size() / columns; ++row) {
    const int64_t diagonal = std::clamp<int64_t>(row % rows + k + (upper ? 0 : 1), 0, columns);  // first column kept, or dropped
    const int64_t begin = upper ? diagonal : 0, end = upper ? columns : diagonal;
    copier.copy(row * columns + begin, row * columns + begin, end - begin);
  }
  copier.finish();
}

}  // namespace

std::span<const OpRow> generate_ops() {
  static constexpr OpRow table[] = {
      {{"Constant", onnx_domain, infer_constant, run_constant}},
      {{"ConstantOfShape", onnx_domain, infer_constant_of_shape, run_constant_of_shape}},
      {{"Range", onnx_domain, infer_range, run_range}, {.autocast = Autocast::fp32}},
      {{"EyeLike", onnx_domain, infer_eye_like, run_eye_like}, {.shape = OutShape::input, .autocast = Autocast::fp32}},
      {{"OneHot", onnx_domain, infer_one_hot, run_one_hot}},
      {{"Trilu", onnx_domain, infer_trilu, run_trilu}, {.shape = OutShape::input}},
  };
  return table;
}

}  // namespace smelt::ops
