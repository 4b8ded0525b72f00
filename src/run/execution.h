// What one run of a plan needs: the planned segments of the shapes it was bound to, an arena, and where values lie.
#pragma once

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/memory.h"
#include "base/stop.h"
#include "run/bound_caches.h"
#include "run/bound_shapes.h"
#include "run/late_kernels.h"
#include "run/plan.h"
#include "run/segment_state.h"
#include "tune/in_model.h"

namespace smelt::ops {
class RepeatedBody;
}

namespace smelt::run {

class InnerTimes;

class ExecutionImpl final : public Execution {
 public:
  /// `shapes`: how many times as many shapes as the options say it keeps.
  explicit ExecutionImpl(std::shared_ptr<const PlanImpl> plan, size_t shapes = 1);
  ~ExecutionImpl() override;

  void bind(std::span<const Tensor> inputs, std::span<const Tensor> outputs = {}, std::span<const Cache> caches = {}) override;
  void run() override;
  void enqueue(void* stream) override;
  double run_timed(int times) override;
  void run_profiled(std::vector<StepTime>& times, std::vector<CopyTime>* copies = nullptr) override;
  std::span<const Tensor> outputs() const override { return active_ ? active_->outputs() : outputs_; }
  const std::vector<StepInfo>& steps() const override;
  const PlanImpl& plan() const { return *plan_; }
  MemoryInfo memory() const override;
  bool on_gpu() const override { return !backend_.is_host(); }
  void cancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  /// Puts these steps of a GPU's plan on its stream one by one, on what the last run left of their inputs, and waits. Throws Error
  /// (usage) for a plan of which no_single_steps() says why not.
  void run_steps(std::span<const size_t> steps);
  /// Why steps cannot be run by themselves; empty where they can.
  std::string no_single_steps() const;
  /// By step: how many kernels, copies and fills it is in the recording of what is bound; empty where a run is not one recording.
  std::vector<size_t> recorded_work() const;
  /// Forgets a cancellation that no run has met.
  void clear_cancel() { cancelled_.store(false, std::memory_order_relaxed); }

  /// Binds, runs and returns the outputs as tensors of their own, written by the run itself where their size is known before it.
  std::vector<Tensor> run_fresh(std::span<const Tensor> inputs, std::span<const Cache> caches = {});
  /// The same on the caller's stream of a GPU's plan, without waiting unless the plan has to: the outputs lie on the GPU. Inputs
  /// in the host's memory are copied there. The Execution may be used on another stream next.
  std::vector<Tensor> enqueue_fresh(std::span<const Tensor> inputs, void* stream, std::span<const Cache> caches = {});
  /// The caller's stream that it was last enqueued on; none after a run.
  std::optional<void*> last_stream() const { return active_ ? active_->last_stream() : last_stream_; }
  /// Medians of the bound inputs' recorded run, in microseconds.
  struct BothWays {
    double late_us = 0, early_us = 0;  // each kernel after the one before it; beginning early
    std::string_view why_not;          // where they are 0
  };
  BothWays time_both_ways();
  /// Microseconds of the bound inputs' recorded run with each of these lineups, in turn: `of_problem` has the steps of a problem.
  /// Throws Error where a run is not one recording.
  static constexpr int lineup_samples = 7, most_lineup_runs = 4;
  static constexpr double lineup_sample_us = 500;
  std::vector<double> time_lineups(std::span<const tune::Lineup> lineups, std::span<const std::vector<size_t>> of_problem,
                                   bool early);
  /// Plans extents that a run may well have where the model leaves them open and nobody named any, so that what all extents share, such
  /// as packed weights and what runs fused, is there before the first run. For the processor; it measures nothing, and says nothing
  /// where the guess does not fit the model.
  void get_ready();
  /// What it planned, without what it keeps for runs; it is of no more use.
  std::vector<PlanImpl::Prepared> take_prepared();
  /// The segments of the last run (of the bound shapes, before one), for tests and `explain`.
  std::span<const SegmentState* const> segments() const { return active_ ? active_->segments() : segments_; }

 private:
  /// While the calling thread runs this, a cancellation, the time limit and the caller's question end it. One inside of another
  /// does nothing.
  class Stoppable {
   public:
    explicit Stoppable(ExecutionImpl& e);
    ~Stoppable();
    Stoppable(const Stoppable&) = delete;

   private:
    ExecutionImpl* execution_;
    std::optional<Stop> stop_;
    std::optional<StopScope> scope_;
    std::optional<MemoryScope> memory_;
  };

  /// An input that kernels cannot use, for its address or for bytes that are no booleans, copied at each run.
  struct StagedInput {
    size_t input = 0;
    Tensor from, to;
    Tensor as_booleans;                 // `from` with its other bytes as 1, where it has some
    std::optional<bool> through_own{};  // whether it goes through pinned_inputs_; not asked before the first run
  };
  /// What decided an If: none of the shapes where they cannot, none of the values where they were not looked at.
  struct DecidedFor {
    std::vector<Shape> shapes;
    std::vector<bool> values;
    bool operator==(const DecidedFor&) const = default;
  };
  DecidedFor deciding(std::span<const Tensor> inputs, bool with_values) const;

  /// Inputs that decide branches of Ifs have an Execution of the plan that those branches are part of: it becomes the active one,
  /// which does what this one is asked for until the next bind. None is active for other inputs. Their shapes decide, and, where the
  /// run follows at once, values that are in the host's memory (`with_values`): those of bound inputs may be others at each run.
  /// Throws Error (usage) for inputs that do not fit the plan. Returns the active one.
  ExecutionImpl* activate(std::span<const Tensor> inputs, bool with_values);
  void execute(std::vector<StepTime>* times, std::vector<CopyTime>* copies);
  /// The steps' times as the device saw them in a recorded run; false where it cannot tell.
  bool run_traced(std::vector<StepTime>& times, std::vector<CopyTime>* copies);
  /// All of a run but waiting for it.
  void launch(Timestamps* timestamps, Trace* trace = nullptr);
  /// bind without the outputs.
  void bind_inputs(std::span<const Tensor> inputs, std::vector<BoundCache> caches);
  void bind_outputs(std::span<const Tensor> outputs);
  /// Inputs of the types and shapes that the last binding checked.
  bool were_bound_last(std::span<const Tensor> inputs) const;
  /// Throws Error (usage) for inputs that do not fit the plan.
  SegmentState& first_segment(std::span<const Tensor> inputs, std::span<const BoundCache> caches);
  SegmentState& following(SegmentState& state);
  /// Lets plans go, the least recently bound first, until the options' bounds hold; the one bound last stays.
  void keep_bounds();
  /// Points the segment's steps at the bytes of their tensors.
  void resolve(SegmentState& state);
  /// The same for all arguments, whether they can have moved or not.
  void resolve_all(SegmentState& state);
  /// On a device: copies the constants that the segment's kernels read to where they reach them, once.
  void upload_constants(SegmentState& state);
  /// On a device: copies values that the host made to where its kernels reach them.
  void upload_externals(SegmentState& state);
  std::byte* address(const SegmentState& state, plan::TensorIndex t);
  /// On a device: the recordings for the addresses that the segment is resolved to; null where they are too many sets.
  const SegmentRecording* recording_of(SegmentState& state);
  std::unique_ptr<Recording> record_range(SegmentState& state, const StepRange& range, bool early);
  /// `recording`: the segment's, null where it has none.
  void run_segment(SegmentState& state, const SegmentRecording* recording, void* stream, Timestamps* timestamps);
  void run_inner_step(SegmentState& state, size_t at, InnerTimes& inner);  // on the processor: notes its time
  void note_inner_step(const SegmentState& state, size_t at, int64_t ns, InnerTimes& inner);
  /// On a device: a body's run, and its steps' times by the device's clock.
  void run_noted(InnerTimes& inner);
  void run_step(SegmentState& state, size_t step, void* stream);
  void run_dynamic(const SegmentState& state, size_t step);
  class Repeated;
  /// A body of the node, called `name`, bound to memory that stays; null where that cannot be.
  std::unique_ptr<ops::RepeatedBody> repeated(const Node& node, const std::string& name, const Graph& g,
                                              std::span<const Tensor> inputs, size_t changing);
  /// Runs the branch of an If on the step's own memory.
  void run_branch(SegmentState& state, size_t step);
  /// Of the plan of a body; of its plan for any shape where the inputs do not have those that the body declares.
  ExecutionImpl& body(const Graph& g, std::span<const Tensor> inputs);
  /// Waits for what the segment's kernels counted, and gives their results the shapes found.
  void read_counts(SegmentState& state, void* stream);
  bool is_static() const { return !first_->after && first_->data_dependent.empty(); }
  /// Whether kernels can use the caller's tensor as it lies.
  bool usable(const Tensor& t) const;
  /// Other bytes than 0 and 1; of bools on a GPU, whose bytes nobody looks at, it says yes.
  bool has_odd_booleans(const Tensor& t) const;
  void copy_staged(StagedInput& b, void* stream);
  /// Where an input in the host's memory is copied from: where it lies, or pinned memory that it was brought to by this.
  const void* ready_to_copy(StagedInput& b);
  bool in_host_memory(const Tensor& t) const { return backend_.is_host() || !backend_.reaches(t.raw()) || t.nbytes() == 0; }
  /// The tensor, or a copy of it in the host's memory.
  Tensor on_host(const Tensor& t);
  /// Memory where kernels reach it. An error names the value and the node that makes it.
  Tensor memory_of(ValueId v, DType type, const Shape& shape);
  /// Memory for an output of the caller's, on the side where it wants outputs.
  /// The run's result as the caller's own: moved where nothing else holds it, else copied.
  Tensor given_away(size_t output);
  std::optional<Tensor> taken_from_segments(const Tensor& made);
  Tensor fresh_memory(ValueId v, DType type, const Shape& shape, std::optional<void*> stream);
  /// Memory for outputs whose size is known; `stream`: where they are made.
  std::vector<Tensor> fresh_outputs(std::optional<void*> stream);
  /// Drops what is the caller's: the next run needs a bind.
  void release_bound();
  /// Recordings for what is bound, where there can be any.
  void make_recordings(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  /// Why a run cannot do without waiting in its midst; empty where it can.
  std::string has_to_wait() const;
  /// Tells the trace, where there is one, what is copied from here on.
  void name_copies(std::string_view name) const {
    if (trace_) trace_->name_copies(name);
  }
  /// Has the stream wait for the work of the last run where that was on another.
  void wait_for_last_stream(void* stream);
  /// Before memory goes that work on a caller's stream may still use.
  void wait_for_enqueued();
  /// The tensor of output i: made by a segment, known before the run, an input or a constant.
  const Tensor& output_value(size_t i);
  void collect_outputs();
  void copy_to_caller(void* stream);
  Tensor& value(ValueId v) { return values_[static_cast<size_t>(index(v))]; }

  std::shared_ptr<const PlanImpl> plan_;
  Backend& backend_;
  std::shared_ptr<void> stream_;
  BoundShapes bound_;        // within the options' bounds
  plan::GrownShapes grown_;  // of the shapes planned last
  size_t most_shapes_;       // that bound_ holds
  std::vector<BoundCache> caches_;
  std::set<ValueId> own_results_;        // that late kernels made in memory which nothing else holds
  std::vector<SegmentState*> segments_;  // of the last run, in order
  SegmentState* first_ = nullptr;
  const SegmentRecording* recording_ = nullptr;  // of first_ as it is bound; null on the host, and for too many sets of addresses
  Tensor arena_;
  std::vector<Tensor> values_;         // by graph value: inputs, results of segments, what dynamic steps made
  std::vector<Tensor> own_inputs_;     // memory of staged inputs, by input, kept from bind to bind
  std::vector<Tensor> pinned_inputs_;  // of the host, for the same, where copies from the caller's memory are slow
  std::vector<StagedInput> staged_;
  std::vector<Tensor> given_;  // the caller's output memory, not valid() where there is none
  std::vector<Tensor> outputs_;
  bool outputs_on_device_ = false;           // those that the caller gives no memory for
  std::optional<void*> last_stream_;         // of a caller
  std::unique_ptr<StreamEvent> last_event_;  // recorded there
  Trace* trace_ = nullptr;                   // of the run that is being launched
  bool enqueued_ = false;                    // work on a stream of the caller's, since all was last waited for
  mutable std::vector<StepInfo> infos_;
  mutable bool described_ = true;  // infos_ is segments_': made when asked for
  LateKernels late_kernels_;
  std::shared_ptr<MemoryAccount> made_beside_gpu_;  // on the host, by dynamic steps: the GPU has room for no more
  std::map<const Graph*, std::unique_ptr<ExecutionImpl>> bodies_;
  std::map<const Graph*, std::unique_ptr<ExecutionImpl>> bodies_of_any_shape_;  // where a body's inputs are not as it says
  const BranchState* bound_by_ = nullptr;                              // of a body: what the Execution around it bound it for
  std::map<const PlanImpl*, std::unique_ptr<ExecutionImpl>> decided_;  // by the plan of the branches taken
  std::list<std::pair<DecidedFor, ExecutionImpl*>> decided_for_;       // most recently bound first; null: none
  ExecutionImpl* active_ = nullptr;
  std::atomic<bool> cancelled_ = false;
  bool running_ = false;
};

/// Whether its first element lies at a multiple of so many bytes, and of its own size.
inline bool is_aligned(const Tensor& t, int64_t alignment) {
  return reinterpret_cast<uintptr_t>(t.raw()) % static_cast<uintptr_t>(std::max<int64_t>(alignment, bits(t.type()) / 8)) == 0;
}

inline bool overlaps(const Tensor& a, const Tensor& b) {
  const auto* x = static_cast<const char*>(a.raw());
  const auto* y = static_cast<const char*>(b.raw());
  return x < y + b.nbytes() && y < x + a.nbytes();
}

/// Of a body: a loop that grows meets others in each turn, and all of them again in its next run. `kept_bytes` bounds them, too.
inline constexpr size_t shapes_of_a_body = 16;

/// Sets of inputs of which an Execution remembers which branches they decide; the least recently bound goes first.
inline constexpr size_t max_decided_shapes = 1024;

}  // namespace smelt::run
