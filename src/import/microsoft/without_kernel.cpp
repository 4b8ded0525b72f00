// Operators of ONNX that have a kernel on the processor alone, in others that have one on a GPU too.
#include <numeric>

#include "import/microsoft/heads.h"

namespace smelt::importer::microsoft {
namespace {

constexpr auto onnx_f32 = onnx::TensorProto::FLOAT;

Name cast(Call& c, const Name& x, int32_t to) { return c.before("Cast", {x}, {MakeAttribute("to", int64_t{to})}); }

/// Input 0 in f32, where it is narrower.
Name widened(Call& c) {
  const int32_t type = c.element_type(0);
  return type == onnx::TensorProto::FLOAT16 || type == onnx::TensorProto::BFLOAT16 ? cast(c, c.input(0), onnx_f32) : c.input(0);
}

/// The call becomes y in the element type of its input 0.
void become_narrowed(Call& c, const Name& y, const Name& wide) {
  if (wide == c.input(0)) return c.become("Identity", {y});
  c.become("Cast", {y}, {MakeAttribute("to", int64_t{c.element_type(0)})});
}

/// |x| to the power p, and its inverse of sums.
struct Powers {
  Powers(Call& call, const Name& wide)
      : c(call), p(call.integer("p", 2)), type(wide == call.input(0) ? call.element_type(0) : int32_t{onnx_f32}) {}
  Name of(const Name& x) const {
    if (p == 2) return c.before("Mul", {x, x});
    const Name size = c.before("Abs", {x});
    return p == 1 ? size : c.before("Pow", {size, c.scalar(type, static_cast<double>(p))});
  }
  Name root(const Name& x) const {
    if (p == 1) return x;
    return p == 2 ? c.before("Sqrt", {x}) : c.before("Pow", {x, c.scalar(type, 1 / static_cast<double>(p))});
  }
  Call& c;
  int64_t p;
  int32_t type;
};

std::vector<int64_t> of_axes(const Call& c, const char* attribute, size_t count, int64_t otherwise) {
  return c.integers(attribute).value_or(std::vector<int64_t>(count, otherwise));
}

}  // namespace

bool takes_lp_pool(const Call& c) {
  const std::string pads = c.text("auto_pad", "NOTSET");
  return c.integers("kernel_shape") && c.integer("ceil_mode", 0) == 0 && c.integer("p", 2) > 0 &&
         (pads == "NOTSET" || pads == "VALID");
}

// The mean of a window with its padding, times the window's pixels.
void lp_pool(Call& c) {
  const Name x = widened(c);
  const Powers power(c, x);
  std::vector<onnx::AttributeProto> attributes{MakeAttribute("count_include_pad", int64_t{1})};
  for (const auto& a : c.node.attribute())
    if (a.name() != "p") attributes.push_back(a);
  const std::vector<int64_t> window = c.integers("kernel_shape").value_or(std::vector<int64_t>{});
  const auto pixels =
      std::accumulate(window.begin(), window.end(), 1.0, [](double n, int64_t k) { return n * static_cast<double>(k); });
  const Name mean = c.before("AveragePool", {power.of(x)}, attributes);
  become_narrowed(c, power.root(c.before("Mul", {mean, c.scalar(power.type, pixels)})), x);
}

bool takes_global_lp_pool(const Call& c) { return c.shape(0) && c.shape(0)->dim_size() > 2 && c.integer("p", 2) > 0; }

void global_lp_pool(Call& c) {
  const Name x = widened(c);
  const Powers power(c, x);
  std::vector<int64_t> axes(static_cast<size_t>(c.rank(0) - 2));
  std::iota(axes.begin(), axes.end(), 2);
  become_narrowed(c, power.root(c.before("ReduceSum", {power.of(x), c.constant(axes)})), x);
}

bool takes_max_unpool(const Call& c) { return c.shape(0) && c.shape(0)->dim_size() > 2 && c.integers("kernel_shape"); }

// x, indices in the tensor that was pooled, its shape?
void max_unpool(Call& c) {
  const auto axes = static_cast<size_t>(c.rank(0) - 2);
  const std::vector<int64_t> window = c.integers("kernel_shape").value_or(std::vector<int64_t>{}),
                             strides = of_axes(c, "strides", axes, 1), pads = of_axes(c, "pads", 2 * axes, 0);
  std::vector<int64_t> more(axes);
  for (size_t a = 0; a < axes; ++a) more[a] = window[a] - pads[a] - pads[a + axes] - strides[a];
  const Name outer = c.before("Shape", {c.input(0)}, {MakeAttribute("start", int64_t{0}), MakeAttribute("end", int64_t{2})});
  const Name inner = c.before("Shape", {c.input(0)}, {MakeAttribute("start", int64_t{2})});
  const Name pooled = c.before("Add", {c.before("Mul", {inner, c.constant(strides)}), c.constant(more)});
  const Name shape = c.before("Concat", {outer, pooled}, {MakeAttribute("axis", int64_t{0})});
  const Name count = c.before("ReduceProd", {shape}, {MakeAttribute("keepdims", int64_t{1})});
  const Name zeros = c.before("Expand", {c.scalar(c.element_type(0), 0), count});
  const Name flat = c.constant({-1});
  const Name y =
      c.before("ScatterElements", {zeros, c.before("Reshape", {c.input(1), flat}), c.before("Reshape", {c.input(0), flat})},
               {MakeAttribute("axis", int64_t{0})});
  if (!c.has(2)) return c.become("Reshape", {y, shape});
  // What is larger keeps it in its first corner.
  const Name ends = c.before("Sub", {c.input(2), shape});
  const Name begins = c.constant(std::vector<int64_t>(axes + 2, 0));
  c.become("Pad", {c.before("Reshape", {y, shape}), c.before("Concat", {begins, ends}, {MakeAttribute("axis", int64_t{0})})});
}

bool takes_bernoulli(const Call&) { return true; }

// A number from 0 to 1 is less than x. (ONNX's function body has Greater, which gives 1 - x.)
void bernoulli(Call& c) {
  const Name x = widened(c);
  const int32_t type = x == c.input(0) ? c.element_type(0) : int32_t{onnx_f32};
  std::vector<onnx::AttributeProto> attributes{MakeAttribute("dtype", int64_t{type})};
  if (const auto* seed = find_attribute(c.node, "seed")) attributes.push_back(*seed);
  const Name drawn = c.before("RandomUniformLike", {x}, attributes);
  const int64_t to = c.integer("dtype", c.element_type(0));
  c.become("Cast", {c.before("Less", {drawn, x})}, {MakeAttribute("to", to)});
}

bool takes_multinomial(const Call& c) { return find_attribute(c.node, "seed") == nullptr; }

// Of each row of logarithms so many classes: how many of the cumulative shares a number from 0 to 1 reaches.
void multinomial(Call& c) {
  const int64_t samples = c.integer("sample_size", 1), to = c.integer("dtype", onnx::TensorProto::INT32);
  const Name x = c.element_type(0) == onnx_f32 ? c.input(0) : cast(c, c.input(0), onnx_f32);
  const Name shares =
      c.before("CumSum", {c.before("Softmax", {x}, {MakeAttribute("axis", int64_t{1})}), c.scalar(onnx::TensorProto::INT64, 1)});
  const Name rows = c.before("Concat", {extent_of(c, x, 0), c.constant({samples})}, {MakeAttribute("axis", int64_t{0})});
  const Name drawn = c.before("RandomUniformLike", {c.before("Expand", {c.scalar(onnx_f32, 0), rows})},
                              {MakeAttribute("dtype", int64_t{onnx_f32})});
  const Name reached = c.before("LessOrEqual", {unsqueeze(c, shares, {1}), unsqueeze(c, drawn, {2})});
  const Name counts = c.before("ReduceSum", {cast(c, reached, onnx::TensorProto::INT64), c.constant({2})},
                               {MakeAttribute("keepdims", int64_t{0})});
  const Name last = c.before("Sub", {extent_of(c, x, 1), c.constant({1})});
  c.become("Cast", {c.before("Min", {counts, last})}, {MakeAttribute("to", to)});
}

bool takes_matmul_integer(const Call& c) {
  return c.element_type(0) == onnx::TensorProto::INT8 && c.element_type(1) == onnx::TensorProto::UINT8;
}

// a (i8), b (u8), a_zero?, b_zero?: b and its zero point less 128, which fit 8 bits with a sign.
void matmul_integer(Call& c) {
  const auto less_128 = [&](const Name& x) {
    const Name wide = cast(c, x, onnx::TensorProto::INT32);
    return cast(c, c.before("Sub", {wide, c.scalar(onnx::TensorProto::INT32, 128)}), onnx::TensorProto::INT8);
  };
  const Name zero = c.has(3) ? less_128(c.input(3)) : c.scalar(onnx::TensorProto::INT8, -128);
  const Name b = less_128(c.input(1));
  c.become("MatMulInteger", {c.input(0), b, c.input(2), zero});
}

}  // namespace smelt::importer::microsoft
