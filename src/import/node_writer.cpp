#include "import/node_writer.h"

#include <fmt/format.h>

namespace smelt::importer {

void set_int(onnx::NodeProto& n, const char* name, int64_t value) {
  auto& a = *n.add_attribute();
  a.set_name(name);
  a.set_type(onnx::AttributeProto::INT);
  a.set_i(value);
}

onnx::NodeProto& NodeWriter::emit(const onnx::NodeProto& n, const char* op, const std::vector<std::string>& inputs,
                                  const std::vector<std::string>& outputs, const std::string& suffix) {
  onnx::NodeProto& made = *out_->Add();
  made.set_op_type(op);
  made.set_name(n.name() + suffix);
  *made.mutable_metadata_props() = n.metadata_props();
  for (const auto& i : inputs) made.add_input(i);
  for (const auto& o : outputs) made.add_output(o);
  return made;
}

void NodeWriter::emit_constant(const onnx::NodeProto& n, int32_t type, const std::vector<int64_t>& values, bool vector,
                               const std::string& to, const std::string& suffix) {
  auto& a = *emit(n, "Constant", {}, {to}, suffix).add_attribute();
  a.set_name("value");
  a.set_type(onnx::AttributeProto::TENSOR);
  a.mutable_t()->set_data_type(type);
  if (vector) a.mutable_t()->add_dims(static_cast<int64_t>(values.size()));
  for (const int64_t v : values)
    type == onnx::TensorProto::BOOL ? a.mutable_t()->add_int32_data(static_cast<int32_t>(v)) : a.mutable_t()->add_int64_data(v);
}

std::string NodeWriter::emit_vector(const onnx::NodeProto& n, const std::vector<int64_t>& values, const std::string& what) {
  const std::string name = names_.fresh(n.name() + "/" + what);
  emit_constant(n, onnx::TensorProto::INT64, values, true, name, "/" + what);
  return name;
}

void NodeWriter::emit_concat(const onnx::NodeProto& n, std::vector<std::string> items, int64_t axis, bool new_axis,
                             const std::string& to, const std::string& suffix) {
  if (new_axis) {
    const std::string axes = emit_vector(n, {axis}, "axes" + suffix);
    for (size_t i = 0; i < items.size(); ++i) {
      const std::string place = fmt::format("/unsqueezed_{}{}", i, suffix), apart = names_.fresh(n.name() + place);
      emit(n, "Unsqueeze", {items[i], axes}, {apart}, place);
      items[i] = apart;
    }
  }
  set_int(emit(n, "Concat", items, {to}, suffix), "axis", axis);
}

NodeWriter::Renames NodeWriter::share_initializers(const onnx::NodeProto& n, const onnx::GraphProto& body) {
  Renames shared;
  for (const auto& t : body.initializer()) {
    auto& copy = *graph_->add_initializer() = t;
    copy.set_name(shared[t.name()] = names_.fresh(n.name() + "/" + t.name()));
  }
  return shared;
}

void NodeWriter::copy_nodes(const onnx::GraphProto& body, Renames& renames, const std::string& prefix) {
  for (onnx::NodeProto inner : body.node()) {
    rename(inner, renames, prefix);
    add(std::move(inner));
  }
}

void NodeWriter::rename(onnx::NodeProto& n, Renames& renames, const std::string& prefix) {
  n.set_name(prefix + n.name());
  for (auto& in : *n.mutable_input()) in = renamed(in, renames);
  for (auto& a : *n.mutable_attribute()) {
    if (a.has_g()) rename(*a.mutable_g(), renames, prefix);
    for (auto& g : *a.mutable_graphs()) rename(g, renames, prefix);
  }
  for (auto& o : *n.mutable_output()) {
    if (o.empty()) continue;
    const std::string name = names_.fresh(prefix + o);
    renames[o] = name;
    o = name;
  }
}

void NodeWriter::rename(onnx::GraphProto& g, Renames renames, const std::string& prefix) {
  for (auto& v : *g.mutable_input()) v.set_name(renames[v.name()] = names_.fresh(prefix + v.name()));
  for (auto& t : *g.mutable_initializer()) t.set_name(renames[t.name()] = names_.fresh(prefix + t.name()));
  g.clear_value_info();
  for (auto& n : *g.mutable_node()) rename(n, renames, prefix);
  for (auto& v : *g.mutable_output()) v.set_name(renamed(v.name(), renames));
}

}  // namespace smelt::importer
