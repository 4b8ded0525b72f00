#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "cli/busy.h"
#include "cli/common.h"
#include "graph/graph.h"
#include "import/import.h"
#include "ops/core/operator.h"
#include "plan/shapes.h"

namespace smelt::cli {
namespace {

report::Table model(const Graph& g) {
  std::string opsets;
  for (const auto& [domain, version] : g.model.opsets)
    opsets += fmt::format("{}{} {}", opsets.empty() ? "" : ", ", domain.empty() ? "ai.onnx" : domain, version);
  report::Table t{.key = "model", .title = g.model.path, .columns = {{"what", ""}, {"value", ""}}};
  t.rows.push_back({"nodes", static_cast<int64_t>(g.live_nodes())});
  t.rows.push_back({"opset", opsets});
  t.rows.push_back({"IR version", static_cast<int64_t>(g.model.ir_version)});
  t.rows.push_back({"written by", g.model.producer + " " + g.model.producer_version});
  return t;
}

report::Table ports(const char* key, const char* title, const Graph& g, const std::vector<ValueId>& values) {
  report::Table t{.key = key, .title = title, .columns = {{"name", "name"}, {"type", "type"}, {"shape", "shape"}}};
  for (ValueId v : values) {
    const Value& x = g.value(v);
    t.rows.push_back({x.name, name(x.type), x.shape ? report::shape_cell(*x.shape) : report::Cell("unknown rank")});
  }
  return t;
}

report::Table operators(const Graph& g) {
  std::map<std::string, int64_t> counts;
  for (NodeId n : g.topological()) ++counts[g.node(n).domain.empty() ? g.node(n).op : g.node(n).domain + "." + g.node(n).op];
  report::Table t{
      .key = "operators", .title = "Operators", .columns = {{"operator", "operator"}, {"count", "nodes", report::Unit::count}}};
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
  report::Table t{
      .key = "weights",
      .title = "Constants",
      .columns = {{"type", "type"}, {"elements", "elements", report::Unit::count}, {"bytes", "bytes", report::Unit::bytes}}};
  for (const auto& [type, total] : totals) t.rows.push_back({name(type), total.first, total.second});
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

std::vector<std::string> names(const Graph& g, const std::vector<ValueId>& values) {
  std::vector<std::string> out;
  for (ValueId v : values) out.push_back(v == ValueId::none ? "" : g.value(v).name);
  return out;
}

/// One row for each node, for JSON: what it reads and makes, and the ONNX nodes that it stands for.
report::Table node_table(const Graph& g, const std::vector<NodeId>& nodes) {
  report::Table t{.key = "nodes",
                  .title = "Nodes",
                  .columns = {{"name", "node"},
                              {"domain", "domain"},
                              {"operator", "operator"},
                              {"inputs", "reads"},
                              {"outputs", "makes"},
                              {"sources", "stands for"}}};
  for (NodeId id : nodes) {
    const Node& n = g.node(id);
    std::vector<std::string> sources;
    for (int32_t s : n.sources) sources.push_back(g.sources()[static_cast<size_t>(s)].name);
    t.rows.push_back({n.name, n.domain, n.op, names(g, n.inputs), names(g, n.outputs), sources});
  }
  return t;
}

/// One row for each value that these nodes read or make.
report::Table value_table(const Graph& g, const std::vector<NodeId>& nodes) {
  std::set<ValueId> values;
  for (NodeId id : nodes)
    for (const auto* list : {&g.node(id).inputs, &g.node(id).outputs}) values.insert(list->begin(), list->end());
  values.erase(ValueId::none);
  return ports("values", "Values", g, {values.begin(), values.end()});
}

void print_nodes_json(const Graph& g, const std::vector<NodeId>& nodes) {
  print_line(report::document_json("smelt.info", {node_table(g, nodes), value_table(g, nodes)}));
}

// The node, what feeds it and what reads it, as far as `radius` edges away.
void print_around(const Graph& g, const std::string& wanted, int radius, bool as_json) {
  const NodeId start = g.find_node(wanted);
  if (start == NodeId::none)
    throw Error(fmt::format("{}: no node is named '{}'", g.model.path, wanted),
                fmt::format("See all of them: smelt info {} --graph", g.model.path), ExitCode::usage);
  std::map<NodeId, int> distance{{start, 0}};
  for (std::vector<NodeId> front{start}; !front.empty();) {
    std::vector<NodeId> next;
    for (NodeId n : front) {
      const int d = distance[n];
      if (d == radius) continue;
      const auto visit = [&](NodeId m) {
        if (m != NodeId::none && distance.emplace(m, d + 1).second) next.push_back(m);
      };
      for (size_t i = 0; i < g.node(n).inputs.size(); ++i) visit(g.producer(n, i));
      for (ValueId v : g.node(n).outputs)
        if (v != ValueId::none)
          for (const Use& u : g.readers(v)) visit(u.node);
    }
    front = std::move(next);
  }
  std::vector<NodeId> around;
  for (NodeId n : g.topological())
    if (distance.contains(n)) around.push_back(n);
  if (as_json) return print_nodes_json(g, around);
  for (NodeId n : around) print_line((n == start ? "→ " : "  ") + print(g, n));
}

/// The error of importing the model in order to run it; "" if it can run.
std::string why_it_does_not_run(const std::string& path, ImportOptions wanted) {
  wanted.supported = [](std::string_view domain, std::string_view op) { return domain == smelt_domain || ops::find(op, domain); };
  try {
    import_model(path, wanted);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

/// Nodes whose results have sizes that depend on data. The plan is bound in segments between them.
report::Table splits(const Graph& g) {
  report::Table t{.key = "splits", .title = "Sizes that depend on data", .columns = {{"node", "node"}, {"operator", "operator"}}};
  for (NodeId n : g.topological())
    if (plan::splits_plan(g.node(n))) t.rows.push_back({g.node(n).name, g.node(n).op});
  return t;
}

}  // namespace

Action add_info(CLI::App& app) {
  struct Arguments : ModelArguments {
    std::string node;
    int radius = 2, depth = 2;
    bool whole = false;
  };
  auto a = std::make_shared<Arguments>();
  add_graph_options(app, *a, "An ONNX model or a plan; its weights need not be there");
  app.remove_option(app.get_option("--skip"));
  app.add_option("--node", a->node, "Show the graph around this node")->type_name("NAME");
  app.add_option("--radius", a->radius, "How many edges around it (2)")->check(in_range(0, 1000))->type_name("N");
  app.add_flag("--graph", a->whole, "Print every node");
  app.add_option("--module-depth", a->depth, "How deep the list of modules goes (2)")->check(in_range(0, 100))->type_name("N");
  add_json(app, a->as_json);
  return [a] {
    ImportOptions wanted;
    wanted.shapes = a->subject().shapes;
    wanted.structure_only = true;
    stage("reading " + a->path);
    const Graph g = import_model(a->path, wanted);
    if (!a->node.empty()) return print_around(g, a->node, a->radius, a->as_json), 0;
    if (a->whole && a->as_json) return print_nodes_json(g, g.topological()), 0;
    if (a->whole) return print_line(print(g)), 0;
    std::vector<report::Table> tables{model(g),
                                      ports("inputs", "Inputs", g, g.inputs()),
                                      ports("outputs", "Outputs", g, g.outputs()),
                                      operators(g),
                                      weights(g),
                                      modules(g, a->depth),
                                      splits(g)};
    if (const std::string why = why_it_does_not_run(a->path, wanted); !why.empty())
      tables.push_back({.key = "unsupported", .title = "Not supported", .columns = {{"reason", "reason"}}, .rows = {{why}}});
    if (a->as_json) return print_line(report::document_json("smelt.info", tables)), 0;
    for (report::Table& t : tables)
      if (t.key == "modules") t.keep_top(40);
    print_tables(tables);
    return 0;
  };
}

}  // namespace smelt::cli
