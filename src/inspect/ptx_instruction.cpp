#include "inspect/ptx_instruction.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

namespace smelt::inspect {

std::string_view trimmed(std::string_view t) {
  const size_t begin = t.find_first_not_of(ptx_blanks);
  return begin == t.npos ? "" : t.substr(begin, t.find_last_not_of(ptx_blanks) + 1 - begin);
}

std::vector<std::string_view> words_of(std::string_view text, std::string_view between) {
  std::vector<std::string_view> words;
  for (size_t at = text.find_first_not_of(between); at != text.npos; at = text.find_first_not_of(between, at)) {
    const size_t end = std::min(text.find_first_of(between, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

int64_t leading_number(std::string_view text) {
  int64_t value = 0;
  text = trimmed(text);
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

int bytes_of_type(std::string_view type) {
  const bool pair = type.ends_with("x2");
  if (pair) type.remove_suffix(2);
  size_t digits = type.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(type[digits - 1]))) --digits;
  const std::string_view kind = type.substr(0, digits);
  const auto bits = leading_number(type.substr(digits));
  if (kind != "f" && kind != "b" && kind != "u" && kind != "s" && kind != "bf" && kind != "tf") return 0;
  return bits >= 8 && bits <= 256 && bits % 8 == 0 ? static_cast<int>(bits / 8) * (pair ? 2 : 1) : 0;
}

namespace {

Work arithmetic(const std::vector<std::string_view>& parts) {
  static const std::set<std::string_view> special{"sin", "cos", "ex2", "lg2", "rcp", "rsqrt", "sqrt", "tanh"};
  static const std::set<std::string_view> integer{
      "add",   "sub", "mul",  "mad",  "mul24", "mad24", "sad",  "div",  "rem",  "abs",  "neg",  "min",  "max",  "popc", "clz",
      "bfind", "fns", "brev", "bfe",  "bfi",   "szext", "bmsk", "dp4a", "dp2a", "addc", "subc", "madc", "add",  "and",  "or",
      "xor",   "not", "cnot", "lop3", "shl",   "shr",   "shf",  "set",  "setp", "slct", "vadd", "vsub", "vmin", "vmax"};
  if (special.contains(parts[0])) return Work::special;
  for (size_t i = parts.size(); i-- > 1;) {
    if (bytes_of_type(parts[i]) == 0) continue;
    if (parts[i] == "f64") return Work::fp64;
    if (parts[i] == "f32") return Work::fp32;
    if (parts[i].starts_with("f16") || parts[i].starts_with("bf16")) return Work::fp16;
    break;
  }
  return integer.contains(parts[0]) ? Work::integer : Work::other;
}

}  // namespace

void add_instruction(std::string_view text, CodeBuilder& code) {
  static const std::set<std::string_view> control{"bra",  "brx",   "call",      "ret",       "exit",
                                                  "trap", "brkpt", "nanosleep", "setmaxnreg"};
  static const std::set<std::string_view> barriers{"bar", "barrier", "mbarrier", "membar", "fence", "griddepcontrol", "cp.async"};
  static const std::set<std::string_view> moves{"mov",  "cvta",       "shfl",  "selp",  "prmt",       "isspacep", "mapa",
                                                "vote", "activemask", "match", "elect", "getctarank", "redux"};
  const std::string_view opcode = text.substr(0, text.find_first_of(ptx_blanks));
  const auto parts = words_of(opcode, ".");
  if (parts.empty()) return;
  const auto has = [&](std::string_view part) {
    return std::ranges::any_of(
        parts, [&](std::string_view p) { return p == part || (p.starts_with(part) && p.substr(part.size()).starts_with("::")); });
  };
  const std::string_view op = parts[0];
  if (op == "ld" || op == "ldu" || op == "st") {
    const int lanes = has("v8") ? 8 : has("v4") ? 4 : has("v2") ? 2 : 1;
    const int bytes = lanes * bytes_of_type(parts.back());
    const bool load = op != "st";
    if (has("shared")) return code.add(load ? Work::load_shared : Work::store_shared, bytes);
    if (has("local")) return code.add(load ? Work::load_local : Work::store_local, bytes);
    if (load && (has("param") || has("const"))) return code.add(Work::load_constant);
    if (has("param")) return code.add(Work::move);
    return code.add(load ? Work::load_global : Work::store_global, bytes);
  }
  if (op == "ldmatrix") return code.add(Work::load_shared);
  if (op == "stmatrix") return code.add(Work::store_shared);
  if (op == "cp" && (has("commit_group") || has("wait_group") || has("wait_all") || has("mbarrier")))
    return code.add(Work::barrier);
  if (op == "cp") {
    const auto operands = words_of(text.substr(opcode.size()), ",");
    return code.add(Work::async_copy, !has("bulk") && operands.size() > 2
                                          ? static_cast<int>(std::clamp<int64_t>(leading_number(operands[2]), 0, 16))
                                          : 0);
  }
  if (op == "mma" || op == "wmma" || op == "wgmma" || op == "tcgen05")
    return code.add(has("fence") || has("commit_group") || has("wait_group") || has("commit") || has("wait") ? Work::barrier
                                                                                                             : Work::tensor);
  if (op == "atom" || op == "red" || op == "multimem") return code.add(Work::atomic);
  if (op == "cvt") return code.add(Work::convert);
  if (control.contains(op)) return code.add(Work::control);
  if (barriers.contains(op)) return code.add(Work::barrier);
  if (moves.contains(op)) return code.add(Work::move);
  code.add(arithmetic(parts));
}

}  // namespace smelt::inspect
