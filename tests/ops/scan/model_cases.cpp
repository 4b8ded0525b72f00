// Models of ai.onnx.ml.
#include "ops/scan/model_cases.h"

#include "ops/ml/ml.h"

namespace smelt::ops::scan {

/// A classifier chooses, so that its numbers are whole and small, and every sum exact.
Case support_vectors(Choices& c) {
  Case k;
  k.draw(c);
  Node& n = k.trial.node;
  n.domain = ml_domain;
  const bool classifies = c.one_in(2);
  n.op = classifies ? "SVMClassifier" : "SVMRegressor";
  k.values = classifies ? Values::whole : Values::real;
  const int64_t features = c.extent(classifies ? 40 : c.one_in(4) ? 600 : 70), rows = c.extent(classifies ? 40 : 100);
  const int64_t classes = classifies ? c.between(2, 7) : 2;
  std::mt19937 engine(k.seed);
  const auto floats = [&](int64_t count) {
    std::vector<float> v(static_cast<size_t>(count));
    std::uniform_real_distribution<float> real(-1, 1);
    for (float& e : v) e = classifies ? std::round(2 * real(engine)) : real(engine);
    return v;
  };
  int64_t supports = 0;
  if (classifies) {
    std::vector<int64_t> each, labels;
    for (int64_t i = 0; i < classes; ++i) {
      each.push_back(c.one_in(5) ? 0 : c.extent(9));
      labels.push_back(10 * i);
      supports += each.back();
    }
    if (supports == 0) supports = each[0] = 1;
    n.attrs["vectors_per_class"] = each;
    n.attrs["classlabels_ints"] = labels;
    n.attrs["rho"] = floats(classes * (classes - 1) / 2);
    n.outputs = {static_cast<ValueId>(101), static_cast<ValueId>(102)};
  } else {
    supports = c.extent(c.one_in(4) ? 300 : 50);
    n.attrs["n_supports"] = supports;
    n.attrs["rho"] = floats(1);
  }
  n.attrs["support_vectors"] = floats(supports * features);
  n.attrs["coefficients"] = floats((classes - 1) * supports);
  const std::string kernel = c.of({"LINEAR", "POLY", "RBF", "SIGMOID"});
  n.attrs["kernel_type"] = classifies && (kernel == "RBF" || kernel == "SIGMOID") ? std::string("POLY") : kernel;
  const float scale = 0.25f / std::sqrt(static_cast<float>(features));
  const float degree = classifies ? c.of({1.0f, 2.0f}) : c.of({1.0f, 2.0f, 3.0f, 7.0f, 0.0f});
  n.attrs["kernel_params"] = classifies ? std::vector<float>{1, 1, degree} : std::vector<float>{scale, 0.5f, degree};
  k.add(k.numbers(DType::f32, {rows, features}, -2, 2), false);
  if (!classifies) {
    k.roundings = 64 + 2 * static_cast<double>(supports);
    k.magnitude = [supports](std::span<const Tensor>) {
      return 10.0 * static_cast<double>(supports);
    };  // a seventh power of 1.4 a vector
  }
  k.results();
  return k;
}

}  // namespace smelt::ops::scan
