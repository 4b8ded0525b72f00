// Sequences and optional values whose members the model fixes: the tensors take their places, and no step is left of them.
//
//   SequenceConstruct(a, b), ConcatFromSequence          Concat(a, b)
//   SplitToSequence(x), SequenceAt(., 1)                 Split(x), its second result
//   SequenceMap(SequenceConstruct(a, b)) { body }        the body's nodes, once for a and once for b
//   Loop(2, true, SequenceEmpty()) { body }              the body's nodes, once for each turn
//   Optional(x), OptionalHasElement, OptionalGetElement  true, x
//
// Exporters write lists of tensors so. What stays a sequence, as one that a Loop of unknown length appends to, is refused
// (check_tensors_only).
#include <algorithm>
#include <set>

#include "base/error.h"
#include "import/stages.h"
#include "import/tensors.h"

namespace smelt::importer {
namespace {

constexpr size_t longest = 4096;  // of a sequence that is taken apart

/// A value that is no tensor, and what it holds.
struct Known {
  bool is_optional = false;
  bool has = true;             // an optional value: there is one
  bool holds_sequence = true;  // false: an optional tensor, the only item
  std::vector<std::string> items;
};

/// A graph's values, and those of the graphs around it.
struct Scope {
  const Scope* outer = nullptr;
  std::map<std::string, Known> known;
  std::map<std::string, onnx::TypeProto> types;
  std::map<std::string, onnx::TensorProto> constants;

  template <class T> const T* find(std::map<std::string, T> Scope::*members, const std::string& name) const {
    for (const Scope* s = this; s; s = s->outer)
      if (const auto at = (s->*members).find(name); at != (s->*members).end()) return &at->second;
    return nullptr;
  }
};

bool makes_others(const std::string& op) {
  static const std::set<std::string> ops{"SequenceEmpty", "SequenceConstruct",  "SequenceInsert",
                                         "SequenceErase", "SplitToSequence",    "SequenceMap",
                                         "Optional",      "OptionalGetElement", "Identity"};
  return ops.contains(op);
}

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
  explicit Resolver(Loaded& model) : model_(model), names_(model.proto) {}

  /// Whether any node was replaced.
  bool run() {
    graph(*model_.proto.mutable_graph(), nullptr);
    const bool pruned = prune();
    return changed_ || pruned;
  }

 private:
  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

  Scope graph(onnx::GraphProto& g, const Scope* outer) {
    Scope scope{outer};
    for (const auto* values : {&g.input(), &g.value_info(), &g.output()})
      for (const auto& v : *values)
        if (v.has_type()) scope.types[v.name()] = v.type();
    for (const auto& t : g.initializer()) {
      auto& type = scope.types[t.name()] = {};
      type.mutable_tensor_type()->set_elem_type(t.data_type());
      type.mutable_tensor_type()->mutable_shape();
      for (const int64_t d : t.dims()) type.mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(d);
      scope.constants[t.name()] = t;
    }
    NodesBeside given(g), kept(g);
    Nodes &in = *given, &out = *kept;
    in.Swap(g.mutable_node());
    out_ = nullptr;
    for (auto& n : in) {
      std::vector<Scope> bodies;
      for (auto& a : *n.mutable_attribute()) {
        if (a.has_g() && n.op_type() != "SequenceMap") bodies.push_back(graph(*a.mutable_g(), &scope));
        for (auto& body : *a.mutable_graphs()) graph(body, &scope);
      }
      out_ = &out;
      graph_ = &g;
      if (n.op_type() == "Constant" && n.domain().empty() && n.output_size() == 1) note_constant(n, scope);
      if (!n.domain().empty() || !resolve(n, bodies, scope)) *out.Add() = std::move(n);
    }
    out.Swap(g.mutable_node());
    return scope;
  }

  static void note_constant(const onnx::NodeProto& n, Scope& scope) {
    onnx::TensorProto t;
    t.set_data_type(onnx::TensorProto::INT64);
    if (const auto* value = find_attribute(n, "value")) {
      t = value->t();
    } else if (const auto* one = find_attribute(n, "value_int")) {
      t.add_int64_data(one->i());
    } else if (const auto* list = find_attribute(n, "value_ints")) {
      t.add_dims(list->ints_size());
      for (const int64_t i : list->ints()) t.add_int64_data(i);
    } else {
      return;
    }
    scope.constants[n.output(0)] = std::move(t);
  }

  std::optional<Tensor> constant(const std::string& name, const Scope& scope) const {
    const auto* t = scope.find(&Scope::constants, name);
    if (!t || (t->data_type() != onnx::TensorProto::INT64 && t->data_type() != onnx::TensorProto::INT32)) return std::nullopt;
    return read_tensor(*t, model_);
  }

  /// A position in 0 … most, of a constant that may count from the end; nothing where only a run knows it.
  std::optional<size_t> position(const onnx::NodeProto& n, int at, size_t count, size_t most, size_t otherwise,
                                 const Scope& scope) const {
    if (input(n, at).empty()) return otherwise;
    const auto value = constant(n.input(at), scope);
    if (!value || value->size() != 1) return std::nullopt;
    int64_t i = value->to_ints()[0];
    if (i < 0) i += static_cast<int64_t>(count);
    if (i < 0 || i > static_cast<int64_t>(most))
      fail("node {}: position {} in a sequence of {}", describe(n), value->to_ints()[0], count);
    return static_cast<size_t>(i);
  }

  const onnx::TypeProto::Tensor* tensor_type(const std::string& name, const Scope& scope) const {
    const auto* type = scope.find(&Scope::types, name);
    return type && type->has_tensor_type() ? &type->tensor_type() : nullptr;
  }
  std::optional<int64_t> rank(const std::string& name, const Scope& scope) const {
    const auto* t = tensor_type(name, scope);
    return t && t->has_shape() ? std::optional<int64_t>(t->shape().dim_size()) : std::nullopt;
  }
  std::optional<int64_t> extent(const std::string& name, int64_t axis, const Scope& scope) const {
    const auto r = rank(name, scope);
    if (!r || axis < -*r || axis >= *r) return std::nullopt;
    const auto& d = tensor_type(name, scope)->shape().dim(static_cast<int>(axis < 0 ? axis + *r : axis));
    return d.has_dim_value() ? std::optional<int64_t>(d.dim_value()) : std::nullopt;
  }

  /// A node in the place of `n`; `suffix` names one beside it.
  onnx::NodeProto& emit(const onnx::NodeProto& n, const char* op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& suffix = "") {
    onnx::NodeProto& made = *out_->Add();
    made.set_op_type(op);
    made.set_name(n.name() + suffix);
    *made.mutable_metadata_props() = n.metadata_props();
    for (const auto& i : inputs) made.add_input(i);
    for (const auto& o : outputs) made.add_output(o);
    return made;
  }
  static void set_int(onnx::NodeProto& n, const char* name, int64_t value) {
    auto& a = *n.add_attribute();
    a.set_name(name);
    a.set_type(onnx::AttributeProto::INT);
    a.set_i(value);
  }
  void emit_constant(const onnx::NodeProto& n, int32_t type, const std::vector<int64_t>& values, bool vector,
                     const std::string& to, const std::string& suffix = "") {
    auto& a = *emit(n, "Constant", {}, {to}, suffix).add_attribute();
    a.set_name("value");
    a.set_type(onnx::AttributeProto::TENSOR);
    a.mutable_t()->set_data_type(type);
    if (vector) a.mutable_t()->add_dims(static_cast<int64_t>(values.size()));
    for (const int64_t v : values)
      type == onnx::TensorProto::BOOL ? a.mutable_t()->add_int32_data(static_cast<int32_t>(v)) : a.mutable_t()->add_int64_data(v);
  }
  std::string emit_vector(const onnx::NodeProto& n, const std::vector<int64_t>& values, const std::string& what) {
    const std::string name = names_.fresh(n.name() + "/" + what);
    emit_constant(n, onnx::TensorProto::INT64, values, true, name, "/" + what);
    return name;
  }
  void emit_concat(const onnx::NodeProto& n, std::vector<std::string> items, int64_t axis, bool new_axis, const std::string& to,
                   const std::string& suffix = "") {
    if (new_axis) {
      const std::string axes = emit_vector(n, {axis}, "axes" + suffix);
      for (size_t i = 0; i < items.size(); ++i) {
        const std::string place = fmt::format("/unsqueezed_{}{}", i, suffix), apart = names_.fresh(n.name() + place);
        emit(n, "Unsqueeze", {items[i], axes}, {apart}, place);
        items[i] = apart;
      }
    }
    set_int(emit(n, "Concat", items, {to}, suffix), "axis", axis);
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
    const bool sequence = of && !of->is_optional;
    const auto hold = [&](Known k) {
      if (k.items.size() <= longest) scope.known[n.output(0)] = std::move(k);
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
    if (op == "SequenceMap" && sequence) return map(n, *of, scope);
    if (op == "SequenceLength" && sequence) {
      emit_constant(n, onnx::TensorProto::INT64, {static_cast<int64_t>(of->items.size())}, false, n.output(0));
      return replaced();
    }
    if (op == "SequenceAt" && sequence) return at(n, *of, scope);
    if (op == "ConcatFromSequence" && sequence && !of->items.empty()) {
      const int64_t axis = get_int(n, "axis", 0);
      emit_concat(n, of->items, axis, get_int(n, "new_axis", 0) != 0, n.output(0));
      return replaced();
    }
    if (op == "Optional") {
      if (input(n, 0).empty()) return hold({.is_optional = true, .has = false, .items = {}});
      if (of && of->is_optional) return hold(*of);
      if (of) return hold({.is_optional = true, .items = of->items});
      return hold({.is_optional = true, .holds_sequence = false, .items = {n.input(0)}});
    }
    if (op == "OptionalHasElement") {
      if (!of && !input(n, 0).empty() && !tensor_type(n.input(0), scope)) return false;
      emit_constant(n, onnx::TensorProto::BOOL, {!input(n, 0).empty() && (!of || of->has)}, false, n.output(0));
      return replaced();
    }
    if (op == "OptionalGetElement") {
      if (!of && !tensor_type(n.input(0), scope)) return false;
      if (of && !of->has) return false;
      if (of && of->holds_sequence) return hold({.items = of->items});
      emit(n, "Identity", {of ? of->items[0] : n.input(0)}, {n.output(0)});
      return replaced();
    }
    if (op == "If" && bodies.size() == 2) return branch(n, bodies, scope);
    if (op == "Loop") return unroll(n, scope);
    return false;
  }

  /// A position that a run finds picks among items of one shape.
  bool at(const onnx::NodeProto& n, const Known& of, Scope& scope) {
    const size_t count = of.items.size();
    if (count == 0) fail("node {}: an empty sequence has no element", describe(n));
    if (const auto i = position(n, 1, count, count - 1, 0, scope)) {
      emit(n, "Identity", {of.items[*i]}, {n.output(0)});
      if (const auto* type = scope.find(&Scope::types, of.items[*i])) scope.types[n.output(0)] = onnx::TypeProto(*type);
      return replaced();
    }
    if (rank(n.input(1), scope) != 0) return false;
    const auto dims = rank(of.items[0], scope);
    if (!dims) return false;
    for (const std::string& item : of.items) {
      if (rank(item, scope) != dims) return false;
      for (int64_t axis = 0; axis < *dims; ++axis)
        if (!extent(item, axis, scope) || extent(item, axis, scope) != extent(of.items[0], axis, scope)) return false;
    }
    const std::string all = names_.fresh(n.name() + "/all");
    emit_concat(n, of.items, 0, true, all, "/all");
    set_int(emit(n, "Gather", {all, n.input(1)}, {n.output(0)}), "axis", 0);
    return replaced();
  }

  /// By a Split, where the number of parts is known. Parts of one without keepdims lose the axis.
  bool split(const onnx::NodeProto& n, Scope& scope) {
    const int64_t axis = get_int(n, "axis", 0);
    const bool one_each = input(n, 1).empty(), squeezed = one_each && get_int(n, "keepdims", 1) == 0;
    const auto length = extent(n.input(0), axis, scope);
    std::vector<int64_t> sizes;
    std::string sizes_of_run;
    size_t parts = 0;
    if (const auto given = one_each ? std::nullopt : constant(n.input(1), scope); given && !given->shape().empty()) {
      sizes = given->to_ints();
      parts = sizes.size();
    } else if (one_each || given) {
      const int64_t each = one_each ? 1 : given->to_ints()[0];
      if (each <= 0) fail("node {}: parts of {} elements", describe(n), each);
      if (!length || *length / each > static_cast<int64_t>(longest)) return false;
      for (int64_t done = 0; done < *length; done += each) sizes.push_back(std::min(each, *length - done));
      parts = sizes.size();
    } else {
      const auto count = rank(n.input(1), scope) == 1 ? extent(n.input(1), 0, scope) : std::nullopt;
      if (!count) return false;
      parts = static_cast<size_t>(std::max<int64_t>(*count, 0));
      sizes_of_run = n.input(1);
    }
    if (parts > longest) return false;
    Known k;
    if (parts == 0) {
      scope.known[n.output(0)] = k;
      return false;
    }
    for (size_t i = 0; i < parts; ++i) k.items.push_back(names_.fresh(fmt::format("{}/part_{}", n.output(0), i)));
    if (const auto* whole = scope.find(&Scope::types, n.input(0)); whole && length) {
      const auto along = static_cast<int>(axis < 0 ? axis + *rank(n.input(0), scope) : axis);
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
      std::ranges::transform(made, made.begin(), [&](const std::string& name) { return names_.fresh(name + "/whole"); });
    if (sizes_of_run.empty()) {
      sizes_of_run = emit_vector(n, sizes, "sizes");
    } else if (const auto* t = tensor_type(sizes_of_run, scope); t && t->elem_type() == onnx::TensorProto::INT32) {
      const std::string wide = names_.fresh(n.name() + "/sizes");
      set_int(emit(n, "Cast", {sizes_of_run}, {wide}, "/sizes"), "to", onnx::TensorProto::INT64);
      sizes_of_run = wide;
    }
    set_int(emit(n, "Split", {n.input(0), sizes_of_run}, made, "/split"), "axis", axis);
    if (squeezed) {
      const std::string axes = emit_vector(n, {axis}, "axes");
      for (size_t i = 0; i < parts; ++i) emit(n, "Squeeze", {made[i], axes}, {k.items[i]}, fmt::format("/squeezed_{}", i));
    }
    scope.known[n.output(0)] = std::move(k);
    return false;
  }

  /// The body once for each item. Its initializers are shared.
  bool map(const onnx::NodeProto& n, const Known& first, Scope& scope) {
    const auto* body = find_attribute(n, "body");
    if (!body || body->g().input_size() != n.input_size() || body->g().output_size() < n.output_size()) return false;
    const size_t count = first.items.size();
    for (int i = 1; i < n.input_size(); ++i) {
      const Known* k = scope.find(&Scope::known, n.input(i));
      if (k && (k->is_optional || k->items.size() != count)) return false;
      if (!k && !tensor_type(n.input(i), scope)) return false;
    }
    if (count * static_cast<size_t>(body->g().node_size()) > longest) return false;
    const auto shared = share_initializers(n, body->g());
    std::vector<Known> results(static_cast<size_t>(n.output_size()));
    for (size_t i = 0; i < count; ++i) {
      auto renames = shared;
      for (int in = 0; in < n.input_size(); ++in) {
        const Known* k = scope.find(&Scope::known, n.input(in));
        renames[body->g().input(in).name()] = k ? k->items[i] : n.input(in);
      }
      const std::string prefix = fmt::format("{}/{}/", n.name(), i);
      for (onnx::NodeProto inner : body->g().node()) {
        rename(inner, renames, prefix);
        *out_->Add() = std::move(inner);
      }
      for (size_t o = 0; o < results.size(); ++o) {
        const std::string& name = body->g().output(static_cast<int>(o)).name();
        const auto to = renames.find(name);
        results[o].items.push_back(to == renames.end() ? name : to->second);
      }
    }
    for (size_t o = 0; o < results.size(); ++o) scope.known[n.output(static_cast<int>(o))] = std::move(results[o]);
    return false;
  }

  std::map<std::string, std::string> share_initializers(const onnx::NodeProto& n, const onnx::GraphProto& body) {
    std::map<std::string, std::string> shared;
    for (const auto& t : body.initializer()) {
      auto& copy = *graph_->add_initializer() = t;
      copy.set_name(shared[t.name()] = names_.fresh(n.name() + "/" + t.name()));
    }
    return shared;
  }

  /// Whether the value is a constant true: of the graph, or of the body, where its own condition goes on as it was.
  bool is_true(std::string name, const onnx::GraphProto* body, const Scope& scope) const {
    const auto true_tensor = [&](const onnx::TensorProto& t) {
      return t.data_type() == onnx::TensorProto::BOOL && read_tensor(t, model_).size() == 1 &&
             *read_tensor(t, model_).data<bool>();
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

  /// A Loop of known length that carries sequences is its body once for each turn; what that makes of them a next round finds.
  bool unroll(const onnx::NodeProto& n, Scope& scope) {
    const auto* attribute = find_attribute(n, "body");
    if (!attribute || n.input_size() < 3) return false;
    const onnx::GraphProto& body = attribute->g();
    const int carried = n.input_size() - 2, scans = body.output_size() - 1 - carried;
    bool holds = false;
    for (int i = 2; i < n.input_size(); ++i) holds |= scope.find(&Scope::known, n.input(i)) != nullptr;
    const auto turns = constant(n.input(0), scope);
    if (!holds || !turns || turns->size() != 1 || body.input_size() != n.input_size() || scans < 0) return false;
    if ((!n.input(1).empty() && !is_true(n.input(1), nullptr, scope)) || !is_true(body.output(0).name(), &body, scope))
      return false;
    const int64_t count = turns->to_ints()[0];
    if (count < 1 || count * std::max(1, body.node_size()) > static_cast<int64_t>(longest)) return false;
    const auto shared = share_initializers(n, body);
    const std::string always = names_.fresh(n.name() + "/true");
    emit_constant(n, onnx::TensorProto::BOOL, {1}, false, always, "/true");
    std::vector<std::string> now(n.input().begin() + 2, n.input().end());
    std::vector<std::vector<std::string>> stacked(static_cast<size_t>(scans));
    for (int64_t turn = 0; turn < count; ++turn) {
      const std::string prefix = fmt::format("{}/{}/", n.name(), turn), number = names_.fresh(prefix + "turn");
      emit_constant(n, onnx::TensorProto::INT64, {turn}, false, number, fmt::format("/{}/turn", turn));
      auto renames = shared;
      renames[body.input(0).name()] = number;
      renames[body.input(1).name()] = always;
      for (int i = 0; i < carried; ++i) renames[body.input(2 + i).name()] = now[static_cast<size_t>(i)];
      for (onnx::NodeProto inner : body.node()) {
        rename(inner, renames, prefix);
        *out_->Add() = std::move(inner);
      }
      const auto result = [&](int o) {
        const auto to = renames.find(body.output(o).name());
        return to == renames.end() ? body.output(o).name() : to->second;
      };
      for (int i = 0; i < carried; ++i) now[static_cast<size_t>(i)] = result(1 + i);
      for (int i = 0; i < scans; ++i) stacked[static_cast<size_t>(i)].push_back(result(1 + carried + i));
    }
    for (int i = 0; i < n.output_size(); ++i) {
      if (n.output(i).empty()) continue;
      if (i < carried)
        emit(n, "Identity", {now[static_cast<size_t>(i)]}, {n.output(i)}, fmt::format("/result_{}", i));
      else
        emit_concat(n, stacked[static_cast<size_t>(i - carried)], 0, true, n.output(i), fmt::format("/stacked_{}", i));
    }
    return replaced();
  }

  /// Names that the node makes become fresh ones; others that `renames` knows follow.
  void rename(onnx::NodeProto& n, std::map<std::string, std::string>& renames, const std::string& prefix) {
    const auto follow = [&](std::string& name) {
      if (const auto to = renames.find(name); to != renames.end()) name = to->second;
    };
    n.set_name(prefix + n.name());
    for (auto& in : *n.mutable_input()) follow(in);
    for (auto& a : *n.mutable_attribute()) {
      if (a.has_g()) rename(*a.mutable_g(), renames, prefix);
      for (auto& g : *a.mutable_graphs()) rename(g, renames, prefix);
    }
    for (auto& o : *n.mutable_output()) {
      if (o.empty()) continue;
      const std::string name = names_.fresh(prefix + o);
      renames[o] = name;
      o = name;
    }
  }
  void rename(onnx::GraphProto& g, std::map<std::string, std::string> renames, const std::string& prefix) {
    for (auto& v : *g.mutable_input()) v.set_name(renames[v.name()] = names_.fresh(prefix + v.name()));
    for (auto& t : *g.mutable_initializer()) t.set_name(renames[t.name()] = names_.fresh(prefix + t.name()));
    g.clear_value_info();
    for (auto& n : *g.mutable_node()) rename(n, renames, prefix);
    for (auto& v : *g.mutable_output())
      if (const auto to = renames.find(v.name()); to != renames.end()) v.set_name(to->second);
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
      if (!a || !b || a->is_optional != b->is_optional || a->has != b->has || a->holds_sequence != b->holds_sequence ||
          a->items.size() != b->items.size())
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
          copy.add_output(names_.fresh(base));
          g->add_output()->set_name(copy.output(0));
        }
        with.add_output(k.items[item] = names_.fresh(base));
      }
      scope.known[n.output(i)] = std::move(k);
      more = true;
    }
    if (more) *out_->Add() = std::move(with);
    return more;
  }

  /// Takes out what only made sequences that nothing reads any more.
  bool prune() {
    auto& top = *model_.proto.mutable_graph();
    bool any = false;
    for (bool again = true; again;) {
      again = false;
      std::set<std::string> read;
      for_each_graph(top, [&](onnx::GraphProto& g) {
        for (const auto& n : g.node()) read.insert(n.input().begin(), n.input().end());
        for (const auto& v : g.output()) read.insert(v.name());
      });
      std::set<std::string> gone;
      for_each_graph(top, [&](onnx::GraphProto& g) {
        std::set<std::string> others;  // values that are no tensors
        for (const auto& v : g.value_info())
          if (v.has_type() && !v.type().has_tensor_type() && v.type().value_case() != onnx::TypeProto::VALUE_NOT_SET)
            others.insert(v.name());
        const auto unread = [&](const std::string& name) { return !read.contains(name); };
        auto& nodes = *g.mutable_node();
        for (int at = nodes.size() - 1; at >= 0; --at) {
          onnx::NodeProto& n = nodes[at];
          if (!n.domain().empty()) continue;
          const auto& outputs = n.output();
          if (makes_others(n.op_type()) && std::ranges::all_of(outputs, unread) &&
              std::ranges::any_of(outputs, [&](const auto& o) { return others.contains(o); })) {
            gone.insert(outputs.begin(), outputs.end());
            nodes.DeleteSubrange(at, 1);
            again = true;
          } else if (n.op_type() == "If") {
            for (int o = n.output_size() - 1; o >= 0 && n.output_size() > 1; --o) {
              if (!others.contains(n.output(o)) || read.contains(n.output(o))) continue;
              gone.insert(n.output(o));
              n.mutable_output()->DeleteSubrange(o, 1);
              for (auto& a : *n.mutable_attribute())
                if (a.has_g()) a.mutable_g()->mutable_output()->DeleteSubrange(o, 1);
              again = true;
            }
          }
        }
      });
      for_each_graph(top, [&](onnx::GraphProto& g) {
        auto& infos = *g.mutable_value_info();
        for (int i = infos.size() - 1; i >= 0; --i)
          if (gone.contains(infos[i].name())) infos.DeleteSubrange(i, 1);
      });
      any |= again;
    }
    return any;
  }

  Loaded& model_;
  Names names_;
  Nodes* out_ = nullptr;
  onnx::GraphProto* graph_ = nullptr;
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
