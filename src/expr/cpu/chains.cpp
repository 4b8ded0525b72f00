#include "expr/cpu/chains.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"

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
  Finder(const Program& p, const ChainTable& table) : p_(p), table_(table) {}

  /// mul(cast(sub(cast(bytes), zero)), scale), or without the difference.
  std::optional<Chain> dequantizing(Ref root) const {
    if (!is_call(root, Fn::mul) || at(root).type != DType::f32 || !is_call(at(root).args[0], Fn::cast)) return std::nullopt;
    Chain c{false, at(at(root).args[0]).args[0], -1, at(root).args[1], {at(root).args[0]}};
    if (is_call(c.from, Fn::sub) && at(c.from).type == DType::i32 && is_call(at(c.from).args[0], Fn::cast)) {
      c.inside.insert(c.inside.end(), {c.from, at(c.from).args[0]});
      c.zero = at(c.from).args[1];
      c.from = at(at(c.from).args[0]).args[0];
    }
    return table_.dequantize[type_index(p_.type(c.from))] ? std::optional(c) : std::nullopt;
  }

  /// cast(clip(add(round(div(x, scale)), zero), the type's limits)), or without the sum.
  std::optional<Chain> quantizing(Ref root) const {
    const DType to = at(root).type;
    if (!is_call(root, Fn::cast) || !is_integer(to) || !table_.quantize[type_index(to)]) return std::nullopt;
    const Ref clip = at(root).args[0];
    if (!is_call(clip, Fn::clip) || p_.type(clip) != DType::f32) return std::nullopt;
    const double low = is_signed(to) ? -std::ldexp(1, bits(to) - 1) : 0, high = low + std::ldexp(1, bits(to)) - 1;
    if (!is_number(at(clip).args[1], low) || !is_number(at(clip).args[2], high)) return std::nullopt;
    Chain c{true, -1, -1, -1, {clip}};
    Ref round = at(clip).args[0];
    if (is_call(round, Fn::add)) {
      c.inside.push_back(round);
      c.zero = at(round).args[1];
      round = at(round).args[0];
    }
    if (!is_call(round, Fn::round) || !is_call(at(round).args[0], Fn::div)) return std::nullopt;
    const Ref quotient = at(round).args[0];
    c.inside.insert(c.inside.end(), {round, quotient});
    c.from = at(quotient).args[0];
    c.scale = at(quotient).args[1];
    return c;
  }

 private:
  const Instruction& at(Ref r) const { return p_.code()[static_cast<size_t>(r)]; }
  bool is_call(Ref r, Fn fn) const { return r >= 0 && at(r).fn == fn; }
  bool is_number(Ref r, double v) const { return is_call(r, Fn::constant) && at(r).value == v; }

  const Program& p_;
  const ChainTable& table_;
};

}  // namespace

int type_index(DType t) { return static_cast<int>(block_type(t)); }

std::map<Ref, Chain> find_chains(const Program& p, const std::vector<bool>& live, const ChainTable& table) {
  std::vector<int> uses(p.code().size(), 0);
  for (Ref r : p.outputs()) ++uses[static_cast<size_t>(r)];
  for (size_t i = 0; i < p.code().size(); ++i)
    for (Ref a : p.code()[i].args)
      if (live[i] && a >= 0) ++uses[static_cast<size_t>(a)];
  const Finder find(p, table);
  std::map<Ref, Chain> chains;
  for (size_t i = static_cast<size_t>(p.input_count()); i < p.code().size(); ++i) {
    if (!live[i]) continue;
    auto chain = find.quantizing(static_cast<Ref>(i));
    if (!chain) chain = find.dequantizing(static_cast<Ref>(i));
    if (chain && std::ranges::all_of(chain->inside, [&](Ref r) { return uses[static_cast<size_t>(r)] == 1; }))
      chains.emplace(static_cast<Ref>(i), std::move(*chain));
  }
  return chains;
}

}  // namespace smelt::expr
