// LabelEncoder's tables: from values of one type to values of another.
#pragma once

#include <cmath>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/core/operator.h"

namespace smelt::ops {

/// keys_* or values_* as one tensor, whichever attribute holds them, for an input of this type.
Tensor label_column(const Node& node, const std::string& prefix, DType input);
/// What an element misses the table with, of the values' type.
Tensor label_otherwise(const Node& node, DType type);

/// Row of each key; the last of equal keys counts, and all NaNs are one key.
class LabelTable {
 public:
  explicit LabelTable(const Tensor& keys) : strings_(keys.type() == DType::string) {
    for (int64_t i = 0; i < keys.size(); ++i) {
      if (strings_) by_text_[keys.strings()[static_cast<size_t>(i)]] = i;
    }
    if (strings_) return;
    const std::vector<double> v = keys.to_doubles();
    for (size_t i = 0; i < v.size(); ++i) {
      if (std::isnan(v[i]))
        nan_row_ = static_cast<int64_t>(i);
      else
        by_number_[v[i]] = static_cast<int64_t>(i);
    }
    list_small_keys();
  }
  /// The rows of the whole numbers from 0 on, -1 where there is none; other keys are not among them.
  const std::vector<int64_t>& small_rows() const { return by_key_; }
  /// -1 when there is no such key.
  int64_t row(const std::string& key) const {
    const auto it = by_text_.find(key);
    return it == by_text_.end() ? -1 : it->second;
  }
  int64_t row(double key) const {
    if (std::isnan(key)) return nan_row_;
    if (!by_key_.empty() && key >= 0 && key < static_cast<double>(by_key_.size())) {
      const auto at = static_cast<size_t>(key);
      return static_cast<double>(at) == key ? by_key_[at] : -1;
    }
    const auto it = by_number_.find(key);
    return it == by_number_.end() ? -1 : it->second;
  }

 private:
  /// Whole numbers from 0 on, as labels mostly are, are looked up in a list.
  void list_small_keys() {
    constexpr double most = 1 << 16;
    double last = -1;
    for (const auto& [key, row] : by_number_)
      if (key < most && key > last) last = key;
    by_key_.assign(static_cast<size_t>(last + 1), -1);
    for (const auto& [key, row] : by_number_)
      if (key >= 0 && key < most && key == std::floor(key)) by_key_[static_cast<size_t>(key)] = row;
  }

  bool strings_;
  std::unordered_map<std::string, int64_t> by_text_;
  std::unordered_map<double, int64_t> by_number_;
  std::vector<int64_t> by_key_;
  int64_t nan_row_ = -1;
};

}  // namespace smelt::ops
