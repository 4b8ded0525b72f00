// Before   MaxPool(convolution(pointwise operators…(x))) of an image of few channels that they convert from another type (of bytes, floats), with
//          or without the operators or the MaxPool
// After    ai.smelt.StemConv or StemQLinearConv of x, whose kernel reads x as it lies, and need not write what is pooled
// Unless   there is neither of them, or the convolution is of other types than 16-bit floats and 8-bit integers
//          the image has more than 4 channels, or their number is not known; other than two axes; groups, several inputs
//          what is between has another reader, or is a graph output
//          the pooling also gives indices, has dilations, rounds its extents up or works out its own padding
//          an operand of what is pooled varies from pixel to pixel, or the weights are computed
// Plans leave it out on a processor.
#include <algorithm>

#include "fuse/match/channels.h"
#include "fuse/match/match.h"
#include "fuse/match/pointwise.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

constexpr size_t image_rank = 4;

bool is_convolution(const Node& n) { return n.is("Conv") || n.is("Conv", smelt_domain) || n.is("QLinearConv", smelt_domain); }

/// One value, or one a channel.
bool is_by_channel(const Graph& g, ValueId v) {
  const auto& shape = g.value(v).shape;
  if (!shape || shape->size() > image_rank) return false;
  for (size_t a = 0; a < shape->size(); ++a)
    if (image_rank - shape->size() + a != 1 && !((*shape)[a].known() && (*shape)[a].value == 1)) return false;
  return true;
}

bool all_ones(const std::vector<int64_t>& v) {
  return std::ranges::all_of(v, [](int64_t x) { return x == 1; });
}

/// The operators that make the image of x alone, element by element.
struct Image {
  std::vector<NodeId> nodes;  // in topological order
  ValueId x = ValueId::none;
  std::optional<expr::Program> program;
};

Image image_of(const Graph& g, NodeId conv) {
  constexpr size_t most = 8;
  Image found;
  found.x = g.node(conv).in(0);
  const auto shape = g.value(found.x).shape;
  NodeId reader = conv;
  while (found.nodes.size() < most) {
    const NodeId n = g.producer(reader, 0);
    if (n == NodeId::none || g.only_reader(g.node(n).out()) != reader || g.is_output(g.node(n).out()) || not_pointwise(g, n))
      break;
    const Node& node = g.node(n);
    bool constants = node.outputs.size() == 1 && g.value(node.in(0)).shape == shape && !g.value(node.in(0)).is_constant();
    for (size_t i = 1; i < node.inputs.size(); ++i)
      constants = constants && (node.in(i) == ValueId::none || immediate(g.value(node.in(i))));
    if (!constants) break;
    found.nodes.insert(found.nodes.begin(), n);
    found.x = node.in(0);
    reader = n;
  }
  if (found.nodes.empty()) return found;
  Body body = pointwise_body(g, found.nodes, std::vector{g.node(conv).in(0)});
  const DType type = g.value(found.x).type;
  if (body.operands != std::vector{found.x} || bits(type) < 8 || type == g.value(g.node(conv).in(0)).type)
    return {{}, g.node(conv).in(0), {}};
  found.program = std::move(body.program);
  return found;
}

/// Why the pooling is none of a first layer's.
std::optional<Refusal> rejects_pool(const Graph& g, NodeId n, const Node& conv) {
  const Node& pool = g.node(n);
  if (pool.outputs.size() > 1 && pool.outputs[1] != ValueId::none)
    return refuse(Reason::wrong_attribute, n, "{} gives indices too", describe(g, n));
  if (works_out_padding(pool) || pool.get_int("ceil_mode", 0) != 0 || !all_ones(pool.get_ints("dilations")))
    return refuse(Reason::wrong_attribute, n, "{} has dilations, rounds up or works out its own padding", describe(g, n));
  for (size_t i = conv.domain == smelt_domain ? first_operand(conv) : conv.inputs.size(); i < conv.inputs.size(); ++i)
    if (!is_by_channel(g, conv.inputs[i]))
      return refuse(Reason::wrong_shape, n, "{} does not vary by channel alone", g.value(conv.inputs[i]).name);
  return {};
}

}  // namespace

Outcome stem_conv(const Graph& g, NodeId conv) {
  constexpr int64_t most_channels = 4;
  const Node& node = g.node(conv);
  if (!is_convolution(node)) return NotHere{};
  const auto& x = g.value(node.in(0)).shape;
  if (!x || x->size() != image_rank || !(*x)[1].known() || (*x)[1].value > most_channels) return NotHere{};
  const DType type = g.value(node.in(1)).type;
  if (!node.is("QLinearConv", smelt_domain) && type != DType::f16 && type != DType::bf16) return NotHere{};
  if (node.get_int("group", 1) != 1 || node.get_int("segments", 1) != 1 || works_out_padding(node) ||
      !all_ones(node.get_ints("upsample")))
    return refuse(Reason::wrong_attribute, conv, "{} has groups, several inputs or works out its own padding", describe(g, conv));
  if (!g.value(node.in(1)).constant.valid())
    return refuse(Reason::not_constant, conv, "{} is computed", g.value(node.in(1)).name);
  Image image = image_of(g, conv);
  std::optional<NodeId> pool;
  const auto reader = reader_of(g, node.out());
  if (reader && g.node(*reader).is("MaxPool")) {
    if (auto why = rejects_pool(g, *reader, node); why && !image.program)
      return *why;
    else if (!why)
      pool = *reader;
  }
  if (!pool && !image.program) {
    if (!reader) return reader.refusal();
    return refuse(Reason::wrong_reader, *reader, "{} is no MaxPool", describe(g, *reader));
  }
  Node made = fused_node("Stem" + node.op, node.inputs, pool ? std::vector{g.node(*pool).out()} : node.outputs);
  made.program = node.program;
  for (const char* key : {"strides", "pads", "dilations", "kernel_shape"})
    if (node.has(key)) made.attrs[key] = node.attrs.at(key);
  std::vector<NodeId> nodes = image.nodes;
  nodes.push_back(conv);
  if (image.program) {
    made.inputs[0] = image.x;
    made.attrs["image"] = image.program->print();
  }
  if (pool) {
    const Node& p = g.node(*pool);
    made.attrs["pool_kernel"] = p.get_ints("kernel_shape");
    made.attrs["pool_strides"] = p.get_ints("strides", {1, 1});
    made.attrs["pool_pads"] = p.get_ints("pads", {0, 0, 0, 0});
    nodes.push_back(*pool);
  }
  return replacement(nodes, std::move(made));
}

}  // namespace smelt::fuse
