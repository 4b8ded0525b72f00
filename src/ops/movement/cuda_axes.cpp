#include "ops/movement/cuda_axes.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "kernels/movement/axes.h"
#include "ops/core/strides.h"
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

std::vector<MappedAxis> axes_of(const BoundTensor& x, const BoundTensor& y) {
  const Shape from = memory_strides(x), to = memory_strides(y);
  std::vector<MappedAxis> axes;
  for (size_t a = 0; a < from.size(); ++a) axes.push_back({y.shape[a], from[a], to[a], {}});
  return axes;
}

MergedAxes merged_axes(std::vector<MappedAxis> axes) {
  std::ranges::stable_sort(axes, std::greater{}, &MappedAxis::to);
  // What is moved as it lies: the innermost axes that keep their places are one row, others next to one another one axis.
  MergedAxes m;
  std::vector<MappedAxis>& rest = m.axes;
  const auto stays = [](const MappedAxis& a) { return a.places.empty() && a.tag < 0; };
  for (const MappedAxis& a : axes) {
    if (a.extent == 1 && stays(a)) continue;
    MappedAxis* last = rest.empty() ? nullptr : &rest.back();
    if (last && stays(*last) && stays(a) && last->from == a.from * a.extent && last->to == a.to * a.extent) {
      last->extent *= a.extent, last->from = a.from, last->to = a.to;
    } else {
      rest.push_back(a);
    }
  }
  if (!rest.empty() && stays(rest.back()) && rest.back().from == 1 && rest.back().to == 1) {
    m.width = rest.back().extent;
    rest.pop_back();
  }
  if (rest.empty()) rest.push_back({});
  return m;
}

int64_t MergedAxes::rows() const {
  int64_t rows = 1;
  for (const MappedAxis& a : axes) rows *= a.extent;
  return rows;
}

int64_t MergedAxes::unit() const {
  int64_t unit = 0;
  for (const MappedAxis& a : axes) unit = std::gcd(unit, std::gcd(a.from, a.to));
  return unit;
}

void offer_by_axes(std::vector<MappedAxis> axes, const BoundNode& b, std::vector<std::byte> fill, const std::string& name,
                   const Gpu& gpu, Offer& offer) {
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
  move.fill = std::move(fill);
  move.widen(std::min(x.alignment, y.alignment), merged.unit());
  offer_row_move(move, name, gpu, offer, [tables](LaunchPlan& plan) { plan.table(tables); });
}

}  // namespace smelt::ops
