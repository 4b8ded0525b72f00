#include "fuzz/operators/agree.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "import/tensors.h"

namespace smelt::fuzz {
namespace {

bool is_counted(DType t) { return t != DType::string && t != DType::c64 && t != DType::c128; }

constexpr double small_result = 1e6;  // what is larger may be infinite where the order of operations is another

bool is_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool agree(double a, double b, double allowed, bool tame) {
  if (is_same(a, b)) return true;
  if (std::isfinite(a) && std::isfinite(b)) return std::abs(a) >= small_result || std::abs(a - b) <= allowed;
  const double number = std::isfinite(a) ? a : b;
  return !tame || !std::isfinite(number) || std::abs(number) >= small_result || std::isinf(allowed);
}

/// By how much elements of that size may differ: integers by one, where what was rounded to them lay between two.
double tolerance(DType t, double size) {
  if (!is_float(t)) return 1.01;
  return (t == DType::f32 || t == DType::f64 ? 2e-3 : 5e-2) * std::max(1.0, size);
}

/// Two units in the last place of a float, relative to it. 0: integers do not round.
double rounding(DType t) {
  if (t == DType::f64) return 0x1p-51;
  if (t == DType::f32) return 0x1p-22;
  if (t == DType::f16) return 0x1p-9;
  return is_float(t) ? 0x1p-6 : 0;
}

Tensor moved(const Tensor& t, Random& random) {
  const double by = rounding(t.type());
  if (by == 0 || t.size() == 0) return t;
  std::vector<double> all = t.to_doubles();
  for (double& v : all) v *= 1 + by * (static_cast<double>(random() % 2001) / 1000 - 1);
  return Tensor::of<double>(t.shape(), all).cast(t.type());
}

/// Calls f for the tensors of the model's own that it holds whole.
void for_each_weight(onnx::GraphProto& g, const std::function<void(onnx::TensorProto&)>& f) {
  for (auto& t : *g.mutable_initializer())
    if (t.data_location() != onnx::TensorProto::EXTERNAL) f(t);
}

}  // namespace

std::string difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b, bool tame, const Slack& slack) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].type() != b[i].type() || a[i].shape() != b[i].shape())
      return fmt::format("output {}: {}{} and {}{}", i, name(a[i].type()), to_string(a[i].shape()), name(b[i].type()),
                         to_string(b[i].shape()));
    if (!is_counted(a[i].type())) continue;
    const auto x = a[i].to_doubles(), y = b[i].to_doubles();
    for (size_t k = 0; k < x.size(); ++k)
      if (!agree(x[k], y[k], tolerance(a[i].type(), std::max(std::abs(x[k]), std::abs(y[k]))) + (slack.empty() ? 0 : slack[i][k]),
                 tame))
        return fmt::format("element {} of output {} {}{}: {} and {}", k, i, name(a[i].type()), to_string(a[i].shape()), x[k],
                           y[k]);
  }
  return "";
}

namespace {

/// The largest finite number that the case is fed.
double largest(const OperatorCase& c) {
  double most = 0;
  for (const Feed& f : c.feeds) {
    if (!is_float(f.tensor.type())) continue;
    for (double v : f.tensor.to_doubles())
      if (std::isfinite(v)) most = std::max(most, std::abs(v));
  }
  return most;
}

}  // namespace

Slack spread(const OperatorCase& c, const std::vector<Tensor>& outputs,
             const std::function<std::vector<Tensor>(const OperatorCase&)>& run, Random& random) {
  constexpr int times = 6;
  constexpr double several = 8;  // roundings that add up within an operator, where inputs move by one
  Slack slack(outputs.size());
  std::vector<std::vector<double>> values(outputs.size());
  const double whole = is_tame(c) ? 0 : several * largest(c);  // sums of what is large may cancel
  for (size_t i = 0; i < outputs.size(); ++i) {
    slack[i].assign(static_cast<size_t>(outputs[i].size()), whole * rounding(outputs[i].type()));
    if (is_counted(outputs[i].type())) values[i] = outputs[i].to_doubles();
  }
  for (int n = 0; n < times; ++n) {
    OperatorCase near = c;
    for (Feed& f : near.feeds) f.tensor = moved(f.tensor, random);
    for_each_weight(*near.model.mutable_graph(), [&](onnx::TensorProto& t) {
      onnx::TensorProto copy = t;
      const Tensor value = importer::take_tensor(copy);
      if (rounding(value.type()) == 0) return;
      const std::string name = t.name();
      t.Clear();
      importer::write_tensor(moved(value, random), t);
      t.set_name(name);
    });
    const std::vector<Tensor> other = run(near);
    for (size_t i = 0; i < values.size(); ++i) {
      const bool alike = i < other.size() && other[i].type() == outputs[i].type() && other[i].shape() == outputs[i].shape();
      const std::vector<double> there = alike && is_counted(other[i].type()) ? other[i].to_doubles() : std::vector<double>{};
      for (size_t k = 0; k < values[i].size(); ++k) {
        if (!there.empty() && is_same(there[k], values[i][k])) continue;
        slack[i][k] = there.empty() || !std::isfinite(there[k]) || !std::isfinite(values[i][k])
                          ? INFINITY
                          : std::max(slack[i][k], several * std::abs(there[k] - values[i][k]));
      }
    }
  }
  return slack;
}

namespace {

/// Whether `holds` does for each tensor of floats that the case is fed, and of the model's own.
bool all_floats(const OperatorCase& c, const std::function<bool(const Tensor&)>& holds) {
  bool all = std::ranges::all_of(c.feeds, [&](const Feed& f) { return !is_float(f.tensor.type()) || holds(f.tensor); });
  onnx::GraphProto graph = c.model.graph();
  for_each_weight(graph, [&](onnx::TensorProto& proto) {
    const Tensor t = importer::take_tensor(proto);
    all = all && (!is_float(t.type()) || holds(t));
  });
  return all;
}

}  // namespace

bool is_tame(const OperatorCase& c) {
  return all_floats(
      c, [](const Tensor& t) { return std::ranges::all_of(t.to_doubles(), [](double v) { return std::abs(v) < 1e4; }); });
}

bool squares_overflow(const OperatorCase& c) {
  return !all_floats(c, [](const Tensor& t) {
    const double most = t.type() == DType::f64 ? 1e154 : t.type() == DType::f16 ? 255 : 1.8e19;
    return std::ranges::none_of(t.to_doubles(), [&](double v) { return std::isfinite(v) && std::abs(v) > most; });
  });
}

}  // namespace smelt::fuzz
