// NonZero and Compress on a GPU (src/kernels/select/compact.cuh): how many results there are is counted there (ops/core/data_dependent.h).
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "kernels/select/compact.h"
#include "ops/core/data_dependent.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cuda/source.h"
#include "ops/select/cuda_compact.h"
#include "ops/select/offer.h"

namespace smelt::ops {
namespace {

constexpr unsigned block = 256;
constexpr int64_t tile = 4096;
constexpr unsigned lone_block = 1024;
constexpr int64_t most_of_one_block = 1 << 16, least_of_tiles = 1 << 12;

}  // namespace

void Selection::add_to(LaunchPlan& plan, bool tiles, const std::string& prefix) const {
  const std::string arguments = fmt::format("SelectArgs<{}, {}>", flag, put);
  const auto launch = [&](const char* name, int64_t blocks, unsigned threads, const std::string& body, const BufferRef* counts,
                          uint32_t counted) {
    const kernels::Places a{.extent = static_cast<uint32_t>(extent), .tiles = counted};
    std::vector<TensorMember> tensors{{a.count, {BufferRef::output, count}}};
    if (counts) tensors.emplace_back(a.counts, *counts);
    const KernelEntry entry{prefix + name, std::to_string(threads), arguments, body};
    give(plan.launch(entry, blocks_of(blocks * threads, threads)).args(a, tensors));
  };
  if (!tiles) return launch("select", 1, lone_block, fmt::format("select_block<{}>", lone_block), nullptr, 1);
  const int64_t blocks = (extent + tile - 1) / tile;
  const auto counted = static_cast<uint32_t>(blocks);
  const BufferRef counts = plan.reserve((blocks + 1) * 4);
  launch("count", blocks, block, fmt::format("select_count<{}, {}>", block, tile), &counts, counted);
  launch("scan", 1, lone_block, fmt::format("select_scan<{}>", lone_block), &counts, counted);
  launch("put", blocks, block, fmt::format("select_put<{}, {}>", block, tile), &counts, counted);
}

void offer_selection(int64_t extent, double moved, const Gpu& gpu, Offer& offer,
                     const std::function<std::unique_ptr<Kernel>(bool)>& make, double more_us) {
  if (extent <= most_of_one_block)
    offer.candidates.push_back(
        {"cuda", "block", more_us + 4 + static_cast<double>(extent) * 2e-4, [make] { return make(false); }});
  if (extent > least_of_tiles)
    offer.candidates.push_back({"cuda", "tiles", more_us + 6 + gpu_estimate_us(gpu, moved), [make] { return make(true); }});
}

namespace {

constexpr const char* include = "#include \"select/compact.cuh\"\n";

std::string_view word_of(int64_t bytes) {
  switch (bytes) {
    case 1: return "u8";
    case 2: return "u16";
    case 4: return "u32";
    case 8: return "u64";
    default: return "Vector<u32, 4>";
  }
}

void offer_non_zero(const BoundNode& b, const std::shared_ptr<const Gpu>& gpu, Offer& offer) {
  const BoundTensor& x = b.inputs[0];
  const int64_t size = bytes(x.type, 1);
  const uint64_t all = ~uint64_t{0} >> (64 - 8 * size), mask = is_float(x.type) ? all >> 1 : all;
  Selection s;
  const size_t rank = x.shape.size();
  s.flag = fmt::format("HasBits<{0}, static_cast<{0}>({1:#x}ull)>", word_of(size), mask);
  s.put = fmt::format("PutIndices<{}>", rank);
  s.extent = elements(x.shape);
  s.give = [shape = x.shape](Launch& l) {
    l.input(0).output(0);
    for (const int64_t e : shape) l.value(Divider(static_cast<uint32_t>(e)));
  };
  const int64_t moved_bytes = 2 * storage_bytes(x) + storage_bytes(b.outputs[0]) / 2;
  const auto moved = static_cast<double>(moved_bytes);
  offer_selection(s.extent, moved, *gpu, offer, [s, gpu](bool tiles) {
    LaunchPlan plan("non_zero", include);
    s.add_to(plan, tiles);
    return launched(std::move(plan), *gpu);
  });
}

void offer_compress(const BoundNode& b, const std::shared_ptr<const Gpu>& gpu, Offer& offer) {
  const BoundTensor& x = b.inputs[0];
  const AxisView v = b.node->has("axis")
                         ? around_axis(x.shape, normalize_axis(b.node->get_int("axis", 0), static_cast<int64_t>(x.shape.size())))
                         : AxisView{1, elements(x.shape), 1};
  const int64_t row = v.inner * bytes(x.type, 1);
  const auto flags = static_cast<uint32_t>(std::min(v.extent, b.inputs[1].shape[0]));
  const bool elements_alone = v.outer == 1 && v.inner == 1;
  // What one access moves.
  const int64_t unit = std::gcd(std::gcd(row, int64_t{16}), std::gcd(x.alignment, b.outputs[0].alignment));
  Selection s;
  s.extent = flags;
  s.flag = "HasBits<u8, 0xff>";
  const double moved = static_cast<double>(storage_bytes(x) + storage_bytes(b.outputs[0])) + 6.0 * flags;
  if (elements_alone) {
    s.put = fmt::format("PutElement<{}>", word_of(row));
    s.give = [](Launch& l) { l.input(1).input(0).output(0); };
    return offer_selection(flags, moved, *gpu, offer, [s, gpu](bool tiles) {
      LaunchPlan plan("compress", include);
      s.add_to(plan, tiles);
      return launched(std::move(plan), *gpu);
    });
  }
  s.put = "PutRank";
  offer_selection(flags, moved, *gpu, offer, [s, gpu, v, row, unit, flags](bool tiles) mutable {
    LaunchPlan plan("compress", include);
    const BufferRef ranks = plan.reserve(int64_t{4} * flags);
    s.give = [ranks](Launch& l) { l.input(1).at(ranks); };
    s.add_to(plan, tiles);
    const int64_t units = v.outer * v.extent * (row / unit);
    const kernels::CopyFlaggedArgs<void> a{.row = Divider(static_cast<uint32_t>(row / unit)),
                                           .extent = Divider(static_cast<uint32_t>(v.extent)),
                                           .units = static_cast<uint32_t>(units),
                                           .flags = flags};
    const KernelEntry copy{"copy", std::to_string(block), fmt::format("CopyFlaggedArgs<{}>", word_of(unit)), "copy_flagged"};
    plan.launch(copy, blocks_of(units, block))
        .args(a, {{a.x, {BufferRef::input, 0}},
                  {a.flag, {BufferRef::input, 1}},
                  {a.ranks, ranks},
                  {a.count, {BufferRef::output, 1}},
                  {a.y, {BufferRef::output, 0}}});
    return launched(std::move(plan), *gpu);
  });
}

}  // namespace

void offer_compact_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (!is_bound_at_most(b))
    return offer.refuse("cuda", Reason::not_constant, "its outputs' shapes are known, its count is not asked for");
  if (const auto why = rejects_layouts(b)) return offer.refuse("cuda", *why);
  if (b.node->op == "NonZero")
    offer_non_zero(b, machine.gpu, offer);
  else
    offer_compress(b, machine.gpu, offer);
}

}  // namespace smelt::ops
