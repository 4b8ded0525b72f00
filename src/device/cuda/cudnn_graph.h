// Operations over tensors described to cuDNN as a graph, the engines that can run it, and their plans. Engines' names and plans'
// texts are kept on disk. A text has the kernel in it that an engine compiled, so that a plan made of its text compiles nothing.
#pragma once

#include "base/kept_files.h"
#include "device/cuda/cudnn.h"

namespace smelt::device::cuda {

/// Where they are kept; an empty folder: nowhere.
std::shared_ptr<const KeptFiles> dnn_plan_files(std::filesystem::path folder);

/// What an engine may do to the numbers.
struct DnnRules {
  bool tensor_cores = true;   // false for exact f32: they would round it to tf32
  bool deterministic = true;  // false: engines whose results differ from run to run may be taken too
};

/// The rules as text, for keys.
std::string print(const DnnRules& rules);

/// What an engine says of itself.
struct DnnNotes {
  std::vector<abi::DnnNumericalNote> numbers;
  std::vector<abi::DnnBehaviorNote> behaviors;
};

/// Whether an engine with these notes may be taken. One that rounds its inputs or sums, or wants weights reordered, never may.
bool allows(const DnnRules& rules, const DnnNotes& notes);

/// y = mode(x, …) element by element, computed in `precision`.
struct DnnFunction {
  abi::DnnPointwise mode;
  abi::DnnType precision = abi::dnn_f32;
  int64_t axis = -1;  // dnn_index: along which elements are numbered
};

/// A graph's tensors that lie in memory, by their numbers, and its numbers that do not.
struct DnnBindings {
  std::vector<int64_t> ids, scalar_ids;
  std::vector<float> scalars;
};

/// One engine with its settings, compiled where it needs that.
class DnnPlan {
 public:
  int64_t workspace() const { return workspace_; }
  /// Enqueues it: `pointers` in the order of DnnGraph::tensor's calls. Any thread may call it, and one after the other they do.
  /// Captured where the stream is capturing.
  void run(std::span<const void* const> pointers, void* workspace, abi::Stream stream);

 private:
  friend class DnnGraph;
  DnnPlan(std::shared_ptr<DnnContext> context, DnnObject plan, const DnnBindings& bindings);
  std::shared_ptr<DnnContext> context_;
  DnnObject plan_;
  DnnBindings bindings_;
  int64_t workspace_ = 0;
};

/// Tensors are numbered as they are made.
class DnnGraph {
 public:
  explicit DnnGraph(std::shared_ptr<DnnContext> context) : context_(std::move(context)) {}

  /// A tensor in memory; its place in `pointers` of DnnPlan::run is that among the calls of this function.
  size_t tensor(DType type, const Shape& shape, const Shape& strides, int64_t alignment);
  /// A result that is never written.
  size_t between(abi::DnnType type, const Shape& shape, const Shape& strides);
  /// A number that all elements meet.
  size_t scalar(float value, size_t rank);
  /// y = the cross-correlation of x [N, C, spatial…] with w [M, C / group, kernel…], summed in `sums`.
  void convolve(size_t x, size_t w, size_t y, DType sums, const Shape& stride, const Shape& dilation, const Shape& pad_begin,
                const Shape& pad_end);
  /// y = what `mode` makes of the windows of x [N, C, spatial…], in f32; padding is below all numbers for the largest, else 0.
  void pool(size_t x, size_t y, abi::DnnResample mode, const Shape& window, const Shape& stride, const Shape& pad_begin,
            const Shape& pad_end);
  /// At most three inputs; the third selects.
  void pointwise(const DnnFunction& f, std::initializer_list<size_t> inputs, size_t y);
  /// c = a · b over the last two axes, summed in f32.
  void multiply(size_t a, size_t b, size_t c);
  /// Along the axes where y has extent 1, in f32.
  void reduce(abi::DnnReduction operation, size_t x, size_t y);

  struct Engine {
    std::string name;  // "a0 engine 12": its place in the list, its number, and " nondeterministic" where it is
    int64_t number = 0;
    std::string settings;                     // "12 2=5 13=1": the number and what is chosen for its knobs
    bool compiles = false;                    // a kernel, when a plan is made
    std::shared_ptr<const DnnObject> config;  // null where the list comes from disk
  };
  /// The engines that the library proposes for the graph and the rules allow: the best guess first, each with the same settings
  /// once. It reads them from `kept`, or asks the library and keeps the answer. Ends the description. Empty where there are none.
  std::vector<Engine> engines(const DnnRules& rules, const KeptFiles& kept);
  /// Reads the plan from `kept`, or makes it and keeps it. Null where the engine cannot run the graph after all. Several threads
  /// may ask for plans of one graph.
  std::unique_ptr<DnnPlan> plan(const Engine& engine, const KeptFiles& kept) const;

 private:
  /// What the library has answered, once it was asked.
  struct Asked {
    std::mutex mutex;
    std::unique_ptr<DnnObject> graph;
    std::vector<Engine> engines;
  };
  size_t add_tensor(abi::DnnType type, const Shape& shape, const Shape& strides, int64_t alignment, bool is_virtual,
                    bool is_scalar);
  void add_operation(DnnObject operation);
  const std::vector<Engine>& ask() const;
  std::string key(std::string_view what) const;
  std::unique_ptr<DnnPlan> from_text(const std::string& text, abi::DnnHandle handle) const;

  std::shared_ptr<DnnContext> context_;
  std::vector<DnnObject> tensors_, parts_, operations_;  // parts: what operations refer to
  DnnBindings bindings_;
  std::string text_;  // the description, for key()
  DnnRules rules_;
  std::unique_ptr<Asked> asked_ = std::make_unique<Asked>();
};

}  // namespace smelt::device::cuda
