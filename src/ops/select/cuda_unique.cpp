// Unique over all elements on a GPU (src/kernels/select/unique.cuh): sorted, grouped, and where `sorted` is 0 numbered by first
// occurrence.
#include "base/error.h"
#include "expr/cuda.h"
#include "ops/core/data_dependent.h"
#include "ops/core/strides.h"
#include "ops/cuda/source.h"
#include "ops/select/cuda_compact.h"
#include "ops/select/cuda_sort.h"
#include "ops/select/offer.h"

namespace smelt::ops {
namespace {

constexpr unsigned block = 256;

struct Unique {
  DType type;
  int64_t n = 0;
  bool sorted = true;
  bool wanted[4] = {};  // outputs
  size_t count = 0;     // the output that is the count
};

std::unique_ptr<Kernel> unique(const Unique& p, bool tiles, const Gpu& gpu) {
  LaunchPlan plan("unique", "#include \"select/unique.cuh\"\n");
  const std::string type(expr::cuda_type(p.type));
  LineSort sort;
  sort.source_type = fmt::format("AlongAxis<{}, false>", type);
  sort.parameters = fmt::format("const {}* x, Divider inner, u32 length", type);
  sort.members = "x, inner, length";
  sort.extent = sort.keep = p.n;
  sort.key_bytes = bits(p.type) == 64 ? 8 : 4;
  const auto n = static_cast<uint32_t>(p.n);
  sort.give = [n](Launch& l) { l.input(0).value(Divider(1)).value(n); };
  const BufferRef items = sort.add_to(plan, "sort"), heads = plan.reserve(p.n * 4);
  const std::string item = fmt::format("Item<{}>", sort.key_bytes == 4 ? "u32" : "u64"),
                    key = sort.key_bytes == 4 ? "u32" : "u64";

  Selection groups;
  groups.parameters = fmt::format("const {}* items, u32* heads", item);
  groups.flag = fmt::format("BeginsGroup<{}>{{items}}", key);
  groups.put = "PutPlace{heads}";
  groups.give = [&](Launch& l) { l.at(items).at(heads); };
  groups.extent = p.n;
  groups.count = p.count;
  groups.add_to(plan, tiles, "group_");
  BufferRef order;
  if (!p.sorted) {
    const BufferRef group_of = plan.reserve(p.n * 4);
    order = plan.reserve(p.n * 4);
    plan.source +=
        entry_of_text("mark", block, fmt::format("const {}* items, const u32* heads, const i64* groups, u32* group_of", item),
                      "mark_first(items, heads, groups, group_of);");
    plan.fill(group_of, p.n * 4, 0xff);
    plan.launch("mark", blocks_of(p.n, block)).at(items).at(heads).output(p.count).at(group_of);
    Selection firsts;
    firsts.parameters = "const u32* group_of, u32* order";
    firsts.flag = "IsFirst{group_of}";
    firsts.put = "PutOrder{group_of, order}";
    firsts.give = [&](Launch& l) { l.at(group_of).at(order); };
    firsts.extent = p.n;
    firsts.count = p.count;
    firsts.add_to(plan, tiles, "order_");
  }
  plan.source += entry_of_text(
      "emit", block,
      fmt::format("const {0}* x, const {1}* items, const u32* heads, const u32* order, const i64* groups, {0}* y, i64* first, "
                  "i64* inverse, i64* counts, u32 n",
                  type, item),
      "emit_unique(x, items, heads, order, groups, y, first, inverse, counts, n);");
  Launch& emit = plan.launch("emit", blocks_of(p.n, block));
  emit.input(0).at(items).at(heads);
  if (p.sorted)
    emit.value(uint64_t{0});
  else
    emit.at(order);
  emit.output(p.count);
  for (size_t o = 0; o < 4; ++o) {
    if (p.wanted[o])
      emit.output(o);
    else
      emit.value(uint64_t{0});
  }
  emit.value(n);
  return launched(std::move(plan), gpu);
}

}  // namespace

void offer_unique_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (!is_bound_at_most(b))
    return offer.refuse("cuda", Reason::not_constant, "its outputs' shapes are known, its count is not asked for");
  const BoundTensor& x = b.inputs[0];
  if (x.layout != Layout::plain || !is_dense(x))
    return offer.refuse("cuda", Reason::wrong_layout, "tensors that are not dense and row-major");
  Unique p{x.type, elements(x.shape), b.node->get_int("sorted", 1) != 0, {}, b.node->outputs.size()};
  for (size_t o = 0; o < std::min<size_t>(4, p.count); ++o) p.wanted[o] = b.outputs[o].type != DType::undefined;
  const double moved = static_cast<double>(20 * storage_bytes(x));
  offer_selection(
      p.n, moved, *machine.gpu, offer, [p, gpu = machine.gpu](bool tiles) { return unique(p, tiles, *gpu); }, 20);
}

}  // namespace smelt::ops
