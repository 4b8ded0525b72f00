// Concrete shapes: from those of the inputs, and from what earlier segments found out, to a segment's tensors and steps.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/core/graph_shapes.h"
#include "plan/segment.h"

namespace smelt::plan {

/// What is known of a graph's values and nodes while its segments are planned one after the other.
struct Environment {
  struct Entry {
    bool known = false;  // type and shape are concrete
    DType type = DType::undefined;
    Shape shape;
    Tensor value;  // valid() when known before the run
  };
  std::vector<Entry> values;  // by ValueId
  std::vector<bool> done;     // by NodeId: evaluated on the host, or in an earlier segment
  size_t left = 0;            // nodes not done

  Environment(const Graph& g, std::span<const NodeId> order);
  Entry& operator[](ValueId v) { return values[static_cast<size_t>(index(v))]; }
  const Entry& operator[](ValueId v) const { return values[static_cast<size_t>(index(v))]; }
  void set(ValueId v, DType type, Shape shape) { (*this)[v] = {true, type, std::move(shape), {}}; }
};

/// Plans everything whose inputs have known shapes: nodes whose inputs' values are known (constants, shapes, integer
/// arithmetic on them) are evaluated now, if small; those with known output shapes become kernel, view, concat or control steps;
/// the rest dynamic steps, whose outputs wait for the next segment; those that a kernel of the device's runs (ops/core/data_dependent.h) where
/// `on_device`. Marks the nodes done in `env` and enters what is known of their outputs. Errors name the node. Throws when
/// nothing can be planned although nodes are left. `runs` false: only the shapes are asked for, and may be of any size.
Segment plan_segment(const Graph& g, std::span<const NodeId> order, Environment& env, bool on_device, bool runs = true);

/// What is known of a node's inputs; `env` outlives it.
std::vector<ops::TensorDesc> described_inputs(const Environment& env, const Node& node);
/// Evaluates the node if all it reads is known and what it makes is small, and enters its outputs. Shape and Size need shapes only.
bool evaluate_now(const Node& node, std::span<const ops::TensorDesc> in, std::span<const ops::TensorDesc> out, Environment& env);

/// What a body gives for inputs like these; nothing where only a run knows its shapes. Throws Error where they do not fit.
std::optional<std::vector<ops::KnownValue>> body_outputs(const Graph& body, std::span<const ops::TensorDesc> in);

/// A copy that knows no shapes but its constants', in the bodies of its nodes, too.
Graph without_shapes(const Graph& g);

/// If, Loop, Scan and their like: nodes with bodies.
bool is_control_flow(const Node& node);
/// Nodes whose outputs' sizes depend on values that only a run makes: after them a plan is split.
bool splits_plan(const Node& node);

/// A value known before the run is kept up to this many elements; larger ones are computed by steps.
inline constexpr int64_t max_host_elements = 4096;

}  // namespace smelt::plan
