// Products of matrices, of floats and of bytes, and attention.
#include "ops/scan/product_cases.h"

#include <fmt/format.h>

#include "ops/conv/quantized_conv_case.h"
#include "ops/scan/endings.h"

namespace smelt::ops::scan {
namespace {

/// Extents of a product, its batches broadcast; a few millions of products at most.
struct Operands {
  Shape a, b;
  int64_t m = 1, n = 1, k = 1;
  Shape batch;
};

Operands operands(Choices& c, bool batched, double most) {
  Operands o;
  o.m = c.one_in(3) ? c.between(1, 9) : c.extent(200);
  o.n = c.extent(c.one_in(4) ? 1100 : 200);
  o.k = c.one_in(6) ? c.between(1, 16) : c.extent(c.one_in(4) ? 1500 : 200);
  if (c.one_in(40)) (c.one_in(2) ? o.m : c.one_in(2) ? o.n : o.k) = 0;
  const int64_t axes = batched ? c.of<int64_t>({0, 0, 1, 2}) : 0;
  Shape a, b;
  for (int64_t i = 0; i < axes; ++i) {
    const int64_t extent = c.between(1, 4), kind = c.below(4);
    a.push_back(kind == 1 ? 1 : extent), b.push_back(kind == 2 ? 1 : extent);
    o.batch.push_back(std::max(a.back(), b.back()));
  }
  if (axes > 0 && c.one_in(2)) (c.one_in(2) ? b : a).clear();
  if (a.empty() && b.empty()) o.batch.clear();
  if (a.size() < b.size())
    o.batch = b;
  else if (b.size() < a.size())
    o.batch = a;
  double products = 1;
  for (int64_t n : o.batch) products *= static_cast<double>(n);
  while (products * static_cast<double>(o.m * o.n * o.k) > most) {
    int64_t& largest = o.m >= o.n && o.m >= o.k ? o.m : o.n >= o.k ? o.n : o.k;
    largest = (largest + 1) / 2;
  }
  o.a = a, o.b = b;
  o.a.insert(o.a.end(), {o.m, o.k}), o.b.insert(o.b.end(), {o.k, o.n});
  return o;
}

void swap_last(Shape& s) { std::swap(s[s.size() - 1], s[s.size() - 2]); }

constexpr double most_products = 4e6;

DType float_type(Choices& c) { return c.of({DType::f32, DType::f32, DType::bf16, DType::f16, DType::f64}); }

/// |a| · |b| + 4 at its largest: a bound of all that is added.
std::function<double(std::span<const Tensor>)> product_of_magnitudes(int64_t k, double factor = 1) {
  return [k, factor](std::span<const Tensor>) { return factor * static_cast<double>(k) + 4; };  // numbers of [-1, 1)
}

void move_memory(Choices& c, Case& k) {
  for (BoundTensor* t : {&k.trial.bound.outputs[0], &k.trial.bound.inputs[0], &k.trial.bound.inputs[1]})
    if (!t->constant.valid() && c.one_in(8)) Case::widen(*t, c.one_in(2) ? c.between(0, 9) : 0);
}

Tensor zero_point(Choices& c, DType type) {
  return Tensor::scalar<int64_t>(type == DType::u8 ? c.of({128, 0, 117, 255}) : c.of({0, -9, 127, -128})).cast(type);
}

Tensor zero_points(DType type, int64_t n, uint32_t seed) { return random_bytes(type, {n}, seed); }

}  // namespace

Case product(Choices& c) {
  Case k;
  k.values = c.one_in(3) ? Values::real : Values::whole;
  k.draw(c);
  const DType type = float_type(c);
  const char* const op = c.of({"MatMul", "Gemm", "ai.smelt.MatMul", "FusedMatMul"});
  const bool gemm = op == std::string("Gemm"), smelt = op == std::string("ai.smelt.MatMul");
  const Operands o = operands(c, !gemm, most_products);
  Node& n = k.trial.node;
  n.op = smelt ? "MatMul" : op;
  if (smelt) n.domain = smelt_domain;
  if (op == std::string("FusedMatMul")) n.domain = microsoft_domain;
  Shape a = o.a, b = o.b, y = o.batch;
  y.insert(y.end(), {o.m, o.n});
  double factor = 1;
  if (n.op != "MatMul" || smelt) {
    if (c.one_in(3)) n.attrs["transA"] = int64_t{1}, swap_last(a);
    if (c.one_in(3)) n.attrs["transB"] = int64_t{1}, swap_last(b);
    if (c.one_in(4)) n.attrs["alpha"] = 0.5f, factor = 0.5;
  } else if (a.size() == 2 && b.size() == 2 && c.one_in(6)) {
    if (c.one_in(2))
      a = {o.k};
    else
      b = {o.k};
  }
  k.add(k.numbers(type, a), false);
  k.add(k.numbers(type, b), !c.one_in(3));
  if (gemm && c.one_in(2)) {
    if (c.one_in(3)) n.attrs["beta"] = 2.0f;
    const Shape of = c.of({Shape{o.n}, Shape{o.m, o.n}, Shape{}, Shape{o.m, 1}, Shape{1, o.n}});
    k.add(k.numbers(type, of), c.one_in(2));
  }
  if (smelt && type != DType::f64 && c.one_in(2)) {
    const Ending e = ending(c, k, type, {o.n}, y);
    n.program = expr::Program::parse(e.program);
    add_operands(k, e, Layout::plain);
  }
  if (k.values == Values::real) k.units = 1, k.roundings = 16, k.magnitude = product_of_magnitudes(o.k, factor);
  k.results();
  move_memory(c, k);
  return k;
}

Case byte_product(Choices& c) {
  Case k;
  k.draw(c);
  const DType ta = c.of({DType::u8, DType::i8}), tb = c.of({DType::i8, DType::u8}), ty = c.of({DType::u8, DType::i8});
  const std::string op = c.of({"QLinearMatMul", "MatMulInteger", "QGemm", "ai.smelt.QLinearMatMul"});
  const Operands o = operands(c, op != "QGemm", 2 * most_products);
  Node& n = k.trial.node;
  n.op = op == "ai.smelt.QLinearMatMul" ? "QLinearMatMul" : op;
  if (op == "ai.smelt.QLinearMatMul") n.domain = smelt_domain;
  if (op == "QGemm") n.domain = microsoft_domain;
  Shape a = o.a, b = o.b;
  if (op == "QGemm" || !n.domain.empty()) {
    if (op == "QGemm" && c.one_in(4)) n.attrs["transA"] = int64_t{1}, swap_last(a);
    if (c.one_in(3)) n.attrs["transB"] = int64_t{1}, swap_last(b);
  }
  const bool computed = c.one_in(4), small = c.one_in(2), by_column = c.one_in(2) && b.size() == 2;
  const std::function<Tensor(uint32_t)> fill = [tb, b, small, numbers = k.numbers(tb, b)](uint32_t s) {
    return small ? seven_bits(tb, b, s) : numbers(s);
  };
  const float scale = static_cast<float>(1 / std::sqrt(static_cast<double>(std::max<int64_t>(o.k, 1))) / 50);
  const Tensor b_scale = by_column ? random_tensor(DType::f32, {o.n}, k.seed + 3, scale / 2, scale) : Tensor::scalar(scale);
  const Tensor a_zero = zero_point(c, ta);
  const bool any_zero = c.one_in(3);
  const Tensor b_zero =
      by_column
          ? (any_zero
                 ? zero_points(tb, o.n, k.seed + 4)
                 : Tensor::of<int64_t>({o.n}, std::vector<int64_t>(static_cast<size_t>(o.n), tb == DType::u8 ? 128 : 0)).cast(tb))
      : any_zero ? zero_point(c, tb)
                 : Tensor::scalar<int64_t>(tb == DType::u8 ? 128 : 0).cast(tb);
  k.add(k.numbers(ta, a), false);
  if (op == "MatMulInteger") {
    k.add(fill, !computed);
    if (c.one_in(2)) {
      c.one_in(2) ? k.add([a_zero](uint32_t) { return a_zero; }, false) : k.add(a_zero);
      if (c.one_in(2)) k.add(b_zero);
    }
  } else if (!n.domain.empty() && op != "QGemm") {
    k.add(fill, !computed);
    k.add(Tensor::scalar(0.02f));
    c.one_in(3) ? k.add([a_zero](uint32_t) { return a_zero; }, false) : k.add(a_zero);
    k.add(b_scale), k.add(b_zero);
    n.program = expr::Program::parse(
        "(in0:f32) { " + quantized("in0", "0.031", ty == DType::u8 ? 88 : -3, 1, std::string(name(ty)).c_str()) + "return %9 }");
  } else {
    k.add(Tensor::scalar(0.02f)), k.add(a_zero);
    k.add(fill, !computed);
    k.add(b_scale), k.add(b_zero);
    bool to_float = false;
    if (op == "QGemm") {
      c.one_in(2) ? static_cast<void>(k.add(random_tensor(DType::i32, {o.n}, k.seed + 9, -9000, 9000))) : k.leave_out();
      to_float = c.one_in(3);
    }
    if (!to_float) k.add(Tensor::scalar(0.031f)), k.add(zero_point(c, ty));
    if (to_float) k.units = 2;
  }
  k.results();
  move_memory(c, k);
  return k;
}

Case scaled_product(Choices& c) {
  Case k;
  k.values = Values::real;
  k.draw(c);
  const bool dynamic = c.one_in(2);
  const DType ta = c.of({DType::u8, DType::i8}), tb = c.of({DType::i8, DType::u8});
  const Operands o = operands(c, true, most_products);
  Node& n = k.trial.node;
  n.domain = microsoft_domain;
  n.op = dynamic ? "DynamicQuantizeMatMul" : "MatMulIntegerToFloat";
  const bool by_column = c.one_in(2) && o.b.size() == 2;
  const Tensor scale = by_column ? random_tensor(DType::f32, {o.n}, k.seed + 3, 0.001, 0.002) : Tensor::scalar(0.002f);
  const Tensor zero = by_column ? zero_points(tb, o.n, k.seed + 4) : zero_point(c, tb);
  k.add(dynamic ? k.numbers(DType::f32, o.a) : k.numbers(ta, o.a), false);
  k.add(k.numbers(tb, o.b), !c.one_in(4));
  if (!dynamic) k.add([](uint32_t s) { return random_tensor(DType::f32, {}, s, 0.01, 0.02); }, false);
  k.add(scale);
  if (!dynamic) k.add(zero_point(c, ta));
  k.add(zero);
  if (c.one_in(2)) k.add(k.numbers(DType::f32, {o.n}), c.one_in(2));
  k.units = 4, k.roundings = 4;
  k.results();
  return k;
}

Case attention(Choices& c) {
  Case k;
  k.values = Values::real;
  k.draw(c);
  const DType type = c.of({DType::f32, DType::f32, DType::bf16, DType::f16});
  const int64_t batch = c.between(1, 2), heads = c.between(1, 4), groups = c.one_in(3) ? c.between(1, 3) : 1;
  const int64_t queries = c.extent(70), keys = c.extent(140), depth = c.extent(80), values = c.one_in(4) ? c.extent(80) : depth;
  Node& n = k.trial.node;
  n.domain = smelt_domain;
  n.op = "Attention";
  n.attrs["scale"] = static_cast<float>(1 / std::sqrt(static_cast<double>(depth)));
  const bool transposed = c.one_in(4);
  if (transposed) n.attrs["k_transposed"] = int64_t{1};
  k.add(k.numbers(type, {batch, heads * groups, queries, depth}), false);
  k.add(k.numbers(type, transposed ? Shape{batch, heads, depth, keys} : Shape{batch, heads, keys, depth}), false);
  k.add(k.numbers(type, {batch, heads, keys, values}), false);
  if (c.one_in(2)) {
    const bool own = c.one_in(2) && type != DType::f32;
    n.program = expr::Program::parse(
        own ? fmt::format("(in0:f32, in1:{}) {{ %2 = cast(in1):f32; %3 = add(in0, %2):f32; return %3 }}", name(type))
            : "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; return %2 }");
    const Shape mask = c.of({Shape{queries, keys}, Shape{batch, 1, queries, keys}, Shape{batch, 1, 1, keys},
                             Shape{batch, heads * groups, queries, keys}});
    k.add(k.numbers(own ? type : DType::f32, mask), false);
  }
  k.units = 4, k.roundings = 1000;
  k.results();
  return k;
}

}  // namespace smelt::ops::scan
