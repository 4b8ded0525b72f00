// What the program over an attention's scores does where its operands are constants: masks that hide nothing, or what is causal,
// need not be read.
#pragma once

#include "ops/attention/attention_cuda.h"

namespace smelt::ops {

/// Whether the program only adds to a score, selects and converts, so that what it does at -1, 0 and 1 tells what it does
/// everywhere: nothing, hide the key (minus infinity, or at most -1e30, beside which any other score takes all the weight), or
/// something else.
bool adds_or_selects(const expr::Program& p);

ScoreForm form_of(const BoundNode& b, const AttentionCuda& p);

}  // namespace smelt::ops
