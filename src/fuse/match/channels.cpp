#include "fuse/match/channels.h"

#include <algorithm>
#include <cmath>

namespace smelt::fuse {
namespace {

/// The output channels of constant weights of known rank; -1 when they are not known.
int64_t output_channels(const Node& conv, const Tensor& w) {
  if (!w.valid() || w.rank() < 3) return -1;
  if (conv.op != "ConvTranspose") return w.shape()[0];
  const int64_t group = conv.get_int("group", 1);
  return group < 1 || group > w.shape()[0] || w.shape()[0] % group != 0 ? -1 : w.shape()[1] * group;
}

}  // namespace

std::optional<std::vector<double>> per_channel(const Tensor& t, int64_t channels, int rank) {
  if (!is_real(t.type()) || t.rank() > rank) return {};
  for (int64_t axis = 0; axis < t.rank(); ++axis)
    if (t.shape()[static_cast<size_t>(axis)] != 1 && axis - t.rank() != 1 - rank) return {};
  if (t.size() == channels) return t.to_doubles();
  if (t.size() != 1) return {};
  return std::vector<double>(static_cast<size_t>(channels), t.to_doubles()[0]);
}

bool is_convolution(const Graph& g, ValueId v, NodeId* conv) {
  return made_by(g, v, "Conv", conv) || made_by(g, v, "ConvTranspose", conv);
}

Result<Filters> filters(const Graph& g, NodeId conv) {
  const Node& node = g.node(conv);
  const Tensor& w = g.constant(conv, 1);
  const int64_t channels = output_channels(node, w);
  if (channels < 0)
    return refuse(Reason::not_constant, g.producer(conv, 1), "the weights of {} are computed, or do not fit its groups",
                  describe(g, conv));
  Filters f{channels, w, {}, node.op == "ConvTranspose", node.get_int("group", 1)};
  if (node.in(2) == ValueId::none) {
    f.bias.resize(static_cast<size_t>(channels));
    return f;
  }
  const Tensor& b = g.constant(conv, 2);
  if (!b.valid() || b.size() != channels)
    return refuse(Reason::not_constant, g.producer(conv, 2), "the bias of {} is computed, or not one for each channel",
                  describe(g, conv));
  f.bias = b.to_doubles();
  return f;
}

Tensor Filters::scaled(std::span<const double> factors) const {
  const Tensor wide = weights.cast(DType::f64);
  Tensor result = wide.clone();
  double* p = result.data<double>();
  const Shape& s = weights.shape();
  // Conv: [M, C/group, …]. ConvTranspose: [C, M/group, …], where input channel c belongs to group c / (C/group).
  const int64_t rows = s[0], columns = s[1], inner = weights.size() / std::max<int64_t>(rows * columns, 1);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t i = 0; i < inner; ++i) *p++ *= factors[static_cast<size_t>(transposed ? r / (rows / group) * columns + c : r)];
  return result.cast(weights.type());
}

bool works_out_padding(const Node& conv) { return conv.get_string("auto_pad", "NOTSET") != "NOTSET"; }

Tensor vector_of(std::span<const double> values, DType type) {
  return Tensor::of({static_cast<int64_t>(values.size())}, std::vector<double>(values.begin(), values.end())).cast(type);
}

Result<Affine> batch_norm_affine(const Graph& g, NodeId norm) {
  const Node& node = g.node(norm);
  if (node.get_int("training_mode", 0)) return refuse(Reason::wrong_attribute, norm, "{} is in training mode", describe(g, norm));
  for (size_t i = 1; i < node.outputs.size(); ++i)
    if (node.outputs[i] != ValueId::none)
      return refuse(Reason::extra_reader, norm, "{} gives its statistics too", describe(g, norm));
  std::vector<double> parameters[4];  // scale, shift, mean, variance
  for (size_t i = 1; i <= 4; ++i) {
    const Tensor& t = g.constant(norm, i);
    if (!t.valid()) return refuse(Reason::not_constant, g.producer(norm, i), "input {} of {} is computed", i, describe(g, norm));
    if (t.rank() != 1 || t.size() != g.constant(norm, 1).size())
      return refuse(Reason::wrong_shape, norm, "input {} of {} has shape {}", i, describe(g, norm), to_string(t.shape()));
    parameters[i - 1] = t.to_doubles();
  }
  const double epsilon = node.get_float("epsilon", 1e-5f);
  Affine a;
  for (size_t c = 0; c < parameters[0].size(); ++c) {
    const double factor = parameters[0][c] / std::sqrt(parameters[3][c] + epsilon);
    a.factor.push_back(factor);
    a.offset.push_back(parameters[1][c] - parameters[2][c] * factor);
  }
  return a;
}

Match with_weights(const Graph& g, NodeId conv, NodeId after, Tensor weights, Tensor bias) {
  const ValueId out = g.node(after).out();
  return {{conv, after}, [conv, after, out, weights = std::move(weights), bias = std::move(bias)](Graph& graph) {
            Node n = graph.node(conv);
            n.outputs = {out};
            n.order = graph.node(after).order;
            n.inputs.resize(3, ValueId::none);
            if (weights.valid()) n.inputs[1] = graph.add_constant(n.name + "_weight", weights);
            n.inputs[2] = graph.add_constant(n.name + "_bias", bias);
            const std::vector<int32_t> more = graph.node(after).sources;
            n.sources.insert(n.sources.end(), more.begin(), more.end());
            graph.remove_node(after);
            graph.remove_node(conv);
            return graph.add_node(std::move(n));
          }};
}

}  // namespace smelt::fuse
