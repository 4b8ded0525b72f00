// Before   Transpose(Reshape(QLinearConv(Reshape(Transpose(x)), w, …))): x and the result lie in blocks of 32 channels, [N, C / 32, H, W, 32]
// After    QLinearConv of such blocks, which reads and writes them in place
// Unless   only one of the two sides is in blocks, or what is between has another reader, or is a graph output
//          other than two spatial axes, groups, several images, weights of more than 8 bits less their zero points, filters of more than 15 taps along an axis
//          an operand is neither one number nor a constant for each channel
// Plans leave it out on a processor, whose kernels take no blocks.
#include <algorithm>

#include "fuse/match/match.h"
#include "fuse/rewrites/rewrites.h"
#include "graph/fused.h"
#include "ops/core/channel_blocks.h"

namespace smelt::fuse {
namespace {

using ops::blocks_of_channels;
using ops::channel_block;
using ops::channels_of_blocks;

bool is_transpose(const Node& n, const std::vector<int64_t>& perm) { return n.is("Transpose") && n.get_ints("perm") == perm; }

/// Whether `blocks` is an image in blocks of channels whose plain form has the shape `whole`.
bool in_blocks_of(const std::optional<SymShape>& blocks, const std::optional<SymShape>& whole) {
  if (!blocks || !whole || whole->size() < 3 || blocks->size() != whole->size() + 1) return false;
  const auto &channels = (*whole)[1], &count = (*blocks)[1], &last = blocks->back();
  if (!channels.known() || !count.known() || !last.known() || last.value != channel_block) return false;
  if (count.value * channel_block != channels.value || (*blocks)[0] != (*whole)[0]) return false;
  for (size_t a = 2; a < whole->size(); ++a)
    if ((*blocks)[a] != (*whole)[a]) return false;
  return true;
}

/// The node behind v that alone reads it.
NodeId only_reader(const Graph& g, ValueId v) {
  const auto reader = reader_of(g, v);
  return reader ? *reader : NodeId::none;
}

/// A constant of one number, or of one a channel as blocks broadcast it; nothing for others.
std::optional<Tensor> operand_in_blocks(const Graph& g, ValueId v, int64_t channels, size_t spatial) {
  const Tensor& t = g.value(v).constant;
  if (!t.valid()) return std::nullopt;
  if (t.size() == 1) return t.reshaped({});
  Shape by_channel(spatial + 1, 1);
  by_channel[0] = channels;
  Shape shape = t.shape();
  if (shape.size() == spatial + 2 && shape[0] == 1) shape.erase(shape.begin());
  if (shape != by_channel) return std::nullopt;
  Shape blocks(spatial + 2, 1);
  blocks.front() = channels / channel_block;
  blocks.back() = channel_block;
  return t.reshaped(blocks);
}

}  // namespace

Outcome blocked_conv(const Graph& g, NodeId n) {
  constexpr int64_t most_taps = 15;
  const Node& node = g.node(n);
  NodeId flat;
  if (!node.is("QLinearConv", smelt_domain) || node.get_int("blocked", 0) != 0 || !made_by(g, node.in(0), "Reshape", &flat))
    return NotHere{};
  const auto& whole = g.value(node.in(0)).shape;
  if (!whole || whole->size() < 3) return NotHere{};
  const size_t spatial = whole->size() - 2;
  const NodeId first = g.producer(flat, 0);
  if (first == NodeId::none || !is_transpose(g.node(first), channels_of_blocks(spatial))) return NotHere{};
  const ValueId x = g.node(first).in(0);
  if (!in_blocks_of(g.value(x).shape, whole)) return NotHere{};
  if (node.get_int("group", 1) != 1 || node.get_int("segments", 1) != 1)
    return refuse(Reason::wrong_attribute, n, "{} has groups or several images", describe(g, n));
  const Tensor &w = g.value(node.in(1)).constant, &zero = g.constant(n, 6);
  if (!w.valid() || (node.in(6) != ValueId::none && !zero.valid()))
    return refuse(Reason::not_constant, n, "the weights of {} are computed", describe(g, n));
  const int64_t zeros = w.type() == DType::u8 ? 128 : 0;
  const std::vector<int64_t> given = zero.valid() ? zero.to_ints() : std::vector<int64_t>{0};
  if (std::ranges::any_of(given, [&](int64_t z) { return z != zeros; }))
    return refuse(Reason::wrong_value, n, "the weights of {} have more than 8 bits less their zero points", describe(g, n));
  if (spatial != 2) return refuse(Reason::wrong_rank, n, "{} has {} spatial axes, expected 2", describe(g, n), spatial);
  for (size_t a = 2; a < w.shape().size(); ++a)
    if (w.shape()[a] > most_taps)
      return refuse(Reason::too_large, n, "{} has {} taps along an axis, expected at most {}", describe(g, n), w.shape()[a],
                    most_taps);

  const NodeId apart = only_reader(g, node.out());
  const NodeId last = apart == NodeId::none || !g.node(apart).is("Reshape") ? NodeId::none : only_reader(g, g.node(apart).out());
  if (last == NodeId::none || !is_transpose(g.node(last), blocks_of_channels(spatial)) ||
      !in_blocks_of(g.value(g.node(last).out()).shape, g.value(node.out()).shape))
    return refuse(Reason::wrong_reader, n, "the result of {} is not taken apart into blocks of {} channels", describe(g, n),
                  channel_block);
  std::vector<std::pair<size_t, Tensor>> operands;
  for (size_t i = first_operand(node); i < node.inputs.size(); ++i) {
    auto t = operand_in_blocks(g, node.inputs[i], w.shape()[0], spatial);
    if (!t) return refuse(Reason::wrong_shape, n, "{} is no constant of one number a channel", g.value(node.inputs[i]).name);
    operands.emplace_back(i, *std::move(t));
  }
  Node made = node;
  made.attrs["blocked"] = int64_t{1};
  made.inputs[0] = x;
  made.outputs = g.node(last).outputs;
  return Match{{first, flat, n, apart, last}, [n, apart, last, made, operands](Graph& graph) {
                 Node blocked = made;
                 for (const auto& [i, t] : operands)
                   blocked.inputs[i] = graph.add_constant(graph.node(n).name + "_operand_" + std::to_string(i), t);
                 return replace(graph, {n, apart, last}, std::move(blocked));
               }};
}

}  // namespace smelt::fuse
