// TopK on a GPU: each line sorted as far as it is wanted (src/kernels/sort/sort.cuh), in the reference's order.
#include <algorithm>

#include "base/error.h"
#include "expr/cuda.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cuda/source.h"
#include "ops/select/cuda_sort.h"
#include "ops/select/offer.h"

namespace smelt::ops {
namespace {

constexpr unsigned block = 256;

std::unique_ptr<Kernel> top_k(const LineSort& sort, const std::string& type, const Gpu& gpu) {
  LaunchPlan plan("top_k", "#include \"sort/sort.cuh\"\n");
  const std::string outputs = fmt::format("{}* values, i64* places", type);
  const int64_t n = sort.tile(), k = sort.keep;
  const auto give = [&](Launch& l) { l.output(0).output(1).value(static_cast<uint32_t>(k)); };
  if (k == 0 || sort.lines == 0) return launched(std::move(plan), gpu);
  if (sort.tiles() == 1) {
    const unsigned threads = LineSort::threads(n);
    plan.source += entry_of_text(
        "top_k", threads, fmt::format("{}, {}, u32 k, u32 extent", sort.parameters, outputs),
        fmt::format("top_k_of_tiles<{}, {}>({}{{{}}}, values, places, k, extent);", n, threads, sort.source_type, sort.members));
    Launch& l = plan.launch("top_k", {.grid = {static_cast<unsigned>(sort.lines), 1, 1}, .block = {threads, 1, 1}});
    sort.give(l);
    give(l);
    l.value(static_cast<uint32_t>(sort.extent));
    return launched(std::move(plan), gpu);
  }
  const BufferRef items = sort.add_to(plan, "sort");
  plan.source += entry_of_text("emit", block,
                               fmt::format("{}, {}, u32 k, const Item<typename {}::Key>* items, u32 count, Divider kept",
                                           sort.parameters, outputs, sort.source_type),
                               fmt::format("top_k_of_sorted<{}>({}{{{}}}, values, places, k, items, count, kept);", block,
                                           sort.source_type, sort.members));
  Launch& l = plan.launch("emit", blocks_of(sort.lines * k, block));
  sort.give(l);
  give(l);
  l.at(items).value(static_cast<uint32_t>(sort.lines * k)).value(Divider(static_cast<uint32_t>(k)));
  return launched(std::move(plan), gpu);
}

}  // namespace

void offer_top_k_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor& x = b.inputs[0];
  if (const auto why = rejects_layouts(b)) return offer.refuse("cuda", *why);
  const bool number = x.type == DType::f32 || x.type == DType::f64 || x.type == DType::f16 || x.type == DType::bf16 ||
                      (is_integer(x.type) && bits(x.type) >= 8) || x.type == DType::boolean;
  if (!number) return offer.refuse("cuda", Reason::wrong_type, "elements of {}", name(x.type));
  const int64_t axis = normalize_axis(b.node->get_int("axis", -1), static_cast<int64_t>(x.shape.size()));
  const AxisView v = around_axis(x.shape, axis);
  const BoundTensor& y = b.outputs[0].type != DType::undefined ? b.outputs[0] : b.outputs.at(1);
  const bool largest = b.node->get_int("largest", 1) != 0;
  const std::string type(expr::cuda_type(x.type));
  LineSort sort;
  sort.source_type = fmt::format("AlongAxis<{}, {}>", type, largest);
  sort.parameters = fmt::format("const {}* x, Divider inner, u32 length", type);
  sort.members = "x, inner, length";
  sort.lines = v.outer * v.inner, sort.extent = v.extent, sort.keep = y.shape[static_cast<size_t>(axis)];
  sort.key_bytes = bits(x.type) == 64 ? 8 : 4;
  sort.give = [inner = Divider(static_cast<uint32_t>(std::max<int64_t>(1, v.inner))),
               extent = static_cast<uint32_t>(v.extent)](Launch& l) { l.input(0).value(inner).value(extent); };
  if (sort.lines * sort.extent >= int64_t{1} << 31)
    return offer.refuse("cuda", Reason::too_large, "{} elements; it counts to 2^31", sort.lines * sort.extent);
  const double moved = static_cast<double>(storage_bytes(x));
  offer.candidates.push_back({"cuda", "bitonic", 10 + gpu_estimate_us(*machine.gpu, 4 * moved),
                              [sort, type, gpu = machine.gpu] { return top_k(sort, type, *gpu); }});
}

}  // namespace smelt::ops
