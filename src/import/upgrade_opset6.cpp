// What opset 7 changed: numpy's broadcasting in place of the attributes `broadcast` and `axis`, and no is_test.
#include "base/error.h"
#include "import/upgrade.h"

namespace smelt::importer {

namespace {

int64_t rank_of(const Upgrade& u, int input) {
  const auto* type = u.type(input);
  if (!type || !type->has_tensor_type() || !type->tensor_type().has_shape()) {
    fail_unsupported("node {}: opset 6 broadcasting of input {}, whose rank is not known", describe(u.node), input);
  }
  return type->tensor_type().shape().dim_size();
}

/// Gives input `i`, whose axes begin at `axis` of a value of `rank` axes, the axes of extent 1 behind them that numpy's rule
/// needs.
void append_axes(Upgrade& u, int i, int64_t axis, int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t a = rank_of(u, i); axis + a < rank; ++a) axes.push_back(a);
  if (!axes.empty()) u.set_input(i, u.before("Unsqueeze", {u.input(i), u.constant(axes)}));
}

}  // namespace

void broadcast_from_axis(Upgrade& u) {
  if (u.integer("broadcast", 0) != 0 && find_attribute(u.node, "axis")) {
    const int64_t rank = rank_of(u, 0), axis = u.integer("axis", 0);
    if (axis < -rank || axis > rank) fail("{}: axis is {}, expected {} to {}", describe(u.node), axis, -rank, rank);
    append_axes(u, 1, axis < 0 ? axis + rank : axis, rank);
  }
  u.remove("broadcast");
  u.remove("axis");
  u.remove("consumed_inputs");
}

void unnamed_broadcast(Upgrade& u) { u.remove("broadcast"); }

// One slope for each channel, which is axis 1.
void prelu_slope(Upgrade& u) {
  if (rank_of(u, 1) == 1 && rank_of(u, 0) > 2) append_axes(u, 1, 1, rank_of(u, 0));
}

// Exporters of that time wrote models for inference, with is_test or without.
void without_is_test(Upgrade& u) { u.remove("is_test"); }

}  // namespace smelt::importer
