#include <fmt/format.h>

#include "graph/graph.h"

namespace smelt {
namespace {

std::string quoted(const std::string& s) { return '"' + s + '"'; }

template <class T> std::string list(const std::vector<T>& values) {
  if constexpr (std::is_same_v<T, std::string>) {
    std::string out = "[";
    for (size_t i = 0; i < values.size(); ++i) out += (i ? ", " : "") + quoted(values[i]);
    return out + "]";
  } else {
    return fmt::format("[{}]", fmt::join(values, ", "));
  }
}

std::string text(const Attribute& a) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>)
          return quoted(v);
        else if constexpr (std::is_same_v<T, Tensor>)
          return fmt::format("{}{}", name(v.type()), to_string(v.shape()));
        else if constexpr (std::is_same_v<T, GraphPtr>)
          return v ? fmt::format("graph '{}'", v->name) : "no graph";
        else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, float>)
          return fmt::format("{}", v);
        else
          return list(v);
      },
      a);
}

std::string typed(const Value& v) { return fmt::format("{}{}", name(v.type), v.shape ? to_string(*v.shape) : "[…]"); }

/// "n, a, b" of value names; absent ones as "-".
std::string names(const Graph& g, const std::vector<ValueId>& values, bool types) {
  std::string out;
  for (ValueId v : values) {
    if (!out.empty()) out += ", ";
    if (v == ValueId::none)
      out += "-";
    else
      out += types ? fmt::format("{}: {}", g.value(v).name, typed(g.value(v))) : g.value(v).name;
  }
  return out;
}

std::string line(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  const std::string op = n.domain.empty() ? n.op : n.domain + "." + n.op;
  std::string out = fmt::format("%{} {} = {}({})", index(id), names(g, n.outputs, true), op, names(g, n.inputs, false));
  std::string attrs;
  for (const auto& [key, a] : n.attrs) attrs += fmt::format("{}{}={}", attrs.empty() ? "" : ", ", key, text(a));
  if (!attrs.empty()) out += " {" + attrs + "}";
  if (n.program) out += " " + n.program->print();
  std::string from;
  for (int32_t s : n.sources) from += (from.empty() ? "" : ", ") + g.sources()[static_cast<size_t>(s)].name;
  if (!from.empty()) out += "  ← " + from;
  return out;
}

void print(const Graph& g, int depth, std::string& out) {
  const std::string indent(static_cast<size_t>(depth) * 2, ' ');
  out += fmt::format("{}graph {}({})\n", indent, g.name, names(g, g.inputs(), true));
  for (NodeId id : g.topological()) {
    out += indent + line(g, id) + "\n";
    for (const auto& [key, a] : g.node(id).attrs)
      if (const auto* body = std::get_if<GraphPtr>(&a); body && *body) print(**body, depth + 1, out);
  }
  out += fmt::format("{}return {}\n", indent, names(g, g.outputs(), false));
}

}  // namespace

std::string print(const Graph& g) {
  std::string out;
  print(g, 0, out);
  return out;
}

std::string print(const Graph& g, NodeId id) { return line(g, id); }

std::string describe(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  return fmt::format("'{}' ({}{}{})", n.name, n.domain, n.domain.empty() ? "" : ".", n.op);
}

}  // namespace smelt
