// What trtexec --exportProfile and --exportLayerInfo write.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "profile/imports.h"

namespace smelt::profile {

using Json = nlohmann::json;

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
    if (const auto layer = known.find(n.name); layer != known.end()) {
      n.op = layer->second.type;
      n.sources = layer->second.nodes;
    } else if (n.name.find(" + ") != n.name.npos) {  // fused layers are named by their parts
      for (size_t at = 0; at < n.name.size();) {
        const size_t end = std::min(n.name.find(" + ", at), n.name.size());
        n.sources.push_back(n.name.substr(at, end - at));
        at = end + 3;
      }
    }
    std::vector<std::vector<std::string>> scopes;
    for (const std::string& s : n.sources) scopes.push_back(scope_of_name(s));
    n.scope = scopes.empty() ? scope_of_name(n.name) : common(scopes);
    t.nodes.push_back(std::move(n));
  }
  if (t.nodes.empty()) fail("a profile of trtexec without a layer's time");
  return t;
}

}  // namespace smelt::profile
