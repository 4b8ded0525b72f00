#include "fuzz/operators/agree.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "import/tensors.h"

namespace smelt::fuzz {
namespace {

bool is_counted(DType t) { return t != DType::string && t != DType::c64 && t != DType::c128; }

bool agree(double a, double b, double allowed) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) == std::isnan(b);
  return a == b || std::abs(a - b) <= allowed;
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

std::string difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b, const Slack& slack) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].type() != b[i].type() || a[i].shape() != b[i].shape())
      return fmt::format("output {}: {}{} and {}{}", i, name(a[i].type()), to_string(a[i].shape()), name(b[i].type()),
                         to_string(b[i].shape()));
    if (!is_counted(a[i].type())) continue;
    const auto x = a[i].to_doubles(), y = b[i].to_doubles();
    for (size_t k = 0; k < x.size(); ++k)
      if (std::isfinite(x[k]) && std::isfinite(y[k]) && std::abs(x[k]) < 1e6 &&
          !agree(x[k], y[k],
                 tolerance(a[i].type(), std::max(std::abs(x[k]), std::abs(y[k]))) + (slack.empty() ? 0 : slack[i][k])))
        return fmt::format("element {} of output {} {}{}: {} and {}", k, i, name(a[i].type()), to_string(a[i].shape()), x[k],
                           y[k]);
  }
  return "";
}

Slack spread(const OperatorCase& c, const std::vector<Tensor>& outputs,
             const std::function<std::vector<Tensor>(const OperatorCase&)>& run, Random& random) {
  constexpr int times = 6;
  constexpr double several = 8;  // roundings that add up within an operator, where inputs move by one
  Slack slack(outputs.size());
  std::vector<std::vector<double>> values(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    slack[i].assign(static_cast<size_t>(outputs[i].size()), 0);
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
      for (size_t k = 0; k < values[i].size(); ++k)
        slack[i][k] = there.empty() || !std::isfinite(there[k])
                          ? INFINITY
                          : std::max(slack[i][k], several * std::abs(there[k] - values[i][k]));
    }
  }
  return slack;
}

bool squares_overflow(const OperatorCase& c) {
  const auto overflows = [](const Tensor& t) {
    if (rounding(t.type()) == 0) return false;
    const double most = t.type() == DType::f64 ? 1e154 : t.type() == DType::f16 ? 255 : 1.8e19;
    return std::ranges::any_of(t.to_doubles(), [&](double v) { return std::isfinite(v) && std::abs(v) > most; });
  };
  bool any = std::ranges::any_of(c.feeds, overflows, &Feed::tensor);
  onnx::GraphProto graph = c.model.graph();
  for_each_weight(graph, [&](onnx::TensorProto& t) { any = any || overflows(importer::take_tensor(t)); });
  return any;
}

}  // namespace smelt::fuzz
