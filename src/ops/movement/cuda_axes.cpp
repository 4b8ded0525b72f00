#include "ops/movement/cuda_axes.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/movement/axes.h"
#include "ops/cpu/strided_copy.h"

namespace smelt::ops {

std::vector<std::byte> axes_argument(const std::vector<MappedAxis>& axes, std::vector<int64_t>& tables) {
  std::vector<std::byte> bytes;
  const auto append = [&bytes](const auto& v) {
    const auto* p = reinterpret_cast<const std::byte*>(&v);
    bytes.insert(bytes.end(), p, p + sizeof v);
  };
  for (size_t a = axes.size(); a-- > 0;) append(axes[a].from);
  for (size_t a = axes.size(); a-- > 0;) append(axes[a].to);
  for (size_t a = axes.size(); a-- > 0;) {
    append(axes[a].places.empty() ? int64_t{-1} : static_cast<int64_t>(tables.size()));
    for (const int64_t place : axes[a].places) tables.push_back(place < 0 ? -1 : place * axes[a].from);
  }
  for (size_t a = axes.size(); a-- > 0;) append(Divider(static_cast<uint32_t>(std::max<int64_t>(1, axes[a].extent))));
  bytes.resize(kernels::axes_bytes(static_cast<int>(axes.size())));  // padded to whole words of 8 bytes
  return bytes;
}

void offer_by_axes(std::vector<MappedAxis> axes, const BoundNode& b, AxesFill fill, const std::string& name, const Gpu& gpu,
                   Offer& offer) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  RowMove move;
  move.bytes = element_bytes(x.type);
  if (moved_type(move.bytes).empty() || bits(x.type) < 8)
    return offer.refuse("cuda", Reason::wrong_type, "elements of {}", smelt::name(x.type));
  const MergedAxes merged = merged_axes(std::move(axes));
  std::vector<int64_t> tables;
  const std::vector<MappedAxis>& rest = merged.axes;
  move.rows = merged.rows(), move.width = merged.width;
  for (const MappedAxis& a : rest)
    if (a.extent >= int64_t{1} << 31)
      return offer.refuse("cuda", Reason::too_large, "an axis of {}; it counts to 2^31", a.extent);
  const std::vector<std::byte> argument = axes_argument(rest, tables);
  move.map = {fmt::format("ByAxes<{}>", rest.size()), [argument](Launch& l) { l.at({BufferRef::table, 0, 0}).bytes(argument); }};
  move.fill = std::move(fill.element);
  if (fill.input) move.fill_from = BufferRef{BufferRef::input, *fill.input};
  move.widen(std::min(x.alignment, y.alignment), merged.unit());
  offer_row_move(move, name, gpu, offer, [tables](LaunchPlan& plan) { plan.table(tables); });
}

}  // namespace smelt::ops
