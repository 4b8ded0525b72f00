// Replaces calls by function bodies: those of the model's own functions, and those that ONNX's schemas give. ONNX's own inliner
// drops node names and metadata.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "import/schema.h"
#include "import/stages.h"

namespace smelt::importer {

using Nodes = std::vector<onnx::NodeProto>;
using Renames = std::map<std::string, std::string>;

Names::Names(onnx::ModelProto& model) {
  for_each_graph(*model.mutable_graph(), [&](onnx::GraphProto& g) {
    for (const auto& v : g.input()) taken_.insert(v.name());
    for (const auto& t : g.initializer()) taken_.insert(t.name());
    for (const auto& n : g.node()) taken_.insert(n.output().begin(), n.output().end());
  });
}

std::string Names::fresh(const std::string& base) {
  std::string name = base;
  while (!taken_.insert(name).second) name = base + "_" + std::to_string(++next_[base]);
  return name;
}

namespace {

class Expansion {
 public:
  Expansion(const onnx::NodeProto& call, const onnx::FunctionProto& function, Names& names)
      : call_(call), function_(function), names_(names) {}

  Nodes run() {
    if (call_.input_size() > function_.input_size() || call_.output_size() > function_.output_size())
      fail("node {}: {} inputs and {} outputs, but function '{}' has {} and {}", describe(call_), call_.input_size(),
           call_.output_size(), function_.name(), function_.input_size(), function_.output_size());
    Nodes out;
    Renames renames;
    for (int i = 0; i < function_.input_size(); ++i) renames[function_.input(i)] = i < call_.input_size() ? call_.input(i) : "";
    std::vector<std::pair<std::string, std::string>> copies;  // an output that is an input, or listed twice
    for (int i = 0; i < function_.output_size(); ++i) {
      const std::string& formal = function_.output(i);
      const bool wanted = i < call_.output_size() && !call_.output(i).empty();
      if (renames.contains(formal)) {
        if (wanted) copies.emplace_back(renames[formal], call_.output(i));
      } else {
        renames[formal] = wanted ? call_.output(i) : fresh(formal);
      }
    }
    for (const auto& node : function_.node()) out.push_back(instance(node, renames));
    for (const auto& [from, to] : copies) {
      if (from.empty()) fail("node {}: output '{}' is an input that is left out", describe(call_), to);
      onnx::NodeProto id;
      id.set_op_type("Identity");
      id.set_name(below_call(to));
      id.add_input(from);
      id.add_output(to);
      out.push_back(std::move(id));
    }
    return out;
  }

 private:
  std::string fresh(const std::string& name) { return names_.fresh(below_call(name)); }

  // Names grow with every call; this bounds those of a hostile model.
  std::string below_call(const std::string& name) const {
    constexpr size_t longest = 1000;
    return (call_.name() + "/" + name).substr(0, longest);
  }

  onnx::NodeProto instance(const onnx::NodeProto& body, Renames& renames) {
    onnx::NodeProto node = body;
    node.set_name(below_call(body.name().empty() ? body.op_type() : body.name()));
    for (auto& in : *node.mutable_input()) in = renamed(in, renames);
    bind_attributes(node);
    for (auto& a : *node.mutable_attribute()) {
      if (a.has_g()) nested(*a.mutable_g(), renames);
      for (auto& g : *a.mutable_graphs()) nested(g, renames);
    }
    for (auto& o : *node.mutable_output()) {
      if (o.empty()) continue;
      auto [it, inserted] = renames.insert({o, ""});
      if (inserted) it->second = fresh(o);
      o = it->second;
    }
    return node;
  }

  std::string renamed(const std::string& name, const Renames& renames) {
    if (name.empty()) return name;
    const auto it = renames.find(name);
    // A body has no outer scope: an unknown name must not refer to a value of the caller.
    if (it == renames.end()) fail("function '{}' reads '{}', which nothing in it defines", function_.name(), name);
    return it->second;
  }

  void nested(onnx::GraphProto& g, Renames renames) {
    for (auto& v : *g.mutable_input()) v.set_name(renames[v.name()] = fresh(v.name()));
    for (auto& t : *g.mutable_initializer()) t.set_name(renames[t.name()] = fresh(t.name()));
    g.clear_value_info();
    for (auto& n : *g.mutable_node()) {
      for (const auto& o : n.output()) renames.erase(o);  // defined here, whatever it means outside
      n = instance(n, renames);
    }
    for (auto& v : *g.mutable_output()) v.set_name(renamed(v.name(), renames));
  }

  // Nothing gives a value to a reference in a default value or outside of functions, and a default may refer to itself.
  static bool refers(const onnx::AttributeProto& a) {
    const auto any = [](const onnx::GraphProto& g) {
      return std::any_of(g.node().begin(), g.node().end(), [](const onnx::NodeProto& n) {
        return std::any_of(n.attribute().begin(), n.attribute().end(), refers);
      });
    };
    return !a.ref_attr_name().empty() || (a.has_g() && any(a.g())) || std::any_of(a.graphs().begin(), a.graphs().end(), any);
  }

  void bind_attributes(onnx::NodeProto& node) {
    auto& attributes = *node.mutable_attribute();
    for (int i = attributes.size() - 1; i >= 0; --i) {
      const std::string reference = attributes[i].ref_attr_name();
      if (reference.empty()) continue;
      const auto* value = find_attribute(call_, reference);
      for (const auto& d : function_.attribute_proto())
        if (!value && d.name() == reference) value = &d;
      if (!value) {
        attributes.DeleteSubrange(i, 1);
        continue;
      }
      if (refers(*value)) fail("node {}: the value of attribute '{}' refers to another attribute", describe(call_), reference);
      const std::string name = attributes[i].name();
      attributes[i] = *value;
      attributes[i].set_name(name);
    }
  }

  const onnx::NodeProto& call_;
  const onnx::FunctionProto& function_;
  Names& names_;
};

std::string key(const std::string& domain, const std::string& name, const std::string& overload) {
  return (domain == "ai.onnx" ? "" : domain) + "\n" + name + "\n" + overload;
}

constexpr int deepest_calls = 100;

[[noreturn]] void fail_too_many(int64_t max_nodes) {
  fail_unsupported("the model has more than {} nodes once its functions are inlined", max_nodes);
}

// Replaces every node that `body_of` has a body for. Unless one level is asked for, it replaces those of the bodies too.
class Inliner {
 public:
  enum class Depth { all, one_level };
  using BodyOf = std::function<std::optional<Nodes>(const onnx::NodeProto&)>;
  Inliner(BodyOf body_of, int64_t max_nodes, Depth depth) : body_of_(std::move(body_of)), max_nodes_(max_nodes), depth_(depth) {}

  void graph(onnx::GraphProto& g, int depth = 0) {
    NodesBeside emitted(g), given(g);
    auto &out = *emitted, &in = *given;
    in.Swap(g.mutable_node());
    for (auto& n : in) emit(n, out, depth);
    out.Swap(g.mutable_node());
  }

 private:
  void emit(onnx::NodeProto& node, google::protobuf::RepeatedPtrField<onnx::NodeProto>& out, int depth) {
    if (depth > deepest_calls) fail("node {}: functions call each other more than {} deep", describe(node), deepest_calls);
    for (auto& a : *node.mutable_attribute()) {
      if (a.has_g()) graph(*a.mutable_g(), depth);
      for (auto& sub : *a.mutable_graphs()) graph(sub, depth);
    }
    auto body = depth_ == Depth::all || depth == 0 ? body_of_(node) : std::nullopt;
    if (body) {
      for (auto& n : *body) emit(n, out, depth + 1);
      return;
    }
    if (++nodes_ > max_nodes_) fail_too_many(max_nodes_);
    *out.Add() = std::move(node);
  }

  BodyOf body_of_;
  int64_t max_nodes_, nodes_ = 0;
  Depth depth_;
};

using Functions = std::map<std::string, const onnx::FunctionProto*>;

const onnx::FunctionProto* called(const Functions& functions, const onnx::NodeProto& call) {
  const auto it = functions.find(key(call.domain(), call.op_type(), call.overload()));
  return it == functions.end() ? nullptr : it->second;
}

/// How many nodes calls become once they are inlined, found by looking at each function once: forty that call the next one twice
/// are 2^40.
class InlinedSize {
 public:
  using IsKept = std::function<bool(const onnx::FunctionProto&, const onnx::NodeProto& call)>;
  InlinedSize(const Functions& functions, IsKept is_kept, int64_t most)
      : functions_(functions), is_kept_(std::move(is_kept)), most_(most) {}

  /// At most `most` + 1. What calls itself, or goes too deep, counts as nothing: inlining refuses it.
  int64_t of(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, int depth = 0) {
    int64_t sum = 0;
    for (const auto& n : nodes) {
      for (const auto& a : n.attribute()) {
        if (a.has_g()) sum += of(a.g().node(), depth);
        for (const auto& g : a.graphs()) sum += of(g.node(), depth);
      }
      const onnx::FunctionProto* f = called(functions_, n);
      sum = std::min(most_ + 1, sum + (!f || is_kept_(*f, n) ? 1 : of(*f, depth + 1)));
    }
    return sum;
  }

 private:
  int64_t of(const onnx::FunctionProto& f, int depth) {
    if (depth > deepest_calls) return 0;
    const auto [it, inserted] = sizes_.try_emplace(&f, 0);
    if (inserted) it->second = of(f.node(), depth);
    return it->second;
  }

  const Functions& functions_;
  IsKept is_kept_;
  int64_t most_;
  std::map<const onnx::FunctionProto*, int64_t> sizes_;
};

}  // namespace

void inline_functions(Loaded& model, const std::function<bool(const onnx::NodeProto&)>& keep, int64_t max_nodes) {
  auto& proto = model.proto;
  if (proto.functions_size() == 0) return;
  Functions functions;
  std::map<std::string, int64_t> imports;
  for (const auto& o : proto.opset_import()) imports[o.domain()] = o.version();
  for (auto& f : *proto.mutable_functions()) {
    // The checker has made sure that a domain which both import means the same in both.
    for (const auto& o : f.opset_import())
      if (imports.insert({o.domain(), o.version()}).second) *proto.add_opset_import() = o;
    functions[key(f.domain(), f.name(), f.overload())] = &f;
  }
  // Inference visits a kept function at every call, so a function that calls others could take exponential time.
  const auto is_kept = [&](const onnx::FunctionProto& f, const onnx::NodeProto& call) {
    return std::ranges::none_of(f.node(), [&](const auto& n) { return called(functions, n); }) && keep(call);
  };
  if (InlinedSize(functions, is_kept, max_nodes).of(proto.graph().node()) > max_nodes) fail_too_many(max_nodes);
  std::set<const onnx::FunctionProto*> kept;

  Names names(proto);
  Inliner inliner(
      [&](const onnx::NodeProto& call) -> std::optional<Nodes> {
        const onnx::FunctionProto* function = called(functions, call);
        if (!function) return {};
        if (is_kept(*function, call)) {
          kept.insert(function);
          return {};
        }
        Nodes body = Expansion(call, *function, names).run();
        const std::string& of_call = *find_metadata(call, source_key);
        if (plan_sources(call)) {  // the plan's node stands for other nodes, and so does its body
          for (auto& n : body) set_metadata(n, source_key, of_call);
          return body;
        }
        const SourceNode outer = model.sources[std::stoul(of_call)];
        for (auto& n : body) {
          SourceNode source{n.name(), n.op_type(), outer.scopes};
          const auto inner = scopes_of(n);
          const bool absolute =
              inner.size() >= outer.scopes.size() && std::equal(outer.scopes.begin(), outer.scopes.end(), inner.begin());
          constexpr size_t deepest = 100;
          if (absolute)
            source.scopes = inner;
          else if (source.scopes.size() < deepest)
            source.scopes.insert(source.scopes.end(), inner.begin(), inner.end());
          set_metadata(n, source_key, std::to_string(model.sources.size()));
          model.sources.push_back(std::move(source));
          for (auto& a : *n.mutable_attribute()) {
            auto label = [&](onnx::GraphProto& g) {
              for (auto& inner_node : *g.mutable_node()) {
                set_metadata(inner_node, source_key, std::to_string(model.sources.size()));
                model.sources.push_back({inner_node.name(), inner_node.op_type(), outer.scopes});
              }
            };
            if (a.has_g()) for_each_graph(*a.mutable_g(), label);
            for (auto& g : *a.mutable_graphs()) for_each_graph(g, label);
          }
        }
        return body;
      },
      max_nodes, Inliner::Depth::all);
  inliner.graph(*proto.mutable_graph());
  auto& all = *proto.mutable_functions();
  const auto is_gone = [&](const auto& f) { return !kept.contains(&f); };
  all.erase(std::remove_if(all.begin(), all.end(), is_gone), all.end());
}

bool expand_functions(Loaded& model, const ImportOptions& options) {
  if (!options.supported) return false;
  auto& proto = model.proto;
  std::map<std::string, int> imports;
  for (const auto& o : proto.opset_import()) imports[o.domain()] = static_cast<int>(o.version());
  std::set<std::pair<std::string, std::string>> own;
  for (const auto& f : proto.functions()) own.insert({f.domain(), f.name()});
  const auto stays = [&](const onnx::NodeProto& call) {
    return (call.op_type() == "Constant" && call.domain().empty()) || options.supported(call.domain(), call.op_type()) ||
           own.contains({call.domain(), call.op_type()});
  };
  bool all_stay = true;
  int64_t nodes = 0;
  for_each_graph(*proto.mutable_graph(), [&](onnx::GraphProto& g) {
    nodes += g.node_size();
    all_stay = all_stay && std::ranges::all_of(g.node(), stays);
  });
  if (nodes > options.max_nodes) fail_too_many(options.max_nodes);
  if (all_stay) return false;
  Names names(proto);
  std::vector<onnx::NodeProto> unsupported;
  bool changed = false;

  // The types of the graph around a call, and of its outer graphs; names are unique among them.
  std::map<std::string, onnx::TypeProto> type_of_value;
  for_each_graph(*proto.mutable_graph(), [&](onnx::GraphProto& g) {
    for (const auto& v : g.value_info()) type_of_value[v.name()] = v.type();
    for (const auto& v : g.input()) type_of_value[v.name()] = v.type();
    for (const auto& v : g.output()) type_of_value[v.name()] = v.type();
    for (const auto& t : g.initializer()) {
      onnx::TypeProto type;
      type.mutable_tensor_type()->set_elem_type(t.data_type());
      for (int64_t d : t.dims()) type.mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(d);
      type_of_value[t.name()] = std::move(type);
    }
  });

  auto body_of = [&](const onnx::NodeProto& call) -> std::optional<Nodes> {
    if (stays(call)) return {};
    const auto version = imports.find(call.domain());
    const auto* schema = version == imports.end() ? nullptr : find_schema(call.op_type(), version->second, call.domain());
    const auto leave = [&]() -> std::optional<Nodes> {
      if (!may_stay(call)) unsupported.push_back(call);
      return {};
    };
    if (!schema) return leave();
    onnx::NodeProto full = call;  // with the schema's default attributes, which bodies refer to
    add_defaults(full, *schema);
    onnx::FunctionProto function;
    if (schema->HasFunction()) {
      const auto* f = schema->GetFunction(version->second);
      function = f ? *f : *schema->GetFunction();
    } else {
      std::vector<onnx::TypeProto> inputs;
      for (const auto& in : call.input()) inputs.push_back(type_of_value.contains(in) ? type_of_value[in] : onnx::TypeProto());
      const onnx::FunctionBodyBuildContextImpl context(full, inputs);
      if (!schema->HasContextDependentFunction() || (!schema->BuildContextDependentFunction(context, function, version->second) &&
                                                     !schema->BuildContextDependentFunction(context, function)))
        return leave();
    }
    changed = true;
    Nodes body = Expansion(full, function, names).run();
    int64_t from = version->second;
    for (const auto& o : function.opset_import())
      if (o.domain().empty()) from = o.version();
    body = upgrade_nodes(
        std::move(body), from, [](const std::string&) { return nullptr; }, names);
    const auto* source = find_metadata(call, source_key);
    for (auto& n : body) {
      if (source) set_metadata(n, source_key, *source);
    }
    return body;
  };
  // One level at a time: a body's own calls need their inputs' types, which the next inference finds.
  Inliner inliner(body_of, options.max_nodes, Inliner::Depth::one_level);
  inliner.graph(*proto.mutable_graph());
  fail_unsupported_nodes(model, unsupported);
  return changed;
}

}  // namespace smelt::importer
