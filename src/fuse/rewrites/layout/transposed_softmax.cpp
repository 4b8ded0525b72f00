// Before   Transpose(Softmax(Transpose(x))), the second undoing the first; LogSoftmax too. Without the second, where the softmax is
//          along what was the last axis
// After    Softmax(x) along the axis that the first moved there; the Transpose behind it where nothing undoes it
// Unless   what is between has another reader or is a graph output
//          the transposes do not undo each other, or the rank is not known
#include "fuse/match/moved.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// Whether the order of axes q undoes p.
bool undoes(const std::vector<int64_t>& q, const std::vector<int64_t>& p) {
  if (q.size() != p.size()) return false;
  for (size_t i = 0; i < p.size(); ++i)
    if (q[i] < 0 || q[i] >= static_cast<int64_t>(p.size()) || p[static_cast<size_t>(q[i])] != static_cast<int64_t>(i))
      return false;
  return true;
}

/// The Transpose `before` goes behind the softmax, which is then along `axis`.
Match exchanged(NodeId before, NodeId softmax, int64_t axis) {
  return Match{{before, softmax}, [before, softmax, axis](Graph& g) {
                 const ValueId x = g.node(before).in(0);
                 Node first = moved_in_place_of(g, softmax, g.node(softmax).op, {x}, shape_of(g, x));
                 first.attrs["axis"] = axis;
                 const ValueId made = first.outputs[0];
                 g.add_node(std::move(first));
                 g.edit(softmax).op = "Transpose";
                 g.edit(softmax).attrs.clear();
                 g.edit(softmax).attrs["perm"] = g.node(before).get_ints("perm");
                 g.set_inputs(softmax, {made});
                 return softmax;
               }};
}

}  // namespace

Outcome transposed_softmax(const Graph& g, NodeId softmax) {
  const Node& n = g.node(softmax);
  if (!n.is("Softmax") && !n.is("LogSoftmax")) return NotHere{};
  NodeId before;
  if (!made_by(g, n.in(0), "Transpose", &before)) return NotHere{};
  const ValueId x = g.node(before).in(0);
  const int r = rank(g, x);
  const auto first = g.node(before).get_ints("perm");
  const int64_t axis = n.get_int("axis", -1);
  if (r < 1 || first.size() != static_cast<size_t>(r) || axis < -r || axis >= r)
    return refuse(Reason::unknown_shape, softmax, "the order of the axes before {} is not known", describe(g, softmax));
  const int64_t own = first[static_cast<size_t>(axis < 0 ? axis + r : axis)];
  const bool alone = g.only_reader(n.in(0)) != NodeId::none;  // otherwise the Transpose stays for its other readers
  const auto after = reader_of(g, n.out());
  if (!after || !g.node(*after).is("Transpose")) {
    const bool along_the_last = axis != -1 && axis != r - 1 && (own == r - 1 || own == -1);
    if (alone && along_the_last) return exchanged(before, softmax, -1);
    return after ? Outcome(NotHere{}) : Outcome(after.refusal());
  }
  if (!undoes(g.node(*after).get_ints("perm"), first))
    return refuse(Reason::wrong_axis, *after, "{} does not undo {}", describe(g, *after), describe(g, before));
  std::vector<NodeId> nodes{softmax, *after};
  if (alone) nodes.insert(nodes.begin(), before);
  Node moved = n;
  moved.inputs = {x};
  moved.outputs = {g.node(*after).out()};
  moved.attrs["axis"] = own;
  moved.order = 0;
  return replacement(nodes, std::move(moved));
}

}  // namespace smelt::fuse
