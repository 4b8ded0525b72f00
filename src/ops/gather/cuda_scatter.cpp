// ScatterElements and ScatterND on a GPU (src/kernels/sort/scatter.cuh), rows of one slot always in the rows' order.
#include <algorithm>

#include "base/error.h"
#include "expr/cuda.h"
#include "ops/cpu/strided_copy.h"
#include "ops/cuda/source.h"
#include "ops/gather/cuda_gather.h"
#include "ops/gather/offer.h"
#include "ops/select/cuda_sort.h"

namespace smelt::ops {
namespace {

constexpr unsigned block = 256;

/// What elements are combined in: float for f16, bf16 and f32, 64 bits for integers. Null for what is not combined.
const char* combined_in(DType t) {
  if (t == DType::f16 || t == DType::bf16 || t == DType::f32) return "float";
  if (t == DType::f64) return "double";
  if (!is_integer(t) || bits(t) < 8) return nullptr;
  return is_signed(t) ? "i64" : "u64";
}

const char* operation(const std::string& reduction) {
  return reduction == "add" ? "Add" : reduction == "mul" ? "Mul" : reduction == "max" ? "Larger" : "Smaller";
}

std::unique_ptr<Kernel> scatter(const BoundNode& b, const std::string& reduction, const Gpu& gpu) {
  const IndexedRows rows = indexed_rows(b);
  const DType type = b.inputs[0].type;
  const int64_t size = element_bytes(type);
  LaunchPlan plan("scatter", "#include \"sort/scatter.cuh\"\n");
  plan.copy({BufferRef::input, 0, 0}, {BufferRef::output, 0, 0}, rows.slots * rows.width * size);
  if (rows.rows == 0 || rows.width == 0 || rows.slots == 0) return launched(std::move(plan), gpu, {0});
  if (reduction == "none") {
    const BufferRef winners = plan.reserve(rows.slots * 4);
    plan.fill(winners, rows.slots * 4, 0);
    plan.source += entry_of_text("mark", block, fmt::format("u32* winners, u32 rows_, {}", rows.parameters),
                                 fmt::format("mark_winners(winners, rows_, {}{{{}}});", rows.type, rows.members));
    Launch& mark = plan.launch("mark", blocks_of(rows.rows, block));
    mark.at(winners).value(static_cast<uint32_t>(rows.rows));
    rows.give(mark);
    RowMove move;
    move.from = {BufferRef::input, 2, 0};
    move.rows = rows.rows, move.width = rows.width, move.bytes = size;
    move.widen(std::min(b.inputs[2].alignment, b.outputs[0].alignment), rows.width);
    move.map = RowMap(fmt::format("Winning<{}>", rows.type));
    move.map.pointer("u32", winners).number(rows.width).nested(rows.type, rows.parameters, rows.members, rows.give);
    move.add_to(plan, "move");
    return launched(std::move(plan), gpu, {0});
  }
  LineSort sort;
  sort.source_type = fmt::format("BySlot<{}>", rows.type);
  sort.parameters = rows.parameters;
  sort.members = fmt::format("{}{{{}}}", rows.type, rows.members);
  sort.give = rows.give;
  sort.extent = sort.keep = rows.rows;
  const BufferRef sorted = sort.add_to(plan, "sort");
  const std::string t(expr::cuda_type(type)), wide = combined_in(type);
  plan.source += entry_of_text(
      "apply", block, fmt::format("const Item<u32>* sorted, const {0}* updates, {0}* y, u32 rows, Divider width", t),
      fmt::format("combine<{0}, {1}<{0}>>(sorted, updates, y, rows, width);", wide, operation(reduction)));
  plan.launch("apply", blocks_of(rows.rows * rows.width, block))
      .at(sorted)
      .input(2)
      .output(0)
      .value(static_cast<uint32_t>(rows.rows))
      .value(Divider(static_cast<uint32_t>(rows.width)));
  return launched(std::move(plan), gpu, {0});
}

}  // namespace

void offer_scatter_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = gather_rejects(b)) return offer.refuse("cuda", *why);
  const std::string reduction = b.node->get_string("reduction", "none");
  if (reduction != "none" && !combined_in(b.inputs[0].type))
    return offer.refuse("cuda", Reason::wrong_type, "{} of {}", reduction, name(b.inputs[0].type));
  const IndexedRows rows = indexed_rows(b);
  constexpr int64_t most = int64_t{1} << 31;
  if (rows.parameters.empty()) return offer.refuse("cuda", Reason::wrong_shape, "indices of no axes");
  if (rows.rows * rows.width >= most || rows.slots >= most)
    return offer.refuse("cuda", Reason::too_large, "{} rows of {} into {} slots; it counts to 2^31", rows.rows, rows.width,
                        rows.slots);
  const double moved = 2.0 * static_cast<double>(storage_bytes(b.inputs[0]) + storage_bytes(b.inputs[2]));
  const double estimate = gpu_estimate_us(*machine.gpu, moved) + (reduction == "none" ? 6 : 20);
  offer.candidates.push_back(
      {"cuda", reduction == "none" ? "winners" : "sorted", estimate, [b, node = *b.node, reduction, gpu = machine.gpu] {
         BoundNode bound = b;
         bound.node = &node;
         return scatter(bound, reduction, *gpu);
       }});
}

}  // namespace smelt::ops
