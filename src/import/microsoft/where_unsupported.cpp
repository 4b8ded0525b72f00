// Operators that run by kernels of their own where there are any (on the processor), and in ONNX's operators elsewhere (on a GPU).
#include "import/microsoft/heads.h"

namespace smelt::importer::microsoft {
namespace {

Name as_float(Call& c, const Name& x) { return c.before("Cast", {x}, {MakeAttribute("to", int64_t{onnx::TensorProto::FLOAT})}); }

/// The parts of a product of integers: "" where left out.
struct Integers {
  Name a, b, a_scale, b_scale, a_zero, b_zero, bias;
};

/// The call becomes (a - a_zero)(b - b_zero) * a_scale * b_scale + bias, in f32, then in the type `to`.
void become_scaled_product(Call& c, const Integers& p, int32_t to) {
  std::vector<Name> operands{p.a, p.b, p.a_zero, p.b_zero};
  while (operands.back().empty()) operands.pop_back();
  const bool real = to == onnx::TensorProto::FLOAT;
  const auto wide = [&](const Name& x) { return real || x.empty() ? x : as_float(c, x); };
  const Name sums = as_float(c, c.before("MatMulInteger", operands));
  const std::vector<Name> scaled{sums, c.before("Mul", {wide(p.a_scale), wide(p.b_scale)})};
  if (real && p.bias.empty()) return c.become("Mul", scaled);
  const Name y = c.before("Mul", scaled);
  if (real) return c.become("Add", {y, p.bias});
  c.become("Cast", {sum(c, y, wide(p.bias))}, {MakeAttribute("to", int64_t{to})});
}

/// A scale for each row of a matrix as a column of them; one number stays as it is.
Name by_row(Call& c, int input) {
  const auto* s = c.shape(input);
  const bool rows = s && s->dim_size() == 1 && c.extent(input, 0) != int64_t{1};
  return rows ? unsqueeze(c, c.input(input), {1}) : c.input(input);
}

}  // namespace

bool takes_matmul_integer_to_float(const Call& c) { return c.shape(2) != nullptr; }

// a, b, a_scale, b_scale, a_zero?, b_zero?, bias?
void matmul_integer_to_float(Call& c) {
  become_scaled_product(c, {c.input(0), c.input(1), by_row(c, 2), c.input(3), c.input(4), c.input(5), c.input(6)},
                        c.element_type(2));
}

bool takes_dynamic_quantize_matmul(const Call&) { return true; }

// a (f32), b, b_scale, b_zero?, bias?
void dynamic_quantize_matmul(Call& c) {
  const auto a = c.several("DynamicQuantizeLinear", {c.input(0)}, 3);
  become_scaled_product(c, {a[0], c.input(1), a[1], c.input(2), a[2], c.input(3), c.input(4)}, onnx::TensorProto::FLOAT);
}

namespace {

/// ONNX's num_heads for x [batch, steps, heads * size], which the caches may say; nothing where that is not known.
std::optional<int64_t> heads_of(const Call& c) {
  const int64_t heads = c.integer("num_heads", 0);
  if (heads > 0) return heads;
  const auto width = c.extent(0, 2), half = c.extent(2, -1);
  if (c.integer("rotary_embedding_dim", 0) > 0 || !width || !half || *half < 1 || *width < 2 * *half) return {};
  return *width / (2 * *half);
}

}  // namespace

bool takes_rotary_embedding(const Call& c) {
  const auto* x = c.shape(0);
  if (!x || c.integer("is_packed_batching", 0) != 0) return false;
  return x->dim_size() == 4 || (x->dim_size() == 3 && heads_of(c));
}

// x, position_ids, cos_cache, sin_cache: ONNX's, whose positions are those of every token
void rotary_embedding(Call& c) {
  std::vector<onnx::AttributeProto> attributes{MakeAttribute("interleaved", c.integer("interleaved", 0))};
  const int64_t rotated = c.integer("rotary_embedding_dim", 0);
  if (rotated > 0) attributes.push_back(MakeAttribute("rotary_embedding_dim", rotated));
  if (c.rank(0) == 3) attributes.push_back(MakeAttribute("num_heads", heads_of(c).value_or(0)));
  Name positions_of = c.input(1);
  const auto* given = c.shape(1);
  if (!given || given->dim_size() != 2) {  // the first token's; a rank that only the run knows: where there is one
    const Name batch = extent_of(c, c.input(0), 0),
               steps = c.before("Shape", {c.input(0)}, {MakeAttribute("start", int64_t{-2}), MakeAttribute("end", int64_t{-1})});
    Name behind = positions(c, steps);
    if (!given) {
      const Name single = c.before("Equal", {c.before("Size", {c.input(1)}), c.scalar(onnx::TensorProto::INT64, 1)});
      behind = c.before("Mul", {behind, c.before("Cast", {single}, {MakeAttribute("to", int64_t{onnx::TensorProto::INT64})})});
    }
    const Name all = c.before("Add", {behind, c.input(1)});
    positions_of = c.before("Expand", {all, c.before("Concat", {batch, steps}, {MakeAttribute("axis", int64_t{0})})});
  }
  const float by = c.number("scale", 1);
  const auto cache = [&](int i) {
    return by == 1 ? c.input(i) : c.before("Mul", {c.input(i), c.score_scalar(static_cast<double>(by))});
  };
  const Name cos = cache(2), sin = cache(3);
  c.become("RotaryEmbedding", {c.input(0), cos, sin, positions_of}, attributes);
}

}  // namespace smelt::importer::microsoft
