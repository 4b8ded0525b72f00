// Conversions between element types.
#include <cstring>

#include "base/error.h"
#include "ops/core/copy.h"
#include "ops/core/expression.h"
#include "ops/core/list_inputs.h"
#include "ops/core/type_attribute.h"
#include "ops/pointwise/family.h"

namespace smelt::ops {

using expr::Fn;
namespace {

void set_converted(InferContext& c, DType to) {
  type_of(c, 0);
  if (c.in(0).shape_known)
    c.set(0, to, c.in(0).shape);
  else
    c.set_type(0, to);
}

CastOptions options_of(const Node& node) {
  CastOptions options;
  options.saturate = node.get_int("saturate", 1) != 0;
  const std::string rounding = node.get_string("round_mode", "up");
  if (rounding == "up")
    options.rounding = CastOptions::up;
  else if (rounding == "down")
    options.rounding = CastOptions::down;
  else if (rounding == "nearest")
    options.rounding = CastOptions::nearest;
  else
    fail("round_mode is '{}', expected 'up', 'down' or 'nearest'", rounding);
  return options;
}

void infer_cast(InferContext& c) {
  options_of(c.node);
  set_converted(c, type_attribute(c.node, "to"));
}
void infer_cast_like(InferContext& c) {
  options_of(c.node);
  set_converted(c, type_of(c, 1));
}

void infer_bit_cast(InferContext& c) {
  const DType from = type_of(c, 0), to = type_attribute(c.node, "to");
  if (from == DType::string || bits(from) != bits(to))
    fail("cannot reinterpret {} as {}: the widths differ", name(from), name(to));
  set_converted(c, to);
}

void run_cast(ComputeContext& c) {
  Tensor& out = c.outputs[0];
  if (out.type() == c.in(0).type()) return copy_all(c.in(0), out);
  copy_all(c.in(0).cast(out.type(), options_of(c.node)), out);
}

void run_bit_cast(ComputeContext& c) {
  if (c.outputs[0].nbytes() > 0) std::memcpy(c.outputs[0].raw(), c.in(0).raw(), static_cast<size_t>(c.outputs[0].nbytes()));
}

}  // namespace

std::span<const OpRow> cast_ops() {
  static constexpr OpRow table[] = {
      {{"Cast", onnx_domain, infer_cast, run_cast}, elementwise({Fn::select, write_cast}, {.flops = no_flops})},
      {{"CastLike", onnx_domain, infer_cast_like, run_cast},
       elementwise({Fn::select, write_cast}, {.operands = 1, .flops = no_flops})},
      {{"BitCast", onnx_domain, infer_bit_cast, run_bit_cast}, elementwise({}, {.flops = no_flops})},
  };
  return table;
}

}  // namespace smelt::ops
