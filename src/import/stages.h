// The stages of the import between parsing and the Graph; each works on a Loaded in place. import.cpp runs them in order.
#pragma once

#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "import/proto.h"

namespace onnx {
class ISchemaRegistry;
class OpSchema;
}  // namespace onnx

namespace smelt::importer {

// --- check.cpp -------------------------------------------------------------------------------------------------------
/// Checks that opset versions are in range, and that ONNX, the model's functions or `options.supported` know every operator. One
/// Error lists all unknown operators.
void check_operators(Loaded& model, const ImportOptions& options);
/// Runs ONNX's checker: fields, names, order, attributes. It also bounds the nesting of subgraphs.
void check_model(const Loaded& model);
/// Throws Error (unsupported) with a list of the nodes that read or give sequences, maps, optionals or sparse tensors.
void check_tensors_only(Loaded& model);
/// Throws Error (unsupported) with a list of these nodes and their inputs' types and shapes; returns if there are none.
void fail_unsupported_nodes(Loaded& model, const std::vector<onnx::NodeProto>& nodes);

// --- canonicalise.cpp ------------------------------------------------------------------------------------------------
/// Domain "ai.onnx" becomes "", each domain is imported once (an Error where two versions of it are), and functions that nothing
/// calls are gone. Runs before the checks, which take "ai.onnx" for a domain of other operators.
void canonicalise_domains(Loaded& model);
/// Dimensions below 0 and those named "?" become unknown ones, of which no two need be equal: so exporters (PaddlePaddle's) write
/// them.
void forget_unknown_dimensions(Loaded& model);
/// Nodes come behind those whose outputs they read. ONNX asks files for that, but tools (onnxruntime's converter to float16) leave
/// nodes at the end that earlier ones read, and ONNX Runtime sorts them.
void sort_nodes(Loaded& model);
/// Nodes without a name get one, initializers leave the inputs, and every node's
/// metadata names its SourceNodes.
void canonicalise_graph(Loaded& model);

// --- free_names.cpp --------------------------------------------------------------------------------------------------
/// The values that a graph, or a graph nested in it, reads and does not define, in the order of their first use.
std::vector<std::string> free_names(const onnx::GraphProto& g);

// --- functions.cpp ---------------------------------------------------------------------------------------------------
/// The names of values in use anywhere in a model; makes fresh ones.
class Names {
 public:
  explicit Names(onnx::ModelProto& model);
  std::string fresh(const std::string& base);

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_;  // number to try next behind a base
};

/// Replaces calls of the model's own functions by their bodies. A body's node is named "call/node", and its scopes are those of
/// the call followed by its own. Calls that `keep` accepts stay, and so do their functions.
void inline_functions(Loaded& model, const std::function<bool(const onnx::NodeProto& call)>& keep, int64_t max_nodes);
/// Replaces unsupported nodes that ONNX defines as functions by their schema's body, upgraded if it is of an older opset.
/// Returns whether there were any. The body's nodes stand for the same source as the call.
bool expand_functions(Loaded& model, const ImportOptions& options);

// --- classical.cpp ---------------------------------------------------------------------------------------------------
/// Replaces what only names the results of classifiers, ai.onnx.ml's ZipMap and labels that are text, by tensors and a LabelEncoder.
void make_plain(Loaded& model);

// --- sequences.cpp ---------------------------------------------------------------------------------------------------
/// Replaces sequences and optional values whose members the model fixes by the tensors. Reads inferred types; returns whether it
/// changed anything, so that types are to be inferred again.
bool resolve_sequences(Loaded& model);
/// Whether the node is of an operator on sequences or optional values, which only resolve_sequences() understands.
bool is_on_sequences(const onnx::NodeProto& node);

// --- infer.cpp -------------------------------------------------------------------------------------------------------
/// Fixes input shapes, and binds their symbols in the whole model. Errors (usage) name the model's inputs.
void bind_shapes(Loaded& model, const std::map<std::string, Shape>& shapes);
/// Runs ONNX's shape inference with data propagation. Types and shapes go to value_info, in nested graphs too.
void infer_shapes(Loaded& model, bool lenient);

// --- carried_types.cpp ------------------------------------------------------------------------------------------------
/// Whether a plan's values have the types and shapes that smelt wrote, by which they need not be inferred: each node's fit what ONNX's
/// rule says of that node by itself. Otherwise the model is to be inferred.
bool carries_types(Loaded& model, const ImportOptions& options);

// --- upgrade.cpp -----------------------------------------------------------------------------------------------------
/// Rewrites the nodes whose meaning changed since the model's opset, and sets the opset to the newest.
void upgrade(Loaded& model);
/// Rewrites nodes of opset `from` for the newest opset. `type_of` gives a value's type if it is known, else null.
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
/// A common operator of com.microsoft, whose outputs get types and shapes by its schema; null where there is none of that name.
struct MicrosoftOperator;
const MicrosoftOperator* find_microsoft_operator(std::string_view op, std::string_view domain);
onnx::OpSchema microsoft_schema(const MicrosoftOperator& row);

// --- microsoft/rules.cpp ---------------------------------------------------------------------------------------------
/// Replaces the calls of operators of com.microsoft that ONNX's operators can say by these. Reads inferred types; returns whether
/// there were any. Some of them stay where `options.supported` has them. Throws Error (unsupported) naming the attribute or the input that
/// a rule does not take.
bool replace_microsoft_calls(Loaded& model, const ImportOptions& options);
/// Whether replace_microsoft_calls() can replace the node.
bool is_microsoft_call(const onnx::NodeProto& n);
/// Whether it leaves calls that its rule does not take, which run where the operator does: not an error of the import.
bool may_stay(const onnx::NodeProto& n);

// --- guards.cpp ------------------------------------------------------------------------------------------------------
/// ONNX's operators, guarded where shape inference of an odd model would crash or fill all memory.
const onnx::ISchemaRegistry& guarded_schemas();

// --- plan.cpp --------------------------------------------------------------------------------------------------------
/// Whether a call becomes a fused node again. Otherwise its function body replaces it.
bool is_fused_call(const onnx::ModelProto& model, const onnx::NodeProto& call, const ImportOptions& options);
/// What smelt.plan.types says of a graph's bytes in versions of operators. Not for security.
std::string hash_of_graph(std::span<const uint8_t> graph, const onnx::ModelProto& model);
/// Whether the bytes of a plan's graph are those that smelt wrote.
bool is_as_written(const onnx::ModelProto& model, std::span<const uint8_t> graph);
/// The function that a call of the plan's own functions means: its operator and overload.
std::string fused_function(const onnx::NodeProto& call);
/// The function bodies of a plan's fused nodes as the file has them, to be compared with what the nodes' programs mean. They are
/// taken before any stage changes the model.
class FusedBodies {
 public:
  FusedBodies(const onnx::ModelProto& model, const ImportOptions& options);
  bool empty() const { return texts_.empty(); }
  /// Whether the body of a call's function is the definition of the fused node that was made of the call.
  bool agree(const Graph& g, NodeId node, const onnx::NodeProto& call) const;

 private:
  std::function<Graph(const Graph&, NodeId)> expand_;
  std::map<std::string, std::string> texts_;  // by fused_function
};
/// The sources that a plan's node names; nothing for a node that is not from a plan.
std::optional<std::vector<SourceNode>> plan_sources(const onnx::NodeProto& node);

// --- to_graph.cpp ----------------------------------------------------------------------------------------------------
/// `fused` hears of each fused node of a plan, once its inputs and outputs are known.
using OnFused = std::function<void(const Graph&, NodeId, const onnx::NodeProto& call)>;
Graph to_graph(const Loaded& model, const OnFused& fused);

}  // namespace smelt::importer
