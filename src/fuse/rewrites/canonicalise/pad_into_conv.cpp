// Before   Conv(Pad(x, zeros around the spatial axes), w, b)
// After    Conv(x, w, b) with larger pads
// Unless   the padding is not constant zero, or cuts
//          batch or channels are padded too
//          the amount is computed
//          the convolution works out its own padding (auto_pad)
//          the padded value has another reader, or is a graph output
#include <algorithm>

#include "fuse/match/bypass.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

/// Begins and ends of every axis of x, whatever `axes` says; nothing when they are computed.
std::optional<std::vector<int64_t>> all_pads(const Graph& g, NodeId pad, int rank) {
  auto pads = ints(g, pad, "pads", 1);
  if (!pads) return {};
  if (g.node(pad).in(3) == ValueId::none) return pads;
  const Tensor& axes = g.constant(pad, 3);
  if (!axes.valid()) return {};
  std::vector<int64_t> all(static_cast<size_t>(rank) * 2);
  const auto list = axes.to_ints();
  if (pads->size() != list.size() * 2) return pads;  // does not fit any rank: the caller says so
  for (size_t i = 0; i < list.size(); ++i) {
    const auto axis = static_cast<size_t>(normalize_axis(list[i], rank));
    all[axis] = (*pads)[i];
    all[axis + static_cast<size_t>(rank)] = (*pads)[i + list.size()];
  }
  return all;
}

}  // namespace

Outcome pad_into_conv(const Graph& g, NodeId conv) {
  const Node& node = g.node(conv);
  NodeId pad;
  if (!node.is("Conv") || !made_by(g, node.in(0), "Pad", &pad)) return NotHere{};
  const Node& padding = g.node(pad);
  const auto only = reader_of(g, padding.out());
  if (!only) return only.refusal();
  const std::string mode = padding.get_string("mode", "constant"), auto_pad = node.get_string("auto_pad", "NOTSET");
  if (mode != "constant") return refuse(Reason::wrong_attribute, pad, "{} pads by mode {}", describe(g, pad), mode);
  if (auto_pad != "NOTSET" && auto_pad != "VALID") return refuse(Reason::wrong_attribute, conv, "auto_pad is {}", auto_pad);
  if (padding.in(2) != ValueId::none) {
    const auto value = scalar(g, padding.in(2));
    if (!value) return refuse(Reason::not_constant, g.producer(pad, 2), "the value {} pads with is computed", describe(g, pad));
    if (*value != 0) return refuse(Reason::wrong_value, pad, "{} pads with {}", describe(g, pad), *value);
  }
  const int r = rank(g, padding.in(0));
  if (r < 3) return refuse(Reason::unknown_shape, pad, "the rank of {} is not known", g.value(padding.in(0)).name);
  const auto amount = all_pads(g, pad, r);
  if (!amount) return refuse(Reason::not_constant, g.producer(pad, 1), "the pads of {} are computed", describe(g, pad));
  if (amount->size() != static_cast<size_t>(r) * 2)
    return refuse(Reason::wrong_rank, pad, "{} pads for {} axes", amount->size(), r);

  const auto axes = static_cast<size_t>(r), spatial = axes - 2;
  std::vector<int64_t> pads = node.get_ints("pads", std::vector<int64_t>(spatial * 2));
  if (pads.size() != spatial * 2)
    return refuse(Reason::wrong_attribute, conv, "{} has {} pads for {} axes", describe(g, conv), pads.size(), spatial);
  for (size_t i = 0; i < amount->size(); ++i) {
    const int64_t a = (*amount)[i];
    const size_t axis = i % axes;
    if (a < 0) return refuse(Reason::wrong_value, pad, "{} cuts {} from axis {}", describe(g, pad), -a, axis);
    if (axis < 2 && a > 0) return refuse(Reason::wrong_axis, pad, "{} pads axis {}", describe(g, pad), axis);
    if (axis < 2) continue;
    int64_t& total = pads[i < axes ? axis - 2 : axis - 2 + spatial];
    if (__builtin_add_overflow(total, a, &total))
      return refuse(Reason::wrong_attribute, pad, "the pads of {} overflow", describe(g, pad));
  }
  return Match{{pad, conv}, [pad, conv, pads, x = padding.in(0)](Graph& graph) {
                 graph.edit(conv).attrs["pads"] = pads;
                 graph.edit(conv).attrs.erase("auto_pad");
                 graph.merge_sources(conv, pad);
                 graph.set_input(conv, 0, x);
                 return conv;
               }};
}

}  // namespace smelt::fuse
