// A tactic's candidate of one config against the reference.
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "ops/one_node.h"
#include "ops/tactic_check.h"

namespace smelt::ops::test {

/// The one candidate of this config is within `most` of `want`, on so many threads.
inline void config_agrees(Trial& t, std::string_view config, int threads, const Tensor& want, double most) {
  t.bound.node = &t.node;
  Machine machine;
  machine.threads = threads;
  int found = 0;
  for (const Candidate& candidate : offer(t.bound, machine).candidates) {
    if (candidate.config != config) continue;
    ++found;
    EXPECT_LE(error(run(t, candidate), want), most);
  }
  EXPECT_EQ(found, 1);
}

}  // namespace smelt::ops::test
