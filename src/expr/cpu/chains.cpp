#include "expr/cpu/chains.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "expr/quantized.h"

namespace smelt::expr {
namespace {

BlockType block_type(DType t) {
  switch (t) {
    case DType::f32: return BlockType::f32;
    case DType::f64: return BlockType::f64;
    case DType::i8: return BlockType::i8;
    case DType::i16: return BlockType::i16;
    case DType::i32: return BlockType::i32;
    case DType::i64: return BlockType::i64;
    case DType::u8: return BlockType::u8;
    case DType::u16: return BlockType::u16;
    case DType::u32: return BlockType::u32;
    case DType::u64: return BlockType::u64;
    case DType::boolean: return BlockType::boolean;
    case DType::f16: return BlockType::f16;
    case DType::bf16: return BlockType::bf16;
    default: fail("expression: the CPU evaluator has no blocks of {}", name(t));
  }
}

class Finder {
 public:
  Finder(const Program& p, const ChainTable& table, const std::vector<int>& uses) : p_(p), table_(table), uses_(uses) {}

  std::optional<Chain> dequantizing(Ref root) const {
    auto d = dequantize_parts(p_, root);
    if (!d) return std::nullopt;
    Chain c{Chain::Kind::dequantize, d->q, d->zero, d->scale, std::move(d->inside)};
    const DType type = p_.type(c.from);
    c.fn = table_.dequantize[type_index(type)];
    const BlockFn by_one = table_.dequantize_by_one[type_index(type)];
    if (by_one && is_call(c.scale, Fn::constant) && is_number_or_absent(c.zero) && fits(number(c.zero), type)) c.fn = by_one;
    return c.fn && alone(c) ? std::optional(c) : std::nullopt;
  }

  /// To the limits of the type, of a quotient.
  std::optional<Chain> quantizing(Ref root) const {
    auto q = quantize_parts(p_, root);
    if (!q || q->scale < 0) return std::nullopt;
    const DType to = at(root).type;
    const double low = is_signed(to) ? -std::ldexp(1, bits(to) - 1) : 0, high = low + std::ldexp(1, bits(to)) - 1;
    if (!is_number(q->low, low) || !is_number(q->high, high)) return std::nullopt;
    Chain c{Chain::Kind::quantize, q->x, q->zero, q->scale, std::move(q->inside)};
    c.fn = table_.quantize[type_index(to)];
    if (!c.fn || !alone(c)) return std::nullopt;
    const BlockFn by_one = table_.quantize_by_one[type_index(to)];
    if (by_one && is_plain(c, to)) c.kind = Chain::Kind::quantize_by_one, c.fn = by_one;
    return c;
  }

  /// Such a chain of the sum or product of dequantized integers of its type and others, or f32.
  std::optional<Chain> combining(Ref root) const {
    auto c = quantizing(root);
    if (!c || c->kind != Chain::Kind::quantize_by_one || uses_[static_cast<size_t>(c->from)] != 1) return std::nullopt;
    const bool product = is_call(c->from, Fn::mul);
    if (!product && !is_call(c->from, Fn::add)) return std::nullopt;
    Ref sides[2] = {at(c->from).args[0], at(c->from).args[1]};
    std::optional<Chain> first = integers_of(sides[0], at(root).type), second = integers_of(sides[1], at(root).type);
    if (!first) std::swap(first, second), std::swap(sides[0], sides[1]);
    if (!first) return std::nullopt;
    c->kind = Chain::Kind::combine;
    c->fn = table_.combine[product][second.has_value()][type_index(at(root).type)];
    c->numbers.divisor = static_cast<float>(at(c->scale).value);
    c->numbers.shift = static_cast<float>(number(c->zero));
    c->inside.push_back(c->from);
    const auto take_in = [&](int k, const Chain& side) {
      c->numbers.zero[k] = static_cast<float>(number(side.zero));
      c->numbers.scale[k] = static_cast<float>(number(side.scale));
      c->inside.push_back(sides[k]);
      c->inside.insert(c->inside.end(), side.inside.begin(), side.inside.end());
    };
    take_in(0, *first);
    if (second) take_in(1, *second);
    c->from = first->from;
    c->other = second ? second->from : sides[1];
    return c;
  }

 private:
  const Instruction& at(Ref r) const { return p_.code()[static_cast<size_t>(r)]; }
  bool is_call(Ref r, Fn fn) const { return r >= 0 && at(r).fn == fn; }
  bool is_number(Ref r, double v) const { return is_call(r, Fn::constant) && at(r).value == v; }

  double number(Ref constant) const { return constant < 0 ? 0 : at(constant).value; }
  bool is_number_or_absent(Ref r) const { return r < 0 || is_call(r, Fn::constant); }
  static bool fits(double number, DType type) { return std::abs(number) < std::ldexp(1, bits(type)); }
  bool alone(const Chain& c) const {
    return std::ranges::all_of(c.inside, [this](Ref r) { return uses_[static_cast<size_t>(r)] == 1; });
  }
  /// A divisor whose inverse is neither nothing nor infinite, and a whole zero point of the type's width.
  bool is_plain(const Chain& c, DType to) const {
    if (!is_call(c.scale, Fn::constant) || !is_number_or_absent(c.zero)) return false;
    const double scale = number(c.scale), zero = number(c.zero);
    return scale > 1e-30 && scale < 1e30 && zero == std::trunc(zero) && fits(zero, to);
  }
  /// Integers of the type, dequantized by numbers, for one reader. Less its zero point each is an f32.
  std::optional<Chain> integers_of(Ref r, DType type) const {
    auto c = dequantizing(r);
    if (!c || uses_[static_cast<size_t>(r)] != 1 || p_.type(c->from) != type) return std::nullopt;
    return is_call(c->scale, Fn::constant) && is_number_or_absent(c->zero) && fits(number(c->zero), type) ? c : std::nullopt;
  }

  const Program& p_;
  const ChainTable& table_;
  const std::vector<int>& uses_;
};

}  // namespace

int type_index(DType t) { return static_cast<int>(block_type(t)); }

std::map<Ref, Chain> find_chains(const Program& p, const std::vector<bool>& live, const ChainTable& table) {
  std::vector<int> uses(p.code().size(), 0);
  for (Ref r : p.outputs()) ++uses[static_cast<size_t>(r)];
  for (size_t i = 0; i < p.code().size(); ++i)
    for (Ref a : p.code()[i].args)
      if (live[i] && a >= 0) ++uses[static_cast<size_t>(a)];
  const Finder find(p, table, uses);
  std::map<Ref, Chain> chains;
  for (size_t i = static_cast<size_t>(p.input_count()); i < p.code().size(); ++i) {
    if (!live[i]) continue;
    const auto root = static_cast<Ref>(i);
    auto chain = find.combining(root);
    if (!chain) chain = find.quantizing(root);
    if (!chain) chain = find.dequantizing(root);
    if (chain) chains.emplace(root, std::move(*chain));
  }
  return chains;
}

}  // namespace smelt::expr
