// What the operators on features are by their attributes.
#pragma once

#include <vector>

#include "base/error.h"
#include "base/number.h"
#include "ops/core/operator.h"

namespace smelt::ops {

/// Attribute of one value for all features, or one for each; `otherwise` when it is absent.
class PerFeature {
 public:
  PerFeature(const Node& node, const char* attr, int64_t features, double otherwise) {
    for (float v : node.get_floats(attr)) values_.push_back(v);
    if (values_.empty()) values_.push_back(otherwise);
    if (values_.size() != 1 && static_cast<int64_t>(values_.size()) != features) {
      fail("{} has {} values, expected 1 or {}", attr, values_.size(), features);
    }
    if (values_.size() == 1) values_.assign(static_cast<size_t>(features), double{values_[0]});
  }
  double operator[](size_t feature) const { return values_[feature]; }

 private:
  std::vector<double> values_;
};

/// FeatureVectorizer: inputs [N, C] or [C] beside each other; one wider than its inputdimensions is cut, a narrower one padded with zeros.
std::vector<int64_t> vectorized_widths(const Node& node, size_t inputs);

/// Imputer: what takes the place of a value, one for all features or one for each.
struct ImputedValues {
  std::vector<double> with;
  double replaced = 0;
};
ImputedValues imputed_values(const Node& node, DType type, int64_t features);
/// One of them as an element: a double next to 2^63 is beyond int64_t.
template <class T> T imputed(double v) {
  if constexpr (std::is_integral_v<T>)
    return truncated<T>(v);
  else
    return static_cast<T>(v);
}

}  // namespace smelt::ops
