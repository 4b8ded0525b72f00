// What the operators on features are by their attributes.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/error.h"
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

/// Imputer: what takes the place of a value, for elements of T. Integers are compared by all their bits.
template <class T> class Imputed {
 public:
  Imputed(const Node& node, int64_t features) {
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      for (const int64_t v : node.get_ints("imputed_value_int64s"))
        with_.push_back(static_cast<T>(std::clamp<int64_t>(v, Limits::min(), Limits::max())));
      replaced_ = node.get_int("replaced_value_int64", 0);
    } else {
      for (const float v : node.get_floats("imputed_value_floats")) with_.push_back(v);
      replaced_ = node.get_float("replaced_value_float", 0);
      of_nan_ = std::isnan(replaced_);
    }
    if (with_.size() != 1 && static_cast<int64_t>(with_.size()) != features)
      fail("{} imputed values, expected 1 or {}", with_.size(), features);
    if (with_.size() == 1) with_.assign(static_cast<size_t>(features), T{with_[0]});
  }
  T operator()(T v, int64_t feature) const {
    const bool hit = of_nan_ ? v != v : static_cast<Wide>(v) == replaced_;
    return hit ? with_[static_cast<size_t>(feature)] : v;
  }

 private:
  using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
  std::vector<T> with_;
  Wide replaced_ = 0;
  bool of_nan_ = false;
};

}  // namespace smelt::ops
