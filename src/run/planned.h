// Segments with their kernels and memory, for given sizes, and the segments that follow for each outcome of theirs.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <vector>

#include "run/backend.h"
#include "run/bound.h"
#include "run/shapes.h"

namespace smelt::run {

class PlanImpl;
struct CacheForm;

/// Steps of a segment that follow each other, all of them on the device or all on the host.
struct Stretch {
  size_t begin = 0, end = 0;
  bool on_host = false;
};

/// A segment's device stretches, recorded for the memory that these addresses name: its externals', its results', the arena's.
struct Recorded {
  std::vector<const void*> addresses;
  std::vector<std::unique_ptr<Recording>> stretches;  // null for those on the host
};

struct Planned {
  Segment segment;
  std::vector<Tensor> own;                  // memory of results that the caller gives none for; by result, made when needed
  std::map<ValueId, Tensor> known_outputs;  // graph outputs whose value is known before the run
  std::vector<Tensor> twins;                // by external: the device's copy of a value that the host made
  std::vector<Stretch> stretches;
  bool has_constants = false;                // what its steps read of them was brought to the device
  std::list<Recorded> recorded;              // most recently used first
  std::vector<size_t> work;                  // by step, of the last recording: how many pieces of work it is
  bool own_memory_only = false;              // too many sets of addresses: the caller's tensors are copied instead
  std::vector<ValueId> found;                // made by dynamic steps: their sizes decide what follows
  Tensor counts, counted;                    // i64 [kernels that count their results]: the device's, and the host's copy
  std::shared_ptr<const Environment> after;  // null for the last segment
  /// By the types and shapes of `found`, in order.
  std::map<std::vector<std::pair<DType, Shape>>, std::unique_ptr<Planned>> next;
};

/// Outcomes of one segment that are kept; beyond that all are dropped and planned again when met.
inline constexpr size_t max_outcomes = 16;

/// Recordings that are kept for one shape. With still more sets of addresses, inputs and outputs are copied to and from memory of
/// the Execution's own.
inline constexpr size_t max_recordings = 16;

/// Plans the next segment for what `env` knows, kernels and memory included.
/// `before`: the segment for other sizes that the same Execution has, if any, whose kernels serve again.
std::unique_ptr<Planned> plan_next(const PlanImpl& plan, Environment env, std::span<const CacheForm> caches = {},
                                   const Segment* before = nullptr);
/// The first segment for inputs of these shapes. Throws Error (usage) for caches where it is not the only one.
std::unique_ptr<Planned> plan_first(const PlanImpl& plan, std::span<const Shape> inputs, std::span<const CacheForm> caches = {},
                                    const Segment* before = nullptr);

}  // namespace smelt::run
