#include "fuzz/stages.h"

#include <algorithm>

#include "fuse/match/rewrite.h"
#include "import/export.h"
#include "import/import.h"
#include "import/proto.h"
#include "import/stages.h"
#include "ops/core/expand.h"
#include "ops/core/operator.h"
#include "smelt/error.h"

namespace smelt::fuzz {
namespace {

constexpr int64_t written_at_most = 1 << 20;  // bytes of constants; structures may stand for any number of them

int64_t constant_bytes(const Graph& g) {
  int64_t bytes = 0;
  for (size_t i = 0; i < g.value_count(); ++i) {
    const Tensor& constant = g.value(ValueId{static_cast<int32_t>(i)}).constant;
    if (constant.valid()) bytes += std::min(constant.nbytes(), written_at_most);
  }
  return bytes;
}

bool runs(std::string_view domain, std::string_view op) { return ops::find(op, domain) != nullptr; }

/// Whether a node, in a body too, is a fused one.
bool has_fused(const Graph& g) {
  for (size_t i = 0; i < g.node_count(); ++i) {
    const Node& n = g.node(NodeId{static_cast<int32_t>(i)});
    if (n.alive && n.domain == smelt_domain) return true;
    for (const auto& [key, attribute] : n.attrs)
      if (const auto* body = std::get_if<GraphPtr>(&attribute); body && has_fused(**body)) return true;
  }
  return false;
}

Graph read(const std::string& bytes, const ImportOptions& options) {
  return import_model({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "plan", options);
}

/// The plan with a hash of its graph as it is.
std::string sealed(onnx::ModelProto plan) {
  for (auto& e : *plan.mutable_metadata_props()) {
    if (e.key() != plan_types_key) continue;
    const std::string graph = plan.graph().SerializeAsString();
    e.set_value(importer::hash_of_graph({reinterpret_cast<const uint8_t*>(graph.data()), graph.size()}, plan));
  }
  return plan.SerializeAsString();
}

/// One of the types that a graph says of its values, made up in one of three ways.
void lie(onnx::GraphProto& g, size_t which) {
  if (g.value_info().empty()) return;
  auto& v = *g.mutable_value_info(static_cast<int>(which / 3 % static_cast<size_t>(g.value_info_size())));
  auto& tensor = *v.mutable_type()->mutable_tensor_type();
  if (which % 3 == 0)
    tensor.set_elem_type(tensor.elem_type() == onnx::TensorProto::FLOAT ? onnx::TensorProto::INT64 : onnx::TensorProto::FLOAT);
  if (which % 3 == 1) tensor.mutable_shape()->add_dim()->set_dim_value(3);
  if (which % 3 == 2 && tensor.shape().dim_size() > 0) tensor.mutable_shape()->mutable_dim(0)->set_dim_value(1 << 20);
}

/// Types that a plan carries and that nobody inferred harm no rewrite.
void believe(const std::string& plan, const ImportOptions& options) {
  onnx::ModelProto as_written;
  as_written.ParseFromString(plan);
  constexpr size_t lies = 12;
  for (size_t i = 0; i < lies; ++i) {
    onnx::ModelProto made_up = as_written;
    lie(*made_up.mutable_graph(), i * (plan.size() % 7 + 1));
    try {
      Graph g = read(sealed(std::move(made_up)), options);
      fuse::run(g);
      verify(g);
    } catch (const Error&) {
    }
  }
}

/// `any_fused`: the file had fused nodes of its own, which need not be as smelt makes them.
void read_back(const Graph& g, const ImportOptions& options, bool any_fused) {
  ExportOptions out;
  out.expand = [](const Graph& graph, NodeId n) { return ops::expand(graph, n); };
  std::string plan;
  try {
    plan = export_bytes(g, out);
  } catch (const Error& e) {
    // An operator, attribute or type that the opset of plans does not have; or, where the model was read for its structure and
    // its types and shapes were not insisted on, or it had fused nodes itself, one that no input would fit.
    if (e.code() == ExitCode::unsupported || options.structure_only || any_fused) return;
    throw;
  }
  try {
    read(plan, options);
  } catch (const Error&) {
    // A model that no input would run on: what the rewrites fold is what inference then sees to be a shape that cannot be.
    return;
  }
  believe(plan, options);
}

}  // namespace

bool optimize_any(std::span<const uint8_t> bytes) {
  ImportOptions options;
  options.max_nodes = 2000;
  // No data files: for one input in four they are missing, which is an error; the others are read for their structure. One in
  // four has most of the functions expanded that ONNX defines.
  options.folder = "/nonexistent";
  options.structure_only = bytes.size() % 4 != 1;
  options.supported = runs;
  if (bytes.size() % 4 == 2)
    options.supported = [](std::string_view domain, std::string_view op) { return runs(domain, op) && op.size() % 3 != 0; };
  Graph g;
  try {
    g = import_model(bytes, "fuzz", options);
  } catch (const Error&) {
    return false;
  }
  const bool any_fused = has_fused(g);
  fuse::run(g);
  verify(g);
  print(g);
  options.supported = runs;
  if (constant_bytes(g) < written_at_most) read_back(g, options, any_fused);
  return true;
}

}  // namespace smelt::fuzz
