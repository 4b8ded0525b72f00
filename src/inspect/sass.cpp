#include "inspect/sass.h"

#include <charconv>
#include <filesystem>

#include "base/process.h"

namespace smelt::inspect {
namespace {

bool is_one_of(std::string_view op, std::initializer_list<std::string_view> names) {
  for (const std::string_view n : names)
    if (op == n) return true;
  return false;
}

/// Of "LDG.E.128.CONSTANT": what it does. `op` is the part before the first point.
Work work_of(std::string_view op, std::string_view opcode) {
  if (op.ends_with("MMA")) return Work::tensor;
  if (op.starts_with("LDGSTS") || op.starts_with("UBLKCP") || op.starts_with("UTMA")) return Work::async_copy;
  if (is_one_of(op, {"LDG", "LD"})) return Work::load_global;
  if (is_one_of(op, {"STG", "ST"})) return Work::store_global;
  if (is_one_of(op, {"LDS", "LDSM"})) return Work::load_shared;
  if (is_one_of(op, {"STS", "STSM"})) return Work::store_shared;
  if (op == "LDL") return Work::load_local;
  if (op == "STL") return Work::store_local;
  if (is_one_of(op, {"LDC", "LDCU", "ULDC"})) return Work::load_constant;
  if (op.starts_with("ATOM") || is_one_of(op, {"RED", "REDG"})) return Work::atomic;
  if (is_one_of(op, {"BAR", "MEMBAR", "DEPBAR", "LDGDEPBAR", "ERRBAR", "SYNCS", "FENCE", "CCTL", "ACQBULK", "ARRIVES"}))
    return Work::barrier;
  if (is_one_of(op, {"BRA", "BRX", "JMP", "EXIT", "RET", "CALL", "BSSY", "BSYNC", "BREAK", "WARPSYNC", "NOP", "YIELD", "BPT",
                     "NANOSLEEP", "KILL"}))
    return Work::control;
  if (op == "MUFU") return Work::special;
  if (is_one_of(op, {"F2F", "F2I", "I2F", "I2I", "F2FP", "I2FP", "I2IP", "FRND"})) return Work::convert;
  if (is_one_of(op, {"MOV", "UMOV", "SEL", "FSEL", "USEL", "PRMT", "SHFL", "S2R", "S2UR", "CS2R", "R2UR", "P2R", "R2P", "VOTE",
                     "VOTEU", "MOVM"}) ||
      opcode.starts_with("IMAD.MOV"))
    return Work::move;
  if (is_one_of(op, {"DADD", "DMUL", "DFMA", "DSETP", "DMNMX"})) return Work::fp64;
  if (is_one_of(op, {"HADD2", "HMUL2", "HFMA2", "HSETP2", "HMNMX2", "HSET2"})) return Work::fp16;
  if (is_one_of(op, {"FADD", "FMUL", "FFMA", "FSETP", "FMNMX", "FSET", "FCHK", "FADD2", "FMUL2", "FFMA2"})) return Work::fp32;
  const std::string_view plain = op.starts_with('U') ? op.substr(1) : op;
  if (is_one_of(plain,
                {"IADD3", "IMAD", "ISETP", "LOP3", "SHF",   "LEA", "IABS", "IMNMX", "VIMNMX", "POPC",     "FLO",  "BREV",
                 "PLOP3", "IADD", "SGXT",  "BMSK", "VIADD", "SHL", "SHR",  "IDP",   "LOP",    "VABSDIFF", "IMUL", "VIADDMNMX"}))
    return Work::integer;
  return Work::other;
}

int bytes_of(std::string_view opcode) {
  const auto has = [&](std::string_view part) { return opcode.find(part) != opcode.npos; };
  return has(".256") ? 32 : has(".128") ? 16 : has(".64") ? 8 : has(".U8") || has(".S8") ? 1 : has(".U16") || has(".S16") ? 2 : 4;
}

}  // namespace

// .section .text.NAME,"ax",@progbits
//     //## File "/src/k.cu", line 15 inlined at …
//     /*0090*/              @!P0 LDG.E.128 R8, desc[UR6][R2.64] ;
std::map<std::string, Code> read_sass(std::string_view listing) {
  std::map<std::string, CodeBuilder> building;
  CodeBuilder* code = nullptr;
  while (!listing.empty()) {
    const size_t end = std::min(listing.find('\n'), listing.size());
    std::string_view line = listing.substr(0, end);
    listing.remove_prefix(std::min(end + 1, listing.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    constexpr std::string_view section = ".text.", file = "//## File \"";
    if (line.starts_with(".section")) {
      const size_t at = line.find(section);
      const std::string_view name = at == line.npos ? "" : line.substr(at + section.size());
      code = name.empty() ? nullptr
                          : &building.try_emplace(std::string(name.substr(0, name.find_first_of(",\""))), "SASS").first->second;
    } else if (line.starts_with(file) && code) {
      const std::string_view rest = line.substr(file.size());
      const size_t quote = rest.find('"'), number = rest.find(", line ");
      int n = 0;
      if (number != rest.npos) std::from_chars(rest.data() + number + 7, rest.data() + rest.size(), n);
      if (quote != rest.npos) code->at(std::string(rest.substr(0, quote)), n);
    } else if (line.starts_with("/*") && code) {
      const size_t close = line.find("*/");
      if (close == line.npos) continue;
      std::string_view text = line.substr(close + 2);
      text.remove_prefix(std::min(text.find_first_not_of(" \t{"), text.size()));
      if (text.starts_with('@')) {
        text.remove_prefix(std::min(text.find_first_of(" \t"), text.size()));
        text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
      }
      const std::string_view opcode = text.substr(0, text.find_first_of(" \t;"));
      if (!opcode.empty() && opcode[0] >= 'A' && opcode[0] <= 'Z')
        code->add(work_of(opcode.substr(0, opcode.find('.')), opcode), bytes_of(opcode));
    }
  }
  std::map<std::string, Code> all;
  for (auto& [name, builder] : building) all[name] = builder.finish();
  return all;
}

bool has_disassembler() {
  const Finished f = run_program({"nvdisasm", "--version"}, -1, 10);
  return f.not_started == 0 && f.in_time && f.status == 0;
}

bool add_sass(Image& image, const std::string& file) {
  const Finished f = run_program({"nvdisasm", "-g", "-c", std::filesystem::absolute(file).string()}, -1, 60);
  if (f.not_started != 0 || !f.in_time || f.status != 0) return false;
  std::map<std::string, Code> found = read_sass(f.output);
  for (Kernel& k : image.kernels)
    if (const auto at = found.find(k.entry); at != found.end() && at->second.instructions > 0) k.code = std::move(at->second);
  return true;
}

}  // namespace smelt::inspect
