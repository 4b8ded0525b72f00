// Before   Conv(SpaceToDepth(x), w, b), or the same of x's pixels taken apart by Slices and joined by a Concat, as YOLO's Focus does:
//          Conv(Concat(x[:, :, 0::2, 0::2], x[:, :, 1::2, 0::2], x[:, :, 0::2, 1::2], x[:, :, 1::2, 1::2]), w, b)
// After    Conv(x, w', b), its kernel, strides and pads as many times as large; w' has w's numbers in their new places
// Unless   x has more than 8 channels, where a product of few taps and many channels is faster and the copy matters less
//          the weights are computed, or the convolution has groups or dilations, or works out its own padding
//          the joined pixels have another reader, or are a graph output
//          a slice is of other axes, of computed or other bounds, or of another step; or a pixel is missing or there twice
#include <algorithm>
#include <cstring>
#include <set>

#include "fuse/match/channels.h"
#include "fuse/match/extents.h"
#include "fuse/match/match.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

constexpr int64_t most_block = 1024;  // pixels along a side
constexpr int64_t most_channels = 8;

/// A channel of the joined pixels: image[:, channel, y::block, x::block].
struct Channel {
  int64_t channel, y, x;
};

struct Joined {
  ValueId image;
  int64_t block;
  std::vector<Channel> channels;
  std::vector<NodeId> nodes;
};

/// Every `step`-th pixel from y, x on.
struct Grid {
  ValueId image;
  int64_t start[2] = {0, 0}, step[2] = {1, 1};  // along H and W
};

/// Looks through the Slices behind v.
Result<Grid> grid_behind(const Graph& g, ValueId v, std::vector<NodeId>& nodes) {
  Grid grid{v};
  NodeId n;
  while (made_by(g, grid.image, "Slice", &n)) {
    const auto starts = ints(g, n, "starts", 1), ends = ints(g, n, "ends", 2), steps = ints(g, n, "steps", 4);
    auto axes = ints(g, n, "axes", 3);
    if (!starts || !ends || !steps)
      return refuse(Reason::not_constant, n, "the bounds of {} are computed, or its steps 1", describe(g, n));
    if (!axes && g.node(n).in(3) == ValueId::none) {
      axes.emplace(starts->size());
      for (size_t i = 0; i < axes->size(); ++i) (*axes)[i] = static_cast<int64_t>(i);
    }
    if (!axes || axes->size() != starts->size() || ends->size() != starts->size() || steps->size() != starts->size())
      return refuse(Reason::not_constant, n, "the axes of {} are computed", describe(g, n));
    for (size_t i = 0; i < axes->size(); ++i) {
      const int64_t axis = (*axes)[i] < 0 ? (*axes)[i] + 4 : (*axes)[i], start = (*starts)[i], step = (*steps)[i];
      if (axis != 2 && axis != 3) return refuse(Reason::wrong_axis, n, "{} slices axis {}", describe(g, n), axis);
      const auto a = static_cast<size_t>(axis - 2);
      if (grid.step[a] != 1 || step < 2 || step > most_block)
        return refuse(Reason::wrong_value, n, "{} has a step of {}", describe(g, n), step);
      const Extent length = extent(g, g.node(n).in(0), static_cast<int>(axis));
      const bool to_the_end = (*ends)[i] >= (length.known() ? length.number - step + start + 1 : int64_t{INT32_MAX});
      if (start < 0 || start >= step || !to_the_end)
        return refuse(Reason::wrong_value, n, "{} takes {} to {} of every {}", describe(g, n), start, (*ends)[i], step);
      if (length.known() && length.number % step != 0)
        return refuse(Reason::wrong_shape, n, "{} of {} pixels by {}", describe(g, n), length.number, step);
      grid.start[a] = start;
      grid.step[a] = step;
    }
    nodes.push_back(n);
    grid.image = g.node(n).in(0);
  }
  return grid;
}

Result<Joined> joined_slices(const Graph& g, NodeId concat, int64_t per_slice) {
  Joined j{ValueId::none, 1, {}, {}};
  std::set<std::pair<int64_t, int64_t>> places;
  for (const ValueId v : g.node(concat).inputs) {
    const Result<Grid> found = grid_behind(g, v, j.nodes);
    if (!found) return found.refusal();
    const Grid& grid = *found;
    if (j.image == ValueId::none) j.image = grid.image, j.block = grid.step[0];
    if (grid.image != j.image || grid.step[0] != j.block || grid.step[1] != j.block)
      return refuse(Reason::wrong_producer, concat, "{} is no slice of every {} of {}", g.value(v).name, j.block,
                    g.value(j.image).name);
    if (!places.insert({grid.start[0], grid.start[1]}).second)
      return refuse(Reason::wrong_value, concat, "the pixels of {} are there twice", g.value(v).name);
    for (int64_t c = 0; c < per_slice; ++c) j.channels.push_back({c, grid.start[0], grid.start[1]});
  }
  if (static_cast<int64_t>(places.size()) != j.block * j.block)
    return refuse(Reason::wrong_value, concat, "{} of the {} pixels of a block", places.size(), j.block * j.block);
  j.nodes.push_back(concat);
  return j;
}

Joined space_to_depth(const Graph& g, NodeId n, int64_t channels) {
  const Node& node = g.node(n);
  const bool depth_first = node.get_string("mode", "DCR") == "DCR";
  Joined j{node.in(0), node.get_int("blocksize", 1), {}, {n}};
  const int64_t places = j.block * j.block;
  for (int64_t i = 0; i < channels * places; ++i) {
    const int64_t place = depth_first ? i / channels : i % places;
    j.channels.push_back({depth_first ? i % channels : i / places, place / j.block, place % j.block});
  }
  return j;
}

/// [M, C, block * KH, block * KW] of w [M, block * block * C, KH, KW].
Tensor spread(const Tensor& w, const Joined& j) {
  const Shape& s = w.shape();
  const auto places = j.block * j.block, channels = s[1] / places;
  Tensor to = Tensor::zeros(w.type(), {s[0], channels, s[2] * j.block, s[3] * j.block});
  const auto size = static_cast<size_t>(bytes(w.type(), 1));
  const char* from = static_cast<const char*>(w.raw());
  for (int64_t m = 0; m < s[0]; ++m)
    for (const Channel& c : j.channels)
      for (int64_t kh = 0; kh < s[2]; ++kh)
        for (int64_t kw = 0; kw < s[3]; ++kw, from += size) {
          const int64_t row = (m * channels + c.channel) * s[2] * j.block + kh * j.block + c.y;
          std::memcpy(static_cast<char*>(to.raw()) + static_cast<size_t>(row * s[3] * j.block + kw * j.block + c.x) * size, from,
                      size);
        }
  return to;
}

}  // namespace

Outcome space_to_depth_conv(const Graph& g, NodeId conv) {
  const Node& node = g.node(conv);
  NodeId joining;
  if (!node.is("Conv")) return NotHere{};
  const bool sliced = made_by(g, node.in(0), "Concat", &joining);
  if (!sliced && !made_by(g, node.in(0), "SpaceToDepth", &joining)) return NotHere{};
  const Node& join = g.node(joining);
  if (sliced && (rank(g, join.out()) != 4 || normalize_axis(join.get_int("axis", 1), 4) != 1 || !made_by(g, join.in(0), "Slice")))
    return NotHere{};
  const auto only = reader_of(g, join.out());
  if (!only) return only.refusal();
  const Tensor& w = g.constant(conv, 1);
  if (!w.valid()) return refuse(Reason::not_constant, g.producer(conv, 1), "the weights of {} are computed", describe(g, conv));
  const std::vector<int64_t> strides = node.get_ints("strides", {1, 1}), dilations = node.get_ints("dilations", {1, 1});
  if (node.get_int("group", 1) != 1 || dilations != std::vector<int64_t>{1, 1} || works_out_padding(node))
    return refuse(Reason::wrong_attribute, conv, "{} has groups, dilations or auto_pad", describe(g, conv));

  const int64_t block = join.get_int("blocksize", 1);  // `explain` comes here with what ONNX's inference refuses
  if (!sliced && (block < 1 || block > most_block)) return refuse(Reason::wrong_attribute, joining, "blocks of {} pixels", block);
  const int64_t pieces = sliced ? static_cast<int64_t>(join.inputs.size()) : block * block;
  if (w.shape().size() != 4 || w.shape()[1] % pieces != 0)
    return refuse(Reason::wrong_shape, conv, "weights of shape {} over {} slices", to_text(w.shape()), pieces);
  const int64_t channels = w.shape()[1] / pieces;
  if (channels > most_channels)
    return refuse(Reason::not_profitable, joining, "an image of {} channels, expected at most {}", channels, most_channels);
  Joined j;
  if (sliced) {
    auto found = joined_slices(g, joining, channels);
    if (!found) return found.refusal();
    j = *std::move(found);
  } else {
    j = space_to_depth(g, joining, channels);
  }
  const auto known = extents(g, j.image);
  if (!known || known->size() != 4 || !(*known)[1].is(channels))
    return refuse(Reason::unknown_shape, joining, "{} is not known to have {} channels", g.value(j.image).name, channels);

  std::map<std::string, Attribute> attributes = node.attrs;
  const auto times = [&](std::vector<int64_t> v) {
    for (int64_t& x : v) x *= j.block;
    return v;
  };
  attributes["strides"] = times(strides);
  attributes["pads"] = times(node.get_ints("pads", {0, 0, 0, 0}));
  attributes["kernel_shape"] = times({w.shape()[2], w.shape()[3]});
  attributes.erase("auto_pad");
  std::vector<NodeId> nodes = j.nodes;
  nodes.push_back(conv);
  nodes = in_order(g, nodes);
  return Match{nodes, [conv, joining, image = j.image, attributes, weights = spread(w, j)](Graph& graph) {
                 graph.edit(conv).attrs = attributes;
                 graph.merge_sources(conv, joining);
                 graph.set_input(conv, 1, graph.add_constant(graph.node(conv).name + "_weight", weights));
                 graph.set_input(conv, 0, image);
                 return conv;
               }};
}

}  // namespace smelt::fuse
