// ai.onnx.ml: preprocessing of features, what models do to their scores, and the table of the domain's operators.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "ops/core/copy.h"
#include "ops/core/list_inputs.h"
#include "ops/core/loops.h"
#include "ops/ml/family.h"
#include "ops/ml/features.h"
#include "ops/ml/linear.h"
#include "ops/ml/ml.h"
#include "ops/ml/trees.h"

namespace smelt::ops {

PostTransform post_transform_of(const Node& node) {
  const std::string s = node.get_string("post_transform", "NONE");
  constexpr std::string_view names[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const auto it = std::ranges::find(names, s);
  if (it == std::end(names)) fail("post_transform is '{}', which ONNX does not define", s);
  return static_cast<PostTransform>(it - std::begin(names));
}

namespace {

/// Inverse of the normal distribution's cumulative function, by bisection on erfc: slow and exact to double's last bits.
double probit(double p) {
  if (!(p > 0 && p < 1)) return p <= 0 ? -HUGE_VAL : HUGE_VAL;
  double low = -40, high = 40;
  for (int i = 0; i < 200 && low < high; ++i) {
    const double mid = low + (high - low) / 2;
    (std::erfc(-mid / std::sqrt(2.0)) / 2 < p ? low : high) = mid;
  }
  return low;
}

}  // namespace

void post_transform(std::vector<double>& scores, PostTransform how) {
  if (scores.empty()) return;
  switch (how) {
    case PostTransform::none: return;
    case PostTransform::logistic:
      for (double& v : scores) v = 1 / (1 + std::exp(-v));
      return;
    case PostTransform::probit:
      for (double& v : scores) v = probit(v);
      return;
    default: {
      const bool keep_zeros = how == PostTransform::softmax_zero;  // a score of 0 stays 0 and takes no part
      const double largest = *std::ranges::max_element(scores);
      double sum = 0;
      for (double& v : scores) {
        if (keep_zeros && std::abs(v) <= 1e-7)
          v = 0;
        else
          sum += v = std::exp(v - largest);
      }
      for (double& v : scores) v /= sum == 0 ? 1 : sum;
    }
  }
}

void store_doubles(const std::vector<double>& values, Tensor& out) {
  const Tensor t = Tensor::borrow(DType::f64, out.shape(), const_cast<double*>(values.data())).cast(out.type());
  std::memcpy(out.raw(), t.raw(), static_cast<size_t>(t.nbytes()));
}

std::vector<int64_t> vectorized_widths(const Node& node, size_t inputs) {
  const std::vector<int64_t> widths = node.get_ints("inputdimensions");
  if (widths.size() != inputs) fail("inputdimensions has {} entries, expected {}", widths.size(), inputs);
  for (int64_t w : widths)
    if (w < 0 || w > (int64_t{1} << 32)) fail("inputdimensions has the entry {}, expected 0 to 4294967296", w);
  return widths;
}

namespace {

void infer_same(InferContext& c) { same_as(c, 0, 0); }
void infer_same_f32(InferContext& c) { c.set(0, DType::f32, c.shape(0)); }

void run_binarizer(ComputeContext& c) {
  const double threshold = c.node.get_float("threshold", 0);
  std::vector<double> v = c.in(0).to_doubles();
  for (double& x : v) x = x > threshold ? 1 : 0;
  store_doubles(v, c.outputs[0]);
}

void infer_extractor(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.empty()) fail("X is a scalar, expected at least one axis");
  Shape y(x.begin(), x.end() - 1);
  if (y.empty()) y.push_back(1);
  y.push_back(elements(c.shape(1)));
  c.set(0, type_of(c, 0), y);
}

void run_extractor(ComputeContext& c) {
  const std::vector<int64_t> index = c.in(1).to_ints();
  const Shape& y = c.outputs[0].shape();
  const int64_t features = features_of(c.in(0).shape());
  for (int64_t i : index)
    if (i < 0 || i >= features) fail("index {} is outside [0, {})", i, features);
  copy_slices(c.in(0), {elements(Shape(y.begin(), y.end() - 1)), features, 1}, index, c.outputs[0]);
}

/// Calls f(x, y, features) for each row of the input and of the result, f32 or (for evaluate_f64) f64; x as f32 where the input is, else as doubles.
template <class F> void for_each_row(ComputeContext& c, F&& f) {
  const Tensor& x = c.in(0);
  const auto features = static_cast<size_t>(features_of(x.shape())), count = static_cast<size_t>(x.size());
  const auto walk = [&](const auto* from, auto* y) {
    for (size_t row = 0; row < count; row += features) f(from + row, y + row, features);
  };
  const auto to = [&](const auto* from) {
    if (c.outputs[0].type() == DType::f64) return walk(from, c.outputs[0].data<double>());
    walk(from, c.outputs[0].data<float>());
  };
  if (x.type() == DType::f32) return to(x.data<float>());
  const std::vector<double> doubles = x.to_doubles();
  to(doubles.data());
}

void run_scaler(ComputeContext& c) {
  const int64_t features = features_of(c.in(0).shape());
  const PerFeature offset(c.node, "offset", features, 0), scale(c.node, "scale", features, 1);
  for_each_row(c, [&]<class Y>(const auto* x, Y* y, size_t n) {
    for (size_t i = 0; i < n; ++i) y[i] = static_cast<Y>((static_cast<double>(x[i]) - offset[i]) * scale[i]);
  });
}

void run_normalizer(ComputeContext& c) {
  const std::string norm = c.node.get_string("norm", "MAX");
  if (norm != "MAX" && norm != "L1" && norm != "L2") fail("norm is '{}', expected MAX, L1 or L2", norm);
  const bool largest = norm == "MAX", absolute = norm == "L1";
  for_each_row(c, [&]<class Y>(const auto* x, Y* y, size_t n) {
    const auto at = [&](size_t i) { return static_cast<double>(x[i]); };
    double size = 0;
    for (size_t i = 0; i < n; ++i) {
      if (largest)
        size = i == 0 ? at(i) : std::max(size, at(i));
      else
        size += absolute ? std::abs(at(i)) : at(i) * at(i);
    }
    if (norm == "L2") size = std::sqrt(size);
    for (size_t i = 0; i < n; ++i) y[i] = static_cast<Y>(size == 0 ? at(i) : at(i) / size);
  });
}

template <class T> void impute(ComputeContext& c) {
  const Tensor& x = c.in(0);
  const int64_t features = features_of(x.shape());
  const Imputed<T> imputed(c.node, features);
  for (int64_t i = 0; i < x.size(); ++i) c.outputs[0].data<T>()[i] = imputed(x.data<T>()[i], i % features);
}

void run_imputer(ComputeContext& c) {
  switch (c.in(0).type()) {
    case DType::f32: return impute<float>(c);
    case DType::f64: return impute<double>(c);
    case DType::i64: return impute<int64_t>(c);
    case DType::i32: return impute<int32_t>(c);
    default: fail_unsupported("elements of {}", name(c.in(0).type()));
  }
}

void infer_vectorizer(InferContext& c) {
  int64_t width = 0;
  for (int64_t w : vectorized_widths(c.node, c.inputs.size())) width += w;
  for (size_t i = 0; i < c.inputs.size(); ++i)
    if (c.shape(i).size() > 2 || rows_of(c.shape(i)) != rows_of(c.shape(0)))
      fail("input {} has shape {}, expected [{}, C]", i, to_string(c.shape(i)), rows_of(c.shape(0)));
  c.set(0, DType::f32, {rows_of(c.shape(0)), width});
}

void run_vectorizer(ComputeContext& c) {
  const std::vector<int64_t> widths = vectorized_widths(c.node, c.inputs.size());
  std::vector<double> out;
  for (int64_t r = 0; r < c.outputs[0].shape()[0]; ++r) {
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::vector<double> x = c.in(i).to_doubles();
      const int64_t features = features_of(c.in(i).shape());
      for (int64_t k = 0; k < widths[i]; ++k) out.push_back(k < features ? x[static_cast<size_t>(r * features + k)] : 0);
    }
  }
  store_doubles(out, c.outputs[0]);
}

void infer_one_hot(InferContext& c) {
  const size_t categories =
      type_of(c, 0) == DType::string ? c.node.get_strings("cats_strings").size() : c.node.get_ints("cats_int64s").size();
  Shape y = c.shape(0);
  y.push_back(static_cast<int64_t>(categories));
  c.set(0, DType::f32, y);
}

void run_one_hot(ComputeContext& c) {
  const std::vector<int64_t> numbers = c.node.get_ints("cats_int64s");
  const std::vector<std::string> texts = c.node.get_strings("cats_strings");
  const bool text = c.in(0).type() == DType::string, unknown_is_zeros = c.node.get_int("zeros", 1) != 0;
  const std::vector<int64_t> x = text ? std::vector<int64_t>{} : c.in(0).cast(DType::i64).to_ints();
  const auto fill = [&](auto* out) {
    for (int64_t i = 0; i < c.in(0).size(); ++i) {
      const size_t at = static_cast<size_t>(i), count = text ? texts.size() : numbers.size();
      bool found = false;
      for (size_t k = 0; k < count; ++k) {
        const bool hit = text ? c.in(0).strings()[at] == texts[k] : x[at] == numbers[k];
        *out++ = hit ? 1 : 0;
        found |= hit;
      }
      if (!found && !unknown_is_zeros) fail("element {} is in no category (attribute zeros is 0)", i);
    }
  };
  c.outputs[0].type() == DType::f64 ? fill(c.outputs[0].data<double>()) : fill(c.outputs[0].data<float>());
}

}  // namespace

std::span<const OpRow> ml_ops() {
  static constexpr OpRow table[] = {
      {{"ArrayFeatureExtractor", ml_domain, infer_extractor, run_extractor}},
      {{"Binarizer", ml_domain, infer_same, run_binarizer}},
      {{"FeatureVectorizer", ml_domain, infer_vectorizer, run_vectorizer}},
      {{"Imputer", ml_domain, infer_same, run_imputer}},
      {{"LabelEncoder", ml_domain, infer_label_encoder, run_label_encoder}},
      {{"LinearClassifier", ml_domain, infer_linear_classifier, run_linear_classifier}},
      {{"LinearRegressor", ml_domain, infer_linear_regressor, run_linear_regressor}},
      {{"Normalizer", ml_domain, infer_same_f32, run_normalizer}},
      {{"OneHotEncoder", ml_domain, infer_one_hot, run_one_hot}},
      {{"SVMClassifier", ml_domain, infer_svm_classifier, run_svm_classifier}},
      {{"SVMRegressor", ml_domain, infer_svm_regressor, run_svm_regressor}},
      {{"Scaler", ml_domain, infer_same_f32, run_scaler}},
      {{"TreeEnsemble", ml_domain, infer_trees, run_trees}},
      {{"TreeEnsembleClassifier", ml_domain, infer_tree_classifier, run_tree_classifier}},
      {{"TreeEnsembleRegressor", ml_domain, infer_tree_regressor, run_trees}},
  };
  return table;
}

}  // namespace smelt::ops
