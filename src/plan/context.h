// What a plan is made with: the machine and its tuner, packed weights, the options, and what planning has to know of the memory
// that the plan will run in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/memory.h"
#include "base/threads.h"
#include "fuse/match/rewrite.h"
#include "ops/core/packed_weights.h"
#include "plan/arena.h"
#include "plan/stage_times.h"
#include "smelt/session.h"
#include "tune/filter.h"
#include "tune/tuner.h"

namespace smelt::plan {

/// Whether a plan of these options is a GPU's.
bool on_gpu(const Options& options);
/// How its graph is rewritten.
fuse::Options fuse_options(const Options& options);
/// What the values of a session with these options may take of the host's memory. Throws Error (usage) for a limit below 0.
std::shared_ptr<MemoryAccount> account_for(const Options& options);
/// Which tactics it may use. Throws Error (usage) for names that there are not.
tune::TacticFilter tactic_filter(const Options& options);
/// The store of timings that its tuner uses. Level 0 and `use_cache` false: one in memory; so too, with a warning, where the
/// folder cannot be made.
std::shared_ptr<tune::Cache> open_cache(const Options& options);

/// Whether planning for a shape may take the time to measure; finalists: and a GPU's steps get those that Planner::settle() chooses among.
enum class Measure : uint8_t { no, yes, finalists };

/// The memory that a plan will run in, and how a step leaves it. The executor fills it in.
struct Target {
  bool is_host = true;                        // tensors lie in the host's memory
  int64_t block_alignment = arena_alignment;  // bytes: of the arena's blocks and of constants
  int64_t caller_alignment = 1;               // bytes: of tensors that a caller gives; 1: their elements' own
  /// A GPU's plan: the kernel of the processor that is given, for this node, as one that reads and writes the GPU's memory.
  std::function<std::unique_ptr<ops::Kernel>(const ops::BoundNode&, std::unique_ptr<ops::Kernel>)> through_host_memory;
};

/// What the planners of a graph and of the bodies of its If, Loop and Scan nodes share. Thread-safe as its parts are.
struct Context {
  /// `options` decide the tuner's level and its tactics. Throws Error (usage) for a level or tactics that there are not.
  /// `keeps_weights`: tune::TuningTime. `carried`: timings of a plan (tune::to_text), for another number of threads where nothing is
  /// pinned.
  Context(ops::Machine machine, Options options, Target target, std::shared_ptr<tune::Cache> cache,
          const tune::PinnedChoices& pinned = {}, bool keeps_weights = false, std::string carried = {});

  tune::Tuner tuner;
  ops::WeightStore weights;
  Options options;
  threads::Team team;  // what runs, and measurements, use
  Target target;
  std::optional<std::set<std::string>> carried_plain;  // the nodes that a plan's file says stay plain
  std::optional<std::set<std::string>> carried_apart;  // and those that run as their parts (Planner::choices)
  std::string carried_timings;                         // what a plan's file carries, which one made of this plan carries on
  bool remembers = true;  // what does not depend on extents is worked out once; tests plan without that, too
  std::shared_ptr<StageTimes> stages = std::make_shared<StageTimes>();
  std::shared_ptr<MemoryAccount> memory = memory_account();  // of the values of a session: that of its build
};

/// The bytes that a value may have on a plan's GPU: its options' limit, and its memory. MemoryAccount::no_limit where neither is known,
/// and on the host.
int64_t room_on_gpu(const Context& context);

}  // namespace smelt::plan
