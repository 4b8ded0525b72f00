// Build a plan from a model, then run it any number of times and at any shape that is bound.
//
//   smelt::Session session("resnet50.onnx");
//   std::map<std::string, smelt::Tensor> out = session.run({{"x", image}});
//
// Session is the simple form. It is made of a Plan and Executions: a Plan is immutable and shared, an Execution holds what
// one run needs (arena, bindings), and several Executions of one Plan can run at the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/error.h"
#include "smelt/export.h"
#include "smelt/tensor.h"
#include "smelt/threads.h"

namespace smelt {

class Graph;

/// How far a build is. The building thread reports it after each problem.
struct Progress {
  std::string_view doing;                // "tuning"
  std::string_view problem;              // the one that was just done
  int done = 0, total = 0;               // problems
  double seconds = 0, seconds_left = 0;  // spent; left, estimated from the pace so far
};

/// Extents of one input that a build prepares for: kernels are measured at `opt`, `min` and `max`, and what they chose serves all
/// extents between. The three have the same rank.
struct ShapeRange {
  Shape min, opt, max;
};
/// By input name. Inputs that are left out need fixed shapes.
using ShapeProfile = std::map<std::string, ShapeRange>;

struct Options {
  std::string device = "cpu";        // "cpu"; "gpu" (the first), or a GPU's number: "1"
  std::string arch;                  // "sm_87": makes a plan for such GPUs, to run elsewhere; measures nothing
  int64_t memory_limit = 0;          // bytes that values may take, on the GPU or the host; 0: what is left
  bool allow_fallback = false;       // true: steps that no GPU kernel takes run on the processor; false: an error
  int threads = 0;                   // 0: all cores that this process may use; with `pool`, its threads and the calling one
  bool spin = true;                  // false: threads that wait for work, or for each other, sleep at once
  std::shared_ptr<ThreadPool> pool;  // the caller's threads, in place of those that all sessions of a process share
  int tuning_level = 2;              // 0 takes the cost model's first choice and measures nothing … 3 measures every candidate
  double tuning_time_limit = 0;      // seconds that measuring may take; then estimates decide what is left; 0: no limit
  std::string tactics;               // "+onednn,-reference": allows or refuses by name, in order; "" allows all
  bool optimize = true;              // false: runs the graph as imported, operator by operator, in ONNX's layouts
  std::vector<std::string> skip;     // rewrites to leave out, by name
  bool take_apart = true;            // false: Loops of known turns and Einsums stay whole on a GPU, as on the processor
  std::string precision;             // "", "fp16", "bf16", "tf32": convert an fp32 model
  std::vector<std::string> keep_fp32;             // patterns (* and ?) of node names or scopes that stay fp32
  std::map<std::string, Shape> shapes;            // fix symbolic dimensions of inputs at build time, by input name
  std::vector<ShapeProfile> profiles;             // ranges to prepare for; the dimensions stay symbolic
  bool tune_new_shapes = false;                   // true: measures shapes that no build prepared when they are bound first
  int kept_shapes = 64;                           // whose plans an Execution keeps, the most recently bound ones; at least 1
  int64_t kept_bytes = 256 << 20;                 // about what these may hold beside weights and the arena; 0: no limit
  std::string cache_dir;                          // "": SMELT_CACHE_DIR, XDG_CACHE_HOME/smelt or ~/.cache/smelt
  bool use_cache = true;                          // false: neither reads nor writes the tuning cache
  std::function<void(const Progress&)> progress;  // may be empty
  bool plan_kernels = true;  // false: a plan that carries kernels is refused, as these are code that would run
  double time_limit = 0;     // seconds that a run may take before it ends with Error (stopped); 0: no limit
  /// Asked some twenty times a second by the thread that builds or runs; true ends the build or the run with Error (stopped). It
  /// may throw instead. It may be empty.
  std::function<bool()> stop_when;
};

struct TensorInfo {
  std::string name;
  DType type = DType::undefined;
  SymShape shape;
  bool rank_known = true;  // false: shape is empty because the model does not say
};

/// A tactic that was not chosen for a step, and why: "24.1 µs (23.8 to 24.6), slower than 9.6 µs (9.5 to 9.7)".
struct TacticNote {
  std::string tactic, config, reason;
  std::string code;  // reason code of a tactic that cannot run the problem: "wrong_type"; empty for others
  double us = 0;     // its fastest run when it was tuned; 0: it was not measured
};

/// What an Execution's memory holds while a step runs, in bytes, according to the memory plan. Weights are not counted.
struct StepMemory {
  int64_t bound = 0;        // inputs, outputs and what later segments read; held throughout
  int64_t activations = 0;  // values made by this step or before it, and read by it or later
  int64_t workspace = 0;
  int64_t total() const { return bound + activations + workspace; }
};

/// A fused node's time beside that of the operators which it stands for, in microseconds.
struct FusedTimes {
  double fused_us = 0;      // infinite: no kernel takes it
  double apart_us = 0;      // of the parts together; 0: not known
  bool measured = true;     // false: both are estimates
  bool at_least = false;    // of apart_us: not every part was measured, for these take as long already
  bool runs_apart = false;  // the parts won, and run
};

/// What a region of channels-last images takes, in microseconds: its steps and the reorders around them, beside the same nodes over
/// plain images.
struct RegionTimes {
  std::string name;  // its first step
  int steps = 0;
  double channels_last_us = 0, plain_us = 0;  // 0: not known
  bool at_least = false;                      // of plain_us: not every step was looked at, for these take as long already
  std::string found;                          // "raced", "raced beside other work", "added up"; or why not at all
  bool runs_plain = false;                    // plain images won
};

/// One kernel launch of a bound plan, as the profiler and `info` see it.
struct StepInfo {
  std::string name;     // the plan's node
  std::string op;       // "Conv", "ai.smelt.Conv"
  std::string problem;  // the printed Problem
  std::string tactic, config;
  bool on_host = false;                          // true: runs on the processor although the plan is for a GPU
  double measured_us = 0;                        // the tactic's fastest run when it was tuned; 0: it was not measured
  bool measured_under_load = false;              // other work had the cores then: a later build in quiet measures it again
  int decided_with = 0;                          // the number of threads that it was chosen by, where that is another; else 0
  bool out_of_time = false;                      // the time limit for tuning came before all candidates were measured
  std::vector<TacticNote> others;                // the tactics that were not chosen
  std::vector<std::string> sources;              // names of the ONNX nodes that it stands for
  std::vector<std::vector<std::string>> scopes;  // the module path of each source
  int64_t bytes = 0;                             // the least that it moves: inputs + weights + outputs
  int64_t flops = 0;
  StepMemory memory;
  std::vector<std::string> output_shapes;     // "f32[1, 64, 56, 56]"
  std::optional<FusedTimes> fused;            // of a fused node that was compared with its parts, and of these parts
  int part = -1;                              // of a fused node that runs apart: which part this is; -1: no part
  std::shared_ptr<const RegionTimes> region;  // of a step around channels-last images, or that would be; null for others
};

/// A part of a build: "import", "device" (opens a GPU and its libraries, beside the import), "rewriting", "planning" (shapes,
/// layouts, memory), "candidates" (finds what can run each step), "compiling" (the candidates that are to be measured), "tuning"
/// (measures, or looks up what was measured), "kernels" (loads the chosen ones and packs their weights), "constants" (copies them
/// to a GPU), "recording" (of the CUDA graphs).
struct BuildStage {
  std::string name;
  double seconds = 0;
};

/// The clocks of a GPU's multiprocessors while candidates were timed, from NVML; 0 where nothing was timed or NVML is missing.
struct ClocksSeen {
  int lowest_mhz = 0, highest_mhz = 0;
  int most_mhz = 0;                    // the highest clock that they may have
  std::vector<std::string> slowed_by;  // "power cap", "heat", …
};

/// What a plan's build did. Shapes that are bound later add to it.
struct BuildInfo {
  int tuning_level = 0;
  int64_t problems = 0;              // distinct problems with a choice of tactics
  int64_t measured = 0, cached = 0;  // how many of these were measured now, and found in the cache
  double tuning_s = 0;               // time spent measuring
  std::vector<BuildStage> stages;    // in their order
  ClocksSeen clocks;
  int64_t under_load = 0;   // problems whose timings were taken while other work had the cores
  int64_t out_of_time = 0;  // problems of which the time limit left candidates unmeasured
  int64_t packed = 0;       // bytes of weights that were packed for kernels; a plan's file may hold them packed
  int64_t reused = 0;       // problems decided by timings with another number of threads, and not measured
  int64_t narrowed = 0;     // problems of which those timings left candidates out
};

struct MemoryInfo {
  int64_t arena = 0;    // bytes of activations and workspaces of one Execution (for a GPU's plan on the GPU)
  int64_t weights = 0;  // bytes of packed or mapped constants (for a GPU's plan on the GPU)
  int64_t on_host = 0;  // bytes of a GPU's plan that lie in the host's memory: its constants, which the GPU has copies of
};

struct StepTime {
  int64_t begin_ns = 0, end_ns = 0;  // from the start of the run
};

/// A copy that a run on a GPU made beside its kernels: of an input or output in the host's memory or where kernels cannot use
/// it, to or from a step that runs on the host, or of a count that sizes depend on.
struct CopyTime {
  enum class Way : uint8_t { to_device, to_host, on_device, other };
  std::string name;  // of the input, output, value or step; "" if unknown
  Way way = Way::other;
  int64_t bytes = 0;
  int64_t begin_ns = 0, end_ns = 0;  // from the start of the run
};

/// "host to device".
inline constexpr std::string_view name(CopyTime::Way way) {
  constexpr std::string_view names[] = {"host to device", "device to host", "on the device", "elsewhere"};
  return names[static_cast<size_t>(way)];
}

/// A cache of keys or values that grows in place. The model makes output `present` by a Concat of input `past` and the new part
/// along one axis, and both lie in one buffer. A run writes the new part behind the past and leaves the rest as it is.
struct Cache {
  std::string past, present;  // the names of an input and an output
  Tensor memory;              // of present's type and shape; along the axis of the Concat as long as the cache may get
  int64_t length = 0;         // how much of that axis the past fills before the run
};

class SMELT_API Execution {
 public:
  virtual ~Execution() = default;
  /// Binds the inputs, in Plan::inputs() order, and the outputs that are given (valid). Every run reads the inputs' memory and
  /// writes the outputs'. A new shape plans memory and prepares kernels; a known one is cheap. Throws Error (usage) for a wrong
  /// type, rank or extent.
  ///
  /// A plan for a GPU takes tensors in the host's memory and in that GPU's memory (Tensor::borrow of its address). It uses the
  /// latter in place where they are 16-byte aligned. An output that is not given lies on the GPU if one of the inputs does, else
  /// on the host.
  ///
  /// `caches` grow in place. Their pasts and presents need not be among the tensors (valid()); outputs() has the cache's memory
  /// for such a present. Throws Error (usage) for an unknown or repeated name, for a present that is not a Concat beginning with
  /// the past, and for a plan with outputs whose size depends on data. Throws it too for memory of another type or shape, memory
  /// that is too short for the past and the new part, memory that overlaps another bound tensor, and, with a GPU's plan, memory
  /// that does not lie on that GPU or is not 16-byte aligned.
  virtual void bind(std::span<const Tensor> inputs, std::span<const Tensor> outputs = {}, std::span<const Cache> caches = {}) = 0;
  /// Runs once and waits for the outputs. It allocates nothing, unless the plan has outputs whose size depends on data.
  virtual void run() = 0;
  /// Ends the run under way, or else the next one, with Error (stopped), from any thread. A run ends between two steps, or
  /// between two iterations of a Loop or Scan: what a kernel has begun it does to the end.
  virtual void cancel() = 0;
  /// Puts one run of a GPU's plan on the caller's stream (a CUstream) and does not wait for it. Work that is put on that stream
  /// afterwards sees the outputs. Use one stream at a time. Throws Error (usage) for a plan of the processor, for inputs or
  /// outputs in the host's memory, and for plans with outputs whose size depends on data.
  virtual void enqueue(void* stream) = 0;
  /// Runs `times` times, one run after the other without a wait between, and returns the microseconds that one run took. A GPU's
  /// plan is timed by events on its stream, a plan of the processor by the clock.
  virtual double run_timed(int times = 1) = 0;
  /// Runs once and writes each step's times: `times` gets steps().size() entries. `copies`, where given, gets the run's copies in
  /// the order in which they began. It gets none for a plan of the processor, and none without CUPTI.
  virtual void run_profiled(std::vector<StepTime>& times, std::vector<CopyTime>* copies = nullptr) = 0;
  /// The outputs of the last run, in Plan::outputs() order: views that stay valid until the next bind or run.
  virtual std::span<const Tensor> outputs() const = 0;
  virtual const std::vector<StepInfo>& steps() const = 0;  // of the bound shape
  virtual MemoryInfo memory() const = 0;                   // of the bound shape
  virtual bool on_gpu() const = 0;                         // the plan is for a GPU
};

class SMELT_API Plan {
 public:
  /// Imports, rewrites, converts and prepares a model or a plan file. Throws Error.
  static std::shared_ptr<const Plan> build(const std::string& path, const Options& options = {});
  static std::shared_ptr<const Plan> build(Graph graph, const Options& options = {});
  virtual ~Plan() = default;
  virtual const std::vector<TensorInfo>& inputs() const = 0;
  virtual const std::vector<TensorInfo>& outputs() const = 0;
  virtual std::unique_ptr<Execution> execution() const = 0;
  /// A tensor that the plan's kernels can use in place: a copy in the GPU's memory; for the processor, the tensor itself.
  virtual Tensor place(const Tensor& t) const = 0;
  virtual const Graph& graph() const = 0;  // after rewriting
  virtual const Options& options() const = 0;
  /// Names of the nodes behind which the plan is split, because the sizes of their outputs depend on data.
  virtual std::vector<std::string> splits() const = 0;
  virtual BuildInfo build_info() const = 0;
  /// The steps before the first split, where all inputs' shapes are fixed at build time; else empty.
  virtual const std::vector<StepInfo>& steps() const = 0;
  /// What the kernels were chosen for: "AMD EPYC 7B13, avx2, 2 threads", "NVIDIA H100 80GB HBM3, sm_90a".
  virtual std::string device() const = 0;
};

/// The number of the GPU that the tensor lies on; -1 for the host's memory.
SMELT_API int gpu_of(const Tensor& t);
/// The tensor, or a copy of it in the host's memory. Waits for the work of Session::enqueue that makes it.
SMELT_API Tensor to_host(const Tensor& t);
/// Call it before a stream (a CUstream) uses a tensor that Session::enqueue returned. The stream then waits for the work that
/// makes the tensor, and the memory is not reused before the stream's work is done. It does nothing for other memory.
SMELT_API void share(const Tensor& t, void* stream);
/// Keeps another library's tensor in a GPU's memory alive until the work that is on the stream (a CUstream) by now is done, or
/// somewhat longer. For inputs of Session::enqueue whose library would reuse their memory as soon as they are let go.
SMELT_API void keep(const Tensor& t, void* stream);

class SMELT_API Session {
 public:
  explicit Session(const std::string& path, const Options& options = {});
  explicit Session(std::shared_ptr<const Plan> plan);
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  const std::vector<TensorInfo>& inputs() const;
  const std::vector<TensorInfo>& outputs() const;
  /// Runs on these inputs and returns the outputs by name (those of `names`, or all) as tensors of their own. Thread-safe:
  /// concurrent calls take an Execution each. `caches` are those of Execution::bind; their pasts are not among the feeds.
  std::map<std::string, Tensor> run(const std::map<std::string, Tensor>& feeds, const std::vector<std::string>& names = {},
                                    std::span<const Cache> caches = {});
  /// As run, with the inputs and the outputs in the order of inputs() and outputs().
  std::vector<Tensor> run_in_order(std::span<const Tensor> inputs);
  /// As run, but puts the run of a GPU's plan on the caller's stream (a CUstream) and does not wait for it. The outputs lie on
  /// the GPU, and work that is put on that stream afterwards sees them. Inputs in the host's memory are copied. The caller may let
  /// an output go while that stream, or one that share() was called for, still uses it; the streams must live as long as the
  /// output. A plan whose sizes depend on data, or with steps on the processor, waits.
  std::map<std::string, Tensor> enqueue(const std::map<std::string, Tensor>& feeds, void* stream,
                                        const std::vector<std::string>& names = {}, std::span<const Cache> caches = {});
  /// Ends the runs under way, as Execution::cancel does; the session can run again. Thread-safe.
  void cancel();
  std::shared_ptr<const Plan> plan() const;  // the plan that the session runs

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace smelt
