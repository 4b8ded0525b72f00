// LinearRegressor and LinearClassifier.
#include "ops/ml/linear.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/list_inputs.h"

namespace smelt::ops {
namespace {

int64_t targets_of(const Node& node, int64_t features) {
  if (node.op == "LinearRegressor") return node.get_int("targets", 1);
  const std::vector<float> intercepts = node.get_floats("intercepts");
  if (!intercepts.empty()) return static_cast<int64_t>(intercepts.size());
  return features > 0 ? static_cast<int64_t>(node.get_floats("coefficients").size()) / features : 0;
}

void check_rows(const Shape& x) {
  if (x.size() > 2) fail("X has shape {}, expected [N, C]", to_string(x));
}

/// Calls f(row, values) for each row of x; values are float where x is f32, else double.
template <class F> void for_each_row(const Tensor& x, F&& f) {
  const int64_t features = features_of(x.shape()), rows = rows_of(x.shape());
  if (x.type() == DType::f32) {
    for (int64_t r = 0; r < rows; ++r) f(r, x.data<float>() + r * features);
    return;
  }
  const std::vector<double> doubles = x.to_doubles();
  for (int64_t r = 0; r < rows; ++r) f(r, doubles.data() + r * features);
}

}  // namespace

LinearModel linear_model(const Node& node, int64_t features) {
  LinearModel m{targets_of(node, features), features, node.get_floats("coefficients"), node.get_floats("intercepts")};
  if (m.targets < 1 || m.targets > static_cast<int64_t>(m.weights.max_size()) / std::max<int64_t>(1, features) ||
      static_cast<int64_t>(m.weights.size()) != m.targets * features)
    fail("coefficients has {} values, expected {} x {}", m.weights.size(), m.targets, features);
  return m;
}

void infer_linear_regressor(InferContext& c) {
  const Shape& x = c.shape(0);
  const int64_t targets = c.node.get_int("targets", 1);
  if (targets < 1) fail("targets is {}, expected 1 or more", targets);
  check_rows(x);
  c.set(0, DType::f32, {rows_of(x), targets});
}

void run_linear_regressor(ComputeContext& c) {
  const LinearModel m = linear_model(c.node, features_of(c.in(0).shape()));
  const PostTransform transform = post_transform_of(c.node);
  std::vector<double> out, score;
  for_each_row(c.in(0), [&](int64_t, const auto* x) {
    m.scores(x, score);
    post_transform(score, transform);
    out.insert(out.end(), score.begin(), score.end());
  });
  store_doubles(out, c.outputs[0]);
}

LinearRule::LinearRule(const Node& node, int64_t of)
    : targets(of), labels(static_cast<int64_t>(class_count(node))), transform(post_transform_of(node)) {
  if (targets > 1 && labels < targets) fail("{} labels for {} classes", labels, targets);
}

int64_t LinearRule::decide(std::vector<double>& scores) const {
  if (targets == 1) {
    const bool second = scores[0] > 0;
    if (labels == 2) scores = {transform == PostTransform::logistic ? -scores[0] : 1 - scores[0], scores[0]};
    const bool made_up = labels == 2 && transform != PostTransform::logistic && transform != PostTransform::probit;
    if (!made_up) post_transform(scores, transform);
    return labels == 2 ? (second ? 1 : 0) : (second ? -2 : -1);
  }
  const auto best = std::ranges::max_element(scores) - scores.begin();
  post_transform(scores, transform);
  return best;
}

void infer_linear_classifier(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.empty()) fail("X is a scalar, expected [N, C]");
  check_rows(x);
  const LinearRule rule(c.node, linear_model(c.node, features_of(x)).targets);
  c.set(0, ClassLabels(c.node).type(), {rows_of(x)});
  c.set(1, DType::f32, {rows_of(x), rule.columns()});
}

void run_linear_classifier(ComputeContext& c) {
  const LinearModel m = linear_model(c.node, features_of(c.in(0).shape()));
  const LinearRule rule(c.node, m.targets);
  const ClassLabels labels(c.node);
  std::vector<double> out, score;
  for_each_row(c.in(0), [&](int64_t row, const auto* x) {
    m.scores(x, score);
    const int64_t chosen = rule.decide(score);
    if (c.wants(0)) labels.put(chosen, row, c.outputs[0]);
    out.insert(out.end(), score.begin(), score.end());
  });
  if (c.wants(1)) store_doubles(out, c.outputs[1]);
}

}  // namespace smelt::ops
