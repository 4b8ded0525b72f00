// What steps around images take with channels-last images, and with plain ones.
#pragma once

#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/segment.h"

namespace smelt::plan {

/// Steps of a segment, in its order.
struct StepsOf {
  const Segment& s;
  std::vector<const Step*> steps;
};

/// Microseconds of a region either way, and how they were found.
struct LayoutTimes {
  enum class By {
    estimates,
    sums,
    race,
    race_under_load
  };  // of each step; measured one by one; one behind the other; that, beside other work
  double channels_last = 0, plain = 0;
  By by = By::sums;
  bool at_least = false;  // of plain: not all of its steps are in it
};

/// "raced".
std::string_view text(LayoutTimes::By by);

/// Whether plain images are as much faster as it takes to leave channels-last ones. Sums of times that were measured one by one drift,
/// and so does a race beside other work: they have to show more than a race on quiet cores. Estimates have to show half of the time, and
/// more than tensors of a few microseconds can save.
bool plain_wins(const LayoutTimes& t);

/// The cache's name of a race of a region's kernels with those of the same nodes over plain images: by their problems.
std::string layout_race(const std::vector<std::string>& channels_last, const std::vector<std::string>& plain);

/// Measures steps one by one, and a region's steps one behind the other. The tuner and its cache keep what was measured.
class LayoutCosts {
 public:
  LayoutCosts(tune::Tuner& tuner, ops::WeightStore* weights) : tuner_(tuner), weights_(weights) {}

  /// Microseconds of a step with the kernel that it would get: measured for kernels, estimated for a concatenation's copies.
  double us(const Segment& s, const Step& step);
  /// The same of the kernel that the estimates choose, without measuring.
  double estimate_us(const Segment& s, const Step& step) const;
  /// The least that a step may take over plain images: less than `other_us`, which it takes over channels-last ones, only where a
  /// kernel does that reorders nothing. (One that reorders is the channels-last step's, and copies besides.) Kernels are not measured
  /// whose estimates are far behind.
  double least_plain_us(const Segment& s, const Step& step, double other_us);
  /// Microseconds that a step's reorder may take at most, by its bytes: measured one by one it reads what its own core wrote. 0 for
  /// others.
  double most_reorder_us(const Segment& s, const Step& step) const;

  /// Each one step behind the other over the same images, in turn. Nothing where that would take too much memory, or the tuner's time
  /// is up.
  std::optional<LayoutTimes> race(const StepsOf& channels_last, const StepsOf& plain);
  /// The same by timings with another number of threads, where these tell.
  std::optional<LayoutTimes> race_elsewhere(const StepsOf& channels_last, const StepsOf& plain);

 private:
  struct Way {
    std::list<ops::BoundNode> nodes;
    std::list<ops::Offer> offers;
    tune::Tuner::Way way;
    std::vector<std::string> problems;
    double copies_us = 0;
    int64_t bytes = 0;
  };
  Way way(std::string name, const StepsOf& side);

  tune::Tuner& tuner_;
  ops::WeightStore* weights_;
};

}  // namespace smelt::plan
