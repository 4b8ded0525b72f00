// The steps of a group of sequences (cpu_plan.h), after what W makes of their inputs is known.
#pragma once

#include <atomic>

#include "ops/rnn/cpu_plan.h"

namespace smelt::ops {

/// Threads that share a group meet here after each step. A step takes microseconds, so they spin before they let others run.
class alignas(64) Meeting {
 public:
  void wait(int members);

 private:
  std::atomic<int> arrived_{0};
  std::atomic<uint32_t> round_{0};
};

/// The scale and zero point of values within [low, high], which holds 0: DynamicQuantizeLinear's.
QuantizedRow quantized_range(float low, float high);

struct GroupRun {
  const RecurrentPlan& plan;
  const Buffers& buffers;
  char* memory;         // scratch
  const float* biases;  // of all directions
  Meeting* meetings;    // of each group
};
/// A member's share of a group, all steps of it: its units of every sequence. Reads inputs, order and peepholes from scratch
/// memory, writes the node's outputs.
void advance_group(const GroupRun& run, int64_t group, int member, int team, int thread);

}  // namespace smelt::ops
