// Before   Conv or QLinearConv that works out its own padding (auto_pad)
// After    Conv with the same padding in pads, as the fused operators want it
// Unless   the amount depends on an extent that is not known: SAME with a stride
#include <algorithm>

#include "fuse/match/match.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {

Outcome explicit_pads(const Graph& g, NodeId conv) {
  const Node& node = g.node(conv);
  const bool quantized = node.is("QLinearConv");
  const std::string mode = node.get_string("auto_pad", "NOTSET");
  if ((!node.is("Conv") && !quantized) || mode == "NOTSET") return NotHere{};
  const auto& shape = g.value(node.in(0)).shape;
  const ValueId w = node.in(quantized ? 3 : 1);
  const auto& weights = g.value(w).shape;
  if (!weights || weights->size() < 3) return refuse(Reason::unknown_shape, conv, "the rank of {} is not known", g.value(w).name);
  const size_t spatial = weights->size() - 2;
  std::vector<int64_t> pads(spatial * 2);
  const auto strides = node.get_ints("strides", std::vector<int64_t>(spatial, 1));
  const auto dilations = node.get_ints("dilations", std::vector<int64_t>(spatial, 1));
  // Beyond any image; what is computed below cannot overflow.
  const auto odd = [](const std::vector<int64_t>& list, size_t count) {
    return list.size() != count || std::any_of(list.begin(), list.end(), [](int64_t n) { return n < 1 || n > INT32_MAX; });
  };
  if (odd(strides, spatial) || odd(dilations, spatial) || (shape && shape->size() != weights->size()))
    return refuse(Reason::wrong_attribute, conv, "the strides or dilations of {} do not fit {} axes", describe(g, conv), spatial);
  for (size_t i = 0; i < spatial && mode.starts_with("SAME"); ++i) {
    const Dim k = (*weights)[i + 2], x = shape ? (*shape)[i + 2] : Dim();
    if (!k.known() || (strides[i] != 1 && !x.known()))
      return refuse(Reason::unknown_shape, conv, "extent {} of {} is not known, the stride is {}", i + 2,
                    g.value(node.in(0)).name, strides[i]);
    if (k.value > INT32_MAX || x.value > INT64_MAX / 4)
      return refuse(Reason::wrong_attribute, conv, "extent {} overflows", i + 2);
    // As many outputs as strides begin in the input; the last one's window ends where the padding does.
    const int64_t window = (k.value - 1) * dilations[i] + 1;
    const int64_t extent = strides[i] == 1 ? 1 : x.value, outputs = (extent + strides[i] - 1) / strides[i];
    const int64_t total = std::max<int64_t>((outputs - 1) * strides[i] + window - extent, 0);
    pads[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    pads[i + spatial] = total - pads[i];
  }
  return Match{{conv}, [conv, pads](Graph& graph) {
                 graph.edit(conv).attrs.erase("auto_pad");
                 graph.edit(conv).attrs["pads"] = pads;
                 return conv;
               }};
}

}  // namespace smelt::fuse
