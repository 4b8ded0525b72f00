#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "cli/common.h"
#include "graph/graph.h"
#include "import/import.h"
#include "ops/op.h"

namespace smelt::cli {
namespace {

report::Table ports(const char* key, const char* title, const Graph& g, const std::vector<ValueId>& values) {
  report::Table t{.key = key, .title = title, .columns = {{"name", "name"}, {"type", "type"}, {"shape", "shape"}}};
  for (ValueId v : values) {
    const Value& x = g.value(v);
    t.rows.push_back({x.name, std::string(name(x.type)), x.shape ? to_string(*x.shape) : std::string("unknown rank")});
  }
  return t;
}

report::Table operators(const Graph& g) {
  std::map<std::string, int64_t> counts;
  for (NodeId n : g.topological()) ++counts[g.node(n).domain.empty() ? g.node(n).op : g.node(n).domain + "." + g.node(n).op];
  report::Table t{.key = "operators", .title = "Operators", .columns = {{"operator", "operator"}, {"count", "nodes", report::Unit::count}}};
  for (const auto& [op, n] : counts) t.rows.push_back({op, n});
  t.sort_by("count");
  return t;
}

report::Table weights(const Graph& g) {
  std::map<DType, std::pair<int64_t, int64_t>> totals;
  for (size_t i = 0; i < g.value_count(); ++i) {
    const Value& v = g.value(static_cast<ValueId>(i));
    if (!v.is_constant() || g.readers(static_cast<ValueId>(i)).empty()) continue;
    totals[v.type].first += v.constant.size();
    totals[v.type].second += v.constant.nbytes();
  }
  report::Table t{.key = "weights", .title = "Constants", .columns = {{"type", "type"}, {"elements", "elements", report::Unit::count}, {"bytes", "bytes", report::Unit::bytes}}};
  for (const auto& [type, total] : totals) t.rows.push_back({std::string(name(type)), total.first, total.second});
  return t;
}

report::Table modules(const Graph& g, int depth) {
  std::map<std::string, int64_t> counts;
  for (NodeId n : g.topological())
    for (int32_t s : g.node(n).sources) {
      std::string last;
      int d = 0;
      for (const std::string& path : g.sources()[static_cast<size_t>(s)].scopes)
        if (!path.empty() && path != last && d++ < depth) ++counts[last = path];
    }
  report::Table t{.key = "modules", .title = "Modules", .columns = {{"path", "module"}, {"count", "nodes", report::Unit::count}}};
  for (const auto& [path, n] : counts) t.rows.push_back({path, n});
  return t;
}

// The node, what feeds it and what reads it, as far as `radius` edges away.
void print_around(const Graph& g, const std::string& wanted, int radius) {
  const NodeId start = g.find_node(wanted);
  if (start == NodeId::none) throw Error(fmt::format("{}: no node is named '{}'", g.model.path, wanted), fmt::format("See all of them: smelt info {} --graph", g.model.path), ExitCode::usage);
  std::map<NodeId, int> distance{{start, 0}};
  for (std::vector<NodeId> front{start}; !front.empty();) {
    std::vector<NodeId> next;
    for (NodeId n : front) {
      const int d = distance[n];
      if (d == radius) continue;
      const auto visit = [&](NodeId m) { if (m != NodeId::none && distance.emplace(m, d + 1).second) next.push_back(m); };
      for (size_t i = 0; i < g.node(n).inputs.size(); ++i) visit(g.producer(n, i));
      for (ValueId v : g.node(n).outputs)
        if (v != ValueId::none)
          for (const Use& u : g.readers(v)) visit(u.node);
    }
    front = std::move(next);
  }
  for (NodeId n : g.topological())
    if (distance.contains(n)) print_line((n == start ? "→ " : "  ") + print(g, n));
}

}  // namespace

Action add_info(CLI::App& app) {
  auto m = std::make_shared<ModelArguments>();
  auto node = std::make_shared<std::string>();
  auto whole = std::make_shared<bool>(false);
  auto depth = std::make_shared<int>(2);
  app.add_option("model", m->path, "An ONNX model or a plan; its weights need not be there")->required();
  app.add_option("--shapes", m->shapes_text, "Fix input shapes: x:1x3x224x224,mask:1x8");
  app.add_option("--node", *node, "Show the graph around this node");
  app.add_flag("--graph", *whole, "Print every node");
  app.add_option("--module-depth", *depth, "How deep the list of modules goes")->check(CLI::Range(0, 100));
  app.add_flag("--json", m->as_json, "Print JSON");
  return [=] {
    ImportOptions import;
    import.shapes = m->subject().shapes;
    import.structure_only = true;
    const Graph g = import_model(m->path, import);
    if (!node->empty()) return print_around(g, *node, 2), 0;
    if (*whole) return print_line(print(g)), 0;
    std::vector<report::Table> tables{ports("inputs", "Inputs", g, g.inputs()), ports("outputs", "Outputs", g, g.outputs()), operators(g), weights(g), modules(g, *depth)};
    report::Table unsupported{.key = "unsupported", .title = "Not supported", .columns = {{"node", "node"}, {"operator", "operator"}}};
    for (NodeId n : g.topological())
      if (!ops::find(g.node(n).op, g.node(n).domain)) unsupported.rows.push_back({g.node(n).name, g.node(n).domain + (g.node(n).domain.empty() ? "" : ".") + g.node(n).op});
    if (!unsupported.rows.empty()) tables.push_back(unsupported);
    if (m->as_json) return print_line(report::table_json(tables)), 0;
    std::string opsets;
    for (const auto& [domain, version] : g.model.opsets) opsets += fmt::format("{}{} {}", opsets.empty() ? "" : ", ", domain.empty() ? "ai.onnx" : domain, version);
    print_line(fmt::format("{}: {} nodes, IR {}, {}, written by {} {}\n", m->path, g.live_nodes(), g.model.ir_version, opsets, g.model.producer, g.model.producer_version));
    for (report::Table& t : tables)
      if (!t.rows.empty()) t.keep_top(t.key == "modules" ? 40 : t.rows.size()), print_table(t), print_line("");
    return 0;
  };
}

}  // namespace smelt::cli
