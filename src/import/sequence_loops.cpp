// Bodies of SequenceMap, and of Loops that carry sequences: their nodes, once for each item or turn.
#include <algorithm>

#include "base/error.h"
#include "import/sequences.h"
#include "import/tensors.h"

namespace smelt::importer {
namespace {

/// Whether the value is a constant true: of the graph, or of the body, where its own condition goes on as it was.
bool is_true(std::string name, const onnx::GraphProto* body, const Scope& scope, const Loaded& model) {
  const auto true_tensor = [&](const onnx::TensorProto& t) {
    return t.data_type() == onnx::TensorProto::BOOL && read_tensor(t, model).size() == 1 && *read_tensor(t, model).data<bool>();
  };
  for (int at = body ? body->node_size() : 0; at-- > 0;) {
    const auto& n = body->node(at);
    if (n.output_size() != 1 || n.output(0) != name || !n.domain().empty()) continue;
    if (n.op_type() != "Identity") {
      const auto* value = n.op_type() == "Constant" ? find_attribute(n, "value") : nullptr;
      return value && true_tensor(value->t());
    }
    name = n.input(0);
  }
  if (body && name == body->input(1).name()) return true;
  for (int i = 0; body && i < body->initializer_size(); ++i)
    if (body->initializer(i).name() == name) return true_tensor(body->initializer(i));
  const auto* t = scope.find(&Scope::constants, name);
  return t && true_tensor(*t);
}

}  // namespace

void unroll_map(const onnx::NodeProto& n, const Known& first, Scope& scope, NodeWriter& writer) {
  const auto* body = find_attribute(n, "body");
  if (!body || body->g().input_size() != n.input_size() || body->g().output_size() < n.output_size()) return;
  const size_t count = first.items.size();
  for (int i = 1; i < n.input_size(); ++i) {
    const Known* k = scope.find(&Scope::known, n.input(i));
    if (k && (k->is_optional || k->items.size() != count)) return;
    if (!k && !scope.tensor_type(n.input(i))) return;
  }
  if (count * static_cast<size_t>(body->g().node_size()) > longest_sequence) return;
  const auto shared = writer.share_initializers(n, body->g());
  std::vector<Known> results(static_cast<size_t>(n.output_size()));
  for (size_t i = 0; i < count; ++i) {
    auto renames = shared;
    for (int in = 0; in < n.input_size(); ++in) {
      const Known* k = scope.find(&Scope::known, n.input(in));
      renames[body->g().input(in).name()] = k ? k->items[i] : n.input(in);
    }
    writer.copy_nodes(body->g(), renames, fmt::format("{}/{}/", n.name(), i));
    for (size_t o = 0; o < results.size(); ++o)
      results[o].items.push_back(renamed(body->g().output(static_cast<int>(o)).name(), renames));
  }
  for (size_t o = 0; o < results.size(); ++o) scope.known[n.output(static_cast<int>(o))] = std::move(results[o]);
}

bool unroll_loop(const onnx::NodeProto& n, const Scope& scope, const Loaded& model, NodeWriter& writer) {
  const auto* attribute = find_attribute(n, "body");
  if (!attribute || n.input_size() < 3) return false;
  const onnx::GraphProto& body = attribute->g();
  const int carried = n.input_size() - 2, scans = body.output_size() - 1 - carried;
  bool holds = false;
  for (int i = 2; i < n.input_size(); ++i) holds |= scope.find(&Scope::known, n.input(i)) != nullptr;
  const auto turns = scope.constant(n.input(0), model);
  if (!holds || !turns || turns->size() != 1 || body.input_size() != n.input_size() || scans < 0) return false;
  if ((!n.input(1).empty() && !is_true(n.input(1), nullptr, scope, model)) ||
      !is_true(body.output(0).name(), &body, scope, model))
    return false;
  const int64_t count = turns->to_ints()[0];
  if (count < 1 || count * std::max(1, body.node_size()) > static_cast<int64_t>(longest_sequence)) return false;
  const auto shared = writer.share_initializers(n, body);
  const std::string always = writer.fresh(n.name() + "/true");
  writer.emit_constant(n, onnx::TensorProto::BOOL, {1}, false, always, "/true");
  std::vector<std::string> now(n.input().begin() + 2, n.input().end());
  std::vector<std::vector<std::string>> stacked(static_cast<size_t>(scans));
  for (int64_t turn = 0; turn < count; ++turn) {
    const std::string prefix = fmt::format("{}/{}/", n.name(), turn), number = writer.fresh(prefix + "turn");
    writer.emit_constant(n, onnx::TensorProto::INT64, {turn}, false, number, fmt::format("/{}/turn", turn));
    auto renames = shared;
    renames[body.input(0).name()] = number;
    renames[body.input(1).name()] = always;
    for (int i = 0; i < carried; ++i) renames[body.input(2 + i).name()] = now[static_cast<size_t>(i)];
    writer.copy_nodes(body, renames, prefix);
    const auto result = [&](int o) { return renamed(body.output(o).name(), renames); };
    for (int i = 0; i < carried; ++i) now[static_cast<size_t>(i)] = result(1 + i);
    for (int i = 0; i < scans; ++i) stacked[static_cast<size_t>(i)].push_back(result(1 + carried + i));
  }
  for (int i = 0; i < n.output_size(); ++i) {
    if (n.output(i).empty()) continue;
    if (i < carried)
      writer.emit(n, "Identity", {now[static_cast<size_t>(i)]}, {n.output(i)}, fmt::format("/result_{}", i));
    else
      writer.emit_concat(n, stacked[static_cast<size_t>(i - carried)], 0, true, n.output(i), fmt::format("/stacked_{}", i));
  }
  return true;
}

}  // namespace smelt::importer
