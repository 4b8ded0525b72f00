#include "expr/onnx.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <string_view>

#include "base/error.h"

namespace smelt::expr {
namespace {

bool gives_bool(std::string_view op) {
  static constexpr std::array ops = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "And",
                                     "Or",   "Xor",         "Not",     "IsNaN",          "IsInf"};
  return std::ranges::find(ops, op) != ops.end();
}

class Printer {
 public:
  explicit Printer(const Program& p) : p_(p) {}

  OnnxCode run() {
    mark_live();
    next_ = p_.input_count();
    values_.assign(p_.code().size(), -1);
    for (int i = 0; i < p_.input_count(); ++i) values_[static_cast<size_t>(i)] = i;
    for (size_t i = static_cast<size_t>(p_.input_count()); i < p_.code().size(); ++i)
      if (live_[i]) values_[i] = instruction(p_.code()[i]);
    for (Ref r : p_.outputs()) code_.outputs.push_back(values_[static_cast<size_t>(r)]);
    return std::move(code_);
  }

 private:
  void mark_live() {
    live_.assign(p_.code().size(), false);
    for (Ref r : p_.outputs()) live_[static_cast<size_t>(r)] = true;
    for (size_t i = live_.size(); i-- > 0;)
      for (Ref a : p_.code()[i].args)
        if (live_[i] && a >= 0) live_[static_cast<size_t>(a)] = true;
  }

  int32_t add(OnnxNode n) {
    n.output = next_++;
    code_.nodes.push_back(std::move(n));
    return code_.nodes.back().output;
  }

  int32_t constant(DType t, double v) {
    for (const OnnxNode& n : code_.nodes)
      if (n.op == "Constant" && n.type == t && std::bit_cast<uint64_t>(n.value) == std::bit_cast<uint64_t>(v)) return n.output;
    return add({.op = "Constant", .type = t, .value = v});
  }

  int32_t instruction(const Instruction& c) {
    if (c.fn == Fn::constant) return constant(c.type, c.value);
    if (c.fn == Fn::cast) return add({.op = "Cast", .inputs = {values_[static_cast<size_t>(c.args[0])]}, .type = c.type});
    current_ = &c;
    type_ = p_.type(c.args[c.fn == Fn::select ? 1 : 0]);
    std::string_view text = info(c.fn).onnx;
    if (const size_t bar = text.find('|'); bar != text.npos)
      text = is_integer(type_) ? text.substr(bar + 1) : text.substr(0, bar);
    rest_ = text;
    return term();
  }

  bool accept(char c) {
    while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string_view until(std::string_view stops) {
    const std::string_view word = rest_.substr(0, rest_.find_first_of(stops));
    rest_.remove_prefix(word.size());
    return word;
  }
  /// Fails on a malformed row of functions.def. A test prints every function, so no such row is released.
  void expect(char c) {
    if (!accept(c)) fail("functions.def, {}: expected '{}' in its ONNX form before \"{}\"", info(current_->fn).name, c, rest_);
  }

  int32_t term() {
    if (accept('$')) {
      const char which = rest_.empty() ? ' ' : rest_[0];
      rest_.remove_prefix(1);
      if (which != 'T') return values_[static_cast<size_t>(current_->args[which - 'a'])];
      expect('(');
      double v = 0;
      const std::string_view number = until(")");
      std::from_chars(number.data(), number.data() + number.size(), v);
      expect(')');
      return constant(type_, v);
    }
    accept(' ');
    OnnxNode n;
    n.op = until("([");
    if (accept('[')) {
      const std::string key(until("="));
      expect('=');
      const std::string_view value = until("]");
      int64_t number = 0;
      if (std::from_chars(value.data(), value.data() + value.size(), number).ec == std::errc())
        n.ints.emplace_back(key, number);
      else
        n.strings.emplace_back(key, value);
      expect(']');
    }
    expect('(');
    do n.inputs.push_back(term());
    while (accept(','));
    expect(')');
    n.type = gives_bool(n.op) ? DType::boolean : type_;
    return add(std::move(n));
  }

  const Program& p_;
  OnnxCode code_;
  std::vector<bool> live_;
  std::vector<int32_t> values_;
  int32_t next_ = 0;
  const Instruction* current_ = nullptr;
  DType type_ = DType::f32;
  std::string_view rest_;
};

}  // namespace

OnnxCode to_onnx(const Program& p) { return Printer(p).run(); }

}  // namespace smelt::expr
