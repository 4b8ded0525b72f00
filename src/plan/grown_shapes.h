// Shapes that grow from run to run, as a decoding loop's states do: a segment for other extents is made from the one before it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/value_of.h"
#include "plan/segment.h"
#include "plan/shapes.h"

namespace smelt::plan {

/// The segment of the shapes that were planned last, as it is before its tensors have memory. What depends on ranks, types and
/// constants is kept: the order, which steps there are, layouts, what runs joined or apart. Of other shapes, only nodes that read a
/// value whose shape or content changed are looked at again.
///
/// It serves shapes of which every extent of every value is 0, 1 or more as before: what choices before memory go by. It holds one
/// segment, whatever is planned. Not thread-safe: an Execution has its own.
class GrownShapes {
 public:
  /// Whether a segment is worth keeping: some graphs' segments never serve again.
  bool wants(const Segment& s, const Environment& env) const;
  void keep(Segment s, Environment env);
  void forget() { kept_.reset(); }
  /// The kept segment, with the extents that follow from these of the graph's inputs; null, and nothing is kept any more, where there is
  /// none for them. Throws nothing: an error is met again by those who plan.
  const Segment* grow(const Graph& g, std::span<const NodeId> order, std::span<const Shape> inputs);
  /// What is known of the graph's values with those extents.
  const Environment& environment() const { return kept().env; }

 private:
  struct Kept {
    Segment segment;
    Environment env;
  };
  Kept& kept() { return value_of(kept_, "a segment that is kept"); }
  const Kept& kept() const { return value_of(kept_, "a segment that is kept"); }
  bool set_inputs(const Graph& g, std::span<const Shape> inputs);
  bool follow(const Node& node);
  bool change(ValueId v, const Environment::Entry& was);
  bool enter();
  bool fits(const Step& step) const;
  bool is_changed(TensorIndex t) const;

  std::optional<Kept> kept_;
  std::vector<char> changed_;         // by value: in this turn
  std::vector<Shape> shapes_before_;  // of those
  int64_t room_ = 0;                  // bytes that the machine was found to have for one tensor
  int in_vain_ = 0;                   // how often running it did not serve, since it did
};

}  // namespace smelt::plan
