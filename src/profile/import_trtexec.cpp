// What trtexec --exportProfile and --exportLayerInfo write.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "profile/imports.h"

namespace smelt::profile {

using Json = nlohmann::json;

namespace {

constexpr std::string_view reformat = "Reformatting CopyNode for ", shuffle = "reshape_", pointwise = "PWN(", myelin = "__myl_";

/// Cuts `text` where any of these is, without what is empty.
std::vector<std::string_view> cut(std::string_view text, std::initializer_list<std::string_view> marks) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0, i = 0; begin < text.size();) {
    const auto mark = std::ranges::find_if(marks, [&](std::string_view m) { return text.substr(i).starts_with(m); });
    if (i < text.size() && mark == marks.end()) {
      ++i;
      continue;
    }
    if (i > begin) parts.push_back(text.substr(begin, i - begin));
    begin = i = i < text.size() ? i + mark->size() : i;
  }
  return parts;
}

/// The model's nodes in a layer's name: "/conv/Conv + onnx::Mul_7 + /act/Relu", "PWN(PWN(/Sub), PWN(/Div))", "/q/MatMul || /k/MatMul",
/// "reshape_after_/q/MatMul_copy_input", "{ForeignNode[/a/Pow.../b/Div]}".
std::vector<std::string> nodes_in(std::string_view name) {
  if (name.starts_with(myelin)) return {};
  if (const size_t to = name.find(" to "); name.starts_with(reformat)) name.remove_prefix(to == name.npos ? name.size() : to + 4);
  std::vector<std::string> nodes;
  for (std::string_view part : cut(name, {" + ", " || ", ", ", pointwise, "{ForeignNode[", "...", "]}"})) {
    if (name.find(pointwise) != name.npos)
      while (part.ends_with(')')) part.remove_suffix(1);
    for (std::string_view head : {"reshape_after_", "reshape_before_"})
      if (part.starts_with(head)) part.remove_prefix(head.size());
    for (std::string_view tail : {" copy", "_copy_input", "_copy_output"})
      if (part.ends_with(tail)) part.remove_suffix(tail.size());
    const bool constant = part.starts_with("onnx::") || part.starts_with("ONNXTRT_") || part.find("_output_") != part.npos;
    if (!part.empty() && !constant) nodes.emplace_back(part);
  }
  return nodes;
}

/// "/block/MatMul_1" → "MatMul": PyTorch's exporter ends a node's name so. Nothing of other names.
std::string_view op_of(std::string_view node) {
  node = node.substr(node.rfind('/') + 1);
  if (const size_t digits = node.find_last_not_of("0123456789"); digits + 1 < node.size() && node[digits] == '_')
    node = node.substr(0, digits);
  return !node.empty() && node[0] >= 'A' && node[0] <= 'Z' ? node : std::string_view();
}

/// What a layer is, by its name alone, in the words of --exportLayerInfo where it has one.
std::string type_of(std::string_view name, const std::vector<std::string>& nodes) {
  if (name.starts_with(reformat) || name.ends_with(" copy")) return "Reformat";
  if (name.starts_with(shuffle)) return "Shuffle";
  if (name.starts_with(pointwise)) return "PointWise";
  if (name.starts_with(myelin) || name.starts_with("{ForeignNode[")) return "Myelin";
  std::vector<std::string_view> ops;  // in order, each once: of many of them a word is enough
  constexpr size_t most = 4;
  for (const std::string& n : nodes)
    if (const std::string_view op = op_of(n); !op.empty() && ops.size() < most && std::ranges::find(ops, op) == ops.end())
      ops.push_back(op);
  std::string type;
  for (const std::string_view op : ops) (type += type.empty() ? "" : "+") += op;
  return type;
}

}  // namespace

// [{"count": runs}, {"name", "timeMs", "averageMs", "medianMs", "percentage"}, …] and {"Layers": [{"Name", "LayerType",
// "Metadata"}, …]}, where Metadata names the ONNX nodes: "[ONNX Layer: /conv/Conv]\x1e[ONNX Layer: /relu/Relu]".
Timings from_trtexec(const Json& profile, const Json* layers) {
  Timings t{.origin = "trtexec", .gpu = true};
  struct Layer {
    std::string type;
    std::vector<std::string> nodes;
  };
  std::map<std::string, Layer> known;
  if (layers)
    for (const Json& l : layers->at("Layers")) {
      if (!l.is_object()) fail("layers without details: build with --profilingVerbosity=detailed");
      Layer& layer = known[text_of(l, "Name")];
      layer.type = text_of(l, "LayerType");
      const std::string metadata = text_of(l, "Metadata");
      constexpr std::string_view opening = "[ONNX Layer: ";
      for (size_t at = metadata.find(opening); at != metadata.npos; at = metadata.find(opening, at)) {
        at += opening.size();
        const size_t end = metadata.find(']', at);
        if (end == metadata.npos) break;
        layer.nodes.push_back(metadata.substr(at, end - at));
      }
    }
  for (const Json& e : profile) {
    if (e.contains("count")) t.runs = std::max(1, e.at("count").get<int>());
    if (!e.contains("name")) continue;
    NodeTime n{.name = e.at("name").get<std::string>(), .calls = 1};
    const Json& ms = e.contains("medianMs") ? e.at("medianMs") : e.at("averageMs");
    if (!ms.is_number()) fail("damaged: layer '{}' has {} where its milliseconds should be", n.name, ms.type_name());
    const double us = 1e3 * ms.get<double>();
    n.self_gpu_us = n.total_gpu_us = us;
    const std::vector<std::string> nodes = nodes_in(n.name);
    if (!n.name.starts_with(reformat) && (nodes.size() != 1 || nodes[0] != n.name)) n.sources = nodes;
    n.op = type_of(n.name, nodes);
    if (const auto layer = known.find(n.name); layer != known.end()) {
      n.op = layer->second.type;
      if (!layer->second.nodes.empty()) n.sources = layer->second.nodes;
    }
    std::vector<std::vector<std::string>> scopes;
    for (const std::string& s : n.sources.empty() ? nodes : n.sources) scopes.push_back(scope_of_name(s));
    if (!scopes.empty()) n.scope = common(scopes);
    t.nodes.push_back(std::move(n));
  }
  if (t.nodes.empty()) fail("a profile of trtexec without a layer's time");
  return t;
}

}  // namespace smelt::profile
