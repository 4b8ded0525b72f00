#include "tune/conv_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ops/core/quantized_program.h"

namespace smelt::tune {
namespace {

std::string joined(const std::vector<int64_t>& numbers) {
  const bool same = std::ranges::all_of(numbers, [&](int64_t v) { return v == numbers[0]; });
  return same ? fmt::format("{}", numbers[0]) : fmt::format("{}", fmt::join(numbers, "x"));
}

/// "s2p1x0" into the fields that the letters name.
void read_geometry(const TextFields& fields, std::string_view text, ConvText& p) {
  constexpr std::string_view letters = "spdg";
  for (size_t at = 0; at < text.size();) {
    const size_t letter = letters.find(text[at]);
    const size_t end = std::min(text.find_first_of(letters, at + 1), text.size());
    const std::string_view value = text.substr(at + 1, end - at - 1);
    if (letter == letters.npos || value.empty())
      fields.refuse(fmt::format("expected s, p, d or g, each with a number, as s2p1, found '{}'", text.substr(at)));
    std::vector<int64_t> numbers;
    // Zeros are paddings alone.
    if (text[at] == 'p')
      for (const std::string_view part : parts_of(value, 'x'))
        numbers.push_back(part == "0" ? 0 : fields.extents(part, "padding")[0]);
    else
      numbers = fields.extents(value, value.find('x') == value.npos ? "number"
                                      : p.axes() == 3               ? "alongDxalongHxalongW"
                                                                    : "alongHxalongW");
    if (numbers.size() > 1 && numbers.size() != p.axes())
      fields.refuse(fmt::format("{}: expected one number or {}, found '{}'", text[at], p.axes() == 3 ? "three" : "two", value));
    if (numbers.size() == 1) numbers.assign(p.axes(), numbers[0]);
    switch (text[at]) {
      case 's': p.stride = numbers; break;
      case 'p': p.pad = numbers; break;
      case 'd': p.dilation = numbers; break;
      default: p.groups = numbers[0]; break;
    }
    at = end;
  }
}

/// The result's extent along an axis; 0 or less where a window does not fit.
int64_t out_extent(const ConvText& p, size_t axis) {
  const int64_t window = (p.w[axis + 2] - 1) * p.dilation[axis] + 1, room = p.x[axis + 2] + 2 * p.pad[axis] - window;
  return room < 0 ? 0 : room / p.stride[axis] + 1;
}

expr::Program program_of(const ConvText& p, const std::vector<std::string>& parts) {
  const expr::Program applied = epilogue_of(parts, p.type);
  expr::Program program;
  std::vector<expr::Ref> inputs;
  for (int i = 0; i < applied.input_count(); ++i) inputs.push_back(program.input(applied.type(i)));
  const std::vector<expr::Ref> value = program.splice(applied, inputs);
  if (ops::is_byte(p.type))
    program.output(program.splice(ops::round_and_saturate(p.type, 0), value)[0]);
  else
    program.output(program.cast(value[0], p.type));
  return program;
}

}  // namespace

ConvText parse_conv(std::string_view text) {
  const TextFields fields(text, "conv", 3, "conv, type, x and w, geometry, layout, epilogue",
                          "conv:f16:32x64x56x56,64x64x3x3:s1p1:nhwc:bias+relu");
  ConvText p;
  p.type = fields.type(1);
  const std::vector<std::string_view> shapes = parts_of(fields[2], ',');
  if (shapes.size() != 2) fields.refuse(fmt::format("expected two shapes, NxCxHxW,MxCxKHxKW, found '{}'", fields[2]));
  const bool volume = std::ranges::count(shapes[0], 'x') == 4;
  p.x = fields.extents(shapes[0], volume ? "NxCxDxHxW" : "NxCxHxW");
  p.w = fields.extents(shapes[1], volume ? "MxCxKDxKHxKW" : "MxCxKHxKW");
  p.stride.assign(p.axes(), 1), p.pad.assign(p.axes(), 0), p.dilation.assign(p.axes(), 1);
  if (fields.count() > 3) read_geometry(fields, fields[3], p);
  if (p.x[1] != p.w[1] * p.groups)
    fields.refuse(fmt::format("{} channels, expected {}: {} a group, groups: {}", p.x[1], p.w[1] * p.groups, p.w[1], p.groups));
  if (p.w[0] % p.groups != 0) fields.refuse(fmt::format("{} output channels are not a multiple of {} groups", p.w[0], p.groups));
  for (size_t axis = 0; axis < p.axes(); ++axis)
    if (out_extent(p, axis) < 1) fields.refuse(fmt::format("no window fits along {}", "DHW"[3 - p.axes() + axis]));
  if (fields.count() > 4) {
    if (fields[4] != "nhwc" && fields[4] != "nchw")
      fields.refuse(fmt::format("expected a layout nhwc or nchw, found '{}'", fields[4]));
    p.channels_last = fields[4] == "nhwc";
  }
  p.epilogue = fields.epilogue(5);
  if (const auto biases = std::ranges::count(p.epilogue, "bias"); biases > 1)
    fields.refuse(
        fmt::format("the epilogue has {} biases, expected one at most: it is added to the sums before all else", biases));
  return p;
}

std::string print(const ConvText& p) {
  std::string geometry = fmt::format("s{}p{}", joined(p.stride), joined(p.pad));
  if (joined(p.dilation) != "1") geometry += fmt::format("d{}", joined(p.dilation));
  if (p.groups != 1) geometry += fmt::format("g{}", p.groups);
  return fmt::format("conv:{}:{},{}:{}:{}:{}", name(p.type), fmt::join(p.x, "x"), fmt::join(p.w, "x"), geometry,
                     p.channels_last ? "nhwc" : "nchw",
                     p.epilogue.empty() ? "none" : fmt::format("{}", fmt::join(p.epilogue, "+")));
}

ProblemNode conv_node(const ConvText& p) {
  const bool integers = ops::is_byte(p.type);
  const ops::Layout layout = p.channels_last ? ops::Layout::nhwc : ops::Layout::plain;
  Shape y{p.x[0], p.w[0]};
  for (size_t axis = 0; axis < p.axes(); ++axis) y.push_back(out_extent(p, axis));
  auto node = std::make_shared<Node>();
  node->domain = smelt_domain;
  node->op = integers ? "QLinearConv" : "Conv";
  node->name = print(p);
  if (!integers) node->attrs["segments"] = int64_t{1};
  node->attrs["strides"] = p.stride;
  std::vector<int64_t> pads = p.pad;  // begins, then ends
  pads.insert(pads.end(), p.pad.begin(), p.pad.end());
  node->attrs["pads"] = std::move(pads);
  node->attrs["dilations"] = p.dilation;
  node->attrs["group"] = p.groups;
  std::vector<std::string> parts = p.epilogue;
  const bool bias = std::erase(parts, "bias") > 0;
  node->program = program_of(p, parts);
  ops::BoundNode b;
  b.inputs = {tensor(p.type, p.x, layout), constant(random_constant(integers ? DType::i8 : p.type, p.w, 1))};
  const DType of_bias = integers ? DType::i32 : p.type;
  b.inputs.push_back(bias ? constant(random_constant(of_bias, {p.w[0]}, 2)) : ops::BoundTensor{DType::undefined, {}});
  if (integers) {
    const auto scalar = [](auto value) { return constant(Tensor::scalar(value)); };
    Tensor scales = Tensor::empty(DType::f32, {p.w[0]});
    std::ranges::fill(scales.span<float>(), 0.1f / std::sqrt(static_cast<float>(elements(p.w)) / static_cast<float>(p.w[0])));
    b.inputs.push_back(scalar(0.05f));
    b.inputs.push_back(p.type == DType::u8 ? scalar(uint8_t{0}) : scalar(int8_t{0}));
    b.inputs.push_back(constant(std::move(scales)));
    b.inputs.push_back(constant(Tensor::zeros(DType::i8, {p.w[0]})));
  }
  for (const std::string& part : parts)
    if (is_operand(part)) b.inputs.push_back(tensor(p.type, y, layout));
  b.outputs = {tensor(p.type, y, layout)};
  return numbered(std::move(node), std::move(b));
}

}  // namespace smelt::tune
