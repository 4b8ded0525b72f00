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

/// Row of each key; the last of equal keys counts, and all NaNs are one key. Integers are told apart by all 64 bits.
class LabelTable {
 public:
  explicit LabelTable(const Tensor& keys) {
    const auto count = static_cast<size_t>(keys.size());
    if (keys.type() == DType::string) {
      for (size_t i = 0; i < count; ++i) by_text_[keys.strings()[i]] = static_cast<int64_t>(i);
    } else if (is_float(keys.type())) {
      const std::vector<double> v = keys.to_doubles();
      for (size_t i = 0; i < count; ++i) add(v[i], static_cast<int64_t>(i));
    } else {
      const std::vector<int64_t> v = keys.to_ints();
      for (size_t i = 0; i < count; ++i) by_integer_[v[i]] = static_cast<int64_t>(i);
    }
    list_small_keys();
  }
  /// The rows of the whole numbers from 0 on, -1 where there is none; other keys are not among them.
  const std::vector<int64_t>& small_rows() const { return small_; }
  /// -1 when there is no such key.
  int64_t row(const std::string& key) const { return found(by_text_, key); }
  int64_t row(int64_t key) const {
    return key >= 0 && key < static_cast<int64_t>(small_.size()) ? small_[static_cast<size_t>(key)] : found(by_integer_, key);
  }
  int64_t row(double key) const {
    if (std::isnan(key)) return nan_row_;
    return is_integer(key) ? row(static_cast<int64_t>(key)) : found(by_number_, key);
  }

 private:
  template <class Map, class Key> static int64_t found(const Map& rows, const Key& key) {
    const auto it = rows.find(key);
    return it == rows.end() ? -1 : it->second;
  }
  /// Whole, and within int64_t: -2^63 is, 2^63 is not.
  static bool is_integer(double v) { return v >= -0x1p63 && v < 0x1p63 && v == std::trunc(v); }
  void add(double key, int64_t row) {
    if (std::isnan(key))
      nan_row_ = row;
    else if (is_integer(key))
      by_integer_[static_cast<int64_t>(key)] = row;
    else
      by_number_[key] = row;
  }

  /// Whole numbers from 0 on, as labels mostly are, are looked up in a list.
  void list_small_keys() {
    constexpr int64_t most = 1 << 16;
    int64_t last = -1;
    for (const auto& [key, row] : by_integer_)
      if (key < most && key > last) last = key;
    small_.assign(static_cast<size_t>(last + 1), -1);
    for (const auto& [key, row] : by_integer_)
      if (key >= 0 && key < most) small_[static_cast<size_t>(key)] = row;
  }

  std::unordered_map<std::string, int64_t> by_text_;
  std::unordered_map<int64_t, int64_t> by_integer_;  // also of floats that are whole
  std::unordered_map<double, int64_t> by_number_;    // other floats
  std::vector<int64_t> small_;
  int64_t nan_row_ = -1;
};

}  // namespace smelt::ops
