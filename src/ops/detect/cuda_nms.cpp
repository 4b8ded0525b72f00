// NonMaxSuppression on a GPU: scores sorted line by line, boxes taken, what was taken gathered. Boxes are taken by a block a line
// (src/kernels/detect/nms.cuh) or chunk by chunk by many blocks a line (src/kernels/detect/nms_chunks.cuh).
#include <algorithm>
#include <cmath>

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
  bool near = false;                                                        // candidates compared in shared memory
  bool alone = false;                                                       // candidates sorted alone, by a block a line
  bool centered = false, limit = false, threshold = false, lowest = false;  // the inputs that are there
  int64_t chunk = 0;                                                        // candidates of one, where many blocks share a line
};

constexpr int64_t most_of_a_block = 1 << 14;  // boxes of a line whose candidates one block sorts
constexpr int64_t most_of_a_tile = 1 << 12;   // … in one go

constexpr int64_t chunks[] = {512, 1024, 2048}, most_chunks = 512;
constexpr int64_t rows = 256, columns = 64;      // of the matrix of a chunk's candidates that a block tests
constexpr int64_t most_matrix_bytes = 16 << 20;  // or what the sorted candidates take, if that is more

int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t matrix_bytes(const Nms& p, int64_t chunk) { return p.lines * chunk * chunk / 8; }

/// Adds the sorting of every line's candidates; returns where [lines, count] items lie.
BufferRef add_sorting(LaunchPlan& plan, const Nms& p, const Gpu& gpu) {
  const kernels::BoxScores scores{.count = static_cast<uint32_t>(p.count)};
  LineSort sort;
  sort.source = "ByScore";
  sort.give = [&](Launch& l) {
    std::vector<TensorMember> tensors{{scores.scores, {BufferRef::input, 1}}};
    if (p.lowest) tensors.emplace_back(scores.lowest, BufferRef{BufferRef::input, 4});
    l.args(scores, tensors);
  };
  sort.lines = p.lines, sort.extent = p.count, sort.keep = p.count;
  if (p.chunk > 0) sort.blocks = gpu.info.multiprocessors;
  if (!p.alone) return sort.add_to(plan, "sort");
  sort.blocks = 1;
  const auto threads = static_cast<unsigned>(std::clamp<int64_t>(sort.tile() / 4, 32, 1024));
  // Behind the last candidate it marks as much as is looked at: a block of 256 more, or, of chunks, all of the line.
  const KernelEntry candidates{
      "sort", std::to_string(threads), "CandidatesArgs",
      fmt::format("sort_candidates<{}, {}, {}>", threads, sort.tile(), p.chunk > 0 ? most_of_a_tile : block)};
  const int64_t bytes = p.lines * p.count * sort.item_bytes();
  const BufferRef sorted = plan.reserve(bytes), spare = plan.reserve(bytes);
  const kernels::CandidatesArgs a{.scores = scores};
  std::vector<TensorMember> tensors{{a.scores.scores, {BufferRef::input, 1}}, {a.sorted, sorted}, {a.spare, spare}};
  if (p.lowest) tensors.emplace_back(a.scores.lowest, BufferRef{BufferRef::input, 4});
  plan.launch(candidates, blocks_of(p.lines * threads, threads)).args(a, tensors);
  return sorted;
}

/// The places of the inputs and buffers that both forms' arguments have.
template <class A> std::vector<TensorMember> tensors_of(const A& a, const Nms& p, const BufferRef& sorted, const BufferRef& taken,
                                                        const BufferRef& counts) {
  std::vector<TensorMember> tensors{{a.boxes, {BufferRef::input, 0}}, {a.sorted, sorted}, {a.taken, taken}, {a.counts, counts}};
  if (p.limit) tensors.emplace_back(a.limit, BufferRef{BufferRef::input, 2});
  if (p.threshold) tensors.emplace_back(a.threshold, BufferRef{BufferRef::input, 3});
  return tensors;
}

void add_lines(LaunchPlan& plan, const Nms& p, const BufferRef& sorted, const BufferRef& taken, const BufferRef& counts) {
  const kernels::SuppressArgs a{.count = static_cast<uint32_t>(p.count),
                                .classes = static_cast<uint32_t>(p.classes),
                                .keep = static_cast<uint32_t>(p.keep)};
  std::vector<TensorMember> tensors = tensors_of(a, p, sorted, taken, counts);
  tensors.emplace_back(a.corners, plan.reserve(p.lines * p.keep * 16));
  const KernelEntry take{"take", std::to_string(block), "SuppressArgs",
                         fmt::format("suppress<{}, {}, {}>", p.centered, p.near, block)};
  plan.launch(take, blocks_of(p.lines * block, block)).args(a, tensors);
}

void add_chunks(LaunchPlan& plan, const Nms& p, const Gpu& gpu, const BufferRef& sorted, const BufferRef& taken,
                const BufferRef& counts) {
  const int64_t words = p.chunk / 64;
  const BufferRef dead = plan.reserve(p.lines * p.chunk / 8), better = plan.reserve(matrix_bytes(p, p.chunk)),
                  beaten = plan.reserve(p.lines * words * words * 8);
  const auto threads = static_cast<unsigned>(words * 32);
  const KernelEntry test{"test", std::to_string(rows), "ChunkArgs", fmt::format("test_chunk<{}, {}>", p.centered, p.chunk)};
  const KernelEntry pick{"pick", std::to_string(threads), "ChunkArgs", fmt::format("pick_chunk<{}>", p.chunk)};
  const int64_t wanted = 8 * std::max(1, gpu.info.multiprocessors);  // blocks, of which a multiprocessor runs some side by side
  for (int64_t begin = 0; begin < p.count; begin += p.chunk) {
    const int64_t of_rows = over(std::min(p.chunk, p.count - begin), rows), before = std::min(begin, p.keep);
    const int64_t splits = std::min(over(before, rows), over(wanted, p.lines * of_rows));
    const int64_t against = of_rows * splits, own = rows / columns * of_rows * (of_rows + 1) / 2;
    const kernels::ChunkArgs a{.count = static_cast<uint32_t>(p.count),
                               .classes = static_cast<uint32_t>(p.classes),
                               .keep = static_cast<uint32_t>(p.keep),
                               .begin = static_cast<uint32_t>(begin),
                               .tasks = static_cast<uint32_t>(against + own),
                               .against = static_cast<uint32_t>(against),
                               .splits = static_cast<uint32_t>(splits)};
    std::vector<TensorMember> tensors = tensors_of(a, p, sorted, taken, counts);
    tensors.emplace_back(a.dead, dead), tensors.emplace_back(a.better, better), tensors.emplace_back(a.beaten, beaten);
    plan.launch(test, blocks_of(p.lines * (against + own) * rows, rows)).args(a, tensors);
    plan.launch(pick, blocks_of(p.lines * threads, threads)).args(a, tensors);
  }
}

std::unique_ptr<Kernel> nms(const Nms& p, const Gpu& gpu) {
  LaunchPlan plan("nms", fmt::format("#include \"detect/{}.cuh\"\n", p.chunk > 0 ? "nms_chunks" : "nms"));
  const BufferRef sorted = add_sorting(plan, p, gpu), taken = plan.reserve(p.lines * p.keep * 4),
                  counts = plan.reserve(p.lines * 4);
  if (p.chunk > 0)
    add_chunks(plan, p, gpu, sorted, taken, counts);
  else
    add_lines(plan, p, sorted, taken, counts);
  const int64_t parts = std::clamp<int64_t>(4 * gpu.info.multiprocessors / p.lines, 1, over(p.keep, 4 * block));
  const kernels::EmitTakenArgs e{
      .classes = static_cast<uint32_t>(p.classes), .keep = static_cast<uint32_t>(p.keep), .parts = static_cast<uint32_t>(parts)};
  plan.launch({"emit", std::to_string(block), "EmitTakenArgs", "emit_taken"}, blocks_of(p.lines * parts * block, block))
      .args(e, {{e.taken, taken}, {e.counts, counts}, {e.y, {BufferRef::output, 0}}, {e.found, {BufferRef::output, 1}}});
  return launched(std::move(plan), gpu);
}

/// Microseconds by which forms are ranked where none is measured. Few of the candidates are looked at where few boxes are kept, and the
/// boxes taken are as many as may be.
struct NmsCost {
  double lines, count, looked, taken, multiprocessors, clock;

  NmsCost(const Nms& p, const Gpu& gpu)
      : lines(static_cast<double>(p.lines)),
        count(static_cast<double>(p.count)),
        looked(static_cast<double>(std::min(p.count, 4 * p.keep + block))),
        taken(static_cast<double>(std::min(p.count, p.keep))),
        multiprocessors(std::max(1, gpu.info.multiprocessors)),
        clock(std::max(1, gpu.info.clock_mhz)) {}

  /// A block a line: 6 µs for 256 candidates, and what testing them against the boxes taken before costs one multiprocessor, by
  /// the times of one line of 6000 boxes (docs/measurements.md) and of 27000.
  double by_lines() const { return std::ceil(lines / multiprocessors) * looked / block * (6 + 0.058 * taken / 2 * 1755 / clock); }
  /// Many blocks a line: 3 µs for two launches, 4 more where they do something, and tests of pairs, 12 a clock and multiprocessor.
  double by_chunks(int64_t chunk) const {
    const auto size = static_cast<double>(chunk);
    return 3 * std::ceil(count / size) + 4 * std::ceil(looked / size) +
           lines * looked * (size + taken) / 2 / (12 * multiprocessors * clock);
  }
};

/// The chunk that costs least; 0 where there is none: its matrix takes more memory than is granted, or its launches are too many.
int64_t best_chunk(const Nms& p, const NmsCost& cost) {
  const int64_t granted = std::max(most_matrix_bytes, p.lines * p.count * 8);
  int64_t best = 0;
  for (const int64_t chunk : chunks) {
    if (matrix_bytes(p, chunk) > granted || over(p.count, chunk) > most_chunks) continue;
    if (best == 0 || cost.by_chunks(chunk) < cost.by_chunks(best)) best = chunk;
  }
  return best;
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
  const NmsCost cost(p, *machine.gpu);
  const double moved = static_cast<double>(6 * storage_bytes(b.inputs[1]) + storage_bytes(b.outputs[0]));
  const double others = 30 + gpu_estimate_us(*machine.gpu, moved);
  const auto add = [&](std::string config, double us, const Nms& form) {
    offer.candidates.push_back({"cuda", std::move(config), others + us, [form, gpu = machine.gpu] { return nms(form, *gpu); }});
  };
  // Of a limit that the run computes a measurement knows nothing, not even whether there is anything to take: the estimate decides.
  const int64_t chunk = best_chunk(p, cost);
  const bool measured = !p.limit || b.constant(2), shared = chunk > 0 && cost.by_chunks(chunk) < cost.by_lines();
  if (chunk > 0 && (measured || shared)) {
    Nms form = p;
    form.chunk = chunk, form.alone = p.count <= most_of_a_tile;
    add(fmt::format("chunks {}", chunk), cost.by_chunks(chunk), form);
  }
  if (!measured && shared) return;
  add("queue", cost.by_lines(), p);
  if (p.count > most_of_a_block) return;
  p.near = p.alone = true;
  add("queue near", cost.by_lines(), p);
}

}  // namespace smelt::ops
