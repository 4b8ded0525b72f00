// LabelEncoder: a table from values of one type to values of another.
#include <numeric>

#include "base/error.h"
#include "ops/core/list_inputs.h"
#include "ops/ml/label_table.h"
#include "ops/ml/ml.h"

namespace smelt::ops {
namespace {

/// Of version 1, where the keys are strings or their places by the type of the input.
Tensor classes_column(const Node& node, bool strings) {
  const std::vector<std::string> v = node.get_strings("classes_strings");
  if (strings) return Tensor::of_strings({static_cast<int64_t>(v.size())}, v);
  std::vector<int64_t> places(v.size());
  std::iota(places.begin(), places.end(), int64_t{0});
  return Tensor::of<int64_t>({static_cast<int64_t>(v.size())}, places);
}

}  // namespace

Tensor label_column(const Node& node, const std::string& prefix, DType input) {
  if (node.has("classes_strings")) return classes_column(node, (prefix == "keys") == (input == DType::string));
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

Tensor label_otherwise(const Node& node, DType type) {
  if (const Tensor t = node.get_tensor("default_tensor"); t.valid()) {
    if (t.size() < 1) fail("default_tensor has no elements");
    return t;
  }
  if (type == DType::string) return Tensor::of_strings({}, {node.get_string("default_string", "_Unused")});
  if (is_float(type)) return Tensor::scalar(node.get_float("default_float", -0.0f)).cast(type);
  return Tensor::scalar(node.get_int("default_int64", -1)).cast(type);
}

void infer_label_encoder(InferContext& c) {
  const DType type = type_of(c, 0);
  const Tensor keys = label_column(c.node, "keys", type), values = label_column(c.node, "values", type);
  if (keys.size() != values.size()) fail("{} keys and {} values", keys.size(), values.size());
  if ((keys.type() == DType::string) != (type_of(c, 0) == DType::string))
    fail("keys are {}, the input is {}", name(keys.type()), name(type_of(c, 0)));
  c.set(0, values.type(), c.shape(0));
}

void run_label_encoder(ComputeContext& c) {
  const DType type = c.in(0).type();
  const Tensor keys = label_column(c.node, "keys", type), values = label_column(c.node, "values", type),
               missing = label_otherwise(c.node, values.type());
  const LabelTable table(keys);
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
