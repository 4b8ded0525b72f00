#include "profile/compare.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/graph.h"

namespace smelt::profile {

Difference difference(const std::string& name, const Tensor& a, const Tensor& b) {
  Difference d;
  d.name = name;
  d.count = b.size();
  if (a.type() != b.type() || a.shape() != b.shape()) {
    d.comparable = false;
    d.why_not = fmt::format("{}{} against {}{}", smelt::name(a.type()), to_string(a.shape()), smelt::name(b.type()),
                            to_string(b.shape()));
    return d;
  }
  if (a.type() == DType::string) {
    for (size_t i = 0; i < a.strings().size(); ++i) d.different += a.strings()[i] != b.strings()[i];
    return d;
  }
  const std::vector<double> x = a.as_parts().to_doubles(), y = b.as_parts().to_doubles();
  double square = 0, square_x = 0, product = 0, square_error = 0, sum_error = 0;
  int64_t finite = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!(x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])))) ++d.different;
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) {
      d.nonfinite += !(x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])));
      continue;
    }
    const double e = std::abs(x[i] - y[i]);
    ++finite;
    d.max_abs = std::max(d.max_abs, e);
    sum_error += e;
    square_error += e * e;
    square += y[i] * y[i];
    square_x += x[i] * x[i];
    product += x[i] * y[i];
  }
  if (finite == 0) return d;
  d.mean_abs = sum_error / static_cast<double>(finite);
  const double rms = std::sqrt(square / static_cast<double>(finite));
  for (size_t i = 0; i < x.size(); ++i)
    if (std::isfinite(x[i]) && std::isfinite(y[i]))
      d.max_rel = std::max(d.max_rel, std::abs(x[i] - y[i]) / (std::abs(y[i]) + rms * 1e-3 + 1e-12));
  d.rms_rel = rms > 0 ? std::sqrt(square_error / static_cast<double>(finite)) / rms : d.max_abs > 0 ? INFINITY : 0;
  // 1 - cos through |x/|x| - y/|y||² / 2, which does not lose the small angle to cancellation.
  if (square > 0 && square_x > 0) {
    const double nx = std::sqrt(square_x), ny = std::sqrt(square);
    double chord = 0;
    for (size_t i = 0; i < x.size(); ++i)
      if (std::isfinite(x[i]) && std::isfinite(y[i])) chord += (x[i] / nx - y[i] / ny) * (x[i] / nx - y[i] / ny);
    d.cosine_error = chord / 2;
  } else {
    d.cosine_error = square == square_x ? 0 : 1;
  }
  return d;
}

bool within(const Tensor& a, const Tensor& b, const Tolerance& t) {
  const Difference d = difference("", a, b);
  if (!d.comparable || d.nonfinite) return false;
  if (!is_float(b.as_parts().type())) return d.different == 0;
  const std::vector<double> x = a.as_parts().to_doubles(), y = b.as_parts().to_doubles();
  double square = 0;
  for (double v : y) square += std::isfinite(v) ? v * v : 0;
  const double rms = y.empty() ? 0 : std::sqrt(square / static_cast<double>(y.size()));
  for (size_t i = 0; i < x.size(); ++i)
    if (std::isfinite(y[i]) && std::abs(x[i] - y[i]) > t.atol + t.rtol * std::max(std::abs(y[i]), rms)) return false;
  return true;
}

namespace {

// The plan's own graph with `names` as its outputs; the nodes are the same, without further rewriting.
std::vector<Tensor> run_to(const Fed& side, const std::vector<std::string>& names) {
  Graph g = clone(side.plan.graph());
  std::vector<ValueId> outputs;
  for (const std::string& n : names) outputs.push_back(g.find_value(n));
  g.set_outputs(outputs);
  Options options = side.plan.options();
  options.optimize = false;
  options.precision.clear();
  const auto probe = Plan::build(std::move(g), options);
  const auto execution = probe->execution();
  execution->bind(side.inputs);
  execution->run();
  std::vector<Tensor> results;
  for (const Tensor& t : execution->outputs()) results.push_back(t.clone());
  return results;
}

}  // namespace

std::optional<Bisection> bisect(const Fed& before, const Fed& after, const Tolerance& tolerance) {
  const Graph &a = before.plan.graph(), &b = after.plan.graph();
  std::vector<std::pair<std::string, NodeId>> shared;
  for (NodeId n : b.topological())
    for (ValueId v : b.node(n).outputs) {
      if (v == ValueId::none) continue;
      const ValueId other = a.find_value(b.value(v).name);
      if (other != ValueId::none && a.value(other).producer != NodeId::none) shared.emplace_back(b.value(v).name, n);
    }
  // A hundred values at a time: keeping all activations of a large model would take many times its memory.
  constexpr size_t batch = 100;
  for (size_t begin = 0; begin < shared.size(); begin += batch) {
    std::vector<std::string> names;
    for (size_t i = begin; i < std::min(begin + batch, shared.size()); ++i) names.push_back(shared[i].first);
    const std::vector<Tensor> x = run_to(before, names), y = run_to(after, names);
    for (size_t i = 0; i < names.size(); ++i) {
      if (within(y[i], x[i], tolerance)) continue;
      const Node& node = b.node(shared[begin + i].second);
      Bisection found;
      found.value = names[i];
      found.node = node.name;
      for (int32_t s : node.sources) found.sources.push_back(b.sources()[static_cast<size_t>(s)].name);
      found.difference = difference(names[i], y[i], x[i]);
      found.compared = static_cast<int>(begin + i + 1);
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace smelt::profile
