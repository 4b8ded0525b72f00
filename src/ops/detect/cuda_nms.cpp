// NonMaxSuppression on a GPU (src/kernels/detect/nms.cuh): scores sorted line by line, a block a line, what was taken gathered.
#include <algorithm>

#include "base/error.h"
#include "kernels/detect/nms.h"
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

constexpr int64_t most_of_a_block = 1 << 14;  // boxes of a line whose candidates one block sorts

/// Adds the sorting of every line's candidates; returns where [lines, count] items lie.
BufferRef add_sorting(LaunchPlan& plan, const Nms& p) {
  const kernels::BoxScores scores{.count = static_cast<uint32_t>(p.count)};
  LineSort sort;
  sort.source = "ByScore";
  sort.give = [&](Launch& l) {
    std::vector<TensorMember> tensors{{scores.scores, {BufferRef::input, 1}}};
    if (p.lowest) tensors.emplace_back(scores.lowest, BufferRef{BufferRef::input, 4});
    l.args(scores, tensors);
  };
  sort.lines = p.lines, sort.extent = p.count, sort.keep = p.count;
  if (!p.near) return sort.add_to(plan, "sort");
  const auto threads = static_cast<unsigned>(std::clamp<int64_t>(sort.tile() / 4, 32, 1024));
  const KernelEntry candidates{"sort", std::to_string(threads), "CandidatesArgs",
                               fmt::format("sort_candidates<{}, {}, {}>", threads, sort.tile(), block)};
  const int64_t bytes = p.lines * p.count * sort.item_bytes();
  const BufferRef sorted = plan.reserve(bytes), spare = plan.reserve(bytes);
  const kernels::CandidatesArgs a{.scores = scores};
  std::vector<TensorMember> tensors{{a.scores.scores, {BufferRef::input, 1}}, {a.sorted, sorted}, {a.spare, spare}};
  if (p.lowest) tensors.emplace_back(a.scores.lowest, BufferRef{BufferRef::input, 4});
  plan.launch(candidates, blocks_of(p.lines * threads, threads)).args(a, tensors);
  return sorted;
}

std::unique_ptr<Kernel> nms(const Nms& p, const Gpu& gpu) {
  LaunchPlan plan("nms", "#include \"detect/nms.cuh\"\n");
  const BufferRef sorted = add_sorting(plan, p);
  const BufferRef corners = plan.reserve(p.lines * p.keep * 16), taken = plan.reserve(p.lines * p.keep * 4),
                  counts = plan.reserve(p.lines * 4);
  const kernels::SuppressArgs a{.count = static_cast<uint32_t>(p.count),
                                .classes = static_cast<uint32_t>(p.classes),
                                .keep = static_cast<uint32_t>(p.keep)};
  std::vector<TensorMember> tensors{
      {a.boxes, {BufferRef::input, 0}}, {a.sorted, sorted}, {a.corners, corners}, {a.taken, taken}, {a.counts, counts}};
  if (p.limit) tensors.emplace_back(a.limit, BufferRef{BufferRef::input, 2});
  if (p.threshold) tensors.emplace_back(a.threshold, BufferRef{BufferRef::input, 3});
  const KernelEntry take{"take", std::to_string(block), "SuppressArgs",
                         fmt::format("suppress<{}, {}, {}>", p.centered, p.near, block)};
  plan.launch(take, blocks_of(p.lines * block, block)).args(a, tensors);
  const kernels::EmitTakenArgs e{.classes = a.classes, .keep = a.keep};
  plan.launch({"emit", std::to_string(block), "EmitTakenArgs", "emit_taken"}, blocks_of(p.lines * block, block))
      .args(e, {{e.taken, taken}, {e.counts, counts}, {e.y, {BufferRef::output, 0}}, {e.found, {BufferRef::output, 1}}});
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
