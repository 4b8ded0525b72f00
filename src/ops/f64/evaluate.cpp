#include "ops/f64/evaluate.h"

#include <algorithm>

#include "ops/core/interpreter.h"
#include "ops/f64/gemm.h"
#include "ops/f64/products.h"

namespace smelt::ops {
namespace {

bool is_promoted(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; }
DType promoted(DType t) { return is_promoted(t) ? DType::f64 : t; }
Tensor promoted(const Tensor& t) { return t.valid() && is_promoted(t.type()) ? t.cast(DType::f64) : t; }

/// The integer attributes that hold an element type, whichever operator has them.
constexpr const char* type_attributes[] = {"to", "dtype", "output_dtype", "output_datatype", "stash_type", "softmax_precision"};

/// The same node asking for f64 wherever it asked for a wider or narrower float.
Node promoted(const Node& node) {
  Node n = node;
  for (const char* name : type_attributes) {
    const auto at = n.attrs.find(name);
    if (at == n.attrs.end()) continue;
    if (auto* code = std::get_if<int64_t>(&at->second); code && is_promoted(static_cast<DType>(*code)))
      *code = static_cast<int64_t>(DType::f64);
  }
  for (auto& [name, value] : n.attrs) {
    if (auto* t = std::get_if<Tensor>(&value)) *t = promoted(*t);
  }
  if (n.is("Constant")) {
    if (n.has("value_float")) {
      n.attrs["value"] = Tensor::scalar<double>(n.get_float("value_float", 0));
      n.attrs.erase("value_float");
    } else if (n.has("value_floats")) {
      const std::vector<float> values = n.get_floats("value_floats");
      n.attrs["value"] = Tensor::of<double>({static_cast<int64_t>(values.size())}, {values.begin(), values.end()});
      n.attrs.erase("value_floats");
    }
  } else if (n.is("ConstantOfShape") && !n.has("value")) {
    n.attrs["value"] = Tensor::of<double>({1}, {0.0});
  }
  return n;
}

bool has_types(const Node& node) {
  if (node.is("Constant") || node.is("ConstantOfShape")) return true;
  return std::any_of(node.attrs.begin(), node.attrs.end(), [](const auto& attr) {
    return std::holds_alternative<Tensor>(attr.second) || std::any_of(std::begin(type_attributes), std::end(type_attributes),
                                                                      [&](const char* name) { return attr.first == name; });
  });
}

}  // namespace

std::vector<Tensor> evaluate_f64(const Graph& g, std::span<const Tensor> inputs, int threads) {
  if (threads <= 0) threads = f64::available_threads();
  const RunGraph body = [threads](const Graph& sub, std::span<const Tensor> in) { return evaluate_f64(sub, in, threads); };
  const auto run_node = [&](const Node& node, std::span<const Tensor> in) {
    if (Tensor y = f64::product(node, in, threads); y.valid()) return std::vector<Tensor>{std::move(y)};
    const auto widen = [](std::span<TensorDesc> outputs) {
      for (TensorDesc& d : outputs) d.type = promoted(d.type);
    };
    std::vector<Tensor> out = run_reference(has_types(node) ? promoted(node) : node, in, body, widen);
    for (Tensor& t : out) t = promoted(t);
    return out;
  };
  std::vector<Tensor> wide;
  for (const Tensor& t : inputs) wide.push_back(promoted(t));
  return interpret(g, wide, {run_node, [](const Tensor& t) { return promoted(t); }});
}

}  // namespace smelt::ops
