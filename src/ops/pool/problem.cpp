#include "ops/pool/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ops/core/key.h"
#include "ops/core/strides.h"

namespace smelt::ops::pool {
namespace {

constexpr std::array<std::string_view, 3> kinds = {"max", "mean", "mean-inside"};

/// True when the node averages over exactly the axes behind the channels, and keeps them. `dequantized`: what its program does
/// first.
bool reduces_space(const BoundNode& b, std::optional<integer::DequantizeStep>& dequantized) {
  const int64_t rank = static_cast<int64_t>(b.inputs[0].shape.size());
  std::vector<int64_t> axes;
  if (b.node->is("Reduce", smelt_domain)) {
    if (b.node->get_string("kind", "") != "mean" || b.inputs.size() != 1) return false;
    axes = b.node->get_ints("axes");
    const auto is_copy = [](const expr::Program& p) {
      return p.input_count() == 1 && p.operations() == 0 && p.outputs() == std::vector<expr::Ref>{0};
    };
    if (b.node->program && !is_copy(*b.node->program)) {
      const expr::Program& p = *b.node->program;
      if (p.outputs().size() == 1) dequantized = integer::as_dequantize_step(p, p.outputs()[0]);
      if (!dequantized || dequantized->q != 0) return false;
    }
    if (b.node->has("post") && !is_copy(expr::Program::parse(b.node->get_string("post", "")))) return false;
  } else {
    if (b.inputs.size() > 1 && b.inputs[1].type != DType::undefined) {
      if (!b.inputs[1].constant.valid()) return false;
      axes = b.inputs[1].constant.to_ints();
    } else {
      axes = b.node->get_ints("axes");
    }
  }
  for (int64_t& a : axes) a = normalize_axis(a, rank);
  std::ranges::sort(axes);
  std::vector<int64_t> want;
  for (int64_t a = 2; a < rank; ++a) want.push_back(a);
  return axes == want && b.outputs[0].shape.size() == b.inputs[0].shape.size();
}

}  // namespace

std::string print(const Problem& p) {
  const Window& w = p.window;
  return Key("pool")
      .field(kinds[static_cast<size_t>(p.kind)])
      .field(p.type)
      .field(p.x)
      .field("k")
      .option("", w.kernel)
      .option("s", w.stride)
      .option("p", w.pad_begin)
      .option("-", w.pad_end)
      .option("d", w.dilation)
      .to(spatial_of(p.y))
      .field(p.from)
      .option(">", p.to, p.from)
      .text();
}

Problem as_volume(const Problem& p) {
  Problem v = p;
  const size_t missing = 5 - p.x.size();
  const auto lead = [&](Shape& s, size_t at, int64_t value) {
    s.insert(s.begin() + static_cast<std::ptrdiff_t>(at), missing, value);
  };
  lead(v.x, 2, 1), lead(v.y, 2, 1);
  for (Shape* s : {&v.window.kernel, &v.window.stride, &v.window.dilation}) lead(*s, 0, 1);
  for (Shape* s : {&v.window.pad_begin, &v.window.pad_end}) lead(*s, 0, 0);
  return v;
}

Shape volume_steps(const BoundTensor& image) {
  Shape s = memory_strides(image);
  s.erase(s.begin() + 1);
  s.insert(s.begin() + 1, 4 - s.size(), 0);
  return s;
}

Result<Problem> problem(const BoundNode& b) {
  const Node& node = *b.node;
  Problem p;
  p.type = b.inputs[0].type;
  p.x = b.inputs[0].shape;
  p.y = b.outputs[0].shape;
  p.from = b.inputs[0].layout;
  p.to = b.outputs[0].layout;
  const size_t axes = p.x.size() < 3 ? 0 : p.x.size() - 2;
  const Shape grid = spatial_of(p.x);
  if (axes == 0) return refuse(Reason::wrong_rank, "no spatial axes");
  if (node.op == "MaxPool" || node.op == "AveragePool") {
    if (b.outputs.size() > 1 && b.outputs[1].type != DType::undefined)
      return refuse(Reason::unsupported, "the indices are asked for");
    p.window = window_of(node, kernel_shape(node, axes), grid);
    p.kind = node.op == "MaxPool" ? Kind::max : node.get_int("count_include_pad", 0) != 0 ? Kind::mean : Kind::mean_inside;
    if (p.kind == Kind::mean && node.get_int("ceil_mode", 0) != 0)
      return refuse(Reason::wrong_attribute, "padding counted, with windows that may end behind it");
    return p;
  }
  if ((node.op == "ReduceMean" || node.op == "Reduce") && !reduces_space(b, p.dequantized))
    return refuse(Reason::wrong_axis, "not a mean over the spatial axes, kept");
  p.kind = node.op == "GlobalMaxPool" ? Kind::max : Kind::mean_inside;
  p.window = {grid, Shape(axes, 1), Shape(axes, 1), Shape(axes, 0), Shape(axes, 0)};
  return p;
}

}  // namespace smelt::ops::pool
