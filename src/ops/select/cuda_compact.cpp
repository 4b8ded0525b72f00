// NonZero and Compress on a GPU (src/kernels/select/compact.cuh): how many results there are is counted there (ops/core/data_dependent.h).
#include <algorithm>
#include <numeric>

#include "base/error.h"
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
  const auto entry = [&](const char* name, unsigned threads, const std::string& parameters_, const std::string& call) {
    plan.source += entry_of_text(prefix + name, threads, parameters_, call + ";");
  };
  const auto n = static_cast<uint32_t>(extent);
  if (!tiles) {
    entry("select", lone_block, parameters + ", u32 extent, i64* count",
          fmt::format("select_block<{}>({}, {}, extent, count)", lone_block, flag, put));
    Launch& l = plan.launch(prefix + "select", blocks_of(1, lone_block));
    give(l);
    l.value(n).output(count);
    return;
  }
  entry("count", block, parameters + ", u32 extent, u32* counts",
        fmt::format("select_count<{}, {}>({}, extent, counts)", block, tile, flag));
  entry("scan", lone_block, "u32* counts, u32 tiles", fmt::format("select_scan<{}>(counts, tiles)", lone_block));
  entry("put", block, parameters + ", u32 extent, const u32* counts, i64* count",
        fmt::format("select_put<{}, {}>({}, {}, extent, counts, count)", block, tile, flag, put));
  const int64_t blocks = (extent + tile - 1) / tile;
  const BufferRef counts = plan.reserve((blocks + 1) * 4);
  Launch& first = plan.launch(prefix + "count", blocks_of(blocks * block, block));
  give(first);
  first.value(n).at(counts);
  plan.launch(prefix + "scan", blocks_of(1, lone_block)).at(counts).value(static_cast<uint32_t>(blocks));
  Launch& last = plan.launch(prefix + "put", blocks_of(blocks * block, block));
  give(last);
  last.value(n).at(counts).output(count);
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
  s.parameters = fmt::format("const {}* x, i64* y, const __grid_constant__ Extents<{}> extents", word_of(size), rank);
  s.flag = fmt::format("HasBits<{0}, static_cast<{0}>({1:#x}ull)>{{x}}", word_of(size), mask);
  s.put = fmt::format("PutIndices<{}>{{y, extents}}", rank);
  s.extent = elements(x.shape);
  s.give = [shape = x.shape](Launch& l) {
    std::vector<std::byte> extents;
    for (const int64_t e : shape) {
      const Divider d(static_cast<uint32_t>(e));
      const auto* p = reinterpret_cast<const std::byte*>(&d);
      extents.insert(extents.end(), p, p + sizeof d);
    }
    l.input(0).output(0).bytes(std::move(extents));
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
  s.flag = "HasBits<u8, 0xff>{flags}";
  const double moved = static_cast<double>(storage_bytes(x) + storage_bytes(b.outputs[0])) + 6.0 * flags;
  if (elements_alone) {
    s.parameters = fmt::format("const u8* flags, const {0}* x, {0}* y", word_of(row));
    s.put = fmt::format("PutElement<{}>{{x, y}}", word_of(row));
    s.give = [](Launch& l) { l.input(1).input(0).output(0); };
    return offer_selection(flags, moved, *gpu, offer, [s, gpu](bool tiles) {
      LaunchPlan plan("compress", include);
      s.add_to(plan, tiles);
      return launched(std::move(plan), *gpu);
    });
  }
  s.parameters = "const u8* flags, u32* ranks";
  s.put = "PutRank{ranks}";
  offer_selection(flags, moved, *gpu, offer, [s, gpu, v, row, unit, flags](bool tiles) mutable {
    LaunchPlan plan("compress", include);
    const BufferRef ranks = plan.reserve(int64_t{4} * flags);
    s.give = [ranks](Launch& l) { l.input(1).at(ranks); };
    s.add_to(plan, tiles);
    plan.source += entry_of_text(
        "copy", block,
        fmt::format("const {0}* x, const u8* flag, const u32* ranks, const i64* count, {0}* y, u32 units, Divider row, "
                    "Divider extent, u32 flags",
                    word_of(unit)),
        "copy_flagged(x, flag, ranks, count, y, units, row, extent, flags);");
    const int64_t units = v.outer * v.extent * (row / unit);
    plan.launch("copy", blocks_of(units, block))
        .input(0)
        .input(1)
        .at(ranks)
        .output(1)
        .output(0)
        .value(static_cast<uint32_t>(units))
        .value(Divider(static_cast<uint32_t>(row / unit)))
        .value(Divider(static_cast<uint32_t>(v.extent)))
        .value(flags);
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
