#include "ops/movement/cuda_rows.h"

#include <cstring>
#include <numeric>

#include "base/error.h"
#include "kernels/movement/rows.h"
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

void RowMove::widen(int64_t alignment, int64_t unit) {
  const int64_t together = std::gcd(width, unit);
  for (vec = 16 / bytes; vec > 1; vec /= 2)
    if (together % vec == 0 && alignment % (vec * bytes) == 0) return;
}

void RowMove::add_to(LaunchPlan& plan, const std::string& name) const {
  const std::string type = moved_type(bytes);
  if (type.empty()) fail("rows of elements of {} bytes, expected 1, 2, 4 or 8", bytes);
  const int64_t per_row = (width + vec - 1) / vec, chunks = rows * per_row;
  if (chunks == 0) return;
  kernels::MovedRows<void> a{.per_row = Divider(static_cast<uint32_t>(per_row)),
                             .chunks = static_cast<uint32_t>(chunks),
                             .width = static_cast<uint32_t>(width)};
  if (!fill.empty()) std::memcpy(&a.fill, fill.data(), fill.size());
  const KernelEntry entry{name, std::to_string(block),
                          fmt::format("{}<{}, {}>", fill_from ? "FilledMoveArgs" : "RowMoveArgs", type, map.type),
                          fmt::format("{}<{}>", fill_from ? "move_filled_rows" : "move_rows", vec)};
  Launch& l = plan.launch(entry, blocks_of(chunks, block));
  l.args(a, {{a.x, from}, {a.y, to}});
  map.give(l);
  if (fill_from) l.at(*fill_from);
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
