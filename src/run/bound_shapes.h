// The planned first segments of the shapes that an Execution was bound to, within bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "plan/caches.h"
#include "run/segment_state.h"

namespace smelt::run {

/// What a first segment is planned for.
struct Binding {
  std::vector<Shape> shapes;
  std::vector<plan::CacheForm> caches;
  bool operator==(const Binding&) const = default;
};

class BoundShapes {
 public:
  using Bound = std::pair<Binding, std::unique_ptr<SegmentState>>;
  bool empty() const { return all_.empty(); }
  /// What was bound last.
  const Binding& last() const { return all_.front().bound.first; }
  SegmentState& state() const { return *all_.front().bound.second; }
  /// Those of this binding become the last; false where there are none.
  bool find(const Binding& binding);
  /// They become the last.
  void add(Binding binding, std::unique_ptr<SegmentState> state);
  /// How many of those bound before the last, the least recently bound first, are to go for no more than `most` to be left and, unless
  /// that is 0, for about `most_bytes`.
  size_t beyond(size_t most, int64_t most_bytes) const;
  void drop(size_t count);
  /// All of them, the most recently bound first.
  std::vector<Bound> take();

 private:
  struct Kept {
    Bound bound;
    size_t hash = 0;
    int64_t bytes = 0;  // as of when another was bound
  };
  using Place = std::list<Kept>::iterator;
  /// Counts what the last holds, which may be more since it was bound.
  void count_last();

  std::list<Kept> all_;  // most recently bound first
  std::unordered_multimap<size_t, Place> by_hash_;
  int64_t bytes_ = 0;
};

}  // namespace smelt::run
