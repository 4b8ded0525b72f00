#include "expr/cpu.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/number.h"
#include "expr/byte_tables.h"
#include "expr/cpu/chains.h"
#include "expr/simd/look_up.h"
#include "smelt/tensor.h"

namespace smelt::expr {
namespace {

constexpr int64_t cache_line = 64;
constexpr int64_t working_set = 24 << 10;  // bytes of all blocks together: three quarters of a 32 KiB L1 cache
constexpr int64_t shortest_block = 128, longest_block = 1024;
constexpr int64_t longest_of_narrow = 4096;  // bytes: where all types are narrow a call of a loop takes longer than 1024 elements

int width(DType t) { return bits(t) / 8 ? bits(t) / 8 : 1; }
bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }

void write_constant(uint8_t* to, DType t, double value) {
  dispatch(t, "expression", [&]<class T>(T) {
    if constexpr (std::is_arithmetic_v<T>) {
      T v;
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
        v = truncated<T>(value);  // of a plan's text it may be any number
      else
        v = static_cast<T>(value);
      std::memcpy(to, &v, sizeof v);
    }
  });
}

const BlockTable& block_table(simd::Isa isa) {
  switch (isa) {
    case simd::Isa::avx512: return avx512::block_table();
    case simd::Isa::avx2: return avx2::block_table();
    default: return base::block_table();
  }
}

const ChainTable& chain_table(simd::Isa isa) {
  if (isa == simd::Isa::avx512) return avx512::chain_table();
  return isa == simd::Isa::avx2 ? avx2::chain_table() : base::chain_table();
}

/// Through the table of 256 bytes that b is.
template <LookUp look_up> void look_up_block(void* out, const void* a, const void* b, const void*, int64_t n) {
  look_up(static_cast<uint8_t*>(out), static_cast<const uint8_t*>(a), n, static_cast<const uint8_t*>(b));
}
void best_look_up_block(void* out, const void* a, const void* b, const void*, int64_t n) {
  avx2::best_look_up()(static_cast<uint8_t*>(out), static_cast<const uint8_t*>(a), n, static_cast<const uint8_t*>(b));
}

}  // namespace

GatherFn gather_of(int bytes) { return block_table(simd::widest()).gather[std::bit_width(static_cast<unsigned>(bytes)) - 1]; }

void gather(void* to, const void* data, int64_t stride, int64_t n, int bytes) { gather_of(bytes)(to, data, stride, n, 0, 1); }

/// Lowers a program to steps over numbered values, then assigns a slot to each value.
class Evaluator::Compiler {
 public:
  Compiler(Evaluator& e, const Program& p, simd::Isa isa) : e_(e), p_(p), table_(block_table(isa)), isa_(isa) {}

  void run(int64_t loop_length) {
    tables_ = byte_tables(p_, isa_);
    find_live();
    chains_ = find_chains(p_, live_, chain_table(isa_));
    for (const auto& [r, table] : tables_) chains_.erase(r);
    within_.assign(p_.code().size(), false);
    for (const auto& [root, chain] : chains_)
      for (Ref r : chain.inside) within_[static_cast<size_t>(r)] = true;
    value_of_.assign(p_.code().size(), -1);
    for (int i = 0; i < p_.input_count(); ++i) {
      value_of_[static_cast<size_t>(i)] = new_value(p_.type(i));
      e_.input_bytes_.push_back(width(p_.type(i)));
      e_.input_gather_.push_back(gather_of(width(p_.type(i))));
      e_.input_read_.push_back(live_[static_cast<size_t>(i)]);
    }
    for (Ref r : p_.outputs()) e_.output_bytes_.push_back(width(p_.type(r)));
    for (size_t i = static_cast<size_t>(p_.input_count()); i < p_.code().size(); ++i)
      if (live_[i] && !within_[i]) lower(static_cast<Ref>(i));
    assign_slots();
    size_blocks(loop_length);
    splat_constants();
  }

 private:
  struct ValueInfo {
    DType type;
    int32_t slot = -1;
    int last_use = -1;  // the last step that reads it
  };

  int32_t new_value(DType t) {
    values_.push_back({t});
    return static_cast<int32_t>(values_.size()) - 1;
  }

  void find_live() {
    live_.assign(p_.code().size(), false);
    for (Ref r : p_.outputs()) live_[static_cast<size_t>(r)] = true;
    for (size_t i = p_.code().size(); i-- > 0;)
      if (!live_[i]) {
        continue;
      } else if (const auto table = tables_.find(static_cast<Ref>(i)); table != tables_.end()) {
        live_[static_cast<size_t>(table->second.from)] = true;
      } else {
        for (Ref a : p_.code()[i].args)
          if (a >= 0) live_[static_cast<size_t>(a)] = true;
      }
  }

  const Instruction& at(Ref r) const { return p_.code()[static_cast<size_t>(r)]; }

  int32_t number(DType t, double v) {
    const int32_t value = new_value(t);
    constants_.emplace_back(value, v);
    return value;
  }

  int32_t emit_chain(const Chain& c, DType to) {
    const auto value = [&](Ref r) { return value_of_[static_cast<size_t>(r)]; };
    if (c.kind == Chain::Kind::combine) {
      numbers_.emplace_back(new_value(DType::f32), c.numbers);
      return emit(c.fn, to, value(c.from), value(c.other), numbers_.back().first);
    }
    const bool dequantizes = c.kind == Chain::Kind::dequantize;
    const int32_t zero = c.zero >= 0 ? value(c.zero) : number(dequantizes ? DType::i32 : DType::f32, 0);
    return dequantizes ? emit(c.fn, to, value(c.from), zero, value(c.scale))
                       : emit(c.fn, to, value(c.from), value(c.scale), zero);
  }

  bool is_constant(Ref r, double value) const { return at(r).fn == Fn::constant && at(r).value == value; }

  int32_t emit(BlockFn fn, DType type, int32_t a, int32_t b = -1, int32_t c = -1) {
    const int32_t out = new_value(type);
    e_.steps_.push_back({fn, out, {a, b, c}});
    return out;
  }

  int32_t emit_cast(int32_t a, DType to) {
    const DType from = values_[static_cast<size_t>(a)].type;
    if (is_half(from) && to != DType::f32) return emit_cast(emit_cast(a, DType::f32), to);
    // An integer goes through a float type that holds its values exactly, so that only one rounding is left. (f64 holds 64-bit
    // integers up to 2^53.)
    if (is_half(to) && from != DType::f32 && from != DType::f64)
      return emit_cast(emit_cast(a, bits(from) > 16 ? DType::f64 : DType::f32), to);
    return emit(table_.cast[type_index(from)][type_index(to)], to, a);
  }

  void lower(Ref r) {
    const Instruction& c = p_.code()[static_cast<size_t>(r)];
    auto arg = [&](int k) { return c.args[k] < 0 ? -1 : value_of_[static_cast<size_t>(c.args[k])]; };
    int32_t& value = value_of_[static_cast<size_t>(r)];
    if (const auto table = tables_.find(r); table != tables_.end()) {
      bytes_.emplace_back(new_value(DType::u8), &table->second.bytes);
      value = emit(isa_ == simd::Isa::base ? look_up_block<base::look_up> : best_look_up_block, c.type,
                   value_of_[static_cast<size_t>(table->second.from)], bytes_.back().first);
    } else if (const auto chain = chains_.find(r); chain != chains_.end()) {
      value = emit_chain(chain->second, c.type);
    } else if (c.fn == Fn::constant) {
      value = new_value(c.type);
      constants_.emplace_back(value, c.value);
    } else if (c.fn == Fn::cast) {
      value = emit_cast(arg(0), c.type);
    } else if (c.fn == Fn::pow && is_constant(c.args[1], 2)) {  // a product is 30 times faster than libm's pow
      value = emit(function(Fn::mul, c.type), c.type, arg(0), arg(0));
    } else {
      const DType operand = p_.type(c.args[c.fn == Fn::select ? 1 : 0]);
      value = emit(function(c.fn, operand), c.type, arg(0), arg(1), arg(2));
    }
  }

  BlockFn function(Fn fn, DType t) const {
    return table_.function[static_cast<int>(fn) - static_cast<int>(Fn::cast) - 1][type_index(t)];
  }

  void assign_slots() {
    int32_t slots = 0;
    for (int i = 0; i < p_.input_count(); ++i) values_[static_cast<size_t>(i)].slot = slots++;
    std::vector<bool> written(values_.size(), false);
    for (const Step& s : e_.steps_) written[static_cast<size_t>(s.out)] = true;
    for (size_t o = 0; o < p_.outputs().size(); ++o) {
      const int32_t v = value_of_[static_cast<size_t>(p_.outputs()[o])];
      ValueInfo& value = values_[static_cast<size_t>(v)];
      if (written[static_cast<size_t>(v)] && value.slot < 0)
        value.slot = slots;
      else
        e_.copies_.insert(e_.copies_.end(), {static_cast<int32_t>(o), v});
      ++slots;
    }
    for (auto& [v, number] : constants_) values_[static_cast<size_t>(v)].slot = slots++;
    for (auto& [v, numbers] : numbers_) values_[static_cast<size_t>(v)].slot = slots++;
    for (auto& [v, bytes] : bytes_) values_[static_cast<size_t>(v)].slot = slots++;
    e_.first_block_ = slots;

    for (size_t s = 0; s < e_.steps_.size(); ++s)
      for (int32_t a : e_.steps_[s].args)
        if (a >= 0) values_[static_cast<size_t>(a)].last_use = static_cast<int>(s);
    std::vector<int32_t> free;
    for (size_t s = 0; s < e_.steps_.size(); ++s) {
      Step& step = e_.steps_[s];
      ValueInfo& out = values_[static_cast<size_t>(step.out)];
      auto release = [&](bool same_width) {
        for (int k = 0; k < 3; ++k) {
          const int32_t a = step.args[k];
          if (a < 0 || std::find(step.args, step.args + k, a) != step.args + k) continue;
          const ValueInfo& v = values_[static_cast<size_t>(a)];
          // A loop may write over an argument only if both have the same width, so that element i of both is at the same place.
          if (v.slot >= e_.first_block_ && v.last_use == static_cast<int>(s) && (width(v.type) == width(out.type)) == same_width)
            free.push_back(v.slot);
        }
      };
      release(true);
      if (out.slot < 0) {
        if (free.empty()) {
          out.slot = slots++;
        } else {
          out.slot = free.back();
          free.pop_back();
        }
      }
      release(false);
    }
    e_.slots_ = slots;
    for (Step& s : e_.steps_) {
      s.out = values_[static_cast<size_t>(s.out)].slot;
      for (int32_t& a : s.args) a = a < 0 ? -1 : values_[static_cast<size_t>(a)].slot;
    }
    for (size_t i = 1; i < e_.copies_.size(); i += 2) e_.copies_[i] = values_[static_cast<size_t>(e_.copies_[i])].slot;
  }

  void size_blocks(int64_t loop_length) {
    int widest = 1;
    for (const ValueInfo& v : values_) widest = std::max(widest, width(v.type));
    const int64_t fitting = working_set / (widest * std::max(e_.slots_, 1)) / cache_line * cache_line;
    const int64_t longest = std::max(longest_block, longest_of_narrow / widest);
    e_.block_ = std::min(std::clamp(fitting, shortest_block, longest),
                         round_up(std::clamp<int64_t>(loop_length, 1, longest), cache_line));
    e_.slot_bytes_ = static_cast<int32_t>(e_.block_ * widest);
    const int64_t blocks = p_.input_count() + e_.slots_ - e_.first_block_;
    e_.scratch_ = round_up(e_.slots_ * static_cast<int64_t>(sizeof(void*)), cache_line) + blocks * e_.slot_bytes_;
  }

  void splat_constants() {
    for (const auto& [v, number] : constants_) {
      const ValueInfo& value = values_[static_cast<size_t>(v)];
      const int64_t offset = static_cast<int64_t>(e_.constants_.size());
      const int bytes = width(value.type);
      e_.constants_.resize(static_cast<size_t>(offset + round_up(e_.block_ * bytes, cache_line)));
      uint8_t first[8] = {};
      write_constant(first, value.type, number);
      gather(e_.constants_.data() + offset, first, 0, e_.block_, bytes);
      e_.constant_slots_.push_back({value.slot, offset});
    }
    for (const auto& [v, numbers] : numbers_) {
      const auto offset = static_cast<int64_t>(e_.constants_.size());
      e_.constants_.resize(static_cast<size_t>(offset + cache_line));
      std::memcpy(e_.constants_.data() + offset, &numbers, sizeof numbers);
      e_.constant_slots_.push_back({values_[static_cast<size_t>(v)].slot, offset});
    }
    for (const auto& [v, bytes] : bytes_) {
      e_.constant_slots_.push_back({values_[static_cast<size_t>(v)].slot, static_cast<int64_t>(e_.constants_.size())});
      e_.constants_.insert(e_.constants_.end(), bytes->begin(), bytes->end());
    }
  }

  Evaluator& e_;
  const Program& p_;
  const BlockTable& table_;
  simd::Isa isa_;
  std::vector<bool> live_, within_;  // within a chain
  std::map<Ref, ByteTable> tables_;
  std::map<Ref, Chain> chains_;    // by their last instruction
  std::vector<int32_t> value_of_;  // of each instruction; -1 for a dead one
  std::vector<ValueInfo> values_;
  std::vector<std::pair<int32_t, double>> constants_;  // value, number
  std::vector<std::pair<int32_t, ChainNumbers>> numbers_;
  std::vector<std::pair<int32_t, const std::array<uint8_t, 256>*>> bytes_;  // of tables
};

Evaluator::Evaluator(const Program& program, simd::Isa isa, int64_t loop_length) {
  Compiler(*this, program, isa).run(loop_length);
}

void Evaluator::run(int64_t n, std::span<const Operand> inputs, std::span<void* const> outputs, void* scratch) const {
  prepare(scratch);
  run_prepared(n, inputs, outputs, scratch);
}

uint8_t* Evaluator::input_blocks(void* scratch) const {
  return static_cast<uint8_t*>(scratch) + round_up(slots_ * static_cast<int64_t>(sizeof(void*)), cache_line);
}

void Evaluator::prepare(void* scratch) const {
  auto** slot = static_cast<uint8_t**>(scratch);
  uint8_t* next_block = input_blocks(scratch) + static_cast<int64_t>(input_bytes_.size()) * slot_bytes_;
  for (const Constant& c : constant_slots_) slot[c.slot] = const_cast<uint8_t*>(constants_.data()) + c.offset;  // never written
  for (int32_t s = first_block_; s < slots_; ++s, next_block += slot_bytes_) slot[s] = next_block;
}

void Evaluator::run_prepared(int64_t n, std::span<const Operand> inputs, std::span<void* const> outputs, void* scratch) const {
  const size_t input_count = input_bytes_.size(), output_count = output_bytes_.size();
  auto** slot = static_cast<uint8_t**>(scratch);
  uint8_t* const blocks = input_blocks(scratch);
  for (size_t i = 0; i < input_count; ++i) {
    slot[i] = blocks + static_cast<int64_t>(i) * slot_bytes_;
    if (inputs[i].stride == 0 && input_read_[i] && n > 0) input_gather_[i](slot[i], inputs[i].data, 0, std::min(n, block_), 0, 1);
  }
  for (int64_t at = 0; at < n; at += block_) {
    const int64_t m = std::min(block_, n - at);
    for (size_t i = 0; i < input_count; ++i) {
      const Operand& in = inputs[i];
      if (in.stride == 0 || !input_read_[i]) continue;
      const uint8_t* here = static_cast<const uint8_t*>(in.data) + at * in.stride * input_bytes_[i];
      if (in.stride == 1)
        slot[i] = const_cast<uint8_t*>(here);  // never written
      else
        input_gather_[i](slot[i], here, in.stride, m, 0, 1);
    }
    for (size_t o = 0; o < output_count; ++o) slot[input_count + o] = static_cast<uint8_t*>(outputs[o]) + at * output_bytes_[o];
    auto at_slot = [&](int32_t s) { return s < 0 ? nullptr : slot[s]; };
    for (const Step& s : steps_) s.fn(slot[s.out], at_slot(s.args[0]), at_slot(s.args[1]), at_slot(s.args[2]), m);
    for (size_t c = 0; c < copies_.size(); c += 2) {
      const auto o = static_cast<size_t>(copies_[c]);
      std::memmove(slot[input_count + o], slot[copies_[c + 1]], static_cast<size_t>(m * output_bytes_[o]));
    }
  }
}

}  // namespace smelt::expr
