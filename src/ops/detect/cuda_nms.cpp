// NonMaxSuppression on a GPU (src/kernels/detect/nms.cuh): scores sorted line by line, a block a line, what was taken gathered.
#include <algorithm>

#include "base/error.h"
#include "ops/core/data_dependent.h"
#include "ops/core/strides.h"
#include "ops/cuda/source.h"
#include "ops/detect/offer.h"
#include "ops/select/cuda_sort.h"

namespace smelt::ops {
namespace {

constexpr unsigned block = 256;

struct Nms {
  int64_t lines = 0, classes = 0, count = 0, keep = 0;
  bool near = false;  // candidates sorted alone, and compared in shared memory
  bool centered = false, limit = false, threshold = false, lowest = false;  // the inputs that are there
};

void optional_input(Launch& l, size_t i, bool given) {
  if (given)
    l.input(i);
  else
    l.value(uint64_t{0});
}

constexpr int64_t most_of_a_block = 1 << 14;  // boxes of a line whose candidates one block sorts

/// Adds the sorting of every line's candidates; returns where [lines, count] items lie.
BufferRef add_sorting(LaunchPlan& plan, const Nms& p) {
  const auto count = static_cast<uint32_t>(p.count);
  const auto give = [&](Launch& l) {
    l.input(1);
    optional_input(l, 4, p.lowest);
    l.value(count);
  };
  LineSort sort;
  sort.source_type = "ByScore";
  sort.parameters = "const float* scores, const float* lowest, u32 boxes";
  sort.members = "scores, lowest, boxes";
  sort.give = give;
  sort.lines = p.lines, sort.extent = p.count, sort.keep = p.count;
  if (!p.near) return sort.add_to(plan, "sort");
  const auto threads = static_cast<unsigned>(std::clamp<int64_t>(sort.tile() / 4, 32, 1024));
  plan.source += entry_of_text(
      "sort", threads, fmt::format("{}, Item<u32>* sorted, Item<u32>* spare", sort.parameters),
      fmt::format("sort_candidates<{}, {}, {}>(ByScore{{{}}}, sorted, spare);", threads, sort.tile(), block, sort.members));
  const int64_t bytes = p.lines * p.count * sort.item_bytes();
  const BufferRef sorted = plan.reserve(bytes), spare = plan.reserve(bytes);
  Launch& l = plan.launch("sort", blocks_of(p.lines * threads, threads));
  give(l);
  l.at(sorted).at(spare);
  return sorted;
}

std::unique_ptr<Kernel> nms(const Nms& p, const Gpu& gpu) {
  LaunchPlan plan("nms", "#include \"detect/nms.cuh\"\n");
  const auto count = static_cast<uint32_t>(p.count), classes = static_cast<uint32_t>(p.classes),
             keep = static_cast<uint32_t>(p.keep);
  const BufferRef sorted = add_sorting(plan, p);
  const BufferRef corners = plan.reserve(p.lines * p.keep * 16), taken = plan.reserve(p.lines * p.keep * 4),
                  counts = plan.reserve(p.lines * 4);
  plan.source += entry_of_text(
      "take", block,
      "const float* boxes, const Item<u32>* sorted, const i64* limit, const float* threshold, Corners* corners, u32* taken, "
      "u32* counts, u32 count, u32 classes, u32 keep",
      fmt::format("suppress<{}, {}, {}>(boxes, sorted, limit, threshold, corners, taken, counts, count, classes, keep);",
                  p.centered, p.near, block));
  plan.source += entry_of_text("emit", block, "const u32* taken, const u32* counts, i64* y, i64* found, u32 classes, u32 keep",
                               "emit_taken(taken, counts, y, found, classes, keep);");
  Launch& take = plan.launch("take", blocks_of(p.lines * block, block));
  take.input(0).at(sorted);
  optional_input(take, 2, p.limit);
  optional_input(take, 3, p.threshold);
  take.at(corners).at(taken).at(counts).value(count).value(classes).value(keep);
  Launch& emit = plan.launch("emit", blocks_of(p.lines * block, block));
  emit.at(taken).at(counts).output(0).output(1).value(classes).value(keep);
  return launched(std::move(plan), gpu);
}

}  // namespace

void offer_nms_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (!is_bound_at_most(b))
    return offer.refuse("cuda", Reason::not_constant, "its output's shape is known, its count is not asked for");
  for (const BoundTensor& t : b.inputs)
    if (t.type != DType::undefined && (t.layout != Layout::plain || !is_dense(t)))
      return offer.refuse("cuda", Reason::wrong_layout, "tensors that are not dense and row-major");
  const Shape& scores = b.inputs[1].shape;
  const auto given = [&](size_t i) { return i < b.inputs.size() && b.inputs[i].type != DType::undefined; };
  Nms p;
  p.classes = scores[1], p.lines = scores[0] * scores[1], p.count = scores[2];
  p.keep = b.outputs[0].shape[0] / p.lines;
  p.centered = b.node->get_int("center_point_box", 0) != 0;
  p.limit = given(2), p.threshold = given(3), p.lowest = given(4);
  const double moved = static_cast<double>(6 * storage_bytes(b.inputs[1]) + storage_bytes(b.outputs[0]));
  const double estimate = 30 + gpu_estimate_us(*machine.gpu, moved);
  offer.candidates.push_back({"cuda", "queue", estimate, [p, gpu = machine.gpu] { return nms(p, *gpu); }});
  if (p.count > most_of_a_block) return;
  p.near = true;
  offer.candidates.push_back({"cuda", "queue near", estimate, [p, gpu = machine.gpu] { return nms(p, *gpu); }});
}

}  // namespace smelt::ops
