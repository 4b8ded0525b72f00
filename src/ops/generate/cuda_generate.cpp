// Trilu, EyeLike, OneHot, ConstantOfShape, Range, ReverseSequence, Tile, DepthToSpace and SpaceToDepth on a GPU.
#include <algorithm>

#include "base/error.h"
#include "expr/cuda.h"
#include "kernels/generate/range.h"
#include "kernels/movement/rows.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/strided_copy.h"
#include "ops/cuda/source.h"
#include "ops/generate/offer.h"
#include "ops/movement/cuda_rows.h"
#include "ops/movement/cuda_strided_copy.h"

namespace smelt::ops {
namespace {

/// For a map: of an extent that may be 0.
kernels::Divider divider(int64_t d) { return Divider(static_cast<uint32_t>(std::max<int64_t>(1, d))); }

RowMove single_elements(const BoundNode& b) {
  RowMove move;
  move.bytes = element_bytes(b.outputs[0].type);
  move.rows = elements(b.outputs[0].shape);
  return move;
}

void offer_trilu(const BoundNode& b, const Gpu& gpu, Offer& offer) {
  RowMove move = single_elements(b);
  const Shape& s = b.outputs[0].shape;
  const bool given = b.inputs.size() > 1 && b.inputs[1].type != DType::undefined;
  const bool read = given && !b.inputs[1].constant.valid();
  const kernels::Triangle<true> m{.number = given && !read ? b.inputs[1].constant.to_ints()[0] : 0,
                                  .columns = divider(s.back()),
                                  .rows = divider(s[s.size() - 2])};
  move.map = {fmt::format("Triangle<{}>", b.node->get_int("upper", 1) != 0), [m, read](Launch& l) {
                std::vector<TensorMember> tensors;
                if (read) tensors.emplace_back(m.diagonal, BufferRef{BufferRef::input, 1});
                l.args(m, tensors);
              }};
  offer_row_move(move, "trilu", gpu, offer);
}

void offer_eye(const BoundNode& b, const Gpu& gpu, Offer& offer) {
  RowMove move = single_elements(b);
  move.from = {BufferRef::table, 0, 0};
  const kernels::Diagonal m{.k = b.node->get_int("k", 0), .columns = divider(b.outputs[0].shape.back())};
  move.map = {"Diagonal", [m](Launch& l) { l.args(m); }};
  const std::vector<std::byte> one = element_of(Tensor::scalar(1.0).cast(b.outputs[0].type));
  offer_row_move(move, "eye", gpu, offer, [one](LaunchPlan& plan) { plan.table(one); });
}

void offer_one_hot(const BoundNode& b, const Gpu& gpu, Offer& offer) {
  RowMove move = single_elements(b);
  const DType index = b.inputs[0].type;
  if (!is_integer(index) && index != DType::f32 && index != DType::f64)
    return offer.refuse("cuda", Reason::wrong_type, "indices of {}", name(index));
  const Shape& s = b.outputs[0].shape;
  const AxisView v = around_axis(s, normalize_axis(b.node->get_int("axis", -1), static_cast<int64_t>(s.size())));
  move.from = {BufferRef::input, 2, 0};
  const kernels::OneHot<void> m{.inner = divider(v.inner), .depth = divider(v.extent)};
  move.map = {fmt::format("OneHot<{}>", expr::cuda_type(index)), [m](Launch& l) {
                l.args(m, {{m.index, {BufferRef::input, 0}}});
              }};
  offer_row_move(move, "one_hot", gpu, offer);
}

void offer_fill(const BoundNode& b, const Gpu& gpu, Offer& offer) {
  RowMove move = single_elements(b);
  if (b.node->has("value")) move.fill = element_of(b.node->get_tensor("value"));
  move.width = move.rows, move.rows = 1;
  constexpr int64_t most = int64_t{1} << 30;
  if (move.width > most) return offer.refuse("cuda", Reason::too_large, "{} elements; it counts to {}", move.width, most);
  move.map = {"Filled", [m = kernels::Filled{move.width}](Launch& l) { l.args(m); }};
  move.widen(b.outputs[0].alignment, 0);
  offer_row_move(move, "fill", gpu, offer);
}

void offer_reverse(const BoundNode& b, const Gpu& gpu, Offer& offer) {
  RowMove move = single_elements(b);
  const Shape& s = b.inputs[0].shape;
  if (b.inputs[1].type != DType::i64) return offer.refuse("cuda", Reason::wrong_type, "lengths of {}", name(b.inputs[1].type));
  move.rows = s[0] * s[1];
  move.width = elements(s) / std::max<int64_t>(1, move.rows);
  const bool batch_first = b.node->get_int("batch_axis", 1) == 0;
  const kernels::Reversed<true> m{
      .width = move.width, .second = divider(s[1]), .steps = static_cast<uint32_t>(s[batch_first ? 1 : 0])};
  move.map = {fmt::format("Reversed<{}>", batch_first), [m](Launch& l) { l.args(m, {{m.lengths, {BufferRef::input, 1}}}); }};
  move.widen(std::min(b.inputs[0].alignment, b.outputs[0].alignment), move.width);
  offer_row_move(move, "reverse", gpu, offer);
}

/// y[i] = start + i · delta, computed as the processor does: in float for f16 and bf16, in 64 bits for integers.
void offer_range(const BoundNode& b, const Gpu& gpu, Offer& offer) {
  const DType type = b.outputs[0].type;
  const bool narrow = type == DType::f16 || type == DType::bf16;
  if (!narrow && type != DType::f32 && type != DType::f64 && !is_integer(type))
    return offer.refuse("cuda", Reason::wrong_type, "elements of {}", name(type));
  const int64_t count = elements(b.outputs[0].shape);
  if (count >= int64_t{1} << 31) return offer.refuse("cuda", Reason::too_large, "{} elements; it counts to 2^31", count);
  const std::string_view wide = narrow || type == DType::f32 ? "float" : type == DType::f64 ? "double" : "i64";
  offer.candidates.push_back(
      {"cuda", "", 2, [type, wide, count, &gpu] {
         LaunchPlan plan("range", "#include \"generate/range.cuh\"\n");
         const kernels::RangeArgs<void> a{.count = static_cast<uint32_t>(count)};
         const KernelEntry range{"range", "range_threads", fmt::format("RangeArgs<{}>", expr::cuda_type(type)),
                                 fmt::format("range<{}>", wide)};
         if (count > 0)
           plan.launch(range, blocks_of(count, 256))
               .args(a, {{a.start, {BufferRef::input, 0}}, {a.delta, {BufferRef::input, 2}}, {a.y, {BufferRef::output, 0}}});
         return launched(std::move(plan), gpu);
       }});
}

/// In any layout, with any strides.
std::vector<StridedMove> moves_of(const BoundNode& b) {
  const Shape &x = b.inputs[0].shape, &y = b.outputs[0].shape;
  const Shape in = memory_strides(b.inputs[0]), out = memory_strides(b.outputs[0]);
  StridedMove m;
  if (b.node->op == "Tile") {
    for (size_t a = 0; a < x.size(); ++a) {
      m.extents.insert(m.extents.end(), {x[a] == 0 ? 0 : y[a] / x[a], x[a]});
      m.from.insert(m.from.end(), {0, in[a]});
      m.to.insert(m.to.end(), {out[a] * x[a], out[a]});
    }
    return {m};
  }
  const int64_t block = b.node->get_int("blocksize", 1);
  const bool depth_first = b.node->get_string("mode", "DCR") == "DCR", deep = b.node->op == "SpaceToDepth";
  // The deep side's channel is (row, column, channel), or (channel, row, column); the axes walked are n, c, h, row, w, column.
  const Shape &wide = deep ? x : y, &steps = deep ? in : out, &packed = deep ? out : in;
  const int64_t column = depth_first ? wide[1] : 1, row = column * block, channel = depth_first ? 1 : block * block;
  m.extents = {wide[0], wide[1], wide[2] / block, block, wide[3] / block, block};
  m.from = {steps[0], steps[1], steps[2] * block, steps[2], steps[3] * block, steps[3]};
  m.to = {packed[0], packed[1] * channel, packed[2], packed[1] * row, packed[3], packed[1] * column};
  if (!deep) std::swap(m.from, m.to);
  return {m};
}

}  // namespace

void offer_generate_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Gpu& gpu = *machine.gpu;
  const std::string& op = b.node->op;
  const bool moves = op == "Tile" || op == "DepthToSpace" || op == "SpaceToDepth";
  if (const auto why = rejects_layouts(b); why && !moves) return offer.refuse("cuda", *why);
  const DType type = b.outputs[0].type;
  if (bits(type) < 8 || moved_type(element_bytes(type)).empty())
    return offer.refuse("cuda", Reason::wrong_type, "elements of {}", name(type));
  if (op == "Trilu") return offer_trilu(b, gpu, offer);
  if (op == "EyeLike") return offer_eye(b, gpu, offer);
  if (op == "OneHot") return offer_one_hot(b, gpu, offer);
  if (op == "ConstantOfShape") return offer_fill(b, gpu, offer);
  if (op == "Range") return offer_range(b, gpu, offer);
  if (op == "ReverseSequence") return offer_reverse(b, gpu, offer);
  offer_moves_cuda(b, moves_of(b), gpu, offer);
}

}  // namespace smelt::ops
