#include "import/proto.h"

#include <algorithm>

#include "base/error.h"

namespace smelt::importer {

void for_each_graph(onnx::GraphProto& graph, const std::function<void(onnx::GraphProto&)>& f) {
  f(graph);
  for (auto& node : *graph.mutable_node()) {
    for (auto& a : *node.mutable_attribute()) {
      if (a.has_g()) for_each_graph(*a.mutable_g(), f);
      for (auto& g : *a.mutable_graphs()) for_each_graph(g, f);
    }
  }
}

void for_each_node(onnx::ModelProto& model, const std::function<void(onnx::NodeProto&)>& f) {
  auto nodes_of = [&](onnx::GraphProto& g) {
    for (auto& node : *g.mutable_node()) f(node);
  };
  for_each_graph(*model.mutable_graph(), nodes_of);
  for (auto& function : *model.mutable_functions()) {
    for (auto& node : *function.mutable_node()) {
      f(node);
      for (auto& a : *node.mutable_attribute()) {
        if (a.has_g()) for_each_graph(*a.mutable_g(), nodes_of);
        for (auto& g : *a.mutable_graphs()) for_each_graph(g, nodes_of);
      }
    }
  }
}

const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, std::string_view name) {
  for (const auto& a : node.attribute())
    if (a.name() == name) return &a;
  return nullptr;
}

const std::string* find_metadata(const onnx::NodeProto& node, std::string_view key) {
  for (const auto& e : node.metadata_props())
    if (e.key() == key) return &e.value();
  return nullptr;
}

void set_metadata(onnx::NodeProto& node, const std::string& key, const std::string& value) {
  for (auto& e : *node.mutable_metadata_props()) {
    if (e.key() == key) {
      e.set_value(value);
      return;
    }
  }
  auto* e = node.add_metadata_props();
  e->set_key(key);
  e->set_value(value);
}

std::string describe(const onnx::NodeProto& node) {
  return fmt::format("'{}' ({}{}{})", node.name(), node.domain(), node.domain().empty() ? "" : "::", node.op_type());
}

static std::string shape_text(const onnx::TensorShapeProto& shape) {
  std::string s = "[";
  for (int i = 0; i < shape.dim_size(); ++i) {
    const auto& d = shape.dim(i);
    if (i) s += ", ";
    s += d.has_dim_value() ? std::to_string(d.dim_value()) : d.has_dim_param() && !d.dim_param().empty() ? d.dim_param() : "?";
  }
  return s + "]";
}

static std::string element_text(int32_t type) {
  const auto name_of = type >= 0 && type <= 26 ? name(static_cast<DType>(type)) : std::string_view{};
  return name_of.empty() ? fmt::format("type {}", type) : std::string(name_of);
}

std::string describe(const onnx::TypeProto& type) {
  switch (type.value_case()) {
    case onnx::TypeProto::kTensorType:
      return element_text(type.tensor_type().elem_type()) +
             (type.tensor_type().has_shape() ? shape_text(type.tensor_type().shape()) : "[...]");
    case onnx::TypeProto::kSparseTensorType: return "sparse " + element_text(type.sparse_tensor_type().elem_type());
    case onnx::TypeProto::kSequenceType: return "seq(" + describe(type.sequence_type().elem_type()) + ")";
    case onnx::TypeProto::kOptionalType: return "optional(" + describe(type.optional_type().elem_type()) + ")";
    case onnx::TypeProto::kMapType: return "map(" + describe(type.map_type().value_type()) + ")";
    default: return "?";
  }
}

std::string one_line(std::string_view text) {
  std::string out;
  for (char c : text) {
    const bool space = c == '\n' || c == '\r' || c == '\t' || c == ' ';
    if (space && (out.empty() || out.back() == ' ')) continue;
    out += space ? ' ' : c;
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out.size() > 600 ? out.substr(0, 600) + " …" : out;
}

DType dtype_of_onnx(int32_t type, const std::string& what) {
  if (type >= 1 && type <= static_cast<int32_t>(DType::i2)) return static_cast<DType>(type);
  const std::string& known = onnx::TensorProto_DataType_Name(static_cast<onnx::TensorProto_DataType>(type));
  fail_unsupported("{} has element type {} ({}), which smelt does not have", what, type, known.empty() ? "unknown" : known);
}

int64_t opset_of(const onnx::ModelProto& model) {
  for (const auto& o : model.opset_import())
    if (o.domain().empty()) return o.version();
  return 0;
}

}  // namespace smelt::importer
