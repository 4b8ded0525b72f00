// ScatterElements and ScatterND on a GPU (src/kernels/sort/scatter.cuh), rows of one slot always in the rows' order.
#include <algorithm>

#include "base/error.h"
#include "expr/cuda.h"
#include "kernels/sort/scatter.h"
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
    const kernels::Winners w{.rows = static_cast<uint32_t>(rows.rows)};
    const KernelEntry mark{"mark", std::to_string(block), fmt::format("WinnersArgs<{}>", rows.at.type), "mark_winners"};
    rows.at.give(plan.launch(mark, blocks_of(rows.rows, block)).args(w, {{w.of_slot, winners}}));
    RowMove move;
    move.from = {BufferRef::input, 2, 0};
    move.rows = rows.rows, move.width = rows.width, move.bytes = size;
    move.widen(std::min(b.inputs[2].alignment, b.outputs[0].alignment), rows.width);
    move.map = {fmt::format("Winning<{}>", rows.at.type), [&](Launch& l) {
                  l.at(winners).value(rows.width);
                  rows.at.give(l);
                }};
    move.add_to(plan, "move");
    return launched(std::move(plan), gpu, {0});
  }
  LineSort sort;
  sort.source = fmt::format("BySlot<{}>", rows.at.type);
  sort.give = rows.at.give;
  sort.extent = sort.keep = rows.rows;
  const BufferRef sorted = sort.add_to(plan, "sort");
  const char* const wide = combined_in(type);
  const KernelEntry apply{"apply", std::to_string(block), fmt::format("CombineArgs<{}>", expr::cuda_type(type)),
                          fmt::format("combine<{0}, {1}<{0}>>", wide, operation(reduction))};
  const kernels::CombineArgs<void> a{.width = Divider(static_cast<uint32_t>(rows.width)),
                                     .rows = static_cast<uint32_t>(rows.rows)};
  plan.launch(apply, blocks_of(rows.rows * rows.width, block))
      .args(a, {{a.sorted, sorted}, {a.updates, {BufferRef::input, 2}}, {a.y, {BufferRef::output, 0}}});
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
  if (rows.at.type.empty()) return offer.refuse("cuda", Reason::wrong_shape, "indices of no axes");
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
