#include "ops/movement/cuda_strided_copy.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/number.h"
#include "expr/cuda.h"
#include "kernels/movement/transpose.h"
#include "ops/cpu/strided_copy.h"
#include "ops/cuda/gpu.h"
#include "ops/cuda/source.h"
#include "ops/cuda/walk.h"
#include "ops/pointwise/problem.h"

namespace smelt::ops {
namespace {

/// Unsigned integers of so many bytes, whatever they stand for.
DType integer_of(int64_t size) { return size == 1 ? DType::u8 : size == 2 ? DType::u16 : size == 4 ? DType::u32 : DType::u64; }

/// One move in the output's order, `width` elements at a time: the pointwise program that returns its input.
std::unique_ptr<Kernel> walk_copy(const StridedMove& m, int64_t bytes, int64_t width, int64_t alignment_in, int64_t alignment_out,
                                  const Gpu& gpu) {
  PointwiseProblem p;
  p.program.output(p.program.input(integer_of(bytes)));
  p.shape = m.extents;
  p.strides = {m.from, m.to};
  p.alignments = {alignment_in, alignment_out};
  p.present = {0};
  return pointwise_cuda(p, width, gpu);
}

/// One move through tiles.
class TileCopy final : public CompiledKernel {
 public:
  struct Split {
    Views planes;
    int64_t rows, columns, from_row, to_column;
  };
  TileCopy(const Split& s, int64_t bytes, int64_t alignment_in, int64_t alignment_out, const Gpu& gpu)
      : CompiledKernel(gpu, {"copy:tile", source(s, bytes, alignment_in, alignment_out), {}}, "copy"),
        side_(kernels::transpose_side(static_cast<int>(bytes))),
        walk_(s.planes, 1),
        planes_{.from_row = s.from_row,
                .to_column = s.to_column,
                .rows = static_cast<uint32_t>(s.rows),
                .columns = static_cast<uint32_t>(s.columns)} {}

  void run(const Buffers& b) override {
    Arguments arguments;
    planes_.from = b.inputs[0];
    planes_.to = b.outputs[0];
    arguments.value(planes_).bytes(walk_.data(), walk_.size());
    const device::cuda::LaunchShape shape{
        .grid = {divide_up(planes_.columns, side_), divide_up(planes_.rows, side_), std::min<int64_t>(walk_.chunks(), 65535)},
        .block = {32, 8, 1}};
    launch(b, shape, arguments);
  }
  /// The axes that are contiguous on either side, where they differ and are long enough for tiles; the others are planes.
  static std::optional<Split> split(const Views& v) {
    const auto contiguous = [&](size_t view) {
      for (size_t a = 0; a < v.extents.size(); ++a)
        if (v.strides[view][a] == 1 && v.extents[a] > 1) return a;
      return v.extents.size();
    };
    const size_t column = contiguous(0), row = contiguous(1), rank = v.extents.size();
    if (column == row || column == rank || row == rank || v.extents[column] < 8 || v.extents[row] < 8) return std::nullopt;
    if ((v.extents[row] + 31) / 32 > 65535) return std::nullopt;
    Shape planes;
    std::vector<Shape> strides(2);
    for (size_t a = 0; a < rank; ++a) {
      if (a == column || a == row) continue;
      planes.push_back(v.extents[a]);
      for (size_t k = 0; k < 2; ++k) strides[k].push_back(v.strides[k][a]);
    }
    return Split{merged(planes, strides, 1), v.extents[row], v.extents[column], v.strides[0][row], v.strides[1][column]};
  }

 private:
  /// Elements of the widest vector at which every row (of view 0; of view 1 every column) begins.
  static int64_t vector(const Split& s, size_t view, int64_t step, int64_t bytes, int64_t alignment) {
    Shape strides = s.planes.strides[view];
    strides.push_back(step);
    strides.push_back(1);
    int64_t width = 16 / bytes;
    while (width > 1 && access_step(strides, bytes, alignment, width) != 1) width /= 2;
    return width;
  }
  static std::string source(const Split& s, int64_t bytes, int64_t alignment_in, int64_t alignment_out) {
    const auto rank = static_cast<int>(s.planes.extents.size());
    const std::string type(expr::cuda_type(integer_of(bytes)));
    const KernelEntry copy{"copy", "256, 4", fmt::format("TransposeArgs<{}, {}>", type, rank),
                           fmt::format("transpose<{}, {}, {}, {}>", type, rank, vector(s, 0, s.from_row, bytes, alignment_in),
                                       vector(s, 1, s.to_column, bytes, alignment_out))};
    return "#include \"movement/transpose.cuh\"\n" + entry_source(copy, kernels::transpose_bytes(rank));
  }
  int64_t side_;
  WalkArgument walk_;
  kernels::Planes<void> planes_;
};

/// All moves of a node.
class MovesKernel final : public Kernel {
 public:
  MovesKernel(const std::vector<StridedMove>& moves, int64_t bytes, int64_t width, bool tiles, int64_t alignment_in,
              const std::vector<int64_t>& alignments_out, const Gpu& gpu) {
    for (const StridedMove& m : moves) {
      if (elements(m.extents) == 0) continue;
      Part part{m.offset * bytes, m.output, nullptr};
      int64_t aligned = alignment_in;  // the window begins where the offset says
      while (aligned > 1 && part.offset % aligned != 0) aligned /= 2;
      if (const auto split = tiles ? TileCopy::split(merged(m.extents, {m.from, m.to}, 1)) : std::nullopt) {
        part.kernel = std::make_unique<TileCopy>(*split, bytes, aligned, alignments_out[m.output], gpu);
      } else {
        part.kernel = walk_copy(m, bytes, width, aligned, alignments_out[m.output], gpu);
      }
      parts_.push_back(std::move(part));
    }
  }

  void run(const Buffers& b) override {
    for (const Part& p : parts_) {
      const void* from = static_cast<const char*>(b.inputs[0]) + p.offset;
      p.kernel->run({{&from, 1}, b.outputs.subspan(p.output, 1), nullptr, b.stream});
    }
  }

 private:
  struct Part {
    int64_t offset;  // bytes
    size_t output;
    std::unique_ptr<Kernel> kernel;
  };
  std::vector<Part> parts_;
};

}  // namespace

void offer_moves_cuda(const BoundNode& b, std::vector<StridedMove> moves, const Gpu& gpu, Offer& offer) {
  const int64_t bytes = element_bytes(b.inputs[0].type);
  if (!StridedCopy::can_move(bytes))
    return offer.refuse("cuda", Reason::wrong_type, "elements of {}", smelt::name(b.inputs[0].type));
  double moved = 0;
  bool tiles = false, fits = true;
  int64_t widest = 1;
  for (const StridedMove& m : moves) {
    if (elements(m.extents) == 0) continue;
    const Views views = merged(m.extents, {m.from, m.to}, 1);
    moved += 2.0 * static_cast<double>(elements(m.extents) * bytes);
    tiles = tiles || TileCopy::split(views).has_value();
    fits = fits && WalkArgument::fits(views, 1);
    if (views.strides[0].back() == 1 || views.strides[0].back() == 0)
      widest = std::max(widest, std::min<int64_t>(16 / bytes, std::max<int64_t>(1, views.extents.back())));
  }
  if (!fits) return offer.refuse("cuda", Reason::too_large, "{} elements; it counts to 2^31", elements(b.outputs[0].shape));
  std::vector<int64_t> alignments;
  for (const BoundTensor& y : b.outputs) alignments.push_back(y.alignment);
  const auto add = [&](const std::string& config, int64_t width, bool through_tiles, double factor) {
    offer.candidates.push_back({"cuda", config, gpu_estimate_us(gpu, moved * factor),
                                [moves, bytes, width, through_tiles, in = b.inputs[0].alignment, alignments, &gpu] {
                                  return std::make_unique<MovesKernel>(moves, bytes, width, through_tiles, in, alignments, gpu);
                                }});
  };
  if (tiles) add("tile", 1, true, 1.2);
  int64_t width = 1;
  while (width * 2 <= widest) width *= 2;
  for (; width >= 1; width /= 2)
    add(fmt::format("walk w{}", width), width, false, tiles ? 4 : 1 + 0.01 / static_cast<double>(width));
}

}  // namespace smelt::ops
