// Sequences and optional values whose members the model fixes: the tensors take their places, and no step is left of them.
//
//   SequenceConstruct(a, b), ConcatFromSequence          Concat(a, b)
//   SplitToSequence(x), SequenceAt(., 1)                 Split(x), its second result
//   SequenceMap(SequenceConstruct(a, b)) { body }        the body's nodes, once for a and once for b
//   Loop(2, true, SequenceEmpty()) { body }              the body's nodes, once for each turn
//   Optional(x), OptionalHasElement, OptionalGetElement  true, x
//
// Exporters write lists of tensors so. Of those that are as long as a run finds see sequence_stacks.cpp, of those that the model gives
// sequence_outputs.cpp. What stays a sequence is refused (check_tensors_only).
#include <algorithm>
#include <set>

#include "base/error.h"
#include "import/sequences.h"

namespace smelt::importer {
namespace {

int64_t get_int(const onnx::NodeProto& n, std::string_view name, int64_t otherwise) {
  const auto* a = find_attribute(n, name);
  return a ? a->i() : otherwise;
}

const std::string& input(const onnx::NodeProto& n, int i) {
  static const std::string none;
  return i < n.input_size() ? n.input(i) : none;
}

class Resolver {
 public:
  explicit Resolver(Loaded& model) : model_(model), writer_(model.proto) {}

  /// Whether any node was replaced.
  bool run() {
    const Scope scope = graph(*model_.proto.mutable_graph(), nullptr);
    const bool replaced = replace_sequence_outputs(model_, scope, writer_);
    const bool pruned = drop_unread_sequences(*model_.proto.mutable_graph());
    return changed_ || replaced || pruned;
  }

 private:
  Scope graph(onnx::GraphProto& g, const Scope* outer) {
    Scope scope = scope_of(g, outer);
    NodesBeside given(g), kept(g);
    auto &in = *given, &out = *kept;
    in.Swap(g.mutable_node());
    for (auto& n : in) {
      std::vector<Scope> bodies;
      for (auto& a : *n.mutable_attribute()) {
        if (a.has_g() && n.op_type() != "SequenceMap") bodies.push_back(graph(*a.mutable_g(), &scope));
        for (auto& body : *a.mutable_graphs()) graph(body, &scope);
      }
      writer_.write_to(g, out);
      if (n.op_type() == "Constant" && n.domain().empty() && n.output_size() == 1) note_constant(n, scope);
      if (!n.domain().empty() || !resolve(n, bodies, scope)) *out.Add() = std::move(n);
    }
    out.Swap(g.mutable_node());
    return scope;
  }

  /// A position in 0 … most, of a constant that may count from the end; nothing where only a run knows it.
  std::optional<size_t> position(const onnx::NodeProto& n, int at, size_t count, size_t most, size_t otherwise,
                                 const Scope& scope) const {
    if (input(n, at).empty()) return otherwise;
    const auto value = scope.constant(n.input(at), model_);
    if (!value || value->size() != 1) return std::nullopt;
    int64_t i = value->to_ints()[0];
    if (i < 0) i += static_cast<int64_t>(count);
    if (i < 0 || i > static_cast<int64_t>(most))
      fail("node {}: position {} in a sequence of {}", describe(n), value->to_ints()[0], count);
    return static_cast<size_t>(i);
  }

  bool replaced() {
    changed_ = true;
    return true;
  }

  /// Notes what the node's outputs hold, or replaces it by nodes on tensors. True where the node is gone: those that only make
  /// sequences stay until nothing reads them.
  bool resolve(const onnx::NodeProto& n, const std::vector<Scope>& bodies, Scope& scope) {
    const std::string& op = n.op_type();
    const Known* of = input(n, 0).empty() ? nullptr : scope.find(&Scope::known, n.input(0));
    const bool stacked = of && !of->stack.empty(), sequence = of && !of->is_optional && !stacked;
    const auto hold = [&](Known k) {
      if (k.items.size() <= longest_sequence) scope.known[n.output(0)] = std::move(k);
      return false;
    };
    if (op == "SequenceEmpty") return hold({});
    if (op == "SequenceConstruct") return hold({.items = {n.input().begin(), n.input().end()}});
    if (op == "Identity" && of) return hold(*of);
    if (op == "SequenceInsert" && sequence) {
      Known k = *of;
      const auto at = position(n, 2, k.items.size(), k.items.size(), k.items.size(), scope);
      if (!at) return false;
      k.items.insert(k.items.begin() + static_cast<long>(*at), n.input(1));
      return hold(std::move(k));
    }
    if (op == "SequenceErase" && sequence) {
      Known k = *of;
      if (k.items.empty()) fail("node {}: nothing to erase from an empty sequence", describe(n));
      const auto at = position(n, 1, k.items.size(), k.items.size() - 1, k.items.size() - 1, scope);
      if (!at) return false;
      k.items.erase(k.items.begin() + static_cast<long>(*at));
      return hold(std::move(k));
    }
    if (op == "SplitToSequence") return split(n, scope);
    if (op == "SequenceMap" && sequence) {
      unroll_map(n, *of, scope, writer_);
      return false;
    }
    if (op == "SequenceLength" && sequence) {
      writer_.emit_constant(n, onnx::TensorProto::INT64, {static_cast<int64_t>(of->items.size())}, false, n.output(0));
      return replaced();
    }
    if (op == "SequenceAt" && sequence) return at(n, *of, scope);
    if (op == "ConcatFromSequence" && sequence && !of->items.empty()) {
      const int64_t axis = get_int(n, "axis", 0);
      writer_.emit_concat(n, of->items, axis, get_int(n, "new_axis", 0) != 0, n.output(0));
      return replaced();
    }
    if (op == "Optional" && !stacked) {
      if (input(n, 0).empty()) return hold({.is_optional = true, .has = false, .items = {}});
      if (of && of->is_optional) return hold(*of);
      if (of) return hold({.is_optional = true, .items = of->items});
      return hold({.is_optional = true, .holds_sequence = false, .items = {n.input(0)}});
    }
    if (stacked) return read_stack(n, of->stack, scope, writer_) && replaced();
    if (op == "OptionalHasElement") {
      if (!of && !input(n, 0).empty() && !scope.tensor_type(n.input(0))) return false;
      writer_.emit_constant(n, onnx::TensorProto::BOOL, {!input(n, 0).empty() && (!of || of->has)}, false, n.output(0));
      return replaced();
    }
    if (op == "OptionalGetElement") {
      if (!of && !scope.tensor_type(n.input(0))) return false;
      if (of && !of->has) return false;
      if (of && of->holds_sequence) return hold({.items = of->items});
      writer_.emit(n, "Identity", {of ? of->items[0] : n.input(0)}, {n.output(0)});
      return replaced();
    }
    if (op == "If" && bodies.size() == 2) return branch(n, bodies, scope);
    if (op == "Loop") return (unroll_loop(n, scope, model_, writer_) || stack_appends(n, bodies, scope, writer_)) && replaced();
    return false;
  }

  /// A position that a run finds picks among items of one shape.
  bool at(const onnx::NodeProto& n, const Known& of, Scope& scope) {
    const size_t count = of.items.size();
    if (count == 0) fail("node {}: an empty sequence has no element", describe(n));
    if (const auto i = position(n, 1, count, count - 1, 0, scope)) {
      writer_.emit(n, "Identity", {of.items[*i]}, {n.output(0)});
      if (const auto* type = scope.find(&Scope::types, of.items[*i])) scope.types[n.output(0)] = onnx::TypeProto(*type);
      return replaced();
    }
    if (scope.rank(n.input(1)) != 0) return false;
    const auto dims = scope.rank(of.items[0]);
    if (!dims) return false;
    for (const std::string& item : of.items) {
      if (scope.rank(item) != dims) return false;
      for (int64_t axis = 0; axis < *dims; ++axis)
        if (!scope.extent(item, axis) || scope.extent(item, axis) != scope.extent(of.items[0], axis)) return false;
    }
    const std::string all = writer_.fresh(n.name() + "/all");
    writer_.emit_concat(n, of.items, 0, true, all, "/all");
    set_int(writer_.emit(n, "Gather", {all, n.input(1)}, {n.output(0)}), "axis", 0);
    return replaced();
  }

  /// By a Split, where the number of parts is known. Parts of one without keepdims lose the axis.
  bool split(const onnx::NodeProto& n, Scope& scope) {
    const int64_t axis = get_int(n, "axis", 0);
    const bool one_each = input(n, 1).empty(), squeezed = one_each && get_int(n, "keepdims", 1) == 0;
    const auto length = scope.extent(n.input(0), axis);
    std::vector<int64_t> sizes;
    std::string sizes_of_run;
    size_t parts = 0;
    if (const auto given = one_each ? std::nullopt : scope.constant(n.input(1), model_); given && !given->shape().empty()) {
      sizes = given->to_ints();
      parts = sizes.size();
    } else if (one_each || given) {
      const int64_t each = one_each ? 1 : given->to_ints()[0];
      if (each <= 0) fail("node {}: parts of {} elements", describe(n), each);
      if (!length || *length / each > static_cast<int64_t>(longest_sequence)) return one_each && stack_split(n, scope, writer_);
      for (int64_t done = 0; done < *length; done += each) sizes.push_back(std::min(each, *length - done));
      parts = sizes.size();
    } else {
      const auto count = scope.rank(n.input(1)) == 1 ? scope.extent(n.input(1), 0) : std::nullopt;
      if (!count) return false;
      parts = static_cast<size_t>(std::max<int64_t>(*count, 0));
      sizes_of_run = n.input(1);
    }
    if (parts > longest_sequence) return false;
    Known k;
    if (parts == 0) {
      scope.known[n.output(0)] = k;
      return false;
    }
    for (size_t i = 0; i < parts; ++i) k.items.push_back(writer_.fresh(fmt::format("{}/part_{}", n.output(0), i)));
    if (const auto* whole = scope.find(&Scope::types, n.input(0)); whole && length) {
      const auto along = static_cast<int>(axis < 0 ? axis + *scope.rank(n.input(0)) : axis);
      for (size_t i = 0; i < parts; ++i) {
        onnx::TypeProto& type = scope.types[k.items[i]] = onnx::TypeProto(*whole);
        auto& dims = *type.mutable_tensor_type()->mutable_shape()->mutable_dim();
        if (squeezed)
          dims.DeleteSubrange(along, 1);
        else if (sizes.empty())
          dims[along].clear_value();
        else
          dims[along].set_dim_value(sizes[i]);
      }
    }
    std::vector<std::string> made = k.items;
    if (squeezed)
      std::ranges::transform(made, made.begin(), [&](const std::string& name) { return writer_.fresh(name + "/whole"); });
    if (sizes_of_run.empty()) {
      sizes_of_run = writer_.emit_vector(n, sizes, "sizes");
    } else if (const auto* t = scope.tensor_type(sizes_of_run); t && t->elem_type() == onnx::TensorProto::INT32) {
      const std::string wide = writer_.fresh(n.name() + "/sizes");
      set_int(writer_.emit(n, "Cast", {sizes_of_run}, {wide}, "/sizes"), "to", onnx::TensorProto::INT64);
      sizes_of_run = wide;
    }
    set_int(writer_.emit(n, "Split", {n.input(0), sizes_of_run}, made, "/split"), "axis", axis);
    if (squeezed) {
      const std::string axes = writer_.emit_vector(n, {axis}, "axes");
      for (size_t i = 0; i < parts; ++i)
        writer_.emit(n, "Squeeze", {made[i], axes}, {k.items[i]}, fmt::format("/squeezed_{}", i));
    }
    scope.known[n.output(0)] = std::move(k);
    return false;
  }

  /// An If whose branches both give a sequence of so many items gives the items beside it.
  bool branch(const onnx::NodeProto& n, const std::vector<Scope>& bodies, Scope& scope) {
    onnx::NodeProto with = n;
    std::vector<onnx::GraphProto*> graphs;
    for (auto& a : *with.mutable_attribute())
      if (a.has_g()) graphs.push_back(a.mutable_g());
    bool more = false;
    for (int i = 0; i < n.output_size(); ++i) {
      const Known *a = nullptr, *b = nullptr;
      if (n.output(i).empty() || i >= graphs[0]->output_size() || i >= graphs[1]->output_size()) continue;
      if (scope.find(&Scope::known, n.output(i))) continue;
      a = bodies[0].find(&Scope::known, graphs[0]->output(i).name());
      b = bodies[1].find(&Scope::known, graphs[1]->output(i).name());
      if (!a || !b || !a->stack.empty() || !b->stack.empty() || a->is_optional != b->is_optional || a->has != b->has ||
          a->holds_sequence != b->holds_sequence || a->items.size() != b->items.size())
        continue;
      Known k = *a;
      for (size_t item = 0; item < k.items.size(); ++item) {
        const std::string base = fmt::format("{}/item_{}", n.output(i), item);
        for (const auto& [g, from] : {std::pair{graphs[0], a}, {graphs[1], b}}) {
          auto& copy = *g->add_node();
          copy.set_op_type("Identity");
          copy.set_name(base);
          *copy.mutable_metadata_props() = n.metadata_props();
          copy.add_input(from->items[item]);
          copy.add_output(writer_.fresh(base));
          g->add_output()->set_name(copy.output(0));
        }
        with.add_output(k.items[item] = writer_.fresh(base));
      }
      scope.known[n.output(i)] = std::move(k);
      more = true;
    }
    if (more) writer_.add(std::move(with));
    return more;
  }

  Loaded& model_;
  NodeWriter writer_;
  bool changed_ = false;
};

}  // namespace

bool is_on_sequences(const onnx::NodeProto& n) {
  static const std::set<std::string> ops{"SequenceEmpty",      "SequenceConstruct", "SequenceInsert",     "SequenceErase",
                                         "SequenceAt",         "SequenceLength",    "SequenceMap",        "SplitToSequence",
                                         "ConcatFromSequence", "Optional",          "OptionalHasElement", "OptionalGetElement"};
  return n.domain().empty() && ops.contains(n.op_type());
}

bool resolve_sequences(Loaded& model) {
  bool any = false;
  for_each_node(model.proto, [&](onnx::NodeProto& n) { any |= is_on_sequences(n); });
  return any && Resolver(model).run();
}

}  // namespace smelt::importer
