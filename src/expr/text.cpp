// The printed form of a Program: print, and the parser of the grammar in program.h. The parser calls Program's builders, so a
// text cannot express what they refuse.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "expr/program.h"

namespace smelt::expr {
namespace {

std::string ref_text(Ref r, int inputs) { return r < inputs ? fmt::format("in{}", r) : fmt::format("%{}", r); }

std::string number_text(double v) { return std::isnan(v) ? "nan" : fmt::format("{}", v); }  // the shortest text that parses to v

constexpr size_t longest_program = 1 << 20;  // characters; programs of plans have hundreds

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {
    if (text.size() > longest_program) fail("expression: {} characters; expected at most {}", text.size(), longest_program);
  }

  Program program() {
    Program p;
    expect("(");
    if (!accept(")")) {
      do {
        expect("in");
        const size_t at = pos_;
        if (unsigned_number() != p.input_count()) stop(at, fmt::format("{} (inputs are numbered in order)", p.input_count()));
        expect(":");
        p.input(type());
      } while (accept(","));
      expect(")");
    }
    expect("{");
    while (!accept("return")) statement(p);
    do p.output(ref(p));
    while (accept(","));
    expect("}");
    skip_space();
    if (pos_ != text_.size()) stop(pos_, "the end");
    return p;
  }

 private:
  [[noreturn]] void stop(size_t at, std::string_view expected) const {
    const std::string_view found = text_.substr(at, 16);
    fail("expression, character {}: expected {}, found {}", at + 1, expected,
         found.empty() ? "the end" : fmt::format("'{}'", found));
  }

  void skip_space() {
    while (pos_ < text_.size() && (text_[pos_] == ' ' || text_[pos_] == '\t' || text_[pos_] == '\n' || text_[pos_] == '\r'))
      ++pos_;
  }
  bool accept(std::string_view word) {
    skip_space();
    if (text_.substr(pos_, word.size()) != word) return false;
    pos_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!accept(word)) stop(pos_, fmt::format("'{}'", word));
  }

  int32_t unsigned_number() {
    int32_t n = 0;
    const char* begin = text_.data() + pos_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), n);
    if (error != std::errc() || n < 0) stop(pos_, "a number");
    pos_ += static_cast<size_t>(end - begin);
    return n;
  }

  double value() {
    skip_space();
    double v = 0;
    const char* begin = text_.data() + pos_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), v);
    if (error != std::errc()) stop(pos_, "a constant");
    pos_ += static_cast<size_t>(end - begin);
    return v;
  }

  std::string_view word() {
    skip_space();
    const size_t begin = pos_;
    auto of_word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
    while (pos_ < text_.size() && of_word(text_[pos_])) ++pos_;
    return text_.substr(begin, pos_ - begin);
  }

  DType type() {
    skip_space();
    const size_t at = pos_;
    const auto t = parse_dtype(word());
    if (!t) stop(at, "a type such as f32");
    return *t;
  }

  Ref ref(const Program& p) {
    skip_space();
    const size_t at = pos_;
    const bool input = accept("in");
    if (!input) expect("%");
    const int32_t n = unsigned_number();
    if (input ? n >= p.input_count() : n < p.input_count() || static_cast<size_t>(n) >= p.code().size())
      stop(at, "a value defined before");
    return n;
  }

  /// The function of this name; Fn::input when there is none.
  static Fn function(std::string_view name) {
    for (Fn fn : functions())
      if (info(fn).name == name) return fn;
    return Fn::input;
  }

  void statement(Program& p) {
    skip_space();
    const size_t at = pos_;
    expect("%");
    if (static_cast<size_t>(unsigned_number()) != p.code().size())
      stop(at, fmt::format("%{} (instructions are numbered in order)", p.code().size()));
    expect("=");
    skip_space();
    const size_t name_at = pos_;
    const std::string_view called = word();
    expect("(");
    Ref args[3] = {-1, -1, -1};
    int count = 0;
    double constant = 0;
    if (called == "const") {
      constant = value();
      expect(")");
    } else if (!accept(")")) {
      do {
        if (count == 3) stop(pos_, "at most three arguments");
        args[count++] = ref(p);
      } while (accept(","));
      expect(")");
    }
    expect(":");
    const size_t type_at = pos_;
    const DType t = type();
    expect(";");
    try {
      build(p, called, name_at, args, count, constant, t, type_at);
    } catch (const Error& e) {
      throw e.at(fmt::format("character {}", at + 1));
    }
  }

  void build(Program& p, std::string_view called, size_t name_at, const Ref (&args)[3], int count, double constant, DType t,
             size_t type_at) {
    if (called == "const") {
      p.constant(t, constant);
      return;
    }
    if (called == "cast") {
      if (count != 1) fail("cast takes 1 argument, found {}", count);
      if (p.type(args[0]) == t) stop(type_at, fmt::format("another type than {}, which the argument has", name(t)));
      p.cast(args[0], t);
      return;
    }
    const Fn fn = function(called);
    if (fn == Fn::input) stop(name_at, "a function of the expression language");
    const Ref r = count == 1   ? p.call(fn, args[0])
                  : count == 2 ? p.call(fn, args[0], args[1])
                  : count == 3 ? p.call(fn, args[0], args[1], args[2])
                               : -1;
    if (r < 0) fail("{} takes {} arguments, found none", called, info(fn).arity);
    if (p.type(r) != t) stop(type_at, fmt::format("{}, the type of this call's result", name(p.type(r))));
  }

  std::string_view text_;
  size_t pos_ = 0;
};

}  // namespace

std::string Program::print() const {
  std::string s = "(";
  auto out = std::back_inserter(s);
  for (int i = 0; i < inputs_; ++i) fmt::format_to(out, "{}in{}:{}", i ? ", " : "", i, name(type(i)));
  s += ") { ";
  for (size_t i = static_cast<size_t>(inputs_); i < code_.size(); ++i) {
    const Instruction& c = code_[i];
    fmt::format_to(out, "%{} = {}(", i, info(c.fn).name);
    if (c.fn == Fn::constant) s += number_text(c.value);
    for (int k = 0; k < info(c.fn).arity; ++k) fmt::format_to(out, "{}{}", k ? ", " : "", ref_text(c.args[k], inputs_));
    fmt::format_to(out, "):{}; ", name(c.type));
  }
  s += "return ";
  for (size_t i = 0; i < outputs_.size(); ++i) fmt::format_to(out, "{}{}", i ? ", " : "", ref_text(outputs_[i], inputs_));
  return s + " }";
}

Program Program::parse(std::string_view text) { return Parser(text).program(); }

}  // namespace smelt::expr
