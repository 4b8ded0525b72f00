#include <google/protobuf/arena.h>
#include <onnx/checker.h>
#include <onnx/defs/operator_sets.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "import/schema.h"
#include "import/stages.h"

namespace smelt::importer {

namespace {

constexpr int64_t oldest_opset = 6;
constexpr const char* unchecked_domain = "smelt.unchecked";  // the checker leaves operators of other domains alone
constexpr int deepest_nesting = 16;  // If in If in Loop …; inference visits a body more than once per level

bool standard(const std::string& domain) {
  return domain.empty() || domain == "ai.onnx.ml" || domain == "ai.onnx.training" || domain == "ai.onnx.preview.training" ||
         domain == "ai.onnx.preview";
}

std::map<std::string, int64_t> imports_of(const auto& proto) {
  std::map<std::string, int64_t> out;
  for (const auto& o : proto.opset_import()) out[o.domain()] = o.version();
  return out;
}

void check_versions(const onnx::ModelProto& model) {
  for (const auto& [domain, version] : imports_of(model)) {
    // Nothing checks nodes of a version without schemas, and rewrites rely on what is checked.
    if (version < 1) fail("the model imports version {} of the domain '{}', expected 1 or more", version, domain);
    if (!domain.empty()) continue;
    const int64_t newest = newest_opset();
    if (version < oldest_opset || version > newest)
      throw Error(
          fmt::format("the model is of ONNX opset {}, expected {} to {}", version, oldest_opset, newest),
          version > newest ? "Export it with an older opset." : "Convert it with onnx.version_converter, or export it again.",
          ExitCode::unsupported);
  }
}

int nesting(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
  int deepest = 0;
  for (const auto& n : nodes) {
    for (const auto& a : n.attribute()) {
      if (a.has_g()) deepest = std::max(deepest, 1 + nesting(a.g().node()));
      for (const auto& sub : a.graphs()) deepest = std::max(deepest, 1 + nesting(sub.node()));
    }
  }
  return deepest;
}

void check_nesting(const onnx::ModelProto& proto) {
  if (const int deep = nesting(proto.graph().node()); deep > deepest_nesting)
    fail_unsupported("subgraphs are nested {} deep, expected at most {}", deep, deepest_nesting);
  for (const auto& f : proto.functions()) {
    if (const int deep = nesting(f.node()); deep > deepest_nesting)
      fail_unsupported("function '{}': subgraphs are nested {} deep, expected at most {}", f.name(), deep, deepest_nesting);
  }
}

/// Attributes that are 0 or 1. Others are read as either by one implementation or another, and by ONNX's own inference.
void check_switches(const onnx::NodeProto& n) {
  static const std::set<std::string_view> switches = {"align_corners",
                                                      "allowzero",
                                                      "antialias",
                                                      "ceil_mode",
                                                      "count_include_pad",
                                                      "exclude_outside",
                                                      "exclusive",
                                                      "fmod",
                                                      "input_forget",
                                                      "interleaved",
                                                      "is_causal",
                                                      "keepdims",
                                                      "inverse",
                                                      "onesided",
                                                      "largest",
                                                      "layout",
                                                      "linear_before_reset",
                                                      "noop_with_empty_axes",
                                                      "reverse",
                                                      "saturate",
                                                      "select_last_index",
                                                      "sorted",
                                                      "storage_order",
                                                      "training_mode",
                                                      "transA",
                                                      "transB",
                                                      "upper"};
  if (!standard(n.domain())) return;
  for (const auto& a : n.attribute())
    if (a.type() == onnx::AttributeProto::INT && a.ref_attr_name().empty() && a.i() != 0 && a.i() != 1 &&
        switches.contains(a.name()))
      fail("{}: {} is {}, expected 0 or 1", describe(n), a.name(), a.i());
}

/// Whether every node has the inputs, outputs and attributes that its operator takes. ONNX's inference relies on that, and ends
/// the process if they are missing.
bool fit_their_schemas(onnx::ModelProto& proto) {
  const auto imports = imports_of(proto);
  bool fit = true;
  for_each_node(proto, [&](onnx::NodeProto& n) {
    const auto version = imports.find(n.domain());
    if (!fit || version == imports.end()) return;
    const int known = static_cast<int>(std::clamp<int64_t>(version->second, 0, 1'000'000));
    const auto* schema = find_schema(n.op_type(), known, n.domain());
    try {
      if (schema) schema->Verify(n);
    } catch (const std::exception&) {
      fit = false;
    }
  });
  return fit;
}

}  // namespace

namespace {

/// make_plain() replaces it where nothing reads the maps; elsewhere check_tensors_only() names it.
bool is_zip_map(const onnx::NodeProto& n) { return n.domain() == ml_domain && n.op_type() == "ZipMap"; }

}  // namespace

void check_operators(Loaded& model, const ImportOptions& options) {
  check_versions(model.proto);
  check_nesting(model.proto);
  std::set<std::pair<std::string, std::string>> functions;
  for (const auto& f : model.proto.functions()) functions.insert({f.domain(), f.name()});
  const auto imports = imports_of(model.proto);
  std::vector<onnx::NodeProto> unknown;
  for_each_node(model.proto, [&](onnx::NodeProto& n) {
    const std::string& domain = n.domain();
    if (functions.contains({domain, n.op_type()})) return;
    check_switches(n);
    const bool runs = !options.supported || options.supported(domain, n.op_type()) || is_microsoft_call(n) || is_zip_map(n);
    const auto version = imports.find(domain);
    const auto* schema = version == imports.end()
                             ? nullptr
                             : find_schema(n.op_type(), static_cast<int>(std::min<int64_t>(version->second, 1'000'000)), domain);
    const bool experimental = onnx::checker::check_is_experimental_op(n) && !runs;
    bool is_unknown = experimental;
    // Without an import of the domain the checker says so; other domains' operators are known to `supported` alone.
    if (!schema)
      is_unknown = standard(domain) ? version != imports.end() || experimental : !runs;
    else if (!runs && !schema->Deprecated() && !schema->HasFunction() && !schema->HasContextDependentFunction() &&
             !(domain.empty() && is_replaced(n.op_type())) && n.op_type() != "Constant" && !is_on_sequences(n))
      is_unknown = true;
    if (is_unknown) unknown.push_back(n);
  });
  if (!unknown.empty()) model.proto.clear_functions();  // inference visits a body at every call, which may never end
  fail_unsupported_nodes(model, unknown);
}

void fail_unsupported_nodes(Loaded& model, const std::vector<onnx::NodeProto>& nodes) {
  if (nodes.empty()) return;
  // The list needs types; inference finds as many as it can despite the unknown operators.
  try {
    if (fit_their_schemas(model.proto)) infer_shapes(model, true);
  } catch (const std::exception&) {
  }
  std::map<std::string, const onnx::TypeProto*> types;
  std::map<std::string, onnx::TypeProto> of_initializers;
  for_each_graph(*model.proto.mutable_graph(), [&](onnx::GraphProto& g) {
    for (const auto& v : g.value_info()) types[v.name()] = &v.type();
    for (const auto& v : g.input()) types[v.name()] = &v.type();
    for (const auto& t : g.initializer()) {
      auto& type = of_initializers[t.name()];
      type.mutable_tensor_type()->set_elem_type(t.data_type());
      for (int64_t d : t.dims()) type.mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(d);
      types[t.name()] = &type;
    }
  });
  constexpr size_t shown = 50;
  std::string list;
  for (size_t i = 0; i < std::min(nodes.size(), shown); ++i) {
    std::string inputs;
    for (const auto& name : nodes[i].input()) {
      const auto it = types.find(name);
      inputs +=
          (inputs.empty() ? "" : ", ") + (it == types.end() ? std::string(name.empty() ? "–" : "?") : describe(*it->second));
    }
    list += fmt::format("{}{}({})", i ? "; " : "", describe(nodes[i]), inputs);
  }
  if (nodes.size() > shown) list += fmt::format("; and {} more", nodes.size() - shown);
  // ONNX Runtime's layouts for one kind of machine, which it writes from ORT_ENABLE_LAYOUT on.
  const bool of_one_machine = std::any_of(nodes.begin(), nodes.end(), [](const onnx::NodeProto& n) {
    return n.domain() == "com.microsoft.nchwc" || n.domain() == "com.ms.internal.nhwc";
  });
  throw Error(
      fmt::format("{} node{} smelt cannot run: {}", nodes.size(), nodes.size() == 1 ? "" : "s", list),
      of_one_machine
          ? "ONNX Runtime optimised the model for the machine that it ran on. Take the model from before that, or save it at "
            "ORT_ENABLE_EXTENDED."
          : "Replace these operators in the exporter, or give them a function body in the model.",
      ExitCode::unsupported);
}

void check_tensors_only(Loaded& model) {
  std::vector<onnx::NodeProto> nodes;
  for_each_graph(*model.proto.mutable_graph(), [&](onnx::GraphProto& g) {
    std::set<std::string> others;
    auto note = [&](const auto& values) {
      for (const auto& v : values)
        if (v.has_type() && v.type().value_case() != onnx::TypeProto::VALUE_NOT_SET && !v.type().has_tensor_type())
          others.insert(v.name());
    };
    note(g.value_info());
    note(g.input());
    note(g.output());
    auto other = [&](const std::string& name) { return others.contains(name); };
    for (const auto& n : g.node())
      if (is_on_sequences(n) || std::any_of(n.input().begin(), n.input().end(), other) ||
          std::any_of(n.output().begin(), n.output().end(), other))
        nodes.push_back(n);
  });
  fail_unsupported_nodes(model, nodes);
}

/// An operator that the checker refuses and upgrade() replaces.
static bool is_deprecated(const onnx::NodeProto& n, int64_t opset) {
  return opset <= 20 && n.op_type() == "GroupNormalization" && n.domain().empty();
}

/// Whether the checker can look at the model as it is.
static bool is_complete(onnx::ModelProto& proto) {
  const auto has_shape = [](const onnx::ValueInfoProto& v) {
    return !v.type().has_tensor_type() || v.type().tensor_type().has_shape();
  };
  const auto& g = proto.graph();
  bool complete = std::ranges::all_of(g.input(), has_shape) &&
                  std::ranges::all_of(g.output(), [&](const auto& v) { return v.has_type() && has_shape(v); });
  const int64_t opset = opset_of(proto);
  for_each_node(proto, [&](const onnx::NodeProto& n) { complete = complete && !is_deprecated(n, opset); });
  return complete;
}

/// ONNX's checker, which gets its schemas from schemas(). It takes another registry for a graph and for functions only: what it says
/// of the model around them, it says of that without nodes.
static void run_checker(const onnx::ModelProto& proto) {
  onnx::ModelProto around;
  around.set_ir_version(proto.ir_version());
  *around.mutable_opset_import() = proto.opset_import();
  *around.mutable_metadata_props() = proto.metadata_props();
  around.mutable_graph()->set_name("none");
  onnx::checker::check_model(around);
  onnx::checker::CheckerContext context;
  context.set_schema_registry(&schemas());
  context.set_ir_version(static_cast<int>(proto.ir_version()));
  std::unordered_map<std::string, int> versions;
  for (const auto& o : proto.opset_import()) versions[o.domain()] = static_cast<int>(o.version());
  if (versions.empty()) versions[""] = 1;  // the checker refuses this of the format's later versions
  context.set_opset_imports(versions);
  const onnx::checker::LexicalScopeContext outermost;
  onnx::checker::check_graph(proto.graph(), context, outermost);
  constexpr int with_functions = 8;  // the first version of the format that has them
  if (proto.ir_version() >= with_functions) onnx::checker::check_model_local_functions(proto, context, outermost);
}

void check_model(const Loaded& model) {
  const auto& proto = model.proto;
  if (!proto.has_graph()) fail("the file has no graph; expected an ONNX model");
  // Some exporters leave out the shape of an input or a result, or a result's type. Other runtimes run such models; the checker
  // refuses them, although it only looks whether the two are there, and inference finds both. It also refuses deprecated
  // operators, which upgrade() replaces.
  if (is_complete(model.proto)) return run_checker(proto);
  google::protobuf::Arena arena;
  onnx::ModelProto& complete = *google::protobuf::Arena::CreateMessage<onnx::ModelProto>(&arena);
  complete = proto;  // small: the bytes of tensors have been taken out
  for (auto& v : *complete.mutable_graph()->mutable_output())
    if (!v.has_type()) v.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  for (auto* values : {complete.mutable_graph()->mutable_input(), complete.mutable_graph()->mutable_output()})
    for (auto& v : *values)
      if (v.type().has_tensor_type()) v.mutable_type()->mutable_tensor_type()->mutable_shape();
  const int64_t opset = opset_of(complete);
  bool replaced = false;
  for_each_node(complete, [&](onnx::NodeProto& n) {
    if (!is_deprecated(n, opset)) return;
    n.set_domain(unchecked_domain);
    replaced = true;
  });
  if (replaced) {
    const auto import = [](auto& p) {
      auto* o = p.add_opset_import();
      o->set_domain(unchecked_domain);
      o->set_version(1);
    };
    import(complete);
    for (auto& f : *complete.mutable_functions()) import(f);
  }
  run_checker(complete);
}

}  // namespace smelt::importer

int64_t smelt::newest_opset() { return onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().at("").second; }
