// Sequences as long as a run finds, of items of one shape: one tensor holds them all, along a new first axis.
//
//   Loop(n, SequenceEmpty()) { SequenceInsert(s, x) }    the Loop's stacked results x
//   SplitToSequence(x)                                   x, the axis in front
//   ConcatFromSequence, SequenceAt, SequenceLength       Transpose and Reshape, Gather, Shape
//
// Items of other shapes than the first are an error of the run that finds them.
#include <numeric>

#include "import/sequences.h"

namespace smelt::importer {
namespace {

int64_t get_int(const onnx::NodeProto& n, std::string_view name, int64_t otherwise) {
  const auto* a = find_attribute(n, name);
  return a ? a->i() : otherwise;
}

/// How often a graph, or one nested in it, reads a value.
int reads(onnx::GraphProto& graph, const std::string& name) {
  int count = 0;
  for_each_graph(graph, [&](onnx::GraphProto& g) {
    for (const auto& n : g.node()) count += static_cast<int>(std::count(n.input().begin(), n.input().end(), name));
    for (const auto& o : g.output()) count += o.name() == name;
  });
  return count;
}

/// Where the body's node is that appends to the carried sequence what the turn adds, and nothing else reads either; -1: nowhere.
int appends(onnx::GraphProto& body, int carried) {
  const std::string &before = body.input(2 + carried).name(), &after = body.output(1 + carried).name();
  for (int at = 0; at < body.node_size(); ++at) {
    const auto& n = body.node(at);
    if (n.op_type() != "SequenceInsert" || !n.domain().empty() || n.output(0) != after) continue;
    const bool at_end = n.input_size() < 3 || n.input(2).empty() || n.input(2) == body.input(0).name();
    return n.input(0) == before && at_end && reads(body, before) == 1 && reads(body, after) == 1 ? at : -1;
  }
  return -1;
}

/// The tensor with `axis` as its first axis, or the first one as `axis`; nothing where its rank is not known.
std::optional<std::string> moved(const onnx::NodeProto& n, const std::string& x, size_t axis, bool to_front, const Scope& scope,
                                 NodeWriter& writer) {
  if (axis == 0) return x;
  const auto rank = scope.rank(x);
  if (!rank || static_cast<int64_t>(axis) >= *rank) return std::nullopt;
  std::vector<int64_t> perm(static_cast<size_t>(*rank));
  std::iota(perm.begin(), perm.end(), 0);
  const auto at = perm.begin() + static_cast<long>(axis);
  if (to_front)
    std::rotate(perm.begin(), at, at + 1);
  else
    std::rotate(perm.begin(), perm.begin() + 1, at + 1);
  const std::string to = writer.fresh(n.name() + "/moved");
  auto& a = *writer.emit(n, "Transpose", {x}, {to}, "/moved").add_attribute();
  a.set_name("perm");
  a.set_type(onnx::AttributeProto::INTS);
  for (const int64_t p : perm) a.add_ints(p);
  return to;
}

/// The first two axes as one behind the items' axes before `axis`: [n, a, b, c] with axis 1 is [a, n * b, c].
bool concatenate(const onnx::NodeProto& n, const std::string& stack, int64_t axis, const Scope& scope, NodeWriter& writer) {
  const auto before = moved(n, stack, static_cast<size_t>(axis), false, scope, writer);
  if (!before) return false;
  const std::string dims = writer.fresh(n.name() + "/dims"), to = writer.fresh(n.name() + "/to");
  writer.emit(n, "Shape", {*before}, {dims}, "/dims");
  const auto part = [&](int64_t begin, int64_t end, const char* what) {
    const std::string name = writer.fresh(n.name() + "/" + what);
    writer.emit(n, "Slice",
                {dims, writer.emit_vector(n, {begin}, std::string(what) + "_begin"),
                 writer.emit_vector(n, {end}, std::string(what) + "_end")},
                {name}, std::string("/") + what);
    return name;
  };
  const std::string front = part(0, axis, "front"), two = part(axis, axis + 2, "two"), back = part(axis + 2, INT64_MAX, "back");
  const std::string one = writer.fresh(n.name() + "/one");
  set_int(writer.emit(n, "ReduceProd", {two, writer.emit_vector(n, {0}, "first")}, {one}, "/one"), "keepdims", 1);
  set_int(writer.emit(n, "Concat", {front, one, back}, {to}, "/to"), "axis", 0);
  set_int(writer.emit(n, "Reshape", {*before, to}, {n.output(0)}), "allowzero", 1);
  return true;
}

}  // namespace

bool stack_appends(const onnx::NodeProto& n, const std::vector<Scope>& bodies, Scope& scope, NodeWriter& writer) {
  if (bodies.size() != 1) return false;
  onnx::NodeProto with = n;
  onnx::GraphProto* body = nullptr;
  for (auto& a : *with.mutable_attribute())
    if (a.name() == "body" && a.has_g()) body = a.mutable_g();
  const int carried = n.input_size() - 2;
  if (!body || carried < 1 || body->input_size() != n.input_size() || body->output_size() != n.output_size() + 1) return false;
  bool any = false;
  for (int i = carried; i-- > 0;) {
    const Known* start = scope.find(&Scope::known, n.input(2 + i));
    if (!start || start->is_optional || !start->items.empty() || !start->stack.empty()) continue;
    const int at = appends(*body, i);
    if (at < 0) continue;
    const std::string item = body->node(at).input(1), made = writer.fresh(n.name() + "/item");
    auto& copy = *body->mutable_node(at);
    copy.set_op_type("Identity");
    copy.clear_input();
    copy.add_input(item);
    copy.set_output(0, made);
    body->mutable_input()->DeleteSubrange(2 + i, 1);
    body->mutable_output()->DeleteSubrange(1 + i, 1);
    auto& result = *body->add_output();
    result.set_name(made);
    const std::string sequence = n.output(i), stack = writer.fresh(n.name() + "/stacked");
    with.mutable_input()->DeleteSubrange(2 + i, 1);
    with.mutable_output()->DeleteSubrange(i, 1);
    with.add_output(stack);
    if (const auto* type = bodies[0].tensor_type(item)) {
      *result.mutable_type()->mutable_tensor_type() = *type;
      if (type->has_shape()) {
        auto& all = *scope.types[stack].mutable_tensor_type();
        all.set_elem_type(type->elem_type());
        all.mutable_shape()->add_dim();
        all.mutable_shape()->mutable_dim()->MergeFrom(type->shape().dim());
      }
    }
    if (!sequence.empty()) scope.known[sequence] = {.stack = stack, .items = {}};
    any = true;
  }
  if (any) writer.add(std::move(with));
  return any;
}

bool stack_split(const onnx::NodeProto& n, Scope& scope, NodeWriter& writer) {
  const auto rank = scope.rank(n.input(0));
  if (!rank || *rank < 1) return false;
  int64_t axis = get_int(n, "axis", 0);
  if (axis < 0) axis += *rank;
  if (axis < 0 || axis >= *rank) return false;
  auto stack = moved(n, n.input(0), static_cast<size_t>(axis), true, scope, writer);
  const bool keeps = get_int(n, "keepdims", 1) != 0;
  if (keeps) {
    const std::string apart = writer.fresh(n.name() + "/apart");
    writer.emit(n, "Unsqueeze", {*stack, writer.emit_vector(n, {axis + 1}, "kept")}, {apart}, "/apart");
    stack = apart;
  } else if (axis == 0) {  // a name of its own, whose type is the stack's
    stack = writer.fresh(n.name() + "/all");
    writer.emit(n, "Identity", {n.input(0)}, {*stack}, "/all");
  }
  auto& type = *scope.types[*stack].mutable_tensor_type();
  type.set_elem_type(scope.tensor_type(n.input(0))->elem_type());
  for (int64_t i = 0; i < *rank + (keeps ? 1 : 0); ++i) type.mutable_shape()->add_dim();
  scope.known[n.output(0)] = {.stack = *stack, .items = {}};
  return false;
}

bool read_stack(const onnx::NodeProto& n, const std::string& stack, const Scope& scope, NodeWriter& writer) {
  const std::string& op = n.op_type();
  if (op == "SequenceLength") {
    const std::string dims = writer.fresh(n.name() + "/dims"), first = writer.fresh(n.name() + "/first");
    writer.emit(n, "Shape", {stack}, {dims}, "/dims");
    writer.emit_constant(n, onnx::TensorProto::INT64, {0}, false, first, "/first");
    set_int(writer.emit(n, "Gather", {dims, first}, {n.output(0)}), "axis", 0);
    return true;
  }
  if (op == "SequenceAt") {
    if (scope.rank(n.input(1)) != 0) return false;
    set_int(writer.emit(n, "Gather", {stack, n.input(1)}, {n.output(0)}), "axis", 0);
    return true;
  }
  if (op != "ConcatFromSequence") return false;
  const bool stacks = get_int(n, "new_axis", 0) != 0;
  int64_t axis = get_int(n, "axis", 0);
  const auto rank = scope.rank(stack);
  if (axis < 0 && !rank) return false;
  if (axis < 0) axis += *rank - (stacks ? 0 : 1);
  if (axis < 0 || (rank && axis >= *rank - (stacks ? 0 : 1))) return false;
  if (!stacks) return concatenate(n, stack, axis, scope, writer);
  const auto all = moved(n, stack, static_cast<size_t>(axis), false, scope, writer);
  if (!all) return false;
  writer.emit(n, "Identity", {*all}, {n.output(0)});
  return true;
}

}  // namespace smelt::importer
