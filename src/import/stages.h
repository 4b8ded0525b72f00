// The stages of the import between parsing and the Graph; each works on a Loaded in place. import.cpp runs them in order.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "import/proto.h"

namespace onnx {
class ISchemaRegistry;
}

namespace smelt::importer {

// --- check.cpp -------------------------------------------------------------------------------------------------------
/// Opset versions in range, and every operator known to ONNX, to the model's functions or to `options.supported`: all
/// that are not are listed in one Error.
void check_operators(Loaded& model, const ImportOptions& options);
/// ONNX's checker: fields, names, order, attributes. Nesting of subgraphs is bounded too.
void check_model(const Loaded& model);
/// Throws the Error (unsupported) that lists the nodes that read or give sequences, maps, optionals or sparse tensors.
void check_tensors_only(Loaded& model);
/// Throws the Error (unsupported) that lists these nodes with their inputs' types and shapes; returns when there are none.
void fail_unsupported_nodes(Loaded& model, const std::vector<onnx::NodeProto>& nodes);

// --- canonicalise.cpp ------------------------------------------------------------------------------------------------
/// Domain "ai.onnx" becomes "", each domain is imported once (an Error where two versions of it are), and functions that nothing
/// calls are gone. Runs before the checks, which take "ai.onnx" for a domain of other operators.
void canonicalise_domains(Loaded& model);
/// Nodes without a name get one, initializers leave the inputs, and every node's
/// metadata names its SourceNodes.
void canonicalise_graph(Loaded& model);

// --- functions.cpp ---------------------------------------------------------------------------------------------------
/// Names of values in use anywhere in a model, and fresh ones.
class Names {
 public:
  explicit Names(onnx::ModelProto& model);
  std::string fresh(const std::string& base);

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_;  // number to try next behind a base
};

/// Calls of the model's own functions give way to their bodies. A body's node is named "call/node", and its scopes are
/// those of the call followed by its own. Calls that `keep` wants stay, and so do their functions.
void inline_functions(Loaded& model, const std::function<bool(const onnx::NodeProto& call)>& keep, int64_t max_nodes);
/// Nodes that are not supported and that ONNX defines as functions give way to their schema's body, which is upgraded if it is
/// of an older opset. Returns whether there were any. The nodes stand for the same source as the call.
bool expand_functions(Loaded& model, const ImportOptions& options);

// --- infer.cpp -------------------------------------------------------------------------------------------------------
/// Fixes input shapes; symbols bound by them are bound in the whole model. Errors (usage) name the inputs there are.
void bind_shapes(Loaded& model, const std::map<std::string, Shape>& shapes);
/// ONNX's shape inference with data propagation; types and shapes go to value_info, of nested graphs too.
void infer_shapes(Loaded& model, bool lenient);

// --- upgrade.cpp -----------------------------------------------------------------------------------------------------
/// Rewrites the nodes whose meaning changed since the model's opset, and sets the opset to the newest.
void upgrade(Loaded& model);
/// Nodes of opset `from` rewritten for the newest; `type_of` gives a value's type where it is known, null elsewhere.
using TypeOf = std::function<const onnx::TypeProto*(const std::string& value)>;
std::vector<onnx::NodeProto> upgrade_nodes(std::vector<onnx::NodeProto> nodes, int64_t from, const TypeOf& type_of, Names& names);
/// Whether any node of the model changed its meaning between its opset and the newest.
bool needs_upgrade(onnx::ModelProto& model);
/// True for an operator that ONNX has deprecated and upgrade() replaces.
bool is_replaced(const std::string& op);

// --- scopes.cpp ------------------------------------------------------------------------------------------------------
/// Module path of a node, outermost first, from its metadata ("pkg.torch.onnx.name_scopes", "namespace") or, failing
/// that, from a name in the older exporter's form "/layer1/layer1.0/conv1/Conv".
std::vector<std::string> scopes_of(const onnx::NodeProto& node);
/// The strings of a Python list literal: "['', 'encoder', 'it\\'s']". Nothing when it is not one.
std::optional<std::vector<std::string>> parse_python_list(std::string_view text);
std::string print_python_list(const std::vector<std::string>& items);

// --- microsoft.cpp ---------------------------------------------------------------------------------------------------
/// Gives ONNX's registry the common operators of com.microsoft, so that their outputs get types and shapes.
void register_microsoft_schemas();

// --- guards.cpp ------------------------------------------------------------------------------------------------------
/// ONNX's operators with checks before what would crash or fill all memory when shape inference meets an odd model.
const onnx::ISchemaRegistry& guarded_schemas();

// --- plan.cpp --------------------------------------------------------------------------------------------------------
/// Whether a call is of a fused operator that becomes a fused node again; otherwise its function body stands for it.
bool is_fused_call(const onnx::ModelProto& model, const onnx::NodeProto& call, const ImportOptions& options);
/// The sources that a plan's node names; nothing for a node that no plan wrote.
std::optional<std::vector<SourceNode>> plan_sources(const onnx::NodeProto& node);

// --- to_graph.cpp ----------------------------------------------------------------------------------------------------
Graph to_graph(const Loaded& model);

}  // namespace smelt::importer
