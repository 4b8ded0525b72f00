// Gather, GatherElements, GatherND, ScatterElements, ScatterND and TensorScatter on a GPU (src/kernels/movement). An index
// outside of its axis, which the processor refuses, reads zeros here and is not written to.
#include "ops/gather/cuda_gather.h"
#include "ops/gather/offer.h"

#include <algorithm>

#include "base/error.h"
#include "expr/cuda.h"
#include "kernels/movement/rows.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/strided_copy.h"

namespace smelt::ops {
namespace {

struct NdShape {
  int64_t batches = 1, rows = 1, depth = 1, width = 1;
  std::vector<int64_t> places;  // AtNd's batch, extents, strides, in slices
};

NdShape nd_shape(const Shape& data, const Shape& index, size_t batch_dims) {
  NdShape n;
  n.depth = index.back();
  const size_t end = batch_dims + static_cast<size_t>(n.depth);
  for (size_t a = 0; a < batch_dims; ++a) n.batches *= data[a];
  for (size_t a = batch_dims; a + 1 < index.size(); ++a) n.rows *= index[a];
  for (size_t a = end; a < data.size(); ++a) n.width *= data[a];
  std::vector<int64_t> extents(data.begin() + static_cast<std::ptrdiff_t>(batch_dims),
                               data.begin() + static_cast<std::ptrdiff_t>(end));
  const Shape steps = strides(extents);
  n.places = {elements(extents)};
  n.places.insert(n.places.end(), extents.begin(), extents.end());
  n.places.insert(n.places.end(), steps.begin(), steps.end());
  return n;
}

/// For a map: of an extent that may be 0.
kernels::Divider divider(int64_t d) { return Divider(static_cast<uint32_t>(std::max<int64_t>(1, d))); }

int64_t alignment_of(const BoundNode& b, size_t input) { return std::min(b.inputs[input].alignment, b.outputs[0].alignment); }

}  // namespace

std::optional<Refusal> gather_rejects(const BoundNode& b) {
  if (auto why = rejects_layouts(b)) return why;
  const DType type = b.inputs[0].type;
  if (bits(type) < 8 || moved_type(element_bytes(type)).empty())
    return refuse(Reason::wrong_type, "elements of {}", smelt::name(type));
  const DType index = b.inputs[b.node->is("TensorScatter") ? 0 : 1].type;
  if (!b.node->is("TensorScatter") && index != DType::i64 && index != DType::i32)
    return refuse(Reason::wrong_type, "indices of {}", smelt::name(index));
  return std::nullopt;
}

IndexedRows indexed_rows(const BoundNode& b) {
  const Node& n = *b.node;
  const Shape &x = b.inputs[0].shape, &index = b.inputs[1].shape;
  const std::string type(expr::cuda_type(b.inputs[1].type));
  IndexedRows r;
  if (n.op.ends_with("ND")) {
    const NdShape nd = nd_shape(x, index, static_cast<size_t>(n.get_int("batch_dims", 0)));
    r.rows = nd.batches * nd.rows, r.width = nd.width, r.slots = elements(x) / std::max<int64_t>(1, nd.width);
    if (nd.depth == 0) return r;
    r.at = {fmt::format("AtNd<{}, {}>", type, nd.depth), [rows = divider(nd.rows), places = nd.places](Launch& l) {
              l.input(1);
              for (const int64_t p : places) l.value(p);
              l.value(rows).value(uint32_t{0});
            }};
    return r;
  }
  const auto axis = static_cast<size_t>(normalize_axis(n.get_int("axis", 0), static_cast<int64_t>(x.size())));
  Shape elsewhere = strides(x);
  const int64_t step = elsewhere[axis];
  elsewhere[axis] = 0;
  // Row-major over the index, whatever the strides: no axes are reordered.
  const Views views = merged(index, {elsewhere, strides(index)}, 1);
  const Views one{views.extents, {views.strides[0]}};
  r.rows = elements(index), r.width = 1, r.slots = elements(x);
  r.at = {fmt::format("AtElement<{}, {}>", type, one.extents.size()),
          [extent = x[axis], step, walk = WalkArgument(one, 1)](Launch& l) { l.input(1).value(extent).value(step).value(walk); }};
  return r;
}

void offer_gather_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = gather_rejects(b)) return offer.refuse("cuda", *why);
  const Node& n = *b.node;
  const Shape& x = b.inputs[0].shape;
  RowMove move;
  move.bytes = element_bytes(b.inputs[0].type);
  if (n.op == "Gather") {
    const auto axis = static_cast<size_t>(normalize_axis(n.get_int("axis", 0), static_cast<int64_t>(x.size())));
    const int64_t outer = elements(Shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(axis)));
    const int64_t count = elements(b.inputs[1].shape);
    move.width = elements(Shape(x.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.end()));
    move.rows = outer * count;
    const kernels::Gather<void> m{.extent = x[axis], .width = move.width, .count = divider(count)};
    move.map = {fmt::format("Gather<{}>", expr::cuda_type(b.inputs[1].type)), [m](Launch& l) {
                  l.args(m, {{m.index, {BufferRef::input, 1}}});
                }};
    move.widen(alignment_of(b, 0), move.width);
    return offer_row_move(move, "gather", *machine.gpu, offer);
  }
  if (n.op == "TensorScatter") {
    const auto axis = static_cast<size_t>(normalize_axis(n.get_int("axis", -2), static_cast<int64_t>(x.size())));
    const Shape& update = b.inputs[1].shape;
    const int64_t outer = elements(Shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(axis)));
    move.width = elements(Shape(x.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.end()));
    move.rows = outer * update[axis];
    move.from = {BufferRef::input, 1, 0};
    const bool given = b.inputs.size() > 2 && b.inputs[2].type != DType::undefined;
    if (given && b.inputs[2].type != DType::i64)
      return offer.refuse("cuda", Reason::wrong_type, "places of {}", smelt::name(b.inputs[2].type));
    const kernels::Placed m{.extent = x[axis],
                            .width = move.width,
                            .length = divider(update[axis]),
                            .samples = divider(outer / std::max<int64_t>(1, x[0])),
                            .circular = n.get_string("mode", "linear") == "circular"};
    move.map = {"Placed", [m, given](Launch& l) {
                  std::vector<TensorMember> tensors;
                  if (given) tensors.emplace_back(m.begin, BufferRef{BufferRef::input, 2});
                  l.args(m, tensors);
                }};
    move.widen(alignment_of(b, 1), move.width);
    const int64_t bytes = elements(x) * move.bytes;
    return offer_row_move(move, "tensor_scatter", *machine.gpu, offer, [bytes](LaunchPlan& plan) {
      plan.copy({BufferRef::input, 0, 0}, {BufferRef::output, 0, 0}, bytes);
    });
  }
  if (elements(x) == 0 && elements(b.outputs[0].shape) > 0)
    return offer.refuse("cuda", Reason::wrong_shape, "nothing to gather from");
  const IndexedRows rows = indexed_rows(b);
  if (rows.at.type.empty()) return offer.refuse("cuda", Reason::wrong_shape, "indices of no axes");
  move.rows = rows.rows, move.width = rows.width;
  move.widen(alignment_of(b, 0), rows.width);
  if (move.too_large())
    return offer.refuse("cuda", Reason::too_large, "{} rows of {} elements; it counts to 2^31 accesses", move.rows, move.width);
  move.map = {fmt::format("Gathered<{}>", rows.at.type), [rows](Launch& l) {
                l.value(rows.width);
                rows.at.give(l);
              }};
  offer_row_move(move, "gather", *machine.gpu, offer);
}

}  // namespace smelt::ops
