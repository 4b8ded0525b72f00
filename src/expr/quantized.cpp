#include "expr/quantized.h"

namespace smelt::expr {
namespace {

/// A walk from an instruction down its first arguments.
class Walk {
 public:
  Walk(const Program& p, Ref at) : p_(p), at_(at) {}

  bool is(Fn fn) const { return now().fn == fn; }
  Ref argument(int k) const { return now().args[k]; }
  DType type() const { return now().type; }
  Ref at() const { return at_; }
  void on() {
    at_ = argument(0);
    passed_.push_back(at_);
  }
  /// Those between both ends.
  std::vector<Ref> inside() const { return {passed_.begin(), passed_.end() - 1}; }

 private:
  const Instruction& now() const { return p_.code()[static_cast<size_t>(at_)]; }

  const Program& p_;
  Ref at_;
  std::vector<Ref> passed_;
};

}  // namespace

std::optional<QuantizeParts> quantize_parts(const Program& p, Ref last) {
  Walk w(p, last);
  if (!w.is(Fn::cast) || !is_integer(w.type())) return std::nullopt;
  w.on();
  if (w.type() != DType::f32) return std::nullopt;
  QuantizeParts q;
  if (w.is(Fn::clip)) {
    q.low = w.argument(1);
    q.high = w.argument(2);
  } else if (w.is(Fn::min)) {  // clip as ONNX's operators have it
    q.high = w.argument(1);
    w.on();
    if (!w.is(Fn::max)) return std::nullopt;
    q.low = w.argument(1);
  } else {
    return std::nullopt;
  }
  w.on();
  if (w.is(Fn::add)) {
    q.zero = w.argument(1);
    w.on();
  }
  if (!w.is(Fn::round)) return std::nullopt;
  w.on();
  if (w.is(Fn::div)) {
    q.scale = w.argument(1);
    w.on();
  }
  q.x = w.at();
  q.inside = w.inside();
  return q;
}

std::optional<DequantizeParts> dequantize_parts(const Program& p, Ref last) {
  Walk w(p, last);
  if (!w.is(Fn::mul) || w.type() != DType::f32) return std::nullopt;
  DequantizeParts d;
  d.scale = w.argument(1);
  w.on();
  if (!w.is(Fn::cast)) return std::nullopt;
  w.on();
  if (w.is(Fn::sub) && w.type() == DType::i32) {
    d.zero = w.argument(1);
    w.on();
  }
  if (w.is(Fn::cast) && w.type() == DType::i32) w.on();
  if (!is_integer(w.type())) return std::nullopt;
  d.q = w.at();
  d.inside = w.inside();
  return d;
}

}  // namespace smelt::expr
