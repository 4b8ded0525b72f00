#include "import/microsoft/heads.h"

#include <cmath>

namespace smelt::importer::microsoft {

Name split_heads(Call& c, const Name& x, int64_t heads) {
  const Name apart = c.before("Reshape", {x, c.constant({0, 0, heads, -1})});
  return c.before("Transpose", {apart}, {MakeAttribute("perm", std::vector<int64_t>{0, 2, 1, 3})});
}

Name extent_of(Call& c, const Name& x, int64_t i) {
  return c.before("Shape", {x}, {MakeAttribute("start", i), MakeAttribute("end", i + 1)});
}

Name positions(Call& c, const Name& length) {
  const Name zero = c.scalar(onnx::TensorProto::INT64, 0), one = c.scalar(onnx::TensorProto::INT64, 1);
  return c.before("Range", {zero, c.before("Squeeze", {length, c.constant({0})}), one});
}

Name at(Call& c, const Name& x, int64_t axis, int64_t index) {
  return c.before("Gather", {x, c.scalar(onnx::TensorProto::INT64, static_cast<double>(index))}, {MakeAttribute("axis", axis)});
}

Name unsqueeze(Call& c, const Name& x, const std::vector<int64_t>& axes) { return c.before("Unsqueeze", {x, c.constant(axes)}); }

Name additive(Call& c, const Name& allowed, double otherwise) {
  return c.before("Where", {allowed, c.score_scalar(0), c.score_scalar(otherwise)});
}

Name sum(Call& c, const Name& a, const Name& b) { return a.empty() ? b : b.empty() ? a : c.before("Add", {a, b}); }

namespace {

bool same_extent(const onnx::TensorShapeProto& a, const onnx::TensorShapeProto& b) {
  return a.dim(0).has_dim_value() ? b.dim(0).has_dim_value() && a.dim(0).dim_value() == b.dim(0).dim_value()
                                  : a.dim(0).has_dim_param() && a.dim(0).dim_param() == b.dim(0).dim_param();
}

/// Which keys a mask of int32 allows, as booleans that broadcast to the scores.
Name allowed_keys(Call& c, int i, const Name& k) {
  const Name mask = c.input(i);
  const auto visible = [&] { return c.before("Greater", {mask, c.scalar(c.element_type(i), 0)}); };
  switch (c.rank(i)) {
    case 1: break;
    case 2: return unsqueeze(c, visible(), {1, 2});
    case 3: return unsqueeze(c, visible(), {1});
    default: c.refuse("its mask '{}' has rank {}, expected 1 to 3", mask, c.rank(i));
  }
  // Lengths [B], or the ends and then the starts [2 * B].
  const auto *lengths = c.shape(i), *input = c.shape(0);
  const auto number = c.extent(i, 0), batch = c.extent(0, 0);
  const Name at_key = positions(c, extent_of(c, k, 2));
  const Name wide = c.before("Cast", {mask}, {MakeAttribute("to", int64_t{onnx::TensorProto::INT64})});
  if (input && input->dim_size() > 0 && same_extent(*lengths, *input))
    return c.before("Less", {at_key, c.before("Reshape", {wide, c.constant({-1, 1, 1, 1})})});
  if (number && batch && *number != 2 * *batch)
    c.refuse("its mask '{}' has {} elements for a batch of {}, expected one or two for each", mask, *number, *batch);
  // Where there are no starts, zeros behind the ends are.
  const Name size = extent_of(c, k, 0), twice = c.before("Add", {size, size});
  const Name zeros = c.before("Expand", {c.scalar(onnx::TensorProto::INT64, 0), size});
  const Name both = c.before("Concat", {wide, zeros}, {MakeAttribute("axis", int64_t{0})});
  const auto part = [&](const Name& from, const Name& to) {
    return unsqueeze(c, c.before("Slice", {both, from, to}), {1, 2, 3});
  };
  const Name end = part(c.constant({0}), size), start = part(size, twice);
  return c.before("And", {c.before("Less", {at_key, end}), c.before("GreaterOrEqual", {at_key, start})});
}

}  // namespace

Name added_to_scores(Call& c, const Masks& masks, const Name& q, const Name& k) {
  Name added;
  if (masks.index >= 0 && c.has(masks.index))
    added = additive(c, allowed_keys(c, masks.index, k), static_cast<double>(c.number("mask_filter_value", -10000)));
  if (masks.bias >= 0 && c.has(masks.bias)) added = sum(c, added, c.input(masks.bias));
  if (!masks.causal) return added;
  const Name queries = extent_of(c, q, 2), keys = extent_of(c, k, 2);
  const Name last = c.before("Add", {positions(c, queries), c.before("Sub", {keys, queries})});
  const Name seen = c.before("LessOrEqual", {positions(c, keys), unsqueeze(c, last, {1})});
  if (added.empty()) return additive(c, seen, c.lowest_score());
  return c.before("Where", {seen, added, c.score_scalar(c.lowest_score())});
}

Name scores(Call& c, const Name& q, const Name& k, std::optional<int64_t> size) {
  const Name products =
      c.before("MatMul", {q, c.before("Transpose", {k}, {MakeAttribute("perm", std::vector<int64_t>{0, 1, 3, 2})})});
  if (const float scale = c.number("scale", 0); scale != 0)
    return c.before("Mul", {products, c.score_scalar(static_cast<double>(scale))});
  if (size) return c.before("Mul", {products, c.score_scalar(1 / std::sqrt(static_cast<double>(*size)))});
  const Name depth = c.before("CastLike", {extent_of(c, q, 3), q});
  return c.before("Div", {products, c.before("Sqrt", {depth})});
}

void become_attention(Call& c, const Name& scores, const Name& v) {
  const Name weights = c.before("Softmax", {scores}, {MakeAttribute("axis", int64_t{-1})});
  const Name y =
      c.before("Transpose", {c.before("MatMul", {weights, v})}, {MakeAttribute("perm", std::vector<int64_t>{0, 2, 1, 3})});
  c.become("Reshape", {y, c.constant({0, 0, -1})});
}

}  // namespace smelt::importer::microsoft
