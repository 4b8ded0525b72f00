// Gather, GatherElements, GatherND, ScatterElements, ScatterND and TensorScatter on a GPU (src/kernels/movement). An index
// outside of its axis, which the processor refuses, reads zeros here and is not written to.
#include "ops/gather/cuda_gather.h"
#include "ops/gather/offer.h"

#include <algorithm>

#include "base/error.h"
#include "expr/cuda.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/strided_copy.h"

namespace smelt::ops {
namespace {

struct NdShape {
  int64_t batches = 1, rows = 1, depth = 1, width = 1;
  std::vector<int64_t> places;  // NdPlaces: batch, extents, strides, in slices
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

std::vector<std::byte> bytes_of(const std::vector<int64_t>& v) {
  const auto* p = reinterpret_cast<const std::byte*>(v.data());
  return {p, p + v.size() * sizeof(int64_t)};
}

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
    // A depth of 0 names all of x.
    const auto depth = std::max<int64_t>(1, nd.depth);
    std::vector<int64_t> places = nd.places;
    if (nd.depth == 0) places = {1, 1, 0};
    r.type = fmt::format("AtNd<{}, {}>", type, depth);
    r.parameters = fmt::format("const {}* index, Divider rows, const NdPlaces<{}> places", type, depth);
    r.members = "index, rows, places";
    if (nd.depth == 0) r.parameters.clear();  // rejected by the caller
    r.give = [rows = Divider(static_cast<uint32_t>(std::max<int64_t>(1, nd.rows))), places](Launch& l) {
      l.input(1).value(rows).bytes(bytes_of(places));
    };
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
  r.type = fmt::format("AtElement<{}, {}>", type, one.extents.size());
  r.parameters = fmt::format("const {}* index, i64 extent, i64 step, const Walk<{}, 1> elsewhere", type, one.extents.size());
  r.members = "index, extent, step, elsewhere";
  r.give = [extent = x[axis], step, walk = WalkArgument(one, 1)](Launch& l) { l.input(1).value(extent).value(step).value(walk); };
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
    const std::string type(expr::cuda_type(b.inputs[1].type));
    move.map = RowMap(fmt::format("Gather<{}>", type));
    move.map.pointer(type, {BufferRef::input, 1, 0}).divider(count).number(x[axis]).number(move.width);
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
    move.map = RowMap("Placed");
    const bool given = b.inputs.size() > 2 && b.inputs[2].type != DType::undefined;
    if (given && b.inputs[2].type != DType::i64)
      return offer.refuse("cuda", Reason::wrong_type, "places of {}", smelt::name(b.inputs[2].type));
    if (given)
      move.map.pointer("i64", {BufferRef::input, 2, 0});
    else
      move.map.null("i64");
    move.map.divider(update[axis]).divider(outer / std::max<int64_t>(1, x[0])).number(x[axis]).number(move.width);
    move.map.flag(n.get_string("mode", "linear") == "circular");
    move.widen(alignment_of(b, 1), move.width);
    const int64_t bytes = elements(x) * move.bytes;
    return offer_row_move(move, "tensor_scatter", *machine.gpu, offer, [bytes](LaunchPlan& plan) {
      plan.copy({BufferRef::input, 0, 0}, {BufferRef::output, 0, 0}, bytes);
    });
  }
  if (elements(x) == 0 && elements(b.outputs[0].shape) > 0)
    return offer.refuse("cuda", Reason::wrong_shape, "nothing to gather from");
  const IndexedRows rows = indexed_rows(b);
  if (rows.parameters.empty()) return offer.refuse("cuda", Reason::wrong_shape, "indices of no axes");
  move.rows = rows.rows, move.width = rows.width;
  move.widen(alignment_of(b, 0), rows.width);
  if (move.too_large())
    return offer.refuse("cuda", Reason::too_large, "{} rows of {} elements; it counts to 2^31 accesses", move.rows, move.width);
  move.map = RowMap(fmt::format("Gathered<{}>", rows.type));
  move.map.number(rows.width).nested(rows.type, rows.parameters, rows.members, rows.give);
  offer_row_move(move, "gather", *machine.gpu, offer);
}

}  // namespace smelt::ops
