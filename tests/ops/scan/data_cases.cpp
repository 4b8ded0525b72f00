// Element-wise operators, quantisation, casts, and moves of elements.
#include "ops/scan/data_cases.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "ops/conv/quantized_conv_case.h"
#include "ops/scan/endings.h"

namespace smelt::ops::scan {
namespace {

Shape shape(Choices& c, size_t least_rank = 0) {
  constexpr int64_t most = 20000;
  Shape s;
  const int64_t rank = c.between(static_cast<int64_t>(least_rank), 4);
  for (int64_t a = 0; a < rank; ++a) s.push_back(c.one_in(12) ? c.extent(3000) : c.extent(40));
  if (c.one_in(40) && rank > 0) s[0] = 0;
  while (elements(s) > most) {
    int64_t& largest = *std::ranges::max_element(s);
    largest = (largest + 1) / 2;
  }
  return s;
}

/// A shape that broadcasts to `s`.
Shape operand(Choices& c, Shape s) {
  for (int64_t& n : s)
    if (c.one_in(3)) n = 1;
  const int64_t without = c.one_in(3) ? c.between(0, static_cast<int64_t>(s.size())) : 0;
  s.erase(s.begin(), s.begin() + without);
  return s;
}

void begin(Choices& c, Case& k) {
  k.values = c.one_in(2) ? Values::real : Values::whole;
  k.draw(c);
}

constexpr auto any_type = {DType::f32, DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32,
                           DType::i64, DType::i8,  DType::u8,  DType::i16,  DType::u32};

/// Numbers that are odd for floats: NaN, infinities, -0 and the smallest ones among others.
std::function<Tensor(uint32_t)> odd(const std::function<Tensor(uint32_t)>& plain) {
  return [plain](uint32_t s) {
    const Tensor t = plain(s);
    Tensor wide = t.cast(DType::f64);
    constexpr double odd[] = {NAN, INFINITY, -INFINITY, -0.0, 1e-45, 3e38, -65504, 1e-7};
    std::mt19937 engine(s);
    for (double& v : wide.span<double>())
      if (engine() % 16 == 0) v = odd[engine() % 8];
    return wide.cast(t.type());
  };
}

}  // namespace

Case elementwise(Choices& c) {
  Case k;
  begin(c, k);
  struct Op {
    const char* name;
    int inputs;
    bool floats, exact;
  };
  const Op op = c.of<Op>(
      {{"Add", 2, false, true},      {"Sub", 2, false, true},     {"Mul", 2, false, true},       {"Div", 2, false, true},
       {"Max", 3, false, true},      {"Min", 3, false, true},     {"Relu", 1, true, true},       {"Abs", 1, false, true},
       {"Neg", 1, true, true},       {"Sqrt", 1, true, true},     {"Exp", 1, true, false},       {"Log", 1, true, false},
       {"Tanh", 1, true, false},     {"Sigmoid", 1, true, false}, {"Erf", 1, true, false},       {"Gelu", 1, true, false},
       {"Pow", 2, true, false},      {"Floor", 1, true, true},    {"Round", 1, true, true},      {"Sign", 1, false, true},
       {"Clip", 3, false, true},     {"PRelu", 2, true, true},    {"Where", 3, false, true},     {"Less", 2, false, true},
       {"Equal", 2, false, true},    {"Mod", 2, false, true},     {"HardSwish", 1, true, false}, {"Softplus", 1, true, false},
       {"LeakyRelu", 1, true, true}, {"Elu", 1, true, false},     {"Mish", 1, true, false},      {"IsNaN", 1, true, true},
       {"Sum", 3, true, true},       {"Mean", 3, true, false},    {"Sin", 1, true, false},       {"Reciprocal", 1, true, true}});
  DType type = c.of(any_type);
  const std::string name = op.name;
  if (op.floats && !is_float(type)) type = DType::f32;
  Node& n = k.trial.node;
  n.op = name, n.opset = 20;
  if (name == "Mod" && is_float(type)) n.attrs["fmod"] = int64_t{1};
  if (name == "HardSwish") k.values = Values::real;
  const Shape whole = shape(c);
  const bool sprinkled = is_float(type) && op.exact && c.one_in(3);
  for (int i = 0; i < op.inputs; ++i) {
    DType own = type;
    Shape s = i == 0 && name != "Where" ? whole : operand(c, whole);
    if (name == "Clip" && i > 0) s = {};
    if (name == "Where" && i == 0) own = DType::boolean;
    if (name == "PRelu" && i == 1 && c.one_in(2) && whole.size() == 4) s = {whole[1], 1, 1};
    std::function<Tensor(uint32_t)> fill = k.numbers(own, s);
    if (own == DType::boolean)
      fill = [s](uint32_t seed) { return random_tensor(DType::i32, s, seed, -1.9, 1.9).cast(DType::boolean); };
    if (name == "Log" || name == "Sqrt" || (name == "Pow" && i == 0))
      fill = [own, s](uint32_t seed) { return random_tensor(own, s, seed, 0.1, 9); };
    if ((name == "Div" || name == "Mod") && i == 1 && !is_float(own))
      fill = [own, s](uint32_t seed) { return random_tensor(own, s, seed, 1, 9.9); };
    if (sprinkled && own == type && name != "Mod") fill = odd(fill);
    k.add(fill, i > 0 && c.one_in(2));
  }
  if (!op.exact) k.units = 4, k.roundings = name == "Sin" || name == "Mean" ? 16 : 0;
  if (name == "Sum" && is_float(type)) k.units = 1, k.roundings = 4;
  if (sprinkled && name == "Sum") k.roundings = 0;
  if (!op.exact && k.roundings == 0) k.roundings = 4;
  k.results();
  if (c.one_in(6)) Case::widen(k.trial.bound.outputs[0], c.between(0, 5));
  if (c.one_in(6)) Case::widen(k.trial.bound.inputs[0], c.between(0, 5));
  return k;
}

Case region(Choices& c) {
  Case k;
  begin(c, k);
  const DType type = c.of({DType::f32, DType::f32, DType::f16, DType::bf16});
  Shape whole = shape(c, 1);
  const Ending e = ending(c, k, type, operand(c, whole), whole);
  Node& n = k.trial.node;
  n.domain = smelt_domain, n.op = "Pointwise";
  n.program = expr::Program::parse(e.program);
  k.add(k.numbers(DType::f32, whole), false);
  add_operands(k, e, Layout::plain);
  if (!e.exact) k.units = 4, k.roundings = 64;
  k.results();
  if (c.one_in(6)) Case::widen(k.trial.bound.outputs[0], c.between(0, 5));
  return k;
}

Case quantization(Choices& c) {
  Case k;
  begin(c, k);
  const std::string op = c.of({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Cast"});
  const DType byte = c.of({DType::u8, DType::i8});
  Node& n = k.trial.node;
  n.op = op;
  // Halves between two integers, which round to even, and numbers beyond the range.
  const auto halves = [](DType type, const Shape& s) {
    return [type, s](uint32_t seed) {
      Tensor t = random_tensor(DType::i32, s, seed, -400, 400).cast(DType::f64);
      for (double& v : t.span<double>()) v /= 4;
      return t.cast(type);
    };
  };
  if (op == "Cast") {
    const DType from = c.of(any_type), to = c.of(any_type);
    n.attrs["to"] = static_cast<int64_t>(to);
    const Shape s = shape(c);
    k.add(is_float(from) && c.one_in(2) ? std::function<Tensor(uint32_t)>(halves(from, s)) : k.numbers(from, s, -300, 300),
          false);
    k.results();
    return k;
  }
  if (op == "DynamicQuantizeLinear") {
    k.add(k.numbers(DType::f32, shape(c, 1), -50, 60), false);
    n.outputs = {static_cast<ValueId>(101), static_cast<ValueId>(102), static_cast<ValueId>(103)};
    k.results();
    return k;
  }
  n.opset = 21;
  const Shape s = shape(c, 1);
  const size_t axis = static_cast<size_t>(c.below(static_cast<int64_t>(s.size())));
  const bool by_axis = c.one_in(2);
  n.attrs["axis"] = static_cast<int64_t>(axis);
  const DType type = c.of({DType::f32, DType::f16});
  op[0] == 'Q' ? k.add(c.one_in(2) ? std::function<Tensor(uint32_t)>(halves(type, s)) : k.numbers(type, s, -200, 200), false)
               : k.add(k.numbers(byte, s), false);
  const Shape of = by_axis ? Shape{s[axis]} : Shape{};
  const bool small_floats = op[0] == 'Q' && c.one_in(5);
  k.add(by_axis ? random_tensor(type, of, k.seed + 3, 0.01, 0.9)
                : Tensor::of<float>({}, {c.of({0.5f, 0.25f, 0.0131f})}).cast(type));
  if (small_floats) {
    k.add(random_tensor(c.of({DType::f8e4m3fn, DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz}), of, k.seed + 4, -2, 2));
  } else if (c.one_in(2)) {
    const double least = byte == DType::u8 ? 0 : -128;
    k.add(random_tensor(byte, of, k.seed + 4, least, least + 255));
  }
  k.results();
  return k;
}

Case byte_region(Choices& c) {
  Case k;
  begin(c, k);
  const DType a = c.of({DType::u8, DType::i8}), b = c.of({DType::u8, DType::i8}), y = c.of({DType::u8, DType::i8});
  const Shape whole = shape(c, 1);
  const bool two = c.one_in(2);
  const int first = two ? 2 : 1;
  std::string text = fmt::format("(in0:{}", name(a)) + (two ? fmt::format(", in1:{}", name(b)) : "") + ") { ";
  text += dequantized("in0", "0.31", 7, first);
  std::string at = fmt::format("%{}", first + 5);
  int next = first + 6;
  if (two) {
    text += dequantized("in1", "0.25", -3, next);
    text += fmt::format("%{} = {}({}, %{}):f32; ", next + 6, c.of({"add", "mul"}), at, next + 5);
    at = fmt::format("%{}", next + 6), next += 7;
  }
  if (c.one_in(2))
    text += fmt::format("%{} = {}({}):f32; ", next, c.of({"relu", "hard_swish", "sigmoid"}), at), at = fmt::format("%{}", next++);
  text += quantized(at, c.of({"0.5", "0.0437"}), y == DType::u8 ? 88 : -3, next, std::string(name(y)).c_str());
  Node& n = k.trial.node;
  n.domain = smelt_domain, n.op = "Pointwise";
  n.program = expr::Program::parse(text + fmt::format("return %{} }}", next + 8));
  k.add(k.numbers(a, whole), false);
  if (two) k.add(k.numbers(b, operand(c, whole)), c.one_in(3));
  k.results();
  return k;
}

Case movement(Choices& c) {
  Case k;
  begin(c, k);
  const std::string op = c.of({"Transpose", "Slice", "Pad", "Concat", "Gather", "Expand", "Tile", "Split", "DepthToSpace",
                               "SpaceToDepth", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "Trilu"});
  const DType type = c.of(any_type);
  Node& n = k.trial.node;
  n.op = op, n.opset = 18;
  Shape s = shape(c, op == "Trilu" ? 2 : 1);
  const auto rank = static_cast<int64_t>(s.size());
  const int64_t axis = c.below(rank), extent = s[static_cast<size_t>(axis)];
  const auto numbers = [&](const Shape& of) { return k.numbers(type, of); };
  const auto ints = [](std::vector<int64_t> v) { return Tensor::of<int64_t>({static_cast<int64_t>(v.size())}, v); };
  const auto indices = [](const Shape& of, int64_t below) {
    return [of, below](uint32_t seed) {
      return random_tensor(DType::i64, of, seed, -static_cast<double>(below) + 0.01 - 0.99, static_cast<double>(below) - 0.01);
    };
  };
  if (op == "DepthToSpace" || op == "SpaceToDepth") {
    const int64_t block = c.between(1, 3);
    s = {c.between(1, 2), c.extent(20), c.extent(9), c.extent(9)};
    if (op[0] == 'D')
      s[1] *= block * block, n.attrs["mode"] = std::string(c.of({"DCR", "CRD"}));
    else
      s[2] *= block, s[3] *= block;
    n.attrs["blocksize"] = block;
    k.add(numbers(s), false);
  } else if (op == "Transpose") {
    std::vector<int64_t> order(s.size());
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<size_t>(c.below(static_cast<int64_t>(i)))]);
    n.attrs["perm"] = order;
    k.add(numbers(s), false);
  } else if (op == "Slice") {
    k.add(numbers(s), false);
    const int64_t step = c.of<int64_t>({1, 2, -1, 3, -2}), from = c.between(-extent - 1, extent),
                  to = c.between(-extent - 1, extent + 1);
    k.add(ints({from})), k.add(ints({to})), k.add(ints({axis})), k.add(ints({step}));
  } else if (op == "Pad") {
    n.attrs["mode"] = std::string(c.of({"constant", "edge", "reflect", "wrap"}));
    std::vector<int64_t> pads;
    for (int64_t a = 0; a < 2 * rank; ++a) pads.push_back(c.one_in(2) ? c.between(-1, 3) : 0);
    k.add(numbers(s), false), k.add(ints(pads));
  } else if (op == "Concat") {
    n.attrs["axis"] = axis;
    const int64_t count = c.between(1, 4);
    for (int64_t i = 0; i < count; ++i) {
      Shape of = s;
      of[static_cast<size_t>(axis)] = c.extent(20);
      k.add(numbers(of), c.one_in(4));
    }
  } else if (op == "Gather") {
    n.attrs["axis"] = axis;
    k.add(numbers(s), c.one_in(3));
    if (extent == 0) return k.results(), k;
    k.add(indices(c.of({Shape{}, Shape{5}, Shape{2, 3}}), extent), c.one_in(2));
  } else if (op == "GatherElements" || op == "ScatterElements") {
    n.attrs["axis"] = axis;
    k.add(numbers(s), false);
    Shape of = s;
    for (int64_t& e : of) e = e > 0 ? c.between(1, e) : 0;
    const int64_t rows = of[static_cast<size_t>(axis)];
    if (op[0] == 'S') {  // no index twice along the axis: which of two wins is open
      const std::vector<int64_t> dense = strides(of);
      Tensor at = Tensor::empty(DType::i64, of);
      for (int64_t i = 0; i < at.size(); ++i) at.data<int64_t>()[i] = (i / dense[static_cast<size_t>(axis)]) % rows;
      k.add(at), k.add(numbers(of), false);
    } else {
      k.add(indices(of, std::max<int64_t>(extent, 1)), c.one_in(2));
    }
  } else if (op == "GatherND" || op == "ScatterND") {
    k.add(numbers(s), false);
    const int64_t count = std::min<int64_t>(s[0], c.between(1, 9));
    std::vector<int64_t> rows(static_cast<size_t>(count));
    std::iota(rows.begin(), rows.end(), 0);
    std::ranges::reverse(rows);
    k.add(Tensor::of<int64_t>({count, 1}, rows));
    if (op[0] == 'S') {
      Shape of = s;
      of[0] = count;
      k.add(numbers(of), false);
    }
  } else if (op == "Expand") {
    const Shape from = operand(c, s);
    k.add(numbers(from), false), k.add(ints(s));
  } else if (op == "Tile") {
    std::vector<int64_t> repeats;
    for (int64_t a = 0; a < rank; ++a) repeats.push_back(c.one_in(2) ? c.between(1, 3) : 1);
    k.add(numbers(s), false), k.add(ints(repeats));
  } else if (op == "Split") {
    n.attrs["axis"] = axis;
    k.add(numbers(s), false);
    const int64_t first = extent > 0 ? c.between(0, extent) : 0;
    k.add(ints({first, extent - first}));
    n.outputs = {static_cast<ValueId>(101), static_cast<ValueId>(102)};
  } else {
    k.add(numbers(s), false);
    n.attrs["upper"] = c.below(2);
    k.add(Tensor::scalar<int64_t>(c.between(-3, 3)));
  }
  k.results();
  if (c.one_in(6)) Case::widen(k.trial.bound.inputs[0], c.between(0, 5));
  return k;
}

Case reorder(Choices& c) {
  Case k;
  begin(c, k);
  Node& n = k.trial.node;
  n.domain = smelt_domain, n.op = "Reorder";
  k.same_as = "Identity";
  const DType type = c.of(any_type);
  Shape s{c.between(1, 3), c.extent(100)};
  const int64_t axes = c.of<int64_t>({2, 2, 1, 3});
  for (int64_t a = 0; a < axes; ++a) s.push_back(c.extent(axes == 2 ? 17 : 9));
  k.add(k.numbers(type, s), false, c.of({Layout::nhwc, Layout::plain}));
  k.results();
  k.trial.bound.outputs[0].layout = c.of({Layout::plain, Layout::nhwc});
  if (c.one_in(3)) Case::widen(k.trial.bound.inputs[0], c.between(0, 9));
  if (c.one_in(3)) Case::widen(k.trial.bound.outputs[0], c.between(0, 9));
  return k;
}

}  // namespace smelt::ops::scan
