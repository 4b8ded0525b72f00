// The model's proto, checked, inferred and upgraded → Graph.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "import/schema.h"
#include "import/stages.h"
#include "import/tensors.h"
#include "import/to_proto.h"

namespace smelt::importer {

namespace {

std::pair<DType, std::optional<SymShape>> type_of(const onnx::TypeProto& type, const std::string& what) {
  if (type.value_case() == onnx::TypeProto::VALUE_NOT_SET) return {DType::undefined, {}};
  if (!type.has_tensor_type()) fail_unsupported("{} is {}; smelt runs tensors only", what, describe(type));
  const auto& tensor = type.tensor_type();
  const DType element = tensor.elem_type() == 0 ? DType::undefined : dtype_of_onnx(tensor.elem_type(), what);
  if (!tensor.has_shape()) return {element, {}};
  SymShape shape;
  for (const auto& d : tensor.shape().dim()) {
    if (d.has_dim_value() && d.dim_value() < 0) fail("{} is {}: a dimension is negative", what, describe(type));
    shape.push_back(d.has_dim_value() ? Dim(d.dim_value()) : d.has_dim_param() ? Dim(d.dim_param()) : Dim());
  }
  if (is_static(shape)) {
    try {
      bytes(element, elements(to_shape(shape)));
    } catch (const std::exception&) {
      fail("{} is {}: its size overflows 63 bits", what, describe(type));
    }
  }
  return {element, std::move(shape)};
}

Tensor constant_of(const onnx::NodeProto& n, const Loaded& model) {
  const std::string what = describe(n);
  if (n.attribute_size() != 1) fail("node {}: expected one attribute with the value, found {}", what, n.attribute_size());
  const auto& a = n.attribute(0);
  const auto ints = [&] { return std::vector<int64_t>(a.ints().begin(), a.ints().end()); };
  if (a.name() == "value" && a.has_t()) return read_tensor(a.t(), model);
  if (a.name() == "value_float") return Tensor::scalar<float>(a.f());
  if (a.name() == "value_int") return Tensor::scalar<int64_t>(a.i());
  if (a.name() == "value_string") return Tensor::of_strings({}, {a.s()});
  if (a.name() == "value_floats") return Tensor::of<float>({a.floats_size()}, {a.floats().begin(), a.floats().end()});
  if (a.name() == "value_ints") return Tensor::of<int64_t>({a.ints_size()}, ints());
  if (a.name() == "value_strings") return Tensor::of_strings({a.strings_size()}, {a.strings().begin(), a.strings().end()});
  fail("node {}: the attribute '{}' is no value of a constant", what, a.name());
}

// The checker has made sure of this for the file. But a function's body loses an input that its call leaves out, and the checker
// allows gaps among a variable number of inputs.
void check_present(const onnx::NodeProto& n, int opset) {
  const auto* schema = find_schema(n.op_type(), opset, n.domain());
  if (!schema) return;
  const auto check = [&](const char* kind, const auto& formal, int least, const auto& actual) {
    for (int i = 0; i < std::max(least, actual.size()); ++i) {
      if (formal.empty() || (i >= static_cast<int>(formal.size()) && formal.back().GetOption() != onnx::OpSchema::Variadic))
        fail("node {}: {} {}s, expected at most {}", describe(n), actual.size(), kind, formal.size());
      const auto& parameter = formal[std::min(static_cast<size_t>(i), formal.size() - 1)];
      const bool unread = i > 0 && *kind == 'o' && parameter.GetOption() == onnx::OpSchema::Variadic;  // parts of a Split
      if (parameter.GetOption() == onnx::OpSchema::Optional || unread || (i < actual.size() && !actual[i].empty())) continue;
      fail("node {}: {} {} ({}) is left out, but it is required", describe(n), kind, i, parameter.GetName());
    }
  };
  check("input", schema->inputs(), schema->min_input(), n.input());
  check("output", schema->outputs(), std::min(schema->min_output(), 1), n.output());
}

class Builder {
 public:
  Builder(const Loaded& model, const onnx::GraphProto& proto, const Builder* outer, const OnFused& fused)
      : model_(model), proto_(proto), outer_(outer), fused_(fused) {}

  /// `captured`: outer values that become inputs after the formal ones.
  Graph run(const std::vector<std::string>& captured) {
    graph_.name = proto_.name();
    for (const auto& v : proto_.value_info()) types_[v.name()] = &v.type();
    for (const auto& v : proto_.output())
      if (v.has_type()) types_[v.name()] = &v.type();  // otherwise inference put it among the values
    for (const auto& v : proto_.input()) {
      types_[v.name()] = &v.type();
      graph_.add_input(define(v.name(), "input"));
    }
    for (const auto& name : captured) {
      const Value& v = outer_->graph_.value(outer_->lookup(name));
      graph_.add_input(values_[name] = graph_.add_value(name, v.type, v.shape));
    }
    for (const auto& t : proto_.initializer()) {
      if (values_.contains(t.name())) fail("'{}' is defined twice: as an input and an initializer", t.name());
      values_[t.name()] = graph_.add_constant(t.name(), read_tensor(t, model_));
    }
    for (const auto& n : proto_.node()) add(n);
    for (const auto& v : proto_.output()) {
      if (!values_.contains(v.name())) pull_constant(v.name());
      graph_.add_output(lookup(v.name()));
    }
    return std::move(graph_);
  }

 private:
  ValueId define(const std::string& name, const char* kind) {
    if (values_.contains(name)) fail("value '{}' is defined twice; the second time as {}", name, kind);
    const auto type = types_.find(name);
    const auto [element, shape] =
        type == types_.end() ? std::pair<DType, std::optional<SymShape>>{} : type_of(*type->second, "value '" + name + "'");
    return values_[name] = graph_.add_value(name, element, shape);
  }

  ValueId lookup(const std::string& name) const {
    const auto it = values_.find(name);
    if (it == values_.end()) fail("value '{}' is read but nothing before its reader defines it", name);
    return it->second;
  }

  const Tensor* outer_constant(const std::string& name) const {
    for (const Builder* b = outer_; b; b = b->outer_) {
      const auto it = b->values_.find(name);
      if (it == b->values_.end()) continue;
      const Tensor& t = b->graph_.value(it->second).constant;
      return t.valid() ? &t : nullptr;
    }
    return nullptr;
  }

  // A constant of an outer graph becomes one of this graph: its bytes are shared, and shape rules can read it.
  bool pull_constant(const std::string& name) {
    if (values_.contains(name)) return true;
    const Tensor* t = outer_constant(name);
    if (t) values_[name] = graph_.add_constant(name, *t);
    return t;
  }

  void add(const onnx::NodeProto& n) {
    if (n.op_type() == "Constant" && n.domain().empty()) {
      if (n.output_size() != 1 || values_.contains(n.output(0))) fail("node {}: expected one output of its own", describe(n));
      values_[n.output(0)] = graph_.add_constant(n.output(0), constant_of(n, model_));
      return;
    }
    Node node;
    node.domain = n.domain();
    node.op = n.op_type();
    node.name = unique_name(n.name());
    for (const auto& o : model_.proto.opset_import())
      if (o.domain() == n.domain()) node.opset = static_cast<int>(o.version());
    check_present(n, node.opset);
    for (const auto& in : n.input()) {
      if (!in.empty()) pull_constant(in);
      node.inputs.push_back(in.empty() ? ValueId::none : lookup(in));
    }
    add_bodies(n, node);
    for (const auto& a : n.attribute()) {
      if (a.has_g() || a.graphs_size() > 0) continue;
      if (a.name() == "auto_pad" && a.type() == onnx::AttributeProto::STRING && a.s().empty()) continue;  // as NOTSET
      node.attrs[a.name()] = attribute(a, n);
    }
    for (const auto& out : n.output())
      node.outputs.push_back(out.empty() ? ValueId::none : define(out, "an output of " + describe(n)));
    if (const auto* indices = find_metadata(n, source_key)) add_sources(*indices, node);
    if (n.domain() == smelt_domain) {
      if (const auto program = node.attrs.find(program_attribute); program != node.attrs.end()) {
        node.program = expr::Program::parse(node.get_string(program_attribute, ""));
        node.attrs.erase(program);
      }
    }
    const bool is_fused = node.domain == smelt_domain;
    const NodeId id = graph_.add_node(std::move(node));
    if (is_fused) fused_(graph_, id, n);
  }

  ValueId define(const std::string& name, const std::string& kind) { return define(name, kind.c_str()); }

  void add_bodies(const onnx::NodeProto& n, Node& node) {
    std::vector<const onnx::AttributeProto*> bodies;
    std::vector<std::string> captured;
    std::unordered_set<std::string> is_captured;
    for (const auto& a : n.attribute()) {
      if (a.graphs_size() > 0) fail_unsupported("node {}: attribute '{}' is a list of graphs", describe(n), a.name());
      if (!a.has_g()) continue;
      bodies.push_back(&a);
    }
    // In the order of their names, so that the order of a file's attributes does not matter.
    std::sort(bodies.begin(), bodies.end(), [](const auto* a, const auto* b) { return a->name() < b->name(); });
    for (const auto* a : bodies) {
      for (const auto& name : free_names(a->g())) {
        if (pull_constant(name) && graph_.value(lookup(name)).is_constant()) continue;  // bodies have their own copy
        lookup(name);
        if (is_captured.insert(name).second) captured.push_back(name);
      }
    }
    if (bodies.empty()) return;
    for (const auto& name : captured) node.inputs.push_back(lookup(name));
    node.attrs["captured"] = static_cast<int64_t>(captured.size());
    for (const auto* a : bodies)
      node.attrs[a->name()] = std::make_shared<Graph>(Builder(model_, a->g(), this, fused_).run(captured));
  }

  Attribute attribute(const onnx::AttributeProto& a, const onnx::NodeProto& n) {
    switch (a.type()) {
      case onnx::AttributeProto::INT: return a.i();
      case onnx::AttributeProto::FLOAT: return a.f();
      case onnx::AttributeProto::STRING: return a.s();
      case onnx::AttributeProto::TENSOR: return read_tensor(a.t(), model_);
      case onnx::AttributeProto::INTS: return std::vector<int64_t>(a.ints().begin(), a.ints().end());
      case onnx::AttributeProto::FLOATS: return std::vector<float>(a.floats().begin(), a.floats().end());
      case onnx::AttributeProto::STRINGS: return std::vector<std::string>(a.strings().begin(), a.strings().end());
      default:
        fail_unsupported("node {}: attribute '{}' is of type {}", describe(n), a.name(),
                         onnx::AttributeProto_AttributeType_Name(a.type()));
    }
  }

  std::string unique_name(const std::string& name) {
    std::string out = name;
    while (!node_names_.insert(out).second) out = name + "_" + std::to_string(++next_name_[name]);
    return out;
  }

  void add_sources(const std::string& indices, Node& node) {
    for (size_t at = 0; at < indices.size();) {
      const size_t comma = std::min(indices.find(',', at), indices.size());
      const size_t global = std::stoul(indices.substr(at, comma - at));
      const auto [it, fresh] = source_index_.insert({global, static_cast<int32_t>(graph_.sources().size())});
      if (fresh) graph_.sources().push_back(model_.sources.at(global));
      node.sources.push_back(it->second);
      at = comma + 1;
    }
  }

  const Loaded& model_;
  const onnx::GraphProto& proto_;
  const Builder* outer_;
  const OnFused& fused_;
  Graph graph_;
  // Names are those of the message, or of `captured`.
  std::unordered_map<std::string_view, ValueId> values_;
  std::unordered_map<std::string_view, const onnx::TypeProto*> types_;
  std::unordered_set<std::string> node_names_;
  std::unordered_map<std::string, int> next_name_;
  std::unordered_map<size_t, int32_t> source_index_;
};

// Every value that is read needs an element type; ONNX's inference finds none behind operators without a schema.
void check_types(const Graph& g) {
  for (size_t i = 0; i < g.node_count(); ++i) {
    const Node& n = g.node(static_cast<NodeId>(i));
    for (ValueId v : n.outputs) {
      if (v == ValueId::none || g.value(v).type != DType::undefined || (g.readers(v).empty() && !g.is_output(v))) continue;
      throw Error(fmt::format("the type of '{}', an output of {}, is not known", g.value(v).name,
                              smelt::describe(g, static_cast<NodeId>(i))),
                  "Add a value_info entry for it to the model.", ExitCode::unsupported);
    }
    for (const auto& [name, a] : n.attrs)
      if (const auto* sub = std::get_if<GraphPtr>(&a)) check_types(**sub);
  }
}

}  // namespace

Graph to_graph(const Loaded& model, const OnFused& fused) {
  Graph g = Builder(model, model.proto.graph(), nullptr, fused).run({});
  check_types(g);
  return g;
}

}  // namespace smelt::importer
