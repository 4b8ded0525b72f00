// Programs behind a product or a convolution, as the rewrites put them there.
#pragma once

#include "ops/scan/scan.h"

namespace smelt::ops::scan {

/// Text of the expression language, written instruction by instruction.
class Text {
 public:
  /// Appends "%n = what:type" and returns "%n".
  std::string line(const std::string& what, const std::string& type = "f32") {
    body_ += fmt::format("%{} = {}:{}; ", next_, what, type);
    return fmt::format("%{}", next_++);
  }
  std::string call(const std::string& fn, const std::string& a) { return line(fn + "(" + a + ")"); }
  std::string call(const std::string& fn, const std::string& a, const std::string& b) {
    return line(fn + "(" + a + ", " + b + ")");
  }
  std::string number(double v) { return line(fmt::format("const({})", v)); }
  explicit Text(int operands) : next_(operands) {}
  const std::string& body() const { return body_; }

 private:
  int next_;
  std::string body_;
};

/// A program of up to three steps over the sums, which end in `type`; its operands are inputs that are added behind the others.
/// Of whole numbers it makes whole numbers or halves of them.
struct Ending {
  struct Operand {
    Shape shape;
    DType type;
    bool constant, full;
    double low, high;
  };
  std::string program;
  std::vector<Operand> operands;
  bool exact = true;
};

inline Ending ending(Choices& c, const Case& of, DType type, const Shape& channel, const Shape& full) {
  Ending e;
  const int64_t steps = c.between(1, 3);
  std::vector<int64_t> kinds;
  for (int64_t i = 0; i < steps; ++i) {
    kinds.push_back(c.below(of.values == Values::whole ? 7 : 12));
    if (kinds.back() < 4 || e.operands.size() == 3) continue;
    if (kinds.back() > 6) continue;
    const bool whole = kinds.back() == 5;  // 4, 6: one for each channel
    const DType own = c.one_in(3) ? type : DType::f32;
    const bool multiplies = kinds.back() == 6;
    e.operands.push_back(
        {whole ? full : channel, own, !whole && !c.one_in(4), whole, multiplies ? 1.0 : -4, multiplies ? 2.0 : 4});
  }
  std::string head = "(in0:f32";
  for (size_t i = 0; i < e.operands.size(); ++i) head += fmt::format(", in{}:{}", i + 1, name(e.operands[i].type));
  Text t(static_cast<int>(e.operands.size()) + 1);
  std::string at = "in0";
  size_t next = 0;
  for (const int64_t kind : kinds) {
    std::string operand;
    if (kind >= 4 && kind <= 6) {
      if (next == e.operands.size()) continue;
      operand = fmt::format("in{}", next + 1);
      if (e.operands[next++].type != DType::f32) operand = t.call("cast", operand);
    }
    switch (kind) {
      case 0: at = t.call("relu", at); break;
      case 1: {
        const std::string low = t.number(-8), high = t.number(20);
        at = t.line("clip(" + at + ", " + low + ", " + high + ")");
        break;
      }
      case 2: {
        const std::string half = t.number(0.5);
        at = t.call("mul", at, half);
        break;
      }
      case 3: {
        const std::string three = t.number(3);
        at = t.call("add", at, three);
        break;
      }
      case 4:
      case 5: at = c.one_in(2) ? t.call("add", operand, at) : t.call("add", at, operand); break;
      case 6: at = t.call("mul", at, operand); break;
      case 7: at = t.call("hard_swish", at); break;
      case 8: at = t.call("silu", at); break;
      case 9: at = t.call("gelu", at); break;
      case 10: at = t.call("tanh", at); break;
      default: at = t.call("sigmoid", at); break;
    }
  }
  if (type != DType::f32) at = t.line("cast(" + at + ")", std::string(name(type)));
  e.exact = of.values == Values::whole;
  e.program = head + ") { " + t.body() + "return " + at + " }";
  return e;
}

/// Adds the program's operands; what is as large as the result lies as `layout` says.
inline void add_operands(Case& c, const Ending& e, Layout layout) {
  for (const Ending::Operand& o : e.operands)
    c.add(c.numbers(o.type, o.shape, o.low, o.high), o.constant, o.full ? layout : Layout::plain);
}

}  // namespace smelt::ops::scan
