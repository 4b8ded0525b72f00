// Reads what export.h wrote: which calls are fused nodes, and which nodes of the model they stand for.
#include <algorithm>

#include "graph/fused.h"
#include "import/stages.h"
#include "import/to_proto.h"
#include "smelt/error.h"

namespace smelt::importer {

namespace {

bool has_program_smelt_reads(const onnx::NodeProto& call) {
  const auto* a = find_attribute(call, program_attribute);
  if (!a) return true;
  try {
    expr::Program::parse(a->s());
    return true;
  } catch (const Error&) {
    return false;  // a function of a later smelt: the body says what it computes
  }
}

bool is_fused_operator(const std::string& op) {
  Node n;
  n.domain = smelt_domain;
  n.op = op;
  try {
    first_operand(n);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool is_fused_call(const onnx::ModelProto& model, const onnx::NodeProto& call, const ImportOptions& options) {
  if (call.domain() != smelt_domain || !is_fused_operator(call.op_type())) return false;
  if (options.supported && !options.supported(call.domain(), call.op_type())) return false;
  const auto& metadata = model.metadata_props();
  const bool known_version = std::any_of(metadata.begin(), metadata.end(),
                                         [](const auto& e) { return e.key() == plan_version_key && e.value() == plan_version; });
  return known_version && has_program_smelt_reads(call);
}

std::optional<std::vector<SourceNode>> plan_sources(const onnx::NodeProto& node) {
  auto list = [&](const char* key) -> std::optional<std::vector<std::string>> {
    const auto* text = find_metadata(node, key);
    return text ? parse_python_list(*text) : std::nullopt;
  };
  const auto names = list(plan_sources_key), ops = list(plan_source_ops_key), scopes = list(plan_scopes_key);
  if (!names || !ops || !scopes || names->size() != ops->size() || names->size() != scopes->size()) return {};
  std::vector<SourceNode> out;
  for (size_t i = 0; i < names->size(); ++i)
    out.push_back({(*names)[i], (*ops)[i], parse_python_list((*scopes)[i]).value_or(std::vector<std::string>{})});
  return out;
}

}  // namespace smelt::importer
