// Sizes that share a choice of tactics, so that a plan of symbolic extents (a batch, a cache that grows) measures few of them.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "plan/segment.h"

namespace smelt::plan {

/// The step's place in the graph and its tensors, each extent and stride replaced by its bucket: the next power of 2, and the
/// power of 2 that divides it, up to 16, for how wide accesses are depends on that.
std::string bucket_of(const Segment& s, const Step& step);

/// What was chosen for the first sizes met of each bucket. Thread-safe.
class BucketChoices {
 public:
  std::optional<tune::PinnedChoice> find(const std::string& bucket) const;
  /// Keeps the first.
  void keep(const std::string& bucket, tune::PinnedChoice choice);
  /// Whether this is the first time that the candidate is prepared for the bucket: it may have to be compiled.
  bool is_new(const std::string& bucket, const ops::Candidate& candidate);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, tune::PinnedChoice> chosen_;
  std::set<std::string> prepared_;
};

}  // namespace smelt::plan
