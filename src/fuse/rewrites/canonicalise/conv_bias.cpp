// Before   Add(Conv(x, w, b), c) or Sub or Mul or Div with a constant c for each channel; ConvTranspose likewise
// After    Conv with the constant in its bias, for Mul and Div in its weights too
// Unless   c varies along another axis than the channels', or is [M] without the spatial axes after it
//          c, the weights or the bias are computed
//          the convolution's result has another reader, or is a graph output
#include <algorithm>

#include "fuse/match/channels.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {

Outcome conv_bias(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const bool adds = node.is("Add") || node.is("Sub"), scales = node.is("Mul") || node.is("Div");
  const bool commutes = node.op == "Add" || node.op == "Mul";
  NodeId conv;
  size_t side = 0;
  if ((!adds && !scales) || node.inputs.size() != 2) return NotHere{};
  if (!is_convolution(g, node.in(0), &conv)) {
    if (!commutes || !is_convolution(g, node.in(1), &conv)) return NotHere{};
    side = 1;
  }
  const Tensor& c = g.constant(n, 1 - side);
  if (!c.valid()) return NotHere{};  // a residual: conv_epilogue's
  const auto only = reader_of(g, g.node(conv).out());
  if (!only) return only.refusal();
  const auto constants = filters(g, conv);
  if (!constants) return constants.refusal();
  const Filters& f = *constants;
  if (c.rank() == 1 && c.size() == f.channels && f.channels > 1)
    return refuse(Reason::wrong_rank, n, "the constant has shape {}: it goes with the last axis, not with the channels",
                  to_string(c.shape()));
  auto values = per_channel(c, f.channels, static_cast<int>(f.weights.rank()));
  if (!values)
    return refuse(Reason::wrong_shape, n, "the constant has shape {}, the convolution {} channels", to_string(c.shape()),
                  f.channels);

  std::vector<double> bias = f.bias;
  for (size_t i = 0; i < bias.size(); ++i) {
    double& v = (*values)[i];
    if (node.op == "Div") v = 1 / v;
    if (scales)
      bias[i] *= v;
    else
      bias[i] += node.op == "Sub" ? -v : v;
  }
  return with_weights(g, conv, n, scales ? f.scaled(*values) : Tensor(), vector_of(bias, f.weights.type()));
}

}  // namespace smelt::fuse
