// What the program over an attention's scores does where its operands are constants: masks that hide nothing, or what is causal,
// need not be read.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ops/attention/cuda_attention.h"

namespace smelt::ops {

/// Whether the program only adds to a score, selects and converts, so that what it does at -1, 0 and 1 tells what it does
/// everywhere: nothing, hide the key (minus infinity, or at most -1e30, beside which any other score takes all the weight), or
/// something else.
bool adds_or_selects(const expr::Program& p);

/// What the program does to every score of the node; looks at all of them where its operands are constants.
ScoreMask mask_of(const BoundNode& b, const AttentionCuda& p);

/// What mask_of found so far: layers that share a mask, and the layouts that planning tries for one, have it looked at once.
/// Thread-safe.
class ScoreMasks {
 public:
  ScoreMask of(const BoundNode& b, const AttentionCuda& p);

 private:
  struct Known {
    ScoreMask mask;
    std::vector<Tensor> constants;  // keeps their memory, and with it the key, from being reused
  };
  std::mutex mutex_;
  std::map<std::string, Known> known_;
};

}  // namespace smelt::ops
