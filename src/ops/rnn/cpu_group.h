// The steps of a group of sequences (cpu_plan.h), after what W makes of their inputs is known.
#pragma once

#include "ops/rnn/cpu_plan.h"

namespace smelt::ops {

/// The scale and zero point of values within [low, high], which holds 0: DynamicQuantizeLinear's.
QuantizedRow quantized_range(float low, float high);

struct GroupRun {
  const RecurrentPlan& plan;
  const Buffers& buffers;
  char* memory;         // scratch
  const float* biases;  // of all directions
};
/// All steps of a group, by one thread, the one of this number. Reads inputs, order and peepholes from scratch memory, writes the
/// node's outputs.
void advance_group(const GroupRun& run, int64_t group, int thread);
/// All steps of groups [first, first + groups), the units of each shared by the plan's team: a region of threads for every step.
void advance_shared(const GroupRun& run, int64_t first, int64_t groups);

}  // namespace smelt::ops
