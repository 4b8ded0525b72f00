#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/process.h"
#include "report/report.h"

namespace smelt::report {
namespace {

// Twelve light fills that stay apart in print and for most colour-blind readers, repeated when there are more groups.
constexpr const char* group_colours[] = {"#a6cee3", "#b2df8a", "#fdbf6f", "#cab2d6", "#ffff99", "#fb9a99",
                                         "#8dd3c7", "#bebada", "#fccde5", "#d9d9d9", "#ccebc5", "#ffed6f"};

std::string dot_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) >= 32)
      out += c;
  }
  return out + "\"";
}

std::string shape_text(const Value& v) { return fmt::format("{}{}", name(v.type), v.shape ? to_string(*v.shape) : "[…]"); }

std::string to_dot(const Graph& g, const std::map<std::string, double>& us, const std::map<std::string, int>& groups) {
  std::string dot =
      "digraph g {\n  rankdir=TB; nodesep=0.15; ranksep=0.25; bgcolor=transparent;\n"
      "  node [shape=box style=\"filled,rounded\" fillcolor=\"#f4f4f4\" color=\"#888888\" "
      "fontname=\"Helvetica,Arial,sans-serif\" fontsize=10 height=0.25 margin=\"0.08,0.04\"];\n"
      "  edge [color=\"#888888\" arrowsize=0.5];\n";
  for (ValueId v : g.inputs())
    dot += fmt::format("  v{} [label={} shape=ellipse fillcolor=\"#ffffff\" tooltip={}];\n", index(v),
                       dot_string(g.value(v).name), dot_string(shape_text(g.value(v))));
  for (NodeId id : g.topological()) {
    const Node& n = g.node(id);
    std::string tip = n.name;
    for (ValueId v : n.inputs)
      if (v != ValueId::none)
        tip += fmt::format("\nin  {} {}{}", g.value(v).name, shape_text(g.value(v)), g.value(v).is_constant() ? " constant" : "");
    for (ValueId v : n.outputs)
      if (v != ValueId::none) tip += fmt::format("\nout {} {}", g.value(v).name, shape_text(g.value(v)));
    std::string label = n.op;
    if (const auto t = us.find(n.name); t != us.end()) {
      label += "\n" + format(t->second, Unit::us);
      tip += "\ntime " + format(t->second, Unit::us);
    }
    if (n.sources.size() > 1) {
      label += fmt::format("\n{} nodes", n.sources.size());
      tip += "\nstands for";
      for (int32_t s : n.sources)
        tip += "\n  " + g.sources()[static_cast<size_t>(s)].name + " (" + g.sources()[static_cast<size_t>(s)].op_type + ")";
    }
    int group = -1;
    for (int32_t s : n.sources)
      if (const auto at = groups.find(g.sources()[static_cast<size_t>(s)].name); at != groups.end()) group = at->second;
    const char* fill = group < 0 ? "#f4f4f4" : group_colours[static_cast<size_t>(group) % std::size(group_colours)];
    // The SVG element gets this class, and the page finds the nodes of one group by it.
    const std::string part = group < 0 ? "" : fmt::format(" class=\"g{}\"", group);
    dot += fmt::format("  n{} [label={} fillcolor=\"{}\" tooltip={}{}];\n", index(id), dot_string(label), fill, dot_string(tip),
                       part);
    for (ValueId v : n.inputs) {
      if (v == ValueId::none || g.value(v).is_constant()) continue;
      const NodeId from = g.value(v).producer;
      const std::string tail = from == NodeId::none ? fmt::format("v{}", index(v)) : fmt::format("n{}", index(from));
      dot += fmt::format("  {} -> n{} [tooltip={}];\n", tail, index(id), dot_string(shape_text(g.value(v))));
    }
  }
  for (ValueId v : g.outputs()) {
    dot += fmt::format("  o{} [label={} shape=ellipse fillcolor=\"#ffffff\" tooltip={}];\n", index(v),
                       dot_string(g.value(v).name), dot_string(shape_text(g.value(v))));
    if (g.value(v).producer != NodeId::none) dot += fmt::format("  n{} -> o{};\n", index(g.value(v).producer), index(v));
  }
  return dot + "}\n";
}

}  // namespace

std::map<std::string, int> groups_of(const Graph& fused) {
  std::map<std::string, int> groups;
  int next = 0;
  for (NodeId id : fused.topological()) {
    const Node& n = fused.node(id);
    if (n.sources.size() < 2) continue;
    for (int32_t s : n.sources) groups[fused.sources()[static_cast<size_t>(s)].name] = next;
    ++next;
  }
  return groups;
}

namespace {

/// What dot makes of the text.
std::string run_dot(const std::string& dot, bool bounded) {
  namespace fs = std::filesystem;
  // Anonymous: it has no name that others could take, and goes with the process.
  std::error_code none;  // TMPDIR may name what is no folder
  const int input = ::open(fs::temp_directory_path(none).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  std::FILE* file = input >= 0 ? ::fdopen(input, "w+") : std::tmpfile();
  if (!file) fail("the graph was not drawn: no temporary file: {}", std::strerror(errno));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> closing(file, &std::fclose);
  if (std::fwrite(dot.data(), 1, dot.size(), file) != dot.size() || std::fflush(file) != 0 ||
      ::lseek(::fileno(file), 0, SEEK_SET) != 0)
    fail("the graph was not drawn: cannot write a temporary file: {}", std::strerror(errno));

  std::vector<std::string> words{"dot", "-Tsvg"};
  // dot's layout takes minutes for a thousand nodes, and its splines overflow its stack; with these bounds it takes seconds.
  if (bounded) words.insert(words.end(), {"-Gnslimit=1", "-Gnslimit1=1", "-Gmclimit=0.1", "-Gsplines=line"});
  constexpr int limit_s = 60;
  const Finished ended = run_program(words, ::fileno(file), limit_s);
  if (ended.not_started == ENOENT)
    throw Error("the graph was not drawn: Graphviz's dot is not installed", "apt-get install graphviz");
  if (ended.not_started != 0) fail("the graph was not drawn: dot could not be started: {}", std::strerror(ended.not_started));
  if (!ended.in_time) fail("the graph was not drawn: dot took longer than {} s", limit_s);
  const int status = ended.status;
  const std::string& svg = ended.output;
  if (status != 0 || svg.find("</svg>") == std::string::npos)
    fail("the graph was not drawn: dot ended with {} {}", WIFSIGNALED(status) ? "signal" : "status",
         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  return svg;
}

}  // namespace

std::string draw(const Graph& g, const std::map<std::string, double>& us, const std::map<std::string, int>& groups) {
  return run_dot(to_dot(g, us, groups), g.topological().size() > 400);
}

}  // namespace smelt::report
