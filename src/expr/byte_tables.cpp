#include "expr/byte_tables.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "expr/cpu.h"
#include "expr/program_copy.h"

namespace smelt::expr {
namespace {

const Instruction& at(const Program& p, Ref r) { return p.code()[static_cast<size_t>(r)]; }
bool is_byte(DType t) { return t == DType::u8 || t == DType::i8; }

bool is_known(const std::vector<bool>& known, Ref r) {
  return static_cast<size_t>(r) < known.size() && known[static_cast<size_t>(r)];
}

/// What makes `to` of `from`; nothing when `to` depends on anything else that is not known.
std::optional<BytePart> part_between(const Program& p, Ref from, Ref to, const std::vector<bool>& known) {
  BytePart part{from, to, {}, {}};
  std::vector<bool> needed(p.code().size(), false);
  needed[static_cast<size_t>(to)] = true;
  for (Ref r = to; r >= 0; --r) {
    if (!needed[static_cast<size_t>(r)] || r == from) continue;
    if (at(p, r).fn == Fn::input) {
      if (!is_known(known, r)) return std::nullopt;
      part.known.push_back(r);
    }
    for (Ref a : at(p, r).args)
      if (a >= 0) needed[static_cast<size_t>(a)] = true;
  }
  std::ranges::reverse(part.known);
  ProgramCopy copy(p);
  copy.input(from);
  for (Ref r : part.known) copy.input(r);
  for (Ref r = 0; r <= to; ++r)
    if (needed[static_cast<size_t>(r)] && r != from && at(p, r).fn != Fn::input) copy.append(r);
  copy.program.output(copy[to]);
  part.program = std::move(copy.program);
  return part;
}

std::array<uint8_t, 256> results_of(const Program& bytes_to_bytes, simd::Isa isa) {
  std::array<uint8_t, 256> bytes, values;
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  const Evaluator evaluator(bytes_to_bytes, isa, 256);
  std::vector<uint8_t> scratch(static_cast<size_t>(evaluator.scratch()) + 64);
  void* memory = scratch.data();
  size_t room = scratch.size();
  std::align(64, 1, memory, room);
  const Operand in{bytes.data(), 1};
  void* out = values.data();
  evaluator.run(256, std::span(&in, 1), std::span(&out, 1), memory);
  return values;
}

/// By instruction, the first value of 8 bits on which alone it depends: itself, where several things make a byte.
class Sources {
 public:
  static constexpr Ref nothing = -2, several = -1;

  Sources(const Program& p, const std::vector<bool>& known) : of_(p.code().size(), nothing) {
    for (size_t k = 0; k < of_.size(); ++k) {
      const auto r = static_cast<Ref>(k);
      const Instruction& i = at(p, r);
      if (i.fn == Fn::input && !is_known(known, r)) of_[k] = several;
      for (Ref a : i.args)
        if (a >= 0) of_[k] = joined(of_[k], of_[static_cast<size_t>(a)]);
      if (of_[k] == several && is_byte(i.type)) of_[k] = r;
    }
  }
  /// The byte that alone leads to r, another one; nothing where there is none.
  std::optional<Ref> of(const Program& p, Ref r) const {
    const Ref from = of_[static_cast<size_t>(r)];
    return is_byte(p.type(r)) && from >= 0 && from != r ? std::optional(from) : std::nullopt;
  }

 private:
  static Ref joined(Ref a, Ref b) {
    if (a == nothing) return b;
    return b == nothing || a == b ? a : several;
  }

  std::vector<Ref> of_;
};

}  // namespace

std::vector<BytePart> byte_parts(const Program& p, const std::vector<bool>& known) {
  std::vector<BytePart> parts;
  if (std::ranges::count_if(p.code(), [](const Instruction& i) { return is_byte(i.type); }) < 2) return parts;
  const Sources sources(p, known);
  std::vector<bool> wanted(p.code().size(), false);
  for (Ref r : p.outputs()) wanted[static_cast<size_t>(r)] = true;
  for (size_t k = p.code().size(); k-- > 0;) {
    if (!wanted[k]) continue;
    const auto r = static_cast<Ref>(k);
    if (const auto from = sources.of(p, r)) {
      if (auto part = part_between(p, *from, r, known); part && !has_fast_loops(part->program)) {
        parts.push_back(std::move(*part));
        wanted[static_cast<size_t>(*from)] = true;
        continue;
      }
    }
    for (Ref a : at(p, r).args)
      if (a >= 0) wanted[static_cast<size_t>(a)] = true;
  }
  return parts;
}

std::map<Ref, ByteTable> byte_tables(const Program& p, simd::Isa isa) {
  std::map<Ref, ByteTable> tables;
  if (p.input_count() == 1 && p.outputs().size() == 1 && is_byte(p.type(0)) && is_byte(p.type(p.outputs()[0]))) return tables;
  for (const BytePart& part : byte_parts(p)) tables.emplace(part.to, ByteTable{part.from, results_of(part.program, isa)});
  return tables;
}

std::optional<std::array<uint8_t, 256>> table_between(const Program& p, Ref from, Ref to, simd::Isa isa) {
  if (!is_byte(p.type(from)) || !is_byte(p.type(to))) return std::nullopt;
  const auto part = part_between(p, from, to, {});
  return part ? std::optional(results_of(part->program, isa)) : std::nullopt;
}

bool has_fast_loops(const Program& p) {
  constexpr int most = 6;
  for (const Instruction& i : p.code()) {
    if (bits(i.type) > 8) return false;
    if (i.fn == Fn::div || i.fn == Fn::mod || i.fn == Fn::fmod || i.fn == Fn::pow) return false;
  }
  return p.operations() <= most;
}

}  // namespace smelt::expr
