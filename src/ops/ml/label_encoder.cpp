// LabelEncoder: a table from values of one type to values of another.
#include <cstring>
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
  const Tensor keys = label_column(c.node, "keys", type), values = label_column(c.node, "values", type);
  Tensor missing = label_otherwise(c.node, values.type());
  std::vector<double> floats;
  std::vector<int64_t> integers;
  if (is_float(type)) floats = c.in(0).to_doubles();
  if (!is_float(type) && type != DType::string) integers = c.in(0).to_ints();
  const LabelTable table(keys);
  const auto row = [&, type](size_t at) {
    if (type == DType::string) return table.row(c.in(0).strings()[at]);
    return is_float(type) ? table.row(floats[at]) : table.row(integers[at]);
  };
  if (values.type() != DType::string) missing = missing.cast(values.type());
  const auto size = static_cast<size_t>(bytes(values.type(), 1));
  for (size_t i = 0; i < static_cast<size_t>(c.in(0).size()); ++i) {
    const int64_t at = row(i);
    if (values.type() == DType::string)
      c.outputs[0].strings()[i] = at < 0 ? missing.strings().at(0) : values.strings()[static_cast<size_t>(at)];
    else
      std::memcpy(static_cast<char*>(c.outputs[0].raw()) + i * size,
                  at < 0 ? missing.raw() : static_cast<const char*>(values.raw()) + static_cast<size_t>(at) * size, size);
  }
}

}  // namespace smelt::ops
