// What an Execution keeps for a planned segment: addresses, memory of its own, recordings, and the segments that follow.
#pragma once

#include <array>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "plan/planner.h"
#include "run/backend.h"

namespace smelt::run {

class ExecutionImpl;

/// Steps that follow each other, all of them on the device or all on the host.
struct StepRange {
  size_t begin = 0, end = 0;
  bool on_host = false;
};

/// What Kernel::run is given for a step.
struct StepArguments {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* workspace = nullptr;
};

/// An argument in memory that another binding, or an earlier segment's next run, may put elsewhere.
struct MovingArgument {
  size_t step = 0, slot = 0;
  bool is_output = false;
  ValueId value;       // in whose memory it lies
  int64_t offset = 0;  // bytes into it
};

/// What a branch of a control step was bound to last.
struct BranchState {
  const Graph* body = nullptr;         // null before the first run that takes it
  ExecutionImpl* execution = nullptr;  // the body's, for the inputs of the last run
  std::vector<Tensor> inputs, outputs;
};

/// A segment's ranges on the device, recorded for the memory at these addresses: the arena's, its externals', its results'.
struct SegmentRecording {
  std::vector<const void*> addresses;
  std::vector<std::unique_ptr<Recording>> ranges;  // null for those on the host
};

/// The constants that its kernels, finalists among them, read as they are; some more than once.
std::vector<Tensor> constants_read(const plan::Segment& s);

struct SegmentState : plan::PlannedSegment {
  explicit SegmentState(plan::PlannedSegment planned);

  std::vector<StepRange> ranges;
  std::vector<StepArguments> arguments;              // by step
  std::vector<MovingArgument> moving;                // of arguments
  const void* resolved_for = nullptr;                // the arena\'s memory that the other arguments point into
  std::vector<std::array<BranchState, 2>> branches;  // by step; of control steps: else, then
  std::vector<Tensor> own_results;                   // by result: memory where the caller gives none, made when needed
  std::vector<Tensor> device_copies;                 // by external: of values that the host made
  int64_t step_bytes = 0;                            // about what its kernels hold
  bool has_constants = false;                        // what its steps read of them was uploaded
  Tensor counts, host_counts;                        // i64 [kernels that count their results]: the device's, and the host's copy
  std::list<SegmentRecording> recordings;            // most recently used first
  std::vector<size_t> recorded_work;                 // by step, of the last recording: how many pieces of work it is
  bool own_memory_only = false;                      // too many sets of addresses: the caller's tensors are copied instead
  /// By the types and shapes of `data_dependent`, in order.
  std::map<std::vector<std::pair<DType, Shape>>, std::unique_ptr<SegmentState>> next;
  double planned_s = 0;  // what planning it took in a run; 0: a build did, or it was said
  bool has_run = false;
  std::map<ValueId, bool> any_booleans;  // what takes_any_boolean found

  /// Whether bytes other than 0 and 1 may stand in this value, an external of bools: its readers, all in this segment, take any.
  bool takes_any_boolean(ValueId v);
  /// About what it holds beside weights and the arena, with the segments that follow.
  int64_t held_bytes() const;
};

/// Outcomes of one segment that are kept; beyond that all are dropped and planned again when met.
inline constexpr size_t max_outcomes = 16;

/// Recordings that are kept for one shape. With still more sets of addresses, inputs and outputs are copied to and from memory of
/// the Execution's own.
inline constexpr size_t max_recordings = 16;

}  // namespace smelt::run
