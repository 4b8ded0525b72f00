// Operators that ONNX had for trial before opset 10, with no promise, and that exporters of that time wrote: image models converted from
// CoreML begin with ImageScaler. ONNX Runtime still runs them.
#include "import/microsoft/heads.h"

namespace smelt::importer::microsoft {
namespace {

Name scaled(Call& c, const Name& x, const char* attribute) {
  return c.before("Mul", {x, c.score_scalar(static_cast<double>(c.number(attribute, 1)))});
}

std::vector<int64_t> integers(const Call& c, const char* attribute, size_t count) {
  auto values = c.integers(attribute).value_or(std::vector<int64_t>());
  if (values.size() != count) c.refuse("{} has {} elements, expected {}", attribute, values.size(), count);
  for (const int64_t v : values)
    if (v < 0) c.refuse("{} has {}, expected 0 or more", attribute, v);
  return values;
}

}  // namespace

// alpha * x + beta
void affine(Call& c) {
  c.become("Add", {scaled(c, c.input(0), "alpha"), c.score_scalar(static_cast<double>(c.number("beta", 0)))});
}

// alpha * tanh(beta * x), alpha * log(1 + exp(beta * x))
void scaled_tanh(Call& c) {
  c.become("Mul", {c.before("Tanh", {scaled(c, c.input(0), "beta")}), c.score_scalar(static_cast<double>(c.number("alpha", 1)))});
}
void parametric_softplus(Call& c) {
  c.become("Mul",
           {c.before("Softplus", {scaled(c, c.input(0), "beta")}), c.score_scalar(static_cast<double>(c.number("alpha", 1)))});
}

void scale(Call& c) { c.become("Identity", {scaled(c, c.input(0), "scale")}); }

// scale * x + bias, which has a number for each channel
void image_scaler(Call& c) {
  const auto* bias = find_attribute(c.node, "bias");
  const std::vector<float> values =
      bias ? std::vector<float>(bias->floats().begin(), bias->floats().end()) : std::vector<float>();
  const auto channels = c.extent(0, 1);
  if (channels && *channels != static_cast<int64_t>(values.size()))
    c.refuse("bias has {} elements for {} channels", values.size(), *channels);
  const Tensor of_channels = Tensor::of<float>({static_cast<int64_t>(values.size()), 1, 1}, values);
  c.become("Add", {scaled(c, c.input(0), "scale"), c.before("CastLike", {c.keep(of_channels), c.input(0)})});
}

// x [N, C, H, W] without `border` (left, top, right, bottom), or `scale` (height, width) of it from the left and top ones on
void crop(Call& c) {
  const std::vector<int64_t> border = integers(c, "border", 4);
  const Name starts = c.constant({border[1], border[0]}), axes = c.constant({2, 3});
  Name ends = c.before(
      "Sub", {c.before("Shape", {c.input(0)}, {MakeAttribute("start", int64_t{2})}), c.constant({border[3], border[2]})});
  if (find_attribute(c.node, "scale")) ends = c.before("Add", {starts, c.constant(integers(c, "scale", 2))});
  c.become("Slice", {c.input(0), starts, ends, axes});
}

void dynamic_slice(Call& c) {
  std::vector<Name> inputs;
  for (int i = 0; i < 4 && c.has(i); ++i) inputs.push_back(c.input(i));
  c.become("Slice", inputs);
}

}  // namespace smelt::importer::microsoft
