#include "expr/bytes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "expr/cpu.h"

namespace smelt::expr {
namespace {

const Instruction& at(const Program& p, Ref r) { return p.code()[static_cast<size_t>(r)]; }
bool is_constant(const Program& p, Ref r) { return at(p, r).fn == Fn::constant; }

/// The part of a program that makes `last` of one or two values of 8 bits, which are its inputs.
class Part {
 public:
  Part(const Program& p, Ref last) : p_(p) {
    collect(last);
    if (!only_bytes_ || bytes_.empty() || bytes_.size() > 2) return;
    for (const Ref b : bytes_) here_[b] = part_.input(p.type(b));
    part_.output(copied(last));
    made_ = true;
  }
  bool made() const { return made_; }
  const Program& program() const { return part_; }
  /// Which of the inputs a value of 8 bits is.
  int place(Ref byte) const { return static_cast<int>(std::distance(bytes_.begin(), bytes_.find(byte))); }

 private:
  static int arguments(const Instruction& c) { return c.fn <= Fn::constant ? 0 : c.fn == Fn::cast ? 1 : info(c.fn).arity; }
  void collect(Ref r) {
    if (!seen_.insert(r).second) return;
    if (const auto less = less_whole(p_, at(p_, r))) {
      bytes_.insert(less->byte);
      return;
    }
    if (at(p_, r).fn == Fn::input) only_bytes_ = false;
    for (int k = 0; only_bytes_ && k < arguments(at(p_, r)); ++k) collect(at(p_, r).args[k]);
  }
  Ref copied(Ref r) {
    if (const auto found = here_.find(r); found != here_.end()) return found->second;
    const Instruction& c = at(p_, r);
    std::array<Ref, 3> a{};
    for (int k = 0; k < arguments(c); ++k) a[static_cast<size_t>(k)] = copied(c.args[k]);
    Ref made;
    if (c.fn == Fn::constant)
      made = part_.constant(c.type, c.value);
    else if (c.fn == Fn::cast)
      made = part_.cast(a[0], c.type);
    else
      made = arguments(c) == 1   ? part_.call(c.fn, a[0])
             : arguments(c) == 2 ? part_.call(c.fn, a[0], a[1])
                                 : part_.call(c.fn, a[0], a[1], a[2]);
    return here_[r] = made;
  }

  const Program& p_;
  Program part_;
  std::set<Ref> bytes_, seen_;
  std::map<Ref, Ref> here_;
  bool only_bytes_ = true, made_ = false;
};

/// A value of 8 bits less a whole number, times a constant.
struct Scaled {
  Ref value;
  double by;
};
std::optional<Scaled> scaled(const Program& p, Ref r) {
  if (less_whole(p, at(p, r))) return Scaled{r, 1};
  const Instruction& c = at(p, r);
  if (c.fn == Fn::mul && c.type == DType::f32)
    for (const int k : {0, 1})
      if (less_whole(p, at(p, c.args[k])) && is_constant(p, c.args[1 - k])) return Scaled{c.args[k], at(p, c.args[1 - k]).value};
  return {};
}

/// The way as it follows from the program in exact numbers.
struct Exact {
  OfBytes::Form form;
  Ref a, b;
  double by_a, by_b;
  bool relu;
};
std::optional<Exact> exact_way(const Program& p, Ref x, bool relu) {
  double of_all = 1;
  if (const Instruction& c = at(p, x); c.fn == Fn::div && c.type == DType::f32 && is_constant(p, c.args[1])) {
    of_all = 1 / static_cast<double>(static_cast<float>(at(p, c.args[1]).value));
    x = c.args[0];
  }
  if (at(p, x).fn == Fn::relu && of_all > 0) relu = true, x = at(p, x).args[0];
  if (const auto one = scaled(p, x)) return Exact{OfBytes::Form::scaled, one->value, -1, one->by * of_all, 0, relu};
  const Instruction& c = at(p, x);
  if (c.type != DType::f32) return {};
  if (c.fn == Fn::hard_swish) {
    const auto one = scaled(p, c.args[0]);
    if (one) return Exact{OfBytes::Form::hard_swish, one->value, -1, one->by * of_all, one->by / 6, relu};
  }
  if (c.fn != Fn::add && c.fn != Fn::mul) return {};
  const auto a = scaled(p, c.args[0]), b = scaled(p, c.args[1]);
  if (!a || !b) return {};
  if (c.fn == Fn::mul) return Exact{OfBytes::Form::product, a->value, b->value, a->by * b->by * of_all, 0, relu};
  return Exact{OfBytes::Form::sum, a->value, b->value, a->by * of_all, b->by * of_all, relu};
}

/// A GPU rounds what is nearer to 0 by an addition (smelt_expr::quantized_near).
constexpr float near = (1 << 21) - 512;
/// Every pair of bytes, the first input's the sooner to change.
constexpr int64_t pairs = 65536;

/// Whether the way gives `expected` of all pairs, or of 256 values. `place`: which input's bytes they are.
bool is_right(const OfBytes& way, std::span<const LessWhole, 2> less, std::span<const int, 2> place, DType from_a, DType from_b,
              DType to, double zero, std::span<const uint8_t> expected) {
  const auto number = [](int byte, DType type) { return type == DType::i8 ? static_cast<int8_t>(byte) : byte; };
  const int first = to == DType::i8 ? -128 : 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const int bytes[] = {static_cast<int>(i & 255), static_cast<int>(i >> 8)};
    const auto a = static_cast<float>(number(bytes[place[0]], from_a) - less[0].less);
    const auto b = static_cast<float>(number(bytes[place[1]], from_b) - less[1].less);
    const float x = value(way, a, b);
    if (!(std::abs(x) < near)) return false;
    const int whole = static_cast<int>(std::nearbyint(way.relu ? std::max(x, 0.f) : x)) + static_cast<int>(zero);
    if (static_cast<uint8_t>(std::clamp(whole, first, first + 255)) != expected[i]) return false;
  }
  return true;
}

std::optional<OfBytes> search(const Program& p, Ref last) {
  const auto q = quantized(p, at(p, last));
  if (!q) return {};
  const auto exact = exact_way(p, q->x, q->relu);
  if (!exact) return {};
  const Part part(p, last);
  if (!part.made()) return {};
  const auto a = less_whole(p, at(p, exact->a)), b = exact->b < 0 ? a : less_whole(p, at(p, exact->b));
  if (!a || !b) return {};
  const LessWhole less[] = {*a, *b};
  const int place[] = {part.place(a->byte), part.place(b->byte)};

  const int64_t count = part.program().input_count() == 1 ? 256 : pairs;
  std::vector<uint8_t> first(static_cast<size_t>(count)), second(first.size()), expected(first.size());
  for (size_t i = 0; i < first.size(); ++i) first[i] = static_cast<uint8_t>(i), second[i] = static_cast<uint8_t>(i >> 8);
  const Evaluator evaluator(part.program(), simd::widest(), count);
  std::vector<uint8_t> scratch(static_cast<size_t>(evaluator.scratch()) + 64);
  void* aligned = scratch.data();
  size_t room = scratch.size();
  std::align(64, 1, aligned, room);
  const Operand inputs[] = {{first.data(), 1}, {second.data(), 1}};
  void* const outputs[] = {expected.data()};
  evaluator.run(count, std::span(inputs, static_cast<size_t>(part.program().input_count())), outputs, aligned);

  const auto by_a = static_cast<float>(exact->by_a), by_b = static_cast<float>(exact->by_b);
  const auto beside = [](float x, int steps) {
    for (; steps > 0; --steps) x = std::nextafter(x, INFINITY);
    for (; steps < 0; ++steps) x = std::nextafter(x, -INFINITY);
    return x;
  };
  // Neighbouring constants round other sums of those next to halves.
  for (const int of_b : {0, 1, -1, 2, -2})
    for (const int of_a : {0, 1, -1, 2, -2})
      for (const bool turned : {false, true}) {
        OfBytes way{exact->form, exact->a, exact->b, beside(by_a, of_a), beside(by_b, of_b), exact->relu};
        LessWhole l[] = {less[0], less[1]};
        int at_place[] = {place[0], place[1]};
        if (turned) {
          if (way.form != OfBytes::Form::sum) continue;
          std::swap(way.a, way.b), std::swap(way.by_a, way.by_b), std::swap(l[0], l[1]), std::swap(at_place[0], at_place[1]);
        }
        if (by_b == 0 && of_b != 0) continue;
        if (is_right(way, l, at_place, p.type(l[0].byte), p.type(l[1].byte), p.type(last), q->zero, expected)) return way;
      }
  return {};
}

}  // namespace

std::optional<Quantized> quantized(const Program& p, const Instruction& cast) {
  if (cast.fn != Fn::cast || (cast.type != DType::u8 && cast.type != DType::i8)) return {};
  const Instruction& clip = at(p, cast.args[0]);
  if (clip.fn != Fn::clip || clip.type != DType::f32) return {};
  const Instruction &sum = at(p, clip.args[0]), &least = at(p, clip.args[1]), &most = at(p, clip.args[2]);
  const double first = cast.type == DType::i8 ? -128 : 0;
  if (sum.fn != Fn::add || least.fn != Fn::constant || most.fn != Fn::constant || least.value != first ||
      most.value != first + 255)
    return {};
  const Instruction &rounded = at(p, sum.args[0]), &zero = at(p, sum.args[1]);
  if (rounded.fn != Fn::round || zero.fn != Fn::constant || std::abs(zero.value) > 255 || zero.value != std::floor(zero.value))
    return {};
  const Instruction& x = at(p, rounded.args[0]);
  return Quantized{x.fn == Fn::relu ? x.args[0] : rounded.args[0], x.fn == Fn::relu, zero.value};
}

std::optional<LessWhole> less_whole(const Program& p, const Instruction& cast) {
  if (cast.fn != Fn::cast || cast.type != DType::f32) return {};
  LessWhole found{cast.args[0], 0};
  if (const Instruction& sub = at(p, found.byte); sub.fn == Fn::sub && sub.type == DType::i32) {
    const Instruction& less = at(p, sub.args[1]);
    if (less.fn != Fn::constant || std::abs(less.value) > 255 || less.value != std::floor(less.value)) return {};
    found = {sub.args[0], less.value};
  }
  if (const Instruction& wide = at(p, found.byte); wide.fn == Fn::cast && wide.type == DType::i32) found.byte = wide.args[0];
  const DType type = p.type(found.byte);
  return type == DType::u8 || type == DType::i8 ? std::optional(found) : std::nullopt;
}

float value(const OfBytes& way, float a, float b) {
  // The products are floats before they are added to: as CUDA's __fmul_rn.
  const float scaled = a * way.by_a;
  switch (way.form) {
    case OfBytes::Form::sum: return std::fma(a, way.by_a, b * way.by_b);
    case OfBytes::Form::product: return a * b * way.by_a;
    case OfBytes::Form::scaled: return scaled;
    case OfBytes::Form::hard_swish: return scaled * std::clamp(std::fma(a, way.by_b, 0.5f), 0.f, 1.f);
  }
  return 0;
}

std::optional<OfBytes> of_bytes(const Program& p, Ref last) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, Ref>, std::optional<OfBytes>> known;
  if (!quantized(p, at(p, last))) return {};
  const std::pair key(p.print(), last);
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  const auto way = search(p, last);
  const std::lock_guard lock(mutex);
  return known.emplace(key, way).first->second;
}

}  // namespace smelt::expr
