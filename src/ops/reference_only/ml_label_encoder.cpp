// LabelEncoder: a table from values of one type to values of another.
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "ops/core/list_inputs.h"
#include "ops/reference_only/ml.h"

namespace smelt::ops {
namespace {

/// keys_* or values_* as one tensor, whichever attribute holds them.
Tensor column(const Node& node, const std::string& prefix) {
  if (const Tensor t = node.get_tensor(prefix + "_tensor"); t.valid()) return t;
  if (node.has(prefix + "_strings")) {
    const std::vector<std::string> v = node.get_strings(prefix + "_strings");
    return Tensor::of_strings({static_cast<int64_t>(v.size())}, v);
  }
  if (node.has(prefix + "_int64s")) {
    const std::vector<int64_t> v = node.get_ints(prefix + "_int64s");
    return Tensor::of<int64_t>({static_cast<int64_t>(v.size())}, v);
  }
  if (node.has(prefix + "_floats")) {
    const std::vector<float> v = node.get_floats(prefix + "_floats");
    return Tensor::of<float>({static_cast<int64_t>(v.size())}, v);
  }
  fail("none of the attributes {}_* is given", prefix);
}

/// What an element misses the table with.
Tensor otherwise(const Node& node, DType type) {
  if (const Tensor t = node.get_tensor("default_tensor"); t.valid()) return t;
  if (type == DType::string) return Tensor::of_strings({}, {node.get_string("default_string", "_Unused")});
  if (is_float(type)) return Tensor::scalar(node.get_float("default_float", -0.0f)).cast(type);
  return Tensor::scalar(node.get_int("default_int64", -1)).cast(type);
}

/// Row of each key; the last of equal keys counts, and all NaNs are one key.
class Table {
 public:
  explicit Table(const Tensor& keys) : strings_(keys.type() == DType::string) {
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

}  // namespace

void infer_label_encoder(InferContext& c) {
  const Tensor keys = column(c.node, "keys"), values = column(c.node, "values");
  if (keys.size() != values.size()) fail("{} keys and {} values", keys.size(), values.size());
  if ((keys.type() == DType::string) != (type_of(c, 0) == DType::string))
    fail("keys are {}, the input is {}", name(keys.type()), name(type_of(c, 0)));
  c.set(0, values.type(), c.shape(0));
}

void run_label_encoder(ComputeContext& c) {
  const Tensor keys = column(c.node, "keys"), values = column(c.node, "values"), missing = otherwise(c.node, values.type());
  const Table table(keys);
  const bool text_in = keys.type() == DType::string, text_out = values.type() == DType::string;
  const std::vector<double> numbers = text_in ? std::vector<double>{} : c.in(0).to_doubles();
  const std::vector<double> results = text_out ? std::vector<double>{} : values.to_doubles();
  const double missed = text_out ? 0 : missing.to_doubles().at(0);
  std::vector<double> out;
  if (!text_out) out.reserve(static_cast<size_t>(c.in(0).size()));
  for (int64_t i = 0; i < c.in(0).size(); ++i) {
    const size_t at = static_cast<size_t>(i);
    const int64_t row = text_in ? table.row(c.in(0).strings()[at]) : table.row(numbers[at]);
    if (text_out)
      c.outputs[0].strings()[at] = row < 0 ? missing.strings().at(0) : values.strings()[static_cast<size_t>(row)];
    else
      out.push_back(row < 0 ? missed : results[static_cast<size_t>(row)]);
  }
  if (!text_out) store_doubles(out, c.outputs[0]);
}

}  // namespace smelt::ops
