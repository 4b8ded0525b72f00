// TopK on a GPU: each line sorted as far as it is wanted (src/kernels/sort/sort.cuh), in the reference's order.
#include <algorithm>

#include "base/error.h"
#include "expr/cuda.h"
#include "kernels/sort/sort.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cuda/source.h"
#include "ops/select/cuda_sort.h"
#include "ops/select/offer.h"

namespace smelt::ops {
namespace {

constexpr unsigned block = 256;

struct TopK {
  LineSort sort;
  kernels::AxisLines<void> lines;
  std::string type;  // of the elements
  bool largest;
  bool wanted[2];  // outputs
};

std::unique_ptr<Kernel> top_k(const TopK& p, const Gpu& gpu) {
  LaunchPlan plan("top_k", "#include \"sort/sort.cuh\"\n");
  const LineSort& sort = p.sort;
  const int64_t n = sort.tile(), k = sort.keep;
  if (k == 0 || sort.lines == 0) return launched(std::move(plan), gpu);
  const kernels::TopKArgs<void, void> a{
      .lines = p.lines, .k = Divider(static_cast<uint32_t>(k)), .count = static_cast<uint32_t>(sort.lines * k)};
  std::vector<TensorMember> tensors{{a.lines.x, {BufferRef::input, 0}}};
  if (p.wanted[0]) tensors.emplace_back(a.values, BufferRef{BufferRef::output, 0});
  if (p.wanted[1]) tensors.emplace_back(a.places, BufferRef{BufferRef::output, 1});
  const std::string arguments = fmt::format("TopKArgs<{}, {}>", p.type, sort.key());
  if (sort.tiles() == 1) {
    const unsigned threads = LineSort::threads(n);
    const KernelEntry of_tiles{"top_k", std::to_string(threads), arguments,
                               fmt::format("top_k_of_tiles<{}, {}, {}>", n, threads, p.largest)};
    plan.launch(of_tiles, {.grid = {sort.lines, 1, 1}, .block = {threads, 1, 1}}).args(a, tensors);
    return launched(std::move(plan), gpu);
  }
  tensors.emplace_back(a.items, sort.add_to(plan, "sort"));
  const KernelEntry emit{"emit", std::to_string(block), arguments, fmt::format("top_k_of_sorted<{}>", block)};
  plan.launch(emit, blocks_of(sort.lines * k, block)).args(a, tensors);
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
  TopK p;
  p.type = expr::cuda_type(x.type);
  p.largest = largest;
  for (size_t o = 0; o < 2; ++o) p.wanted[o] = o < b.outputs.size() && b.outputs[o].type != DType::undefined;
  p.lines.inner = Divider(static_cast<uint32_t>(std::max<int64_t>(1, v.inner)));
  p.lines.extent = static_cast<uint32_t>(v.extent);
  LineSort& sort = p.sort;
  sort.source = fmt::format("AlongAxis<{}, {}>", p.type, largest);
  sort.lines = v.outer * v.inner, sort.extent = v.extent, sort.keep = y.shape[static_cast<size_t>(axis)];
  sort.key_bytes = bits(x.type) == 64 ? 8 : 4;
  sort.give = [a = p.lines](Launch& l) { l.args(a, {{a.x, {BufferRef::input, 0}}}); };
  if (sort.lines * sort.extent >= int64_t{1} << 31)
    return offer.refuse("cuda", Reason::too_large, "{} elements; it counts to 2^31", sort.lines * sort.extent);
  const double moved = static_cast<double>(storage_bytes(x));
  offer.candidates.push_back(
      {"cuda", "bitonic", 10 + gpu_estimate_us(*machine.gpu, 4 * moved), [p, gpu = machine.gpu] { return top_k(p, *gpu); }});
}

}  // namespace smelt::ops
