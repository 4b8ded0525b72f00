#include "tune/problem_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <random>

#include "base/error.h"
#include "tune/conv_text.h"
#include "tune/product_text.h"
#include "tune/trial.h"

namespace smelt::tune {
namespace {

constexpr int64_t most = int64_t{1} << 24;  // of an extent

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

}  // namespace

std::vector<std::string_view> parts_of(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  for (size_t at = 0;;) {
    const size_t end = text.find(between, at);
    parts.push_back(text.substr(at, end == text.npos ? end : end - at));
    if (end == text.npos) return parts;
    at = end + 1;
  }
}

TextFields::TextFields(std::string_view text, std::string_view kind, size_t least, std::string_view names,
                       std::string_view example)
    : text_(text), example_(example), fields_(parts_of(text, ':')) {
  if (fields_[0] != kind) refuse(fmt::format("expected '{}' in front, found '{}'", kind, fields_[0]));
  const size_t all = parts_of(names, ',').size();
  if (count() < least || count() > all)
    refuse(fmt::format("expected {} to {} fields between colons ({}), found {}", least, all, names, count()));
}

void TextFields::refuse(const std::string& why) const {
  throw Error(fmt::format("the problem '{}': {}", text_, why), fmt::format("As in {}", example_), ExitCode::usage);
}

DType TextFields::type(size_t i) const {
  constexpr DType types[] = {DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8};
  const auto type = std::ranges::find(types, fields_[i], [](DType t) { return name(t); });
  if (type == std::end(types)) refuse(fmt::format("expected one of the types f32, f16, bf16, i8, u8, found '{}'", fields_[i]));
  return *type;
}

std::vector<int64_t> TextFields::extents(std::string_view field, std::string_view names) const {
  const std::vector<std::string_view> sizes = parts_of(field, 'x'), of = parts_of(names, 'x');
  if (sizes.size() != of.size()) refuse(fmt::format("expected the sizes {}, found '{}'", names, field));
  std::vector<int64_t> extents(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    const char* const end = sizes[i].data() + sizes[i].size();
    const auto read = std::from_chars(sizes[i].data(), end, extents[i]);
    if (read.ec != std::errc() || read.ptr != end || extents[i] < 1 || extents[i] > most)
      refuse(fmt::format("{}: expected a number from 1 to {}, found '{}'", of[i], most, sizes[i]));
  }
  return extents;
}

std::vector<std::string> TextFields::epilogue(size_t i) const {
  std::vector<std::string> found;
  if (i >= count() || fields_[i] == "none") return found;
  for (std::string_view part : parts_of(fields_[i], '+')) {
    if (!is_operand(part) && function_of(part) == expr::Fn::input)
      refuse(fmt::format("the epilogue knows no '{}'; expected some of {}, joined by '+'", part, known_parts()));
    found.emplace_back(part);
  }
  return found;
}

bool is_operand(std::string_view part) { return part == "bias" || part == "residual" || part == "gate"; }

expr::Fn epilogue_function(std::string_view name) {
  const expr::Fn fn = function_of(name);
  if (fn != expr::Fn::input && expr::info(fn).arity == 1) return fn;
  std::vector<std::string_view> names;
  for (expr::Fn each : expr::functions())
    if (function_of(expr::info(each).name) == each && expr::info(each).arity == 1) names.push_back(expr::info(each).name);
  fail_usage("the epilogue '{}' is not known; expected one of {}", name, fmt::join(names, ", "));
}

expr::Program epilogue_of(const std::vector<std::string>& parts, DType operand) {
  expr::Program program;
  expr::Ref value = program.input(DType::f32);
  std::vector<expr::Ref> operands;
  for (const std::string& part : parts)
    if (is_operand(part)) operands.push_back(program.input(operand));
  size_t next = 0;
  for (const std::string& part : parts) {
    if (is_operand(part)) {
      const expr::Ref other = program.cast(operands[next++], DType::f32);
      value = program.call(part == "gate" ? expr::Fn::mul : expr::Fn::add, value, other);
      continue;
    }
    const expr::Fn fn = function_of(part);
    if (expr::info(fn).arity == 1)
      value = program.call(fn, value);
    else
      value = program.call(fn, value, program.constant(DType::f32, fn == expr::Fn::elu ? 1 : 0.01));
  }
  program.output(value);
  return program;
}

ops::BoundTensor tensor(DType type, Shape shape, ops::Layout layout) {
  ops::BoundTensor t;
  t.type = type;
  t.shape = std::move(shape);
  t.layout = layout;
  return t;
}

ops::BoundTensor constant(Tensor value) {
  ops::BoundTensor t = tensor(value.type(), value.shape());
  t.constant = std::move(value);
  return t;
}

Tensor random_constant(DType type, const Shape& shape, uint32_t seed) {
  Tensor t = Tensor::empty(type, shape);
  std::mt19937 random(seed);
  fill_random(t, type, random);
  return t;
}

ProblemNode numbered(std::shared_ptr<Node> node, ops::BoundNode bound) {
  for (size_t i = 0; i < bound.inputs.size(); ++i)
    node->inputs.push_back(bound.inputs[i].type == DType::undefined ? ValueId::none : ValueId{static_cast<int32_t>(i)});
  node->outputs = {ValueId{static_cast<int32_t>(bound.inputs.size())}};
  bound.node = node.get();
  return {std::move(node), std::move(bound)};
}

ProblemText parse_problem(std::string_view text, int64_t rows) {
  if (text.starts_with("conv")) {
    ConvText p = parse_conv(text);
    if (rows > 0) p.x[0] = rows;
    return {print(p), conv_node(p)};
  }
  ProductText p = parse_product(text);
  if (rows > 0) p.m = rows;
  return {print(p), product_node(p)};
}

bool is_problem(std::string_view text) {
  return std::ranges::any_of(std::initializer_list<std::string_view>{"gemm", "conv"}, [&](std::string_view kind) {
    return text == kind || (text.starts_with(kind) && text[kind.size()] == ':');
  });
}

}  // namespace smelt::tune
