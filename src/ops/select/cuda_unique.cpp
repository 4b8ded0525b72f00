// Unique over all elements on a GPU (src/kernels/select/unique.cuh): sorted, grouped, and where `sorted` is 0 numbered by first
// occurrence.
#include "base/error.h"
#include "expr/cuda.h"
#include "kernels/select/unique.h"
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
  sort.source = fmt::format("AlongAxis<{}, false>", type);
  sort.extent = sort.keep = p.n;
  sort.key_bytes = bits(p.type) == 64 ? 8 : 4;
  const kernels::AxisLines<void> lines{.inner = Divider(1), .extent = static_cast<uint32_t>(p.n)};
  sort.give = [lines](Launch& l) { l.args(lines, {{lines.x, {BufferRef::input, 0}}}); };
  const BufferRef items = sort.add_to(plan, "sort"), heads = plan.reserve(p.n * 4);

  Selection groups;
  groups.flag = fmt::format("BeginsGroup<{}>", sort.key());
  groups.put = "PutPlace";
  groups.give = [&](Launch& l) { l.at(items).at(heads); };
  groups.extent = p.n;
  groups.count = p.count;
  groups.add_to(plan, tiles, "group_");
  BufferRef order;
  if (!p.sorted) {
    const BufferRef group_of = plan.reserve(p.n * 4);
    order = plan.reserve(p.n * 4);
    plan.fill(group_of, p.n * 4, 0xff);
    const kernels::MarkFirstArgs<void> a{};
    const KernelEntry mark{"mark", std::to_string(block), fmt::format("MarkFirstArgs<{}>", sort.key()), "mark_first"};
    plan.launch(mark, blocks_of(p.n, block))
        .args(a, {{a.items, items}, {a.heads, heads}, {a.groups, {BufferRef::output, p.count}}, {a.group_of, group_of}});
    Selection firsts;
    firsts.flag = "IsFirst";
    firsts.put = "PutOrder";
    firsts.give = [&](Launch& l) { l.at(group_of).at(group_of).at(order); };
    firsts.extent = p.n;
    firsts.count = p.count;
    firsts.add_to(plan, tiles, "order_");
  }
  const kernels::EmitUniqueArgs<void, void> a{.n = static_cast<uint32_t>(p.n)};
  std::vector<TensorMember> tensors{
      {a.x, {BufferRef::input, 0}}, {a.items, items}, {a.heads, heads}, {a.groups, {BufferRef::output, p.count}}};
  if (!p.sorted) tensors.emplace_back(a.order, order);
  if (p.wanted[0]) tensors.emplace_back(a.y, BufferRef{BufferRef::output, 0});
  if (p.wanted[1]) tensors.emplace_back(a.first, BufferRef{BufferRef::output, 1});
  if (p.wanted[2]) tensors.emplace_back(a.inverse, BufferRef{BufferRef::output, 2});
  if (p.wanted[3]) tensors.emplace_back(a.counts, BufferRef{BufferRef::output, 3});
  const KernelEntry emit{"emit", std::to_string(block), fmt::format("EmitUniqueArgs<{}, {}>", type, sort.key()), "emit_unique"};
  plan.launch(emit, blocks_of(p.n, block)).args(a, tensors);
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
