#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "graph/fused.h"
#include "graph/graph.h"

namespace smelt {
namespace {

/// Looks at every node and value of a graph after each sweep of a rewrite: what it looks things up in are sorted lists, which lie
/// together in memory, where a set's entries lie all over it.
class Verifier {
 public:
  explicit Verifier(const Graph& g) : g_(g), is_input_(g.value_count()) {}

  void run() {
    for (size_t v = 0; v < g_.value_count(); ++v)
      if (const auto readers = g_.readers(ValueId(v)); readers.size() > few_readers)
        for (const Use& use : readers) uses_.emplace_back(static_cast<int32_t>(v), index(use.node), use.input);
    std::ranges::sort(uses_);
    for (size_t i = 0; i < g_.node_count(); ++i)
      if (g_.node(NodeId(i)).alive) check_edges(NodeId(i));
    check_interface();
    check_values();
    const auto order = g_.topological();
    for (NodeId n : order) check_node(n);
  }

 private:
  template <class... A> [[noreturn]] void broken(fmt::format_string<A...> f, A&&... a) const {
    fail("graph '{}' is not valid: {}", g_.name, fmt::format(f, std::forward<A>(a)...));
  }

  size_t times_listed(ValueId v, const Use& use) const {
    const auto readers = g_.readers(v);
    if (readers.size() <= few_readers) return static_cast<size_t>(std::count(readers.begin(), readers.end(), use));
    const auto [first, last] = std::equal_range(uses_.begin(), uses_.end(), Reading{index(v), index(use.node), use.input});
    return static_cast<size_t>(last - first);
  }

  bool in_range(ValueId v) const { return index(v) >= 0 && static_cast<size_t>(v) < g_.value_count(); }

  void check_edges(NodeId id) const {
    const Node& n = g_.node(id);
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId v = n.inputs[i];
      if (v == ValueId::none) continue;
      if (!in_range(v)) broken("{} reads value {}, which does not exist", describe(g_, id), index(v));
      const size_t found = times_listed(v, {id, static_cast<int>(i)});
      if (found != 1)
        broken("{} is listed {} times as the reader of '{}' at input {}", describe(g_, id), found, g_.value(v).name, i);
    }
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      const ValueId v = n.outputs[i];
      if (v == ValueId::none) continue;
      if (!in_range(v)) broken("{} defines value {}, which does not exist", describe(g_, id), index(v));
      const Value& value = g_.value(v);
      if (value.producer != id || value.output != static_cast<int>(i))
        broken("{} defines '{}' as output {}, but the value names another producer", describe(g_, id), value.name, i);
      if (value.is_constant()) broken("'{}' is a constant and the output of {}", value.name, describe(g_, id));
    }
  }

  void check_interface() {
    for (ValueId v : g_.inputs()) {
      if (!in_range(v)) broken("input value {} does not exist", index(v));
      if (is_input_[static_cast<size_t>(v)]) broken("'{}' is an input twice", g_.value(v).name);
      is_input_[static_cast<size_t>(v)] = true;
      if (g_.value(v).producer != NodeId::none)
        broken("input '{}' is also the output of {}", g_.value(v).name, describe(g_, g_.value(v).producer));
    }
    for (ValueId v : g_.outputs()) {
      if (!in_range(v)) broken("output value {} does not exist", index(v));
      if (!defined(v)) broken("output '{}' is not defined by a node, an input or a constant", g_.value(v).name);
    }
  }

  bool defined(ValueId v) const {
    const Value& value = g_.value(v);
    return value.producer != NodeId::none || value.is_constant() || is_input_[static_cast<size_t>(v)];
  }

  void check_values() const {
    std::vector<std::pair<size_t, int32_t>> named;  // by the name's hash
    named.reserve(g_.value_count());
    for (size_t i = 0; i < g_.value_count(); ++i) {
      const auto v = ValueId(i);
      const Value& value = g_.value(v);
      const auto readers = g_.readers(v);
      if (value.producer != NodeId::none) {
        if (static_cast<size_t>(value.producer) >= g_.node_count())
          broken("'{}' names a producer that does not exist", value.name);
        const Node& producer = g_.node(value.producer);
        if (!producer.alive || producer.out(static_cast<size_t>(value.output)) != v)
          broken("'{}' names {} as its producer, which does not define it", value.name, describe(g_, value.producer));
      }
      for (const Use& use : readers) {
        const bool exists = static_cast<size_t>(use.node) < g_.node_count() && g_.node(use.node).alive;
        if (!exists || g_.node(use.node).in(static_cast<size_t>(use.input)) != v)
          broken("'{}' lists a reader that does not read it", value.name);
        if (!defined(v)) broken("{} reads '{}', which nothing defines", describe(g_, use.node), value.name);
      }
      if (readers.empty() && !defined(v)) continue;  // left behind by a rewrite
      named.emplace_back(std::hash<std::string>()(value.name), index(v));
      if (value.type == DType::undefined && !readers.empty())
        broken("'{}' has no element type, but {} reads it", value.name, describe(g_, readers[0].node));
      if (!value.is_constant()) continue;
      if (value.constant.type() != value.type)
        broken("constant '{}' holds {}, but its type is {}", value.name, smelt::name(value.constant.type()),
               smelt::name(value.type));
      if (!value.shape || *value.shape != to_sym(value.constant.shape()))
        broken("constant '{}' has shape {}, but its value says {}", value.name, to_string(value.constant.shape()),
               value.shape ? to_string(*value.shape) : "nothing");
    }
    check_names(named);
  }

  void check_names(std::vector<std::pair<size_t, int32_t>>& named) const {
    const auto name_of = [&](const auto& n) -> const std::string& { return g_.value(ValueId(n.second)).name; };
    std::ranges::sort(
        named, [&](const auto& a, const auto& b) { return a.first != b.first ? a.first < b.first : name_of(a) < name_of(b); });
    const auto twice = std::ranges::adjacent_find(
        named, [&](const auto& a, const auto& b) { return a.first == b.first && name_of(a) == name_of(b); });
    if (twice != named.end()) broken("two values are named '{}'", name_of(*twice));
  }

  void check_node(NodeId id) const {
    const Node& n = g_.node(id);
    for (int32_t source : n.sources)
      if (source < 0 || static_cast<size_t>(source) >= g_.sources().size())
        broken("{} names source {}, which does not exist", describe(g_, id), source);
    const int64_t captured = n.get_int("captured", 0);
    if (captured < 0 || static_cast<size_t>(captured) > n.inputs.size())
      broken("{}: captured = {}, but it has {} inputs", describe(g_, id), captured, n.inputs.size());
    if (n.domain == smelt_domain)
      verify_fused(g_, id);
    else if (n.program)
      broken("{} has a program, but is no operator of ai.smelt", describe(g_, id));
    for (const auto& [key, attribute] : n.attrs)
      if (const auto* body = std::get_if<GraphPtr>(&attribute)) check_body(id, key, *body);
  }

  void check_body(NodeId id, const std::string& key, const GraphPtr& body) const {
    if (!body) broken("{}: attribute {} holds no graph", describe(g_, id), key);
    const Node& n = g_.node(id);
    const auto captured = static_cast<size_t>(n.get_int("captured", 0));
    if (captured > n.inputs.size() || captured > body->inputs().size())
      broken("{}: captured = {}, but it has {} inputs and {} has {}", describe(g_, id), captured, n.inputs.size(), key,
             body->inputs().size());
    for (size_t i = 0; i < captured; ++i) {
      const ValueId outer = n.inputs[n.inputs.size() - captured + i];
      const ValueId inner = body->inputs()[body->inputs().size() - captured + i];
      if (outer == ValueId::none || g_.value(outer).type != body->value(inner).type)
        broken("{}: captured value {} is not of the type that {} takes", describe(g_, id), i, key);
    }
    Verifier(*body).run();
  }

  static constexpr size_t few_readers = 16;               // looked through one by one
  using Reading = std::tuple<int32_t, int32_t, int32_t>;  // value, reader, input

  const Graph& g_;
  std::vector<bool> is_input_;  // by value
  std::vector<Reading> uses_;   // of the values with more readers, sorted
};

}  // namespace

void verify(const Graph& g) { Verifier(g).run(); }

}  // namespace smelt
