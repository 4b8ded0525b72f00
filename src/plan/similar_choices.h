// What was chosen for a step's other extents, so that a shape that is met in a run measures nothing and searches little.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plan/segment.h"

namespace smelt::plan {

/// A step's place in the graph with all of its tensors but their extents, and those.
struct StepForm {
  std::string fixed;
  std::vector<int64_t> extents;
};
StepForm form_of(const Segment& s, const Step& step);

/// How a choice came about.
enum class ChosenBy : uint8_t {
  readiness,  // ready at once, and short
  estimates,
  measurement,
};

struct SimilarChoice {
  ops::ChosenTactic chosen;
  ChosenBy by = ChosenBy::estimates;
  bool same_extents = false;
};

/// Thread-safe. It keeps a bounded number of choices for a form.
class SimilarChoices {
 public:
  /// The choice of these extents, so that all Executions of a plan compute the same bits; else of the nearest: a measured one where every
  /// extent is at most 16 times larger or smaller, else an estimated one, else a ready one, where it is at most 2 times so. Extents that divide by the
  /// same power of 2 (up to 16) are nearer.
  std::optional<SimilarChoice> nearest(const StepForm& form) const;
  /// A choice of the same extents is kept unless this one has a better reason.
  void keep(StepForm form, ops::ChosenTactic chosen, ChosenBy by);

 private:
  struct Kept {
    std::vector<int64_t> extents;
    std::vector<double> powers;  // of 2, of them
    size_t hash = 0;             // of extents
    ops::ChosenTactic chosen;
    ChosenBy by;
  };
  /// The choice of these extents; null where there is none.
  static const Kept* find(const std::vector<Kept>& all, const std::vector<int64_t>& extents);
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<Kept>, std::less<>> kept_;
};

}  // namespace smelt::plan
