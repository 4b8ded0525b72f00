// A segment: a piece of a graph with every shape known, which runs without a pause. planner.cpp makes it by these passes:
//
//   shapes.h         types, concrete shapes, values known before the run               → tensors and steps
//   layouts.h        each tensor's layout; reorder steps where two layouts meet        (steps have no kernels yet)
//   concat_slices.h  channels-last concatenations' inputs → slices of the whole
//   layout_regions.h regions that are faster over plain images
//   fused_choices.h  fused steps that are slower than their parts → the parts' steps
//   first_layers.h   first layers that are slower as one kernel, or that none takes → their parts' steps
//   joined_products.h products of one input → one product, whose readers read slices, or the products one by one
//   gated_products.h a gate and what it gates → one product, on a GPU
//   normed_products.h a normalisation and the product that reads it → one product, on a GPU
//   caches.h         the strides of an input and an output that are one buffer
//   strided_views.h  data movement that readers or makers can follow by strides        → view steps
//   buffers.h        views share their source's buffer, concat inputs lie in its output → tensors' buffers
//   kernel_choice.h  offers → chosen candidates → kernels                              → steps' kernels
//   arena.h          lifetimes → offsets in one arena, workspaces included             → buffers' offsets
//
// How a layout pass plugs in: when it runs, every tensor is plain and every step has its node and tensors but no kernel.
// It sets `layout` on tensors and inserts, between producers and consumers of differing layout, a tensor made by
// add_tensor and a step made by reorder_step(segment, from, to), which is a step like any other: its node is
// {domain ai.smelt, op Reorder} and its kernel comes from ops::offer. Tensors that must stay plain (`fixed_layout`) are the
// segment's inputs and results, constants (a kernel packs those itself), and inputs and outputs of views and dynamic steps.
// All tensors of a concat step must get the same layout. To make a producer write its slice of a concatenation whose slices are
// not contiguous (views.h: concat_shape, outer > 1), the pass gives that input the whole's strides (ops/core/strides.h:
// memory_strides), if all its steps' kernels take them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/data_dependent.h"
#include "smelt/session.h"
#include "tune/tuner.h"

namespace smelt::plan {

/// Index into Segment::tensors; absent: an optional input or output left out.
using TensorIndex = int32_t;
inline constexpr TensorIndex absent = -1;

/// Whose memory a buffer is.
enum class BufferKind : uint8_t {
  constant,  // a weight or a value known before the run
  external,  // given at the segment's start: the caller's input, or what an earlier segment made
  result,    // a graph output, or what a later segment reads: the caller's memory or the segment's own, never the arena's
  arena,
};

/// One piece of memory; tensors that are views of it, or slices of it, share it.
struct Buffer {
  BufferKind kind = BufferKind::arena;
  int64_t bytes = 0;
  int64_t offset = 0;          // arena: from its start, a multiple of Target::block_alignment
  int first = 0, last = 0;     // arena: the steps between which (both included) it is alive
  TensorIndex owner = absent;  // not arena: the constant, external or result whose bytes these are
};

struct BoundValue : ops::BoundTensor {
  ValueId value = ValueId::none;  // the graph's value; none for what a reorder makes
  bool fixed_layout = false;      // must stay plain
  bool at_most = false;           // of a dynamic step's kernel: the run finds out how much of the shape there is
  int32_t buffer = -1;            // index into Segment::buffers
  int64_t offset = 0;             // bytes into it
};

enum class StepKind : uint8_t {
  kernel,   // a kernel chosen among ops::offer's candidates
  view,     // moves no data: output 0 is input 0's bytes; dropped once buffers are assigned
  concat,   // copies those inputs that do not lie in the output already; dropped when all do
  copy,     // output 0 = input 0, same bytes: a view that ends in memory of its own
  dynamic,  // sizes known after running it only, strings, or control flow: ops::evaluate on tensors; or a kernel of
            // ops/core/data_dependent.h
  control,  // an If whose branches give outputs of the same, known shapes: the plan of the branch taken writes them
};

/// What a concat step copies: `outer` times, a chunk of each of these inputs.
struct ConcatCopy {
  struct Part {
    size_t input;
    int64_t offset, chunk;  // bytes, in a row of the output
  };
  int64_t outer = 1, row = 0;
  std::vector<Part> parts;
};

/// What choose_kernels fills in.
struct ChosenKernel {
  std::string problem, tactic, config;
  std::shared_ptr<const tune::Choice> choice;  // with the timings, and why each other tactic was not chosen; null without one
  std::shared_ptr<ops::Kernel> kernel;
  bool on_host = false;  // runs on the processor although the plan is a GPU's
};

/// One that a model may choose instead.
struct Finalist : ChosenKernel {
  size_t candidate = 0;  // of the problem's offer
};

/// Product i of a JoinedMatMul is part i times this of its node, so that a product's own parts have numbers of their own behind it.
constexpr int parts_a_product = 64;

struct Step : ChosenKernel {
  StepKind kind = StepKind::kernel;
  NodeId id = NodeId::none;          // the graph's node; none for inserted steps
  std::shared_ptr<const Node> node;  // the graph's own node (not owned), or the inserted step's
  std::vector<TensorIndex> inputs, outputs;

  std::shared_ptr<const ConcatCopy> concat;   // filled by assign_buffers
  std::vector<ops::AtMost> at_most;           // a dynamic step with a kernel: its outputs, the count left out
  std::shared_ptr<const FusedTimes> fused;    // of a fused node that was compared with its parts, and of these parts
  int part = -1;                              // which of the parts that the node `id` runs as; -1: the node itself
  std::shared_ptr<const RegionTimes> region;  // of a step around channels-last images, or that would be
  bool of_joined = false;  // such a part that is a product: of a JoinedMatMul, or all of it (joined_products.h)

  /// Until Planner::settle(): the kernels that the model is to choose among, the chosen one among them, in their fixed order. Where
  /// it lies suits all of them.
  std::vector<Finalist> finalists = {};

  int32_t workspace = -1;  // buffer, by place_buffers; -1: none
};

/// Values cross from one segment to the next, and to the caller, by graph value.
struct Port {
  ValueId value;
  TensorIndex tensor;
};

/// Two tensors in one caller's buffer: what is in `past` is the beginning of `present`.
struct CachePair {
  TensorIndex past, present;
};

struct Segment {
  std::vector<BoundValue> tensors;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<Port> externals;  // read here, made elsewhere
  std::vector<Port> results;    // made here (or passed through), needed after the segment
  std::vector<CachePair> caches;
  int64_t arena = 0;  // bytes

  BoundValue& tensor(TensorIndex t) { return tensors[static_cast<size_t>(t)]; }
  const BoundValue& tensor(TensorIndex t) const { return tensors[static_cast<size_t>(t)]; }
  Buffer& buffer(TensorIndex t) { return buffers[static_cast<size_t>(tensor(t).buffer)]; }
  const Buffer& buffer(TensorIndex t) const { return buffers[static_cast<size_t>(tensor(t).buffer)]; }
};

TensorIndex add_tensor(Segment& s, BoundValue v);
/// A step that copies `from` to `to`, which differ in layout or strides; the caller inserts it.
Step reorder_step(const Segment& s, TensorIndex from, TensorIndex to);

/// The step's node and tensors, as ops::offer wants them.
ops::BoundNode bound_node(const Segment& s, const Step& step, ops::WeightStore* weights);

}  // namespace smelt::plan
