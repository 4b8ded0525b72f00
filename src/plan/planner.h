// From a graph to segments that can run: their shapes, layouts, views, buffers, memory and kernels.
//
// A Planner knows the graph, and plans it for given shapes of its inputs, any number of times. Where sizes depend on data the
// graph is planned in segments: each as far as its shapes are known, the next once a run has found the sizes.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/apart.h"
#include "plan/buckets.h"
#include "plan/cached_attention.h"
#include "plan/caches.h"
#include "plan/carried_choices.h"
#include "plan/context.h"
#include "plan/first_layers.h"
#include "plan/fused_choices.h"
#include "plan/gated_products.h"
#include "plan/grown_shapes.h"
#include "plan/joined_products.h"
#include "plan/joined_rotary.h"
#include "plan/layout_regions.h"
#include "plan/layouts.h"
#include "plan/normed_products.h"
#include "plan/segment.h"
#include "plan/shapes.h"
#include "plan/similar_choices.h"

namespace smelt::plan {

/// A segment with its kernels and memory, and what is known for those after it.
struct PlannedSegment {
  Segment segment;
  std::map<ValueId, Tensor> known_outputs;   // graph outputs whose value is known before the run
  std::vector<ValueId> data_dependent;       // made by dynamic steps: a run finds their shapes, which decide what follows
  std::shared_ptr<const Environment> after;  // what next() needs; null for the last segment
  /// Where the model is to choose among finalists: the segment before its buffers have places.
  std::shared_ptr<Segment> unplaced = nullptr;
};

/// The shapes of the graph's inputs where all are fixed.
std::optional<std::vector<Shape>> fixed_shapes(const Graph& g);

/// By problem: the finalist that the model chose.
using ModelChoices = std::map<std::string, size_t>;

/// Immutable but for the choices of buckets, layouts and fused nodes; thread-safe.
class Planner {
 public:
  Planner(Graph graph, std::shared_ptr<Context> context);

  const Graph& graph() const { return graph_; }
  const std::vector<NodeId>& order() const { return order_; }
  Context& context() const { return *context_; }
  /// What was chosen while measuring was allowed, and decided, as a plan's file carries it; without device and profiles.
  CarriedChoices choices() const;
  std::optional<std::vector<Shape>> fixed_shapes() const { return plan::fixed_shapes(graph_); }

  /// The first segment for inputs of these shapes. `measure`: kernels and layouts may be measured for them; otherwise choices for
  /// the nearest shapes that were planned before serve, and estimates. `before`: the first segment for other shapes that the same Execution has, if
  /// any, whose kernels serve again. `grown`: where given, what is kept of the shapes planned last serves these, and what serves the next is
  /// kept there, on the processor and where nothing may be measured. Throws Error: naming the node that no kernel runs; usage for caches where the segment is not
  /// the only one.
  PlannedSegment first(std::span<const Shape> inputs, Measure measure = Measure::yes, std::span<const CacheForm> caches = {},
                       const Segment* before = nullptr, GrownShapes* grown = nullptr) const;
  /// Gives the steps their finalists, those that `chosen` lacks the one that they have, and plans the memory for them. `said`: by
  /// problem and finalist, what is to be said of it where it was not chosen.
  void settle(PlannedSegment& planned, const ModelChoices& chosen,
              const std::map<std::string, std::vector<std::string>>& said) const;
  /// The next segment for what `env` knows.
  PlannedSegment next(const Environment& env, Measure measure = Measure::yes) const {
    return plan(env, measure, {}, nullptr, nullptr);
  }

 private:
  PlannedSegment plan(const Environment& known, Measure measure, std::span<const CacheForm> caches, const Segment* before,
                      GrownShapes* grown) const;
  /// `accepted`: what assign_layouts remembers; null: nothing.
  PlannedSegment plan(Environment env, Measure measure, std::span<const CacheForm> caches, const Segment* before,
                      GrownShapes* grown, AcceptedLayouts* accepted) const;
  /// Gives a segment, whose steps and layouts are decided, its buffers, kernels and memory.
  PlannedSegment placed(Segment s, const Environment& env, Measure measure, const Segment* before) const;
  /// assign_layouts; on the processor images stay plain where they are measured to be faster so.
  void choose_layouts(Segment& s, bool may_measure, AcceptedLayouts* accepted, StageClock& clock) const;

  /// Notes what its steps run with for choices().
  void note_chosen(const Segment& s) const;

  Graph graph_;
  std::shared_ptr<Context> context_;
  std::vector<NodeId> order_;
  mutable BucketChoices buckets_;
  mutable SimilarChoices similar_;
  mutable LayoutChoices layouts_;
  mutable Apart apart_;
  mutable FusedChoices fused_{apart_};
  mutable FirstLayers first_layers_{apart_};
  mutable JoinedProducts joined_{apart_};
  mutable GatedProducts gated_{apart_};
  mutable NormedProducts normed_{apart_};
  mutable CachedAttention cached_{apart_};
  mutable JoinedRotary rotary_{apart_};
  mutable AcceptedLayouts accepted_;
  mutable std::mutex chosen_mutex_;
  mutable tune::PinnedChoices chosen_;
};

}  // namespace smelt::plan
