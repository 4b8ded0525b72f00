// Build a plan from a model, run it, any number of times and at any bound shape.
//
//   smelt::Session session("resnet50.onnx");
//   std::map<std::string, smelt::Tensor> out = session.run({{"x", image}});
//
// Session is the simple form. Plan and Execution are what it is made of: a Plan is immutable and shared, an Execution
// holds what one run needs (arena, bindings), and several Executions of one Plan run at the same time.
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

namespace smelt {

class Graph;

/// How far a build is. Told on the building thread, after each problem.
struct Progress {
  std::string_view doing;                // "tuning"
  std::string_view problem;              // the one just done
  int done = 0, total = 0;               // problems
  double seconds = 0, seconds_left = 0;  // spent; estimated from the pace so far
};

struct Options {
  std::string device = "cpu";           // "cpu"; "gpu" (the first), or a GPU's number: "1"
  std::string arch;                     // "sm_87": the plan is for such GPUs, to run elsewhere; nothing is measured
  int64_t memory_limit = 0;             // bytes that smelt may hold on the GPU; 0: what there is
  bool allow_fallback = false;          // steps that no kernel for the GPU runs, run on the processor; false: an error
  int threads = 0;                      // 0: all cores this process may use
  int tuning_level = 2;                 // 0 the cost model's first choice, no measuring … 3 every candidate measured
  std::string tactics;                  // "+onednn,-reference": allowed or refused by name, in order; "" all
  bool optimize = true;                 // false: the graph as imported, operator by operator, every tensor in ONNX's layout
  std::vector<std::string> skip;        // rewrites to leave out, by name
  std::string precision;                // "", "fp16", "bf16", "tf32": convert an fp32 model
  std::vector<std::string> keep_fp32;   // patterns (* and ?) of node names or scopes that stay fp32
  std::map<std::string, Shape> shapes;  // fix symbolic dimensions of inputs at build time, by input name
  std::string cache_dir;                // "" the default (SMELT_CACHE_DIR, XDG_CACHE_HOME/smelt or ~/.cache/smelt)
  bool use_cache = true;                // false: neither read nor write the tuning cache
  std::function<void(const Progress&)> progress;  // may be empty
};

struct TensorInfo {
  std::string name;
  DType type = DType::undefined;
  SymShape shape;
  bool rank_known = true;  // false: shape is empty because the model does not say
};

/// A tactic that a step did not get, and why: "24.1 µs (23.8 to 24.6), slower than 9.6 µs (9.5 to 9.7)".
struct TacticNote {
  std::string tactic, config, reason;
};

/// What an Execution's memory holds while a step runs, by the memory plan; bytes, weights apart.
struct StepMemory {
  int64_t bound = 0;        // inputs, outputs and what later segments read: throughout
  int64_t activations = 0;  // made before or by this step, and read by it or later
  int64_t workspace = 0;
  int64_t total() const { return bound + activations + workspace; }
};

/// One kernel launch of a bound plan, as the profiler and `info` see it.
struct StepInfo {
  std::string name;     // the plan's node
  std::string op;       // "Conv", "ai.smelt.Conv"
  std::string problem;  // printed Problem
  std::string tactic, config;
  bool on_host = false;              // runs on the processor although the plan is for a GPU
  double measured_us = 0;            // the tactic's median when it was tuned; 0: chosen by estimate or without a choice
  std::vector<TacticNote> others;    // every other tactic
  std::vector<std::string> sources;  // ONNX node names it stands for
  std::vector<std::vector<std::string>> scopes;  // module path of each source
  int64_t bytes = 0;                             // moved at least once: inputs + weights + outputs
  int64_t flops = 0;
  StepMemory memory;
  std::vector<std::string> output_shapes;  // "f32[1, 64, 56, 56]"
};

/// A part of a build: "import", "device" (a GPU and its libraries opened, beside the import), "rewriting", "planning" (shapes,
/// layouts, memory), "candidates" (what can run each step), "compiling" (candidates that are to be measured), "tuning"
/// (measuring, or looking up what was measured), "kernels" (the chosen ones loaded, their weights packed), "constants" (brought
/// to a GPU), "recording" (of its CUDA graphs).
struct BuildStage {
  std::string name;
  double seconds = 0;
};

/// A GPU's multiprocessors' clocks while candidates were timed; 0 where nothing was timed or nobody says (NVML does).
struct ClocksSeen {
  int lowest_mhz = 0, highest_mhz = 0;
  int most_mhz = 0;                    // that they may have
  std::vector<std::string> slowed_by;  // "power cap", "heat", …
};

/// What a plan's build was made of. Shapes that are bound later add to it.
struct BuildInfo {
  int tuning_level = 0;
  int64_t problems = 0;              // distinct ones with a choice of tactics
  int64_t measured = 0, cached = 0;  // of these: measured now, found in the cache
  double tuning_s = 0;               // spent measuring
  std::vector<BuildStage> stages;    // in their order
  ClocksSeen clocks;
};

struct MemoryInfo {
  int64_t arena = 0;    // activations and workspaces of one Execution, bytes (on a GPU: there)
  int64_t weights = 0;  // packed or mapped constants, bytes (on a GPU: copied there)
};

struct StepTime {
  int64_t begin_ns = 0, end_ns = 0;  // from the start of the run
};

/// A copy that a run on a GPU made beside what its kernels did: of an input or output that lies in the host's memory or where
/// kernels cannot use it, to and from a step that runs on the host, of a count that sizes depend on.
struct CopyTime {
  enum class Way : uint8_t { to_device, to_host, on_device, other };
  std::string name;  // of the input, output, value or step; "" where it cannot be told
  Way way = Way::other;
  int64_t bytes = 0;
  int64_t begin_ns = 0, end_ns = 0;  // from the start of the run
};

/// "host to device".
inline constexpr std::string_view name(CopyTime::Way way) {
  constexpr std::string_view names[] = {"host to device", "device to host", "on the device", "elsewhere"};
  return names[static_cast<size_t>(way)];
}

/// A cache of keys or values that grows in place: the model makes output `present` by a Concat of input `past` and what is new
/// along one axis, and both lie in one buffer. A run writes the new part behind the past and touches nothing else of it.
struct Cache {
  std::string past, present;  // names of an input and an output
  Tensor memory;              // of present's type and shape, as long as it may get along the axis of the Concat
  int64_t length = 0;         // of the past along that axis: what the memory holds before the run
};

class SMELT_API Execution {
 public:
  virtual ~Execution() = default;
  /// Binds inputs (in Plan::inputs() order; their memory is read at every run) and, where given (valid), the outputs'
  /// memory. A new shape plans memory and prepares kernels; a known one is cheap. Throws Error (usage) for a wrong type, rank or
  /// extent.
  ///
  /// A plan for a GPU takes tensors in the host's memory and in that GPU's (Tensor::borrow of its address), and uses the latter
  /// in place where they are 16-byte aligned. An output that is not given lies on the GPU where one of the inputs does, else on
  /// the host.
  ///
  /// The pasts of `caches` are read where their memory says, so that neither they nor their presents need be among the tensors
  /// (valid()); outputs() has the memory itself for such a present. Throws Error (usage) for names that there are not or that
  /// occur twice, a present that is no Concat beginning with the past, memory of another type or shape, too short for the past
  /// and what is new, that overlaps any other tensor bound or (a GPU's plan) does not lie on that GPU 16-byte aligned, and for a
  /// plan with outputs whose size depends on data.
  virtual void bind(std::span<const Tensor> inputs, std::span<const Tensor> outputs = {}, std::span<const Cache> caches = {}) = 0;
  /// Runs once and waits for the outputs. Allocates nothing, unless the plan has outputs whose size depends on data.
  virtual void run() = 0;
  /// A GPU's plan: puts one run on the caller's stream (a CUstream) and does not wait for it, so that the outputs hold their
  /// values for what is put on that stream afterwards. One stream at a time. Throws Error (usage) for a plan of the processor,
  /// for inputs or outputs in the host's memory, and for plans with outputs whose size depends on data.
  virtual void enqueue(void* stream) = 0;
  /// Runs `times` times, one after the other without a wait between, and returns the microseconds that a run took: by events on
  /// the stream of a GPU, else by the clock.
  virtual double run_timed(int times = 1) = 0;
  /// Runs once and writes each step's times; `times` gets steps().size() entries. `copies`, where given, gets those of the run in
  /// the order in which they began; none for a plan of the processor and where they cannot be seen (without CUPTI).
  virtual void run_profiled(std::vector<StepTime>& times, std::vector<CopyTime>* copies = nullptr) = 0;
  /// The outputs of the last run, in Plan::outputs() order: views that stay valid until the next bind or run.
  virtual std::span<const Tensor> outputs() const = 0;
  virtual const std::vector<StepInfo>& steps() const = 0;  // of the bound shape
  virtual MemoryInfo memory() const = 0;                   // of the bound shape
  virtual bool on_gpu() const = 0;
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
  /// The tensor where the plan's kernels can use it in place: a copy in the GPU's memory, the tensor itself for the processor.
  virtual Tensor place(const Tensor& t) const = 0;
  virtual const Graph& graph() const = 0;  // after rewriting
  virtual const Options& options() const = 0;
  /// Names of the nodes after which outputs' sizes depend on data and the plan is split.
  virtual std::vector<std::string> splits() const = 0;
  virtual BuildInfo build_info() const = 0;
  /// What is known at build time: the steps before the first split, where all inputs' shapes are fixed; else empty.
  virtual const std::vector<StepInfo>& steps() const = 0;
  /// "AMD EPYC 7B13, avx2, 2 threads", "NVIDIA H100 80GB HBM3, sm_90a": what its kernels were chosen for.
  virtual std::string device() const = 0;
};

/// The number of the GPU that the tensor's memory lies on; -1: the host's memory.
SMELT_API int gpu_of(const Tensor& t);
/// The tensor, or a copy of it in the host's memory. Waits for what Session::enqueue put on a stream to make it.
SMELT_API Tensor to_host(const Tensor& t);
/// The stream (a CUstream) is about to use a tensor that Session::enqueue returned: after what made it, and before its memory is
/// used for anything else. Nothing happens for other memory.
SMELT_API void share(const Tensor& t, void* stream);
/// Keeps a tensor in a GPU's memory, one that was made by others, until all that the stream (a CUstream) has been given by now is
/// done, or somewhat longer: for inputs of Session::enqueue whose memory would serve other work as soon as they are let go.
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
  /// Runs on these inputs and returns the outputs by name (those of `names`, or all), as tensors of their own. Thread-safe:
  /// concurrent calls take an Execution each. `caches`: as Execution::bind takes them, their pasts not among the feeds.
  std::map<std::string, Tensor> run(const std::map<std::string, Tensor>& feeds, const std::vector<std::string>& names = {},
                                    std::span<const Cache> caches = {});
  /// The same for a GPU's plan, put on the caller's stream (a CUstream) and not waited for: the outputs lie on the GPU and hold
  /// their values for what is put on that stream afterwards; inputs in the host's memory are copied there. An output may be let
  /// go while work on that stream, or on one that share() was called for, still uses it; these streams must live as long as it
  /// does. A plan whose sizes depend on data, or with steps on the processor, waits.
  std::map<std::string, Tensor> enqueue(const std::map<std::string, Tensor>& feeds, void* stream,
                                        const std::vector<std::string>& names = {}, std::span<const Cache> caches = {});
  std::shared_ptr<const Plan> plan() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace smelt
