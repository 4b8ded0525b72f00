// SVMRegressor and SVMClassifier. Probabilities of several classes out of those of pairs: Wu, Lin and Weng, "Probability estimates
// for multi-class classification by pairwise coupling" (JMLR 5, 2004), second method.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/number.h"
#include "ops/core/list_inputs.h"
#include "ops/ml/linear.h"

namespace smelt::ops {
namespace {

constexpr int64_t most_classes = 1 << 12;

SvmKernel kernel_of(const Node& node) {
  static constexpr const char* names[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
  const std::string text = node.get_string("kernel_type", "LINEAR");
  const auto it = std::ranges::find(names, text);
  if (it == std::end(names)) fail("kernel_type is '{}', expected LINEAR, POLY, RBF or SIGMOID", text);
  SvmKernel k{static_cast<SvmKernel::Type>(it - std::begin(names))};
  const std::vector<float> params = node.get_floats("kernel_params");
  if (params.empty() && k.type == SvmKernel::linear) return k;
  if (params.size() != 3) fail("kernel_params has {} values, expected gamma, coef0 and degree", params.size());
  k.gamma = params[0], k.offset = params[1], k.degree = params[2];
  return k;
}

/// An attribute of at least so many floats.
std::vector<float> floats(const Node& node, const char* attr, int64_t least) {
  std::vector<float> v = node.get_floats(attr);
  if (static_cast<int64_t>(v.size()) < least) fail("{} has {} values, expected {}", attr, v.size(), least);
  return v;
}

/// Probability of each class; r [classes, classes]: of the row's class against the column's.
void couple(const std::vector<double>& r, size_t classes, std::vector<double>& p) {
  std::vector<double> q(classes * classes), qp(classes);
  for (size_t i = 0; i < classes; ++i) {
    for (size_t j = 0; j < classes; ++j) {
      if (i == j) continue;
      q[i * classes + i] += r[j * classes + i] * r[j * classes + i];
      q[i * classes + j] = -r[j * classes + i] * r[i * classes + j];
    }
  }
  p.assign(classes, 1.0 / static_cast<double>(classes));
  const double small = 0.005 / static_cast<double>(classes);
  for (int turn = 0; turn < 100; ++turn) {
    double total = 0, largest = 0;
    for (size_t i = 0; i < classes; ++i) {
      qp[i] = 0;
      for (size_t j = 0; j < classes; ++j) qp[i] += q[i * classes + j] * p[j];
      total += p[i] * qp[i];
    }
    for (const double v : qp) largest = std::max(largest, std::abs(v - total));
    if (largest < small) return;
    for (size_t i = 0; i < classes; ++i) {
      const double step = (total - qp[i]) / q[i * classes + i], scale = 1 / (1 + step);
      p[i] += step;
      total = (total + step * (step * q[i * classes + i] + 2 * qp[i])) * scale * scale;
      for (size_t j = 0; j < classes; ++j) {
        qp[j] = (qp[j] + step * q[i * classes + j]) * scale;
        p[j] *= scale;
      }
    }
  }
}

/// Of each pair's scores, the probabilities of the classes.
void probabilities(const SvmModel& m, std::vector<double>& scores) {
  const auto classes = static_cast<size_t>(m.classes);
  std::vector<double> r(classes * classes), p;
  size_t pair = 0;
  for (size_t i = 0; i < classes; ++i) {
    for (size_t j = i + 1; j < classes; ++j, ++pair) {
      const double of_first =
          1 / (1 + std::exp(scores[pair] * static_cast<double>(m.prob_a[pair]) + static_cast<double>(m.prob_b[pair])));
      r[i * classes + j] = std::clamp(of_first, 1e-7, 1 - 1e-7);
      r[j * classes + i] = 1 - r[i * classes + j];
    }
  }
  couple(r, classes, p);
  scores = std::move(p);
}

}  // namespace

float SvmKernel::operator()(const float* __restrict a, const float* __restrict b, int64_t n) const {
  float sums[8] = {};
  const auto fold = [&](const auto& term) {
    int64_t k = 0;
    for (; k + 8 <= n; k += 8)
      for (int64_t u = 0; u < 8; ++u) sums[u] += term(a[k + u], b[k + u]);
    for (; k < n; ++k) sums[0] += term(a[k], b[k]);
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
  };
  if (type == rbf) return std::exp(-gamma * fold([](float x, float y) { return (x - y) * (x - y); }));
  const float product = fold([](float x, float y) { return x * y; });
  if (type == poly) return std::pow(gamma * product + offset, degree);
  if (type == sigmoid) return std::tanh(gamma * product + offset);
  return product;
}

SvmModel svm_model(const Node& node, int64_t features) {
  SvmModel m;
  const bool classifies = node.op == "SVMClassifier";
  m.features = features;
  m.transform = post_transform_of(node);
  m.one_class = node.get_int("one_class", 0) != 0;
  m.classes = classifies ? static_cast<int64_t>(class_count(node)) : 1;
  if (m.classes > most_classes) fail("{} classes, expected at most {}", m.classes, most_classes);
  if (classifies) {
    m.per_class = node.get_ints("vectors_per_class");
    for (const int64_t n : m.per_class) {
      if (n < 0) fail("vectors_per_class has {}", n);
      m.supports = checked_sum(m.supports, n);
    }
  } else {
    m.supports = node.get_int("n_supports", 0);
    if (m.supports < 0) fail("n_supports is {}", m.supports);
  }
  m.rho = floats(node, "rho", 1);
  if (m.supports == 0) {
    m.model = {m.classes, features, floats(node, "coefficients", checked_product(m.classes, features)),
               std::vector<float>(static_cast<size_t>(m.classes), m.rho[0])};
    return m;
  }
  m.kernel = kernel_of(node);
  m.vectors = node.get_floats("support_vectors");
  if (static_cast<int64_t>(m.vectors.size()) != checked_product(m.supports, features))
    fail("support_vectors has {} values, expected {} x {}", m.vectors.size(), m.supports, features);
  m.coefficients = floats(node, "coefficients", checked_product(classifies ? m.classes - 1 : 1, m.supports));
  if (!classifies) return m;
  if (static_cast<int64_t>(m.per_class.size()) != m.classes)
    fail("vectors_per_class has {} entries, expected {}", m.per_class.size(), m.classes);
  m.rho = floats(node, "rho", m.pairs());
  m.prob_a = node.get_floats("prob_a"), m.prob_b = node.get_floats("prob_b");
  if (m.prob_a.size() != m.prob_b.size() || (!m.prob_a.empty() && static_cast<int64_t>(m.prob_a.size()) < m.pairs()))
    fail("prob_a has {} values and prob_b {}, expected {}", m.prob_a.size(), m.prob_b.size(), m.pairs());
  return m;
}

void SvmModel::values(const float* x, std::vector<float>& out) const {
  out.resize(static_cast<size_t>(supports));
  for (int64_t s = 0; s < supports; ++s) out[static_cast<size_t>(s)] = kernel(vectors.data() + s * features, x, features);
}

double SvmModel::regress(const float* x, const float* values) const {
  std::vector<double> y(1);
  if (supports == 0)
    model.scores(x, y);
  else
    y[0] = static_cast<double>(rho[0]) + dot(coefficients.data(), values, static_cast<size_t>(supports));
  post_transform(y, transform);
  return one_class ? (y[0] > 0 ? 1 : -1) : y[0];
}

void SvmModel::sums(const float* values, std::vector<double>& out) const {
  out.clear();
  for (int64_t g = 0, first = 0; g < classes; first += per_class[static_cast<size_t>(g)], ++g)
    for (int64_t line = 0; line + 1 < classes; ++line)
      out.push_back(dot(coefficients.data() + line * supports + first, values + first,
                        static_cast<size_t>(per_class[static_cast<size_t>(g)])));
}

int64_t SvmModel::classify(const float* x, std::span<const double> sums, std::vector<double>& out) const {
  if (supports == 0) {
    model.scores(x, out);
    const auto best = std::ranges::max_element(out) - out.begin();
    post_transform(out, transform);
    return best;
  }
  out.clear();
  std::vector<int64_t> votes(static_cast<size_t>(classes));
  const auto sum_of = [&](int64_t g, int64_t line) { return sums[static_cast<size_t>(g * (classes - 1) + line)]; };
  for (int64_t i = 0; i < classes; ++i) {  // of classes i and j, each one's vectors have their coefficients against the other one
    for (int64_t j = i + 1; j < classes; ++j) {
      const double sum = sum_of(i, j - 1) + sum_of(j, i) + static_cast<double>(rho[out.size()]);
      out.push_back(sum);
      ++votes[static_cast<size_t>(sum > 0 ? i : j)];
    }
  }
  const int64_t best = std::ranges::max_element(votes) - votes.begin();
  if (classes == 1) out.assign(1, 0.0);
  if (!prob_a.empty())
    probabilities(*this, out);
  else if (classes == 2)
    out = {transform == PostTransform::none || transform == PostTransform::logistic ? -out[0] : 1 - out[0], out[0]};
  const bool made_up =
      classes == 2 && prob_a.empty() && (transform == PostTransform::softmax || transform == PostTransform::softmax_zero);
  if (!made_up) post_transform(out, transform);
  return best;
}

void infer_svm_regressor(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.empty() || x.size() > 2) fail("X has shape {}, expected [N, C]", to_string(x));
  c.set(0, DType::f32, {rows_of(x), 1});
}

void infer_svm_classifier(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.empty() || x.size() > 2) fail("X has shape {}, expected [N, C]", to_string(x));
  const SvmModel m = svm_model(c.node, features_of(x));
  c.set(0, ClassLabels(c.node).type(), {rows_of(x)});
  c.set(1, DType::f32, {rows_of(x), m.scores()});
}

void run_svm_regressor(ComputeContext& c) {
  const int64_t features = features_of(c.in(0).shape());
  const SvmModel m = svm_model(c.node, features);
  const Tensor x = c.in(0).cast(DType::f32);
  std::vector<double> out;
  std::vector<float> scratch;
  for (int64_t r = 0; r < rows_of(x.shape()); ++r) {
    const float* row = x.data<float>() + r * features;
    m.values(row, scratch);
    out.push_back(m.regress(row, scratch.data()));
  }
  store_doubles(out, c.outputs[0]);
}

void run_svm_classifier(ComputeContext& c) {
  const int64_t features = features_of(c.in(0).shape());
  const SvmModel m = svm_model(c.node, features);
  const ClassLabels labels(c.node);
  const Tensor x = c.in(0).cast(DType::f32);
  std::vector<double> out, scores, sums;
  std::vector<float> scratch;
  for (int64_t r = 0; r < rows_of(x.shape()); ++r) {
    const float* row = x.data<float>() + r * features;
    m.values(row, scratch);
    if (m.supports > 0) m.sums(scratch.data(), sums);
    const int64_t chosen = m.classify(row, sums, scores);
    if (c.wants(0)) labels.put(chosen, r, c.outputs[0]);
    out.insert(out.end(), scores.begin(), scores.end());
  }
  if (c.wants(1)) store_doubles(out, c.outputs[1]);
}

}  // namespace smelt::ops
