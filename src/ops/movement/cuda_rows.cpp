#include "ops/movement/cuda_rows.h"

#include <numeric>

#include <fmt/ranges.h>

#include "base/error.h"
#include "ops/cpu/strided_copy.h"
#include "ops/cuda/source.h"

namespace smelt::ops {

const char* const rows_source = "#include \"movement/rows.cuh\"\n";

namespace {

constexpr unsigned block = 256;

}  // namespace

std::vector<std::byte> element_of(const Tensor& t) {
  const auto* p = static_cast<const std::byte*>(t.raw());
  return {p, p + element_bytes(t.type())};
}

std::string moved_type(int64_t bytes) {
  return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 ? fmt::format("u{}", bytes * 8) : "";
}

RowMap& RowMap::add(const std::string& type, std::function<void(Launch&)> give) {
  members_.push_back(fmt::format("m{}", members_.size()));
  parameters_.push_back(type + " " + members_.back());
  give_.push_back(std::move(give));
  return *this;
}

RowMap& RowMap::nested(const std::string& type, const std::string& parameters, const std::string& members,
                       std::function<void(Launch&)> give) {
  parameters_.push_back(parameters);
  members_.push_back(fmt::format("{}{{{}}}", type, members));
  give_.push_back(std::move(give));
  return *this;
}

RowMap& RowMap::divider(int64_t d) {
  const Divider divider(static_cast<uint32_t>(std::max<int64_t>(1, d)));
  return add("Divider", [divider](Launch& l) { l.value(divider); });
}

RowMap& RowMap::null(const std::string& type) {
  return add("const " + type + "*", [](Launch& l) { l.value(uint64_t{0}); });
}

RowMap& RowMap::walk(const Views& views) {
  const WalkArgument argument(views, 1);
  return add(fmt::format("const Walk<{}, {}>", views.extents.size(), views.strides.size()),
             [argument](Launch& l) { l.value(argument); });
}

void RowMove::widen(int64_t alignment, int64_t unit) {
  const int64_t together = std::gcd(width, unit);
  for (vec = 16 / bytes; vec > 1; vec /= 2)
    if (together % vec == 0 && alignment % (vec * bytes) == 0) return;
}

void RowMove::add_to(LaunchPlan& plan, const std::string& name) const {
  const std::string type = moved_type(bytes);
  if (type.empty()) fail("rows of elements of {} bytes, expected 1, 2, 4 or 8", bytes);
  std::string parameters;
  for (const std::string& p : map.parameters_) parameters += ", " + p;
  plan.source += entry_of_text(
      name, block, fmt::format("const {0}* x, {0}* y, u32 chunks, Divider per_row, u32 width, {0} fill{1}", type, parameters),
      fmt::format("move_rows<{}, {}>(x, y, chunks, per_row, width, fill, {}{{{}}});", type, vec, map.type_,
                  fmt::join(map.members_, ", ")));
  const int64_t per_row = (width + vec - 1) / vec, chunks = rows * per_row;
  if (chunks == 0) return;
  Launch& l = plan.launch(name, blocks_of(chunks, block));
  l.at(from).at(to).value(static_cast<uint32_t>(chunks)).value(Divider(static_cast<uint32_t>(per_row)));
  l.value(static_cast<uint32_t>(width));
  uint64_t filling = 0;
  if (!fill.empty()) std::memcpy(&filling, fill.data(), fill.size());
  switch (bytes) {
    case 1: l.value(static_cast<uint8_t>(filling)); break;
    case 2: l.value(static_cast<uint16_t>(filling)); break;
    case 4: l.value(static_cast<uint32_t>(filling)); break;
    default: l.value(filling);
  }
  for (const auto& give : map.give_) give(l);
}

void offer_row_move(const RowMove& move, const std::string& name, const Gpu& gpu, Offer& offer,
                    const std::function<void(LaunchPlan&)>& before) {
  if (move.too_large())
    return offer.refuse("cuda", Reason::too_large, "{} rows of {} elements; it counts to 2^31 accesses", move.rows, move.width);
  const double moved = 2.0 * static_cast<double>(move.rows * move.width * move.bytes);
  offer.candidates.push_back({"cuda", fmt::format("rows v{}", move.vec), gpu_estimate_us(gpu, moved), [move, name, before, &gpu] {
                                LaunchPlan plan(name, rows_source);
                                if (before) before(plan);
                                move.add_to(plan, "move");
                                return launched(std::move(plan), gpu);
                              }});
}

}  // namespace smelt::ops
