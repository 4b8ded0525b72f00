#include "ops/cpu/program_end.h"

#include <fmt/core.h>

#include <limits>
#include <optional>

namespace smelt::ops {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// The number that an f32 instruction of two arguments has on one side, with the other side; nothing without one.
struct WithNumber {
  float number;
  expr::Ref other;
};
std::optional<WithNumber> with_number(const expr::Program& p, const expr::Instruction& i) {
  if (i.type != DType::f32) return std::nullopt;
  for (int side : {1, 0}) {
    const expr::Instruction& a = p.code()[static_cast<size_t>(i.args[side])];
    if (a.fn == expr::Fn::constant) return WithNumber{static_cast<float>(a.value), i.args[1 - side]};
  }
  return std::nullopt;
}

}  // namespace

ProgramEnd program_end(const expr::Program& p) {
  using expr::Fn;
  ProgramEnd t;
  t.argument = p.outputs()[0];
  const auto instruction = [&]() -> const expr::Instruction& { return p.code()[static_cast<size_t>(t.argument)]; };
  // A multiplication, an addition, or the one and then the other.
  if (const auto shift = instruction().fn == Fn::add ? with_number(p, instruction()) : std::nullopt) {
    t.end.is_scaled = true;
    t.end.shift = shift->number;
    t.argument = shift->other;
  }
  if (const auto scale = instruction().fn == Fn::mul ? with_number(p, instruction()) : std::nullopt) {
    t.end.is_scaled = true;
    t.end.scale = scale->number;
    t.argument = scale->other;
  }
  if (t.end.is_scaled) t.text = "+scale";
  const expr::Instruction& i = instruction();
  switch (i.fn) {
    case Fn::relu:
      t.end.activation = igemm::Activation::clamp;
      t.end.high = infinity;
      t.text = "relu" + t.text;
      break;
    case Fn::hard_swish:
      t.end.activation = igemm::Activation::hard_swish;
      t.text = "hard_swish" + t.text;
      break;
    case Fn::clip: {
      const expr::Instruction &low = p.code()[static_cast<size_t>(i.args[1])], &high = p.code()[static_cast<size_t>(i.args[2])];
      if (low.fn != Fn::constant || high.fn != Fn::constant) return t;
      t.end.activation = igemm::Activation::clamp;
      t.end.low = static_cast<float>(low.value);
      t.end.high = static_cast<float>(high.value);
      t.text = fmt::format("clip({},{})", t.end.low, t.end.high) + t.text;
      break;
    }
    default:
      if (t.end.is_scaled) t.text = "scale";
      return t;
  }
  t.argument = i.args[0];
  return t;
}

}  // namespace smelt::ops
