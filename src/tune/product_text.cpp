#include "tune/product_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <random>

#include "base/error.h"
#include "tune/trial.h"

namespace smelt::tune {
namespace {

constexpr std::string_view example = "As in gemm:f16:48x4096x4096:rcr:bias+relu";
constexpr int64_t most = int64_t{1} << 24;  // of an extent

std::vector<std::string_view> parts_of(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  for (size_t at = 0;;) {
    const size_t end = text.find(between, at);
    parts.push_back(text.substr(at, end == text.npos ? end : end - at));
    if (end == text.npos) return parts;
    at = end + 1;
  }
}

[[noreturn]] void refuse_text(std::string_view text, const std::string& why) {
  throw Error(fmt::format("the problem '{}': {}", text, why), std::string(example), ExitCode::usage);
}

bool is_operand(std::string_view part) { return part == "bias" || part == "residual" || part == "gate"; }

/// The function of this name where an epilogue may call it with one value; input otherwise.
expr::Fn function_of(std::string_view name) {
  for (expr::Fn fn : expr::functions()) {
    const expr::FnInfo& info = expr::info(fn);
    if (info.name != name || info.predicate) continue;
    const bool one = info.arity == 1 && expr::accepts(fn, DType::f32);
    if (one || fn == expr::Fn::leaky_relu || fn == expr::Fn::elu) return fn;
  }
  return expr::Fn::input;
}

std::string known_parts() {
  std::vector<std::string_view> names = {"bias", "residual", "gate"};
  for (expr::Fn fn : expr::functions())
    if (function_of(expr::info(fn).name) == fn) names.push_back(expr::info(fn).name);
  return fmt::format("{}", fmt::join(names, ", "));
}

bool is_byte(DType t) { return t == DType::i8 || t == DType::u8; }
DType result_of(DType t) { return is_byte(t) ? DType::f32 : t; }

expr::Program program_of(const ProductText& p) {
  const DType out = result_of(p.type);
  expr::Program program;
  expr::Ref value = program.input(DType::f32);
  std::vector<expr::Ref> operands;
  for (const std::string& part : p.epilogue)
    if (is_operand(part)) operands.push_back(program.input(out));
  size_t next = 0;
  for (const std::string& part : p.epilogue) {
    if (is_operand(part)) {
      const expr::Ref operand = program.cast(operands[next++], DType::f32);
      value = program.call(part == "gate" ? expr::Fn::mul : expr::Fn::add, value, operand);
      continue;
    }
    const expr::Fn fn = function_of(part);
    if (expr::info(fn).arity == 1)
      value = program.call(fn, value);
    else
      value = program.call(fn, value, program.constant(DType::f32, fn == expr::Fn::elu ? 1 : 0.01));
  }
  program.output(program.cast(value, out));
  return program;
}

ops::BoundTensor tensor(DType type, Shape shape) {
  ops::BoundTensor t;
  t.type = type;
  t.shape = std::move(shape);
  return t;
}

ops::BoundTensor constant(Tensor value) {
  ops::BoundTensor t = tensor(value.type(), value.shape());
  t.constant = std::move(value);
  return t;
}

}  // namespace

expr::Fn epilogue_function(std::string_view name) {
  const expr::Fn fn = function_of(name);
  if (fn != expr::Fn::input && expr::info(fn).arity == 1) return fn;
  std::vector<std::string_view> names;
  for (expr::Fn each : expr::functions())
    if (function_of(expr::info(each).name) == each && expr::info(each).arity == 1) names.push_back(expr::info(each).name);
  fail_usage("the epilogue '{}' is not known; expected one of {}", name, fmt::join(names, ", "));
}

ProductText parse_product(std::string_view text) {
  const std::vector<std::string_view> fields = parts_of(text, ':');
  if (fields[0] != "gemm") refuse_text(text, fmt::format("expected 'gemm' in front, found '{}'", fields[0]));
  if (fields.size() < 3 || fields.size() > 5)
    refuse_text(text, fmt::format("expected 3 to 5 fields between colons (gemm, type, MxNxK, layout, epilogue), found {}",
                                  fields.size()));
  ProductText p;
  constexpr DType types[] = {DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8};
  const auto type = std::ranges::find(types, fields[1], [](DType t) { return name(t); });
  if (type == std::end(types))
    refuse_text(text, fmt::format("expected one of the types f32, f16, bf16, i8, u8, found '{}'", fields[1]));
  p.type = *type;
  const std::vector<std::string_view> sizes = parts_of(fields[2], 'x');
  if (sizes.size() != 3) refuse_text(text, fmt::format("expected the sizes MxNxK, found '{}'", fields[2]));
  int64_t* const extents[] = {&p.m, &p.n, &p.k};
  for (size_t i = 0; i < 3; ++i) {
    const char* const end = sizes[i].data() + sizes[i].size();
    const auto read = std::from_chars(sizes[i].data(), end, *extents[i]);
    if (read.ec != std::errc() || read.ptr != end || *extents[i] < 1 || *extents[i] > most)
      refuse_text(text, fmt::format("{}: expected a number from 1 to {}, found '{}'", "MNK"[i], most, sizes[i]));
  }
  if (fields.size() > 3) {
    const std::string_view layout = fields[3];
    const bool known = layout.size() == 3 && std::ranges::all_of(layout, [](char c) { return c == 'r' || c == 'c'; });
    if (!known) refuse_text(text, fmt::format("expected a layout of three letters r and c, as rcr, found '{}'", layout));
    if (layout[2] != 'r')
      refuse_text(text, fmt::format("the result lies by rows: expected '{}r', found '{}'", layout.substr(0, 2), layout));
    p.a_columns = layout[0] == 'c', p.b_columns = layout[1] == 'c';
  }
  if (fields.size() > 4 && fields[4] != "none") {
    for (std::string_view part : parts_of(fields[4], '+')) {
      if (!is_operand(part) && function_of(part) == expr::Fn::input)
        refuse_text(text, fmt::format("the epilogue knows no '{}'; expected some of {}, joined by '+'", part, known_parts()));
      p.epilogue.emplace_back(part);
    }
  }
  return p;
}

std::string print(const ProductText& p) {
  return fmt::format("gemm:{}:{}x{}x{}:{}{}r:{}", name(p.type), p.m, p.n, p.k, p.a_columns ? 'c' : 'r', p.b_columns ? 'c' : 'r',
                     p.epilogue.empty() ? "none" : fmt::format("{}", fmt::join(p.epilogue, "+")));
}

ProductNode product_node(const ProductText& p) {
  const DType out = result_of(p.type);
  auto node = std::make_shared<Node>();
  node->domain = smelt_domain;
  node->op = is_byte(p.type) ? "QLinearMatMul" : "MatMul";
  node->name = print(p);
  if (p.a_columns) node->attrs["transA"] = int64_t{1};
  if (p.b_columns) node->attrs["transB"] = int64_t{1};
  node->program = program_of(p);
  ProductNode made;
  ops::BoundNode& b = made.bound;
  Tensor weights = Tensor::empty(is_byte(p.type) ? DType::i8 : p.type, p.b_columns ? Shape{p.n, p.k} : Shape{p.k, p.n});
  std::mt19937 random(1);
  fill_random(weights, weights.type(), random);
  b.inputs = {tensor(p.type, p.a_columns ? Shape{p.k, p.m} : Shape{p.m, p.k}), constant(std::move(weights))};
  if (is_byte(p.type)) {
    const auto scalar = [](auto value) { return constant(Tensor::scalar(value)); };
    b.inputs.push_back(scalar(0.02f));
    b.inputs.push_back(p.type == DType::u8 ? scalar(uint8_t{128}) : scalar(int8_t{0}));
    b.inputs.push_back(scalar(0.02f));
    b.inputs.push_back(scalar(int8_t{0}));
  }
  for (const std::string& part : p.epilogue) {
    if (part == "bias") {  // a constant in models: kernels pack it with the weights
      Tensor bias = Tensor::empty(out, {p.n});
      fill_random(bias, out, random);
      b.inputs.push_back(constant(std::move(bias)));
    } else if (is_operand(part)) {
      b.inputs.push_back(tensor(out, {p.m, p.n}));
    }
  }
  b.outputs = {tensor(out, {p.m, p.n})};
  for (size_t i = 0; i < b.inputs.size(); ++i) node->inputs.push_back(ValueId{static_cast<int32_t>(i)});
  node->outputs = {ValueId{static_cast<int32_t>(b.inputs.size())}};
  b.node = node.get();
  made.node = std::move(node);
  return made;
}

}  // namespace smelt::tune
