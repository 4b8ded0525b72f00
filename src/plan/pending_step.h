// A step between its offer and its kernel, which the stages of choosing hand on.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/by_threads.h"
#include "base/memory.h"
#include "ops/core/tactic.h"
#include "plan/buckets.h"
#include "plan/segment.h"
#include "plan/similar_choices.h"
#include "tune/tuner.h"

namespace smelt::plan {

/// by_threads() whose threads count what they allocate where the calling one does.
template <class F> void by_counted_threads(int threads, size_t count, F&& f) {
  by_threads(threads, count, [&f, account = memory_account()](size_t i) {
    const MemoryScope scope(account);
    f(i);
  });
}

/// A step whose kernel is still to be chosen.
struct PendingStep {
  Step* step;
  ops::BoundNode node;
  ops::Offer offer;
  std::string bucket;
  std::optional<tune::PinnedChoice> similar;  // what the bucket has
  StepForm form;
};

}  // namespace smelt::plan
