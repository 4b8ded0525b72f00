#include "import/to_proto.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "base/error.h"
#include "base/file.h"
#include "graph/sequence_outputs.h"
#include "import/schema.h"
#include "import/stages.h"
#include "import/tensors.h"

namespace smelt::importer {

namespace {

onnx::AttributeProto make_attribute(const std::string& name, onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(type);
  return a;
}

void set_type(onnx::TypeProto& proto, DType type, const std::optional<SymShape>& shape) {
  auto& tensor = *proto.mutable_tensor_type();
  tensor.set_elem_type(static_cast<int32_t>(type));
  if (!shape) return;
  auto& dims = *tensor.mutable_shape();
  for (const Dim& d : *shape) {
    auto* out = dims.add_dim();
    if (d.known())
      out->set_dim_value(d.value);
    else if (!d.symbol.empty())
      out->set_dim_param(d.symbol);
  }
}

// The names of values that nested graphs must not use, from the outermost graph inwards.
struct Scope {
  const Scope* outer = nullptr;
  std::unordered_set<std::string> names;
  bool taken(const std::string& name) const { return names.contains(name) || (outer && outer->taken(name)); }
};

class Writer {
 public:
  Writer(const ExportOptions& options, StoreTensor store, onnx::ModelProto& model)
      : options_(options), store_(std::move(store)), model_(model) {}

  void main(const Graph& g) {
    auto& proto = *model_.mutable_graph();
    proto.set_name(g.name.empty() ? "graph" : g.name);
    Scope scope;
    Names_ names;
    for (ValueId v : g.inputs()) info(g, v, define(g, v, names, scope), *proto.add_input());
    body(g, proto, names, scope);
    const std::vector<SequenceOutput> sequences = sequences_in(g.model.metadata);
    for (size_t i = sequences.size(); i-- > 0;) join(sequences[i], proto, scope);
  }

 private:
  using Names_ = std::map<ValueId, std::string>;

  std::string define(const Graph& g, ValueId v, Names_& names, Scope& scope) {
    const std::string base = g.value(v).name;
    std::string name = base;
    for (int i = 1; scope.taken(name); ++i) name = base + "_" + std::to_string(i);
    scope.names.insert(name);
    return names[v] = name;
  }

  void info(const Graph& g, ValueId v, const std::string& name, onnx::ValueInfoProto& proto) {
    proto.set_name(name);
    const Value& value = g.value(v);
    if (value.type != DType::undefined) set_type(*proto.mutable_type(), value.type, value.shape);
  }

  // Writes all of a graph but its inputs, which `names` already knows.
  void body(const Graph& g, onnx::GraphProto& proto, Names_& names, Scope& scope) {
    const auto order = g.topological();
    for (size_t i = 0; i < g.value_count(); ++i) {
      const auto v = static_cast<ValueId>(i);
      if (!g.value(v).is_constant() || (g.readers(v).empty() && !g.is_output(v)) || names.contains(v)) continue;
      // A constant that a body took from the graph around it refers to that graph's constant, by name.
      if (const void* bytes = g.value(v).constant.raw(); scope.outer && bytes && !g.is_output(v)) {
        if (const auto it = constants_.find(g.value(v).name); it != constants_.end() && it->second == bytes) {
          names[v] = g.value(v).name;
          continue;
        }
      }
      auto& t = *proto.add_initializer();
      t.set_name(define(g, v, names, scope));
      store_(g.value(v).constant, t);
      if (!scope.outer) constants_[t.name()] = g.value(v).constant.raw();
    }
    for (NodeId id : order) {
      for (ValueId v : g.node(id).outputs)
        if (v != ValueId::none) define(g, v, names, scope);
    }
    for (NodeId id : order) {
      node(g, id, *proto.add_node(), names, scope);
      for (ValueId v : g.node(id).outputs)
        if (v != ValueId::none && !g.is_output(v) && g.value(v).type != DType::undefined)
          info(g, v, names[v], *proto.add_value_info());
    }
    for (ValueId v : g.outputs()) {
      auto& out = *proto.add_output();
      const bool own = scope.names.contains(names.at(v));
      info(g, v, own ? names.at(v) : passed_on(names.at(v), proto, scope), out);
    }
  }

  // A sequence, of the outputs that hold its items; it takes their place.
  void join(const SequenceOutput& s, onnx::GraphProto& proto, Scope& scope) {
    const int first = static_cast<int>(s.first), count = static_cast<int>(s.count);
    if (first > proto.output_size() || count > proto.output_size() - first)
      fail("sequence '{}' has outputs that are not there", s.name);
    std::string name = s.name;
    for (int i = 1; scope.taken(name); ++i) name = s.name + "_" + std::to_string(i);
    scope.names.insert(name);
    auto& n = *proto.add_node();
    n.set_op_type(s.stacked ? "SplitToSequence" : count == 0 ? "SequenceEmpty" : "SequenceConstruct");
    n.set_name(unique(n.op_type() + "_" + name));
    n.add_output(name);
    const auto set_int = [&](const char* key, int64_t value) {
      auto a = make_attribute(key, onnx::AttributeProto::INT);
      a.set_i(value);
      *n.add_attribute() = std::move(a);
    };
    if (s.stacked) set_int("keepdims", 0);
    if (!s.stacked && count == 0) set_int("dtype", static_cast<int64_t>(s.type));
    auto& outputs = *proto.mutable_output();
    for (int i = first; i < first + count; ++i) {
      n.add_input(outputs[i].name());
      *proto.add_value_info() = outputs[i];
    }
    std::vector<onnx::ValueInfoProto> behind(outputs.begin() + first + count, outputs.end());
    outputs.DeleteSubrange(first, outputs.size() - first);
    auto& whole = *outputs.Add();
    whole.set_name(name);
    whole.mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(
        static_cast<int32_t>(s.type));
    for (auto& v : behind) *outputs.Add() = std::move(v);
  }

  // ONNX Runtime refuses two nodes of one name in a graph and its bodies.
  std::string unique(const std::string& base) {
    std::string name = base;
    for (int i = 1; !name.empty() && !node_names_.insert(name).second; ++i) name = base + "_" + std::to_string(i);
    return name;
  }

  // A body's output must be the body's own: a captured value is passed on through an Identity.
  std::string passed_on(const std::string& name, onnx::GraphProto& proto, Scope& scope) {
    auto& n = *proto.add_node();
    n.set_op_type("Identity");
    std::string out = name;
    for (int i = 1; scope.taken(out); ++i) out = name + "_" + std::to_string(i);
    scope.names.insert(out);
    n.set_name(unique("Identity_" + out));
    n.add_input(name);
    n.add_output(out);
    return out;
  }

  void node(const Graph& g, NodeId id, onnx::NodeProto& proto, const Names_& names, const Scope& scope) {
    const Node& n = g.node(id);
    proto.set_domain(n.domain);
    proto.set_op_type(n.op);
    proto.set_name(unique(n.name));
    const auto captured = static_cast<size_t>(n.get_int("captured", 0));
    for (size_t i = 0; i < n.inputs.size() - captured; ++i)
      proto.add_input(n.inputs[i] == ValueId::none ? "" : names.at(n.inputs[i]));
    for (ValueId v : n.outputs) proto.add_output(v == ValueId::none ? "" : names.at(v));
    attributes(n, proto);
    for (const auto& [key, a] : n.attrs) {
      if (const auto* sub = std::get_if<GraphPtr>(&a)) {
        auto attribute = make_attribute(key, onnx::AttributeProto::GRAPH);
        nested(**sub, n, captured, *attribute.mutable_g(), names, scope);
        *proto.add_attribute() = std::move(attribute);
      }
    }
    if (n.domain.empty())
      require_opset(g, n, proto);
    else
      import_domain(n);
    if (n.domain == smelt_domain) function(g, id, proto);
    sources(g, n, proto);
  }

  void nested(const Graph& g, const Node& n, size_t captured, onnx::GraphProto& proto, const Names_& outer_names,
              const Scope& outer) {
    proto.set_name(g.name.empty() ? "body" : g.name);
    Scope scope{&outer, {}};
    Names_ names;
    const size_t formal = g.inputs().size() - captured;
    for (size_t i = 0; i < formal; ++i) info(g, g.inputs()[i], define(g, g.inputs()[i], names, scope), *proto.add_input());
    for (size_t i = 0; i < captured; ++i)
      names[g.inputs()[formal + i]] = outer_names.at(n.inputs[n.inputs.size() - captured + i]);
    body(g, proto, names, scope);
  }

  void attributes(const Node& n, onnx::NodeProto& proto) {
    using A = onnx::AttributeProto;
    for (const auto& entry : n.attrs) {
      const std::string& key = entry.first;
      if (key == "captured" || (key == "accuracy_level" && n.domain.empty())) continue;  // none of ONNX's
      std::visit(
          [&](const auto& v) {
            using T = std::decay_t<decltype(v)>;
            A a;
            if constexpr (std::is_same_v<T, int64_t>) {
              a = make_attribute(key, A::INT);
              a.set_i(v);
            } else if constexpr (std::is_same_v<T, float>) {
              a = make_attribute(key, A::FLOAT);
              a.set_f(v);
            } else if constexpr (std::is_same_v<T, std::string>) {
              a = make_attribute(key, A::STRING);
              a.set_s(v);
            } else if constexpr (std::is_same_v<T, Tensor>) {
              a = make_attribute(key, A::TENSOR);
              write_tensor(v, *a.mutable_t());
            } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
              a = make_attribute(key, A::INTS);
              a.mutable_ints()->Add(v.begin(), v.end());
            } else if constexpr (std::is_same_v<T, std::vector<float>>) {
              a = make_attribute(key, A::FLOATS);
              a.mutable_floats()->Add(v.begin(), v.end());
            } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
              a = make_attribute(key, A::STRINGS);
              for (const auto& s : v) a.add_strings(s);
            } else {
              return;  // graphs are written by the caller
            }
            *proto.add_attribute() = std::move(a);
          },
          entry.second);
    }
    if (n.program) {
      auto a = make_attribute(program_attribute, onnx::AttributeProto::STRING);
      a.set_s(n.program->print());
      *proto.add_attribute() = std::move(a);
    }
  }

 public:
  // What a fused node calls: its definition, without an overload.
  onnx::FunctionProto definition(const Graph& g, NodeId id) {
    const Node& n = g.node(id);
    if (!options_.expand) fail("{}: writing it needs its function body, and no expansion was given", smelt::describe(g, id));
    const Graph body_graph = options_.expand(g, id);
    onnx::GraphProto body_proto;
    Scope scope;
    Names_ names;
    onnx::FunctionProto f;
    f.set_domain(n.domain);
    f.set_name(n.op);
    size_t next = 0;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (n.inputs[i] == ValueId::none) {
        const std::string unused = "absent" + std::to_string(i);
        scope.names.insert(unused);
        f.add_input(unused);
      } else {
        if (next >= body_graph.inputs().size())
          fail("{}: its function body has {} inputs, expected one for each it has", smelt::describe(g, id), next);
        f.add_input(define(body_graph, body_graph.inputs()[next++], names, scope));
      }
    }
    Writer inner(
        options_, [](const Tensor& t, onnx::TensorProto& p) { write_tensor(t, p); }, model_);
    inner.body(body_graph, body_proto, names, scope);
    for (auto& t : *body_proto.mutable_initializer()) {
      auto& c = *f.add_node();
      c.set_op_type("Constant");
      c.add_output(t.name());
      auto a = make_attribute("value", onnx::AttributeProto::TENSOR);
      t.clear_name();
      *a.mutable_t() = std::move(t);
      *c.add_attribute() = std::move(a);
    }
    std::set<std::string> domains{""};
    for (auto& inner_node : *body_proto.mutable_node()) {
      domains.insert(inner_node.domain());
      inner_node.clear_metadata_props();
      *f.add_node() = std::move(inner_node);
    }
    // A function's output must be a value that one of its nodes gives.
    std::unordered_set<std::string> produced;
    for (const auto& inner_node : f.node()) produced.insert(inner_node.output().begin(), inner_node.output().end());
    for (const auto& out : body_proto.output()) f.add_output(out.name());
    for (auto& out : *f.mutable_output()) {
      if (produced.contains(out)) continue;
      auto& identity = *f.add_node();
      identity.set_op_type("Identity");
      identity.add_input(out);
      while (scope.taken(out)) out += "_";
      scope.names.insert(out);
      identity.add_output(out);
    }
    onnx::NodeProto call;
    attributes(n, call);
    for (const auto& a : call.attribute()) f.add_attribute(a.name());
    for (const auto& d : domains) {
      auto* o = f.add_opset_import();
      o->set_domain(d);
      if (!d.empty()) o->set_version(1);  // ONNX's own is known when all nodes are
    }
    return f;
  }

 private:
  // The function of a call. Its overload is a hash of what it computes, so that equal nodes share one.
  void function(const Graph& g, NodeId id, onnx::NodeProto& call) {
    onnx::FunctionProto f = definition(g, id);
    const std::string text = f.SerializeAsString();
    const std::string overload = fmt::format("{:016x}", hash_bytes(text.data(), static_cast<int64_t>(text.size())));
    call.set_overload(overload);
    if (!functions_.insert(f.name() + overload).second) return;
    f.set_overload(overload);
    *model_.add_functions() = std::move(f);
  }

  void sources(const Graph& g, const Node& n, onnx::NodeProto& proto) {
    std::vector<std::string> names, ops, scopes;
    for (int32_t s : n.sources) {
      const SourceNode& source = g.sources()[static_cast<size_t>(s)];
      names.push_back(source.name);
      ops.push_back(source.op_type);
      scopes.push_back(print_python_list(source.scopes));
    }
    set_metadata(proto, plan_sources_key, print_python_list(names));
    set_metadata(proto, plan_source_ops_key, print_python_list(ops));
    set_metadata(proto, plan_scopes_key, print_python_list(scopes));
  }

  // A graph has the newest opset's semantics. The plan imports the oldest opset that says the same of every node, since runtimes
  // support new versions late, operator by operator.
  void require_opset(const Graph& g, const Node& n, const onnx::NodeProto& proto) {
    auto& import = *model_.mutable_opset_import(0);
    int64_t version = import.version();
    std::string newer = newer_than(version, g, n, proto);
    while (!newer.empty() && version < newest_plan_opset) newer = newer_than(++version, g, n, proto);
    if (!newer.empty())
      fail_unsupported("node '{}' ({}): {} newer than opset {}, the newest that plans are written in", n.name, n.op, newer,
                       version);
    import.set_version(version);
  }

  // What a node uses that its operator in that version lacks or defines differently: "attribute 'x' is"; empty: nothing.
  static std::string newer_than(int64_t version, const Graph& g, const Node& n, const onnx::NodeProto& proto) {
    const auto* newest = find_schema(n.op, n.domain);
    const auto* schema = find_schema(n.op, static_cast<int>(version), n.domain);
    if (!schema) return "the operator is";
    if (schema == newest) return {};
    for (const auto& a : proto.attribute())
      if (!schema->attributes().contains(a.name())) return "attribute '" + a.name() + "' is";
    for (const auto& [name, attribute] : newest->attributes()) {
      const auto old = schema->attributes().find(name);
      if (old != schema->attributes().end() && !find_attribute(proto, name) &&
          old->second.default_value.SerializeAsString() != attribute.default_value.SerializeAsString())
        return "the default of attribute '" + name + "' is";
    }
    for (const bool input : {true, false}) {
      const auto& values = input ? n.inputs : n.outputs;
      const int count = input ? proto.input_size() : proto.output_size();
      for (int i = 0; i < count; ++i) {
        const auto* parameter = formal(input ? schema->inputs() : schema->outputs(), i);
        const ValueId v = values[static_cast<size_t>(i)];
        const DType type = v == ValueId::none ? DType::undefined : g.value(v).type;
        onnx::TypeProto proto_type;
        set_type(proto_type, type, {});
        if (!parameter ||
            (type != DType::undefined && !parameter->GetTypes().contains(onnx::Utils::DataTypeUtils::ToType(proto_type))))
          return fmt::format("{} {}{} is", input ? "input" : "output", i,
                             parameter ? " of type " + std::string(smelt::name(type)) : "");
      }
    }
    return {};
  }

  void import_domain(const Node& n) {
    for (const auto& o : model_.opset_import())
      if (o.domain() == n.domain) return;
    auto* o = model_.add_opset_import();
    o->set_domain(n.domain);
    o->set_version(n.opset > 0 && n.domain != smelt_domain ? n.opset : 1);
  }

  const ExportOptions& options_;
  StoreTensor store_;
  onnx::ModelProto& model_;
  std::map<std::string, const void*> constants_;  // of the main graph
  std::set<std::string> functions_;
  std::unordered_set<std::string> node_names_;
};

}  // namespace

onnx::FunctionProto fused_body(const Graph& g, NodeId node, const ExportOptions& options) {
  onnx::ModelProto scratch;
  scratch.add_opset_import()->set_version(oldest_plan_opset);
  const auto store = [](const Tensor& t, onnx::TensorProto& p) { write_tensor(t, p); };
  return Writer(options, store, scratch).definition(g, node);
}

onnx::ModelProto to_proto(const Graph& g, const ExportOptions& options, const StoreTensor& store) {
  onnx::ModelProto model;
  model.set_ir_version(plan_ir_version);
  model.set_producer_name(g.model.producer.empty() ? "smelt" : g.model.producer);
  if (!g.model.producer_version.empty()) model.set_producer_version(g.model.producer_version);
  if (!g.model.domain.empty()) model.set_domain(g.model.domain);
  if (!g.model.doc.empty()) model.set_doc_string(g.model.doc);
  model.add_opset_import()->set_version(oldest_plan_opset);
  auto metadata = g.model.metadata;
  metadata.erase(sequences_key);  // the file's outputs say it
  for (const auto& [key, value] : options.metadata) metadata[key] = value;
  metadata[plan_version_key] = plan_version;
  for (const auto& [key, value] : metadata) {
    auto* e = model.add_metadata_props();
    e->set_key(key);
    e->set_value(value);
  }
  Writer(options, store, model).main(g);
  for (auto& f : *model.mutable_functions())
    for (auto& o : *f.mutable_opset_import())
      if (o.domain().empty()) o.set_version(model.opset_import(0).version());
  return model;
}

}  // namespace smelt::importer
