#include "import/sequence_values.h"

#include "import/tensors.h"

namespace smelt::importer {

const onnx::TypeProto::Tensor* Scope::tensor_type(const std::string& name) const {
  const auto* type = find(&Scope::types, name);
  return type && type->has_tensor_type() ? &type->tensor_type() : nullptr;
}

std::optional<int64_t> Scope::rank(const std::string& name) const {
  const auto* t = tensor_type(name);
  return t && t->has_shape() ? std::optional<int64_t>(t->shape().dim_size()) : std::nullopt;
}

std::optional<int64_t> Scope::extent(const std::string& name, int64_t axis) const {
  const auto r = rank(name);
  if (!r || axis < -*r || axis >= *r) return std::nullopt;
  const auto& d = tensor_type(name)->shape().dim(static_cast<int>(axis < 0 ? axis + *r : axis));
  return d.has_dim_value() ? std::optional<int64_t>(d.dim_value()) : std::nullopt;
}

std::optional<Tensor> Scope::constant(const std::string& name, const Loaded& model) const {
  const auto* t = find(&Scope::constants, name);
  if (!t || (t->data_type() != onnx::TensorProto::INT64 && t->data_type() != onnx::TensorProto::INT32)) return std::nullopt;
  return read_tensor(*t, model);
}

Scope scope_of(const onnx::GraphProto& g, const Scope* outer) {
  Scope scope{outer};
  for (const auto* values : {&g.input(), &g.value_info(), &g.output()})
    for (const auto& v : *values)
      if (v.has_type()) scope.types[v.name()] = v.type();
  for (const auto& t : g.initializer()) {
    auto& type = scope.types[t.name()] = {};
    type.mutable_tensor_type()->set_elem_type(t.data_type());
    type.mutable_tensor_type()->mutable_shape();
    for (const int64_t d : t.dims()) type.mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(d);
    scope.constants[t.name()] = t;
  }
  return scope;
}

void note_constant(const onnx::NodeProto& n, Scope& scope) {
  onnx::TensorProto t;
  t.set_data_type(onnx::TensorProto::INT64);
  if (const auto* value = find_attribute(n, "value")) {
    t = value->t();
  } else if (const auto* one = find_attribute(n, "value_int")) {
    t.add_int64_data(one->i());
  } else if (const auto* list = find_attribute(n, "value_ints")) {
    t.add_dims(list->ints_size());
    for (const int64_t i : list->ints()) t.add_int64_data(i);
  } else {
    return;
  }
  scope.constants[n.output(0)] = std::move(t);
}

}  // namespace smelt::importer
