// Before   two nodes with the same operator, attributes and inputs (small constants compared by their values)
// After    the first of them, read by the readers of both
// Unless   the operator draws random numbers or has a subgraph
//          a result of the second is a graph output
//          they dequantize: split_dequantize has made them two
#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_set>

#include "base/file.h"
#include "fuse/match/match.h"
#include "fuse/rewrites/rewrites.h"
#include "ops/core/operator.h"

namespace smelt::fuse {
namespace {

constexpr int64_t small = 64;  // elements of constants that are compared

bool same_tensor(const Tensor& a, const Tensor& b) {
  if (!a.valid() || !b.valid() || a.type() != b.type() || a.shape() != b.shape()) return false;
  return a.type() != DType::string && a.size() <= small && std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0;
}

bool same_value(const Graph& g, ValueId a, ValueId b) {
  if (a == b) return true;
  if (a == ValueId::none || b == ValueId::none) return false;
  return same_tensor(g.value(a).constant, g.value(b).constant);
}

bool same_attribute(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&b](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, GraphPtr>)
          return false;
        else if constexpr (std::is_same_v<T, Tensor>)
          return same_tensor(x, std::get<T>(b));
        else
          return x == std::get<T>(b);
      },
      a);
}

bool is_deterministic(const Node& n) {
  if (n.domain == smelt_domain) return true;
  const ops::OpDef* def = ops::find(n.op, n.domain);
  return def && def->deterministic;
}

bool same(const Graph& g, const Node& a, const Node& b) {
  if (a.op != b.op || a.domain != b.domain) return false;
  if (a.inputs.size() != b.inputs.size() || a.outputs.size() != b.outputs.size()) return false;
  if (a.attrs.size() != b.attrs.size() || a.program != b.program) return false;
  for (size_t i = 0; i < a.inputs.size(); ++i)
    if (!same_value(g, a.inputs[i], b.inputs[i])) return false;
  for (size_t i = 0; i < a.outputs.size(); ++i)
    if ((a.outputs[i] == ValueId::none) != (b.outputs[i] == ValueId::none)) return false;
  for (auto& [key, value] : a.attrs)
    if (auto other = b.attrs.find(key); other == b.attrs.end() || !same_attribute(value, other->second)) return false;
  return true;
}

/// Equal for nodes that are the same.
size_t signature(const Graph& g, const Node& n) {
  size_t h = std::hash<std::string_view>()(n.op);
  const auto mix = [&h](size_t x) { h = (h ^ x) * 0x9e3779b97f4a7c15ull + (h >> 29); };
  mix(n.outputs.size());
  mix(n.attrs.size());
  for (ValueId v : n.inputs) {
    const Tensor* t = v == ValueId::none ? nullptr : &g.value(v).constant;
    if (t && t->valid() && t->type() != DType::string && t->size() <= small)
      mix(hash_bytes(t->raw(), t->nbytes(), static_cast<uint64_t>(t->type()) + t->shape().size()));
    else
      mix(static_cast<size_t>(index(v)));
  }
  if (n.program) {
    for (const expr::Instruction& i : n.program->code()) {
      for (expr::Ref a : i.args) mix(static_cast<size_t>(a));
      mix(static_cast<size_t>(i.fn) << 8 | static_cast<size_t>(i.type));
      mix(std::bit_cast<size_t>(i.value) + static_cast<size_t>(i.index));
    }
  }
  for (const auto& [key, value] : n.attrs) {
    mix(std::hash<std::string_view>()(key));
    if (const auto* number = std::get_if<int64_t>(&value)) mix(static_cast<size_t>(*number));
    if (const auto* text = std::get_if<std::string>(&value)) mix(std::hash<std::string_view>()(*text));
    if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value))
      for (int64_t x : *numbers) mix(static_cast<size_t>(x));
  }
  return h;
}

/// Nodes by signature, those of one in topological order, as they were when a sweep began.
struct Filed {
  struct Entry {
    size_t signature;
    int32_t place;
    NodeId node;
  };
  const Graph* graph = nullptr;
  std::vector<Entry> nodes;
};
thread_local Filed filed;

constexpr size_t few_readers = 16;  // looked through one by one

/// Nodes that may be the same as n, which reads `anchor`: all that are, as far as nothing has changed since the sweep began.
std::vector<NodeId> alike(const Graph& g, const Node& n, ValueId anchor) {
  std::vector<NodeId> found;
  if (filed.graph == &g && g.readers(anchor).size() > few_readers) {
    const size_t wanted = signature(g, n);
    auto at = std::ranges::lower_bound(filed.nodes, wanted, {}, &Filed::Entry::signature);
    for (; at != filed.nodes.end() && at->signature == wanted; ++at) found.push_back(at->node);
    return found;
  }
  std::unordered_set<int32_t> known;  // a node may read it twice
  for (const Use& u : g.readers(anchor))
    if (known.insert(index(u.node)).second) found.push_back(u.node);
  return found;
}

bool has_output(const Graph& g, const Node& n) {
  return std::ranges::any_of(n.outputs, [&](ValueId v) { return v != ValueId::none && g.is_output(v); });
}

}  // namespace

void file_duplicates(const Graph* g) {
  filed = {g, {}};
  if (!g) return;
  for (NodeId n : g->topological())
    filed.nodes.push_back({signature(*g, g->node(n)), static_cast<int32_t>(filed.nodes.size()), n});
  std::ranges::sort(filed.nodes, {}, [](const Filed::Entry& e) { return std::pair(e.signature, e.place); });
}

Outcome merge_duplicates(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  ValueId anchor = ValueId::none;  // duplicates read the same computed value
  for (ValueId v : n.inputs)
    if (v != ValueId::none && !g.value(v).is_constant()) {
      anchor = v;
      break;
    }
  if (anchor == ValueId::none || g.readers(anchor).size() < 2 || !is_deterministic(n) || n.is("DequantizeLinear"))
    return NotHere{};
  const auto place = [&](NodeId at) { return std::pair(g.node(at).order, index(at)); };
  const std::vector<NodeId> others = alike(g, n, anchor);
  for (NodeId keep : others) {
    const Node& first = g.node(keep);
    if (keep == id || !first.alive || place(keep) > place(id) || !same(g, first, n)) continue;
    for (ValueId v : n.outputs)
      if (v != ValueId::none && g.is_output(v)) return refuse(Reason::graph_output, id, "{} is a graph output", g.value(v).name);
    // All at once: each merge lists what the first one stands for.
    std::vector<NodeId> duplicates{id};
    for (NodeId d : others) {
      const Node& other = g.node(d);
      if (d == keep || d == id || !other.alive || place(d) < place(id)) continue;
      if (same(g, first, other) && !has_output(g, other)) duplicates.push_back(d);
    }
    std::vector<NodeId> nodes{keep};
    nodes.insert(nodes.end(), duplicates.begin(), duplicates.end());
    return Match{nodes, [keep, duplicates](Graph& graph) {
                   const std::vector<ValueId> to = graph.node(keep).outputs;
                   graph.merge_sources(keep, duplicates);
                   for (NodeId d : duplicates) {
                     const std::vector<ValueId> from = graph.node(d).outputs;
                     for (size_t i = 0; i < from.size(); ++i)
                       if (from[i] != ValueId::none) graph.replace_uses(from[i], to[i]);
                     graph.remove_node(d);
                   }
                   return keep;
                 }};
  }
  return NotHere{};
}

}  // namespace smelt::fuse
