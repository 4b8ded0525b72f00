// What is known of a compiled kernel, whatever it was read from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace smelt::inspect {

/// What an instruction does. Loads and stores by the memory that they reach.
enum class Work : uint8_t {
  tensor,
  fp64,
  fp32,
  fp16,
  integer,
  convert,
  special,
  load_global,
  store_global,
  load_shared,
  store_shared,
  load_local,
  store_local,
  async_copy,
  atomic,
  load_constant,
  move,
  control,
  barrier,
  other
};
std::string_view name(Work w);  // "load, global"

/// The instructions of one line of the source.
struct LineOfCode {
  std::string file;  // empty: the code does not say
  int line = 0;
  int instructions = 0;
  int loads = 0, stores = 0;              // of global memory
  int widest_load = 0, widest_store = 0;  // of global memory, bytes a thread
  int shared = 0, local = 0;              // loads and stores
};

struct Code {
  std::string from;  // "SASS", "PTX"
  int instructions = 0;
  std::map<Work, int> mix;
  std::vector<LineOfCode> lines;  // in the order of files and lines

  int count(Work w) const {
    const auto at = mix.find(w);
    return at == mix.end() ? 0 : at->second;
  }
  int widest_load() const;
};

/// What is not known is not given.
struct Kernel {
  std::string entry, arch;                           // "sm_90"
  std::optional<int> registers;                      // a thread
  std::optional<int64_t> static_shared;              // bytes a block
  std::optional<int64_t> stack;                      // bytes a thread
  std::optional<int64_t> spill_stores, spill_loads;  // bytes a thread, as the compiler reported them
  std::optional<int> barriers;
  int64_t constant = 0;  // bytes of constant bank 0
  int64_t parameter_bytes = 0;
  int parameters = 0;
  int64_t code_bytes = 0;
  int most_threads = 0, required_threads = 0;  // of a block, as it was compiled; 0: not said
  std::map<std::string, int> declared;         // PTX: virtual registers by type
  std::optional<Code> code;
};

struct Image {
  std::string kind;  // "cubin", "PTX"
  std::string arch;
  std::vector<Kernel> kernels;
};

/// Collects instructions of a kernel, one line of the source after another.
class CodeBuilder {
 public:
  explicit CodeBuilder(std::string from) { code_.from = std::move(from); }
  void at(const std::string& file, int line) { file_ = file, line_ = line; }
  /// `bytes`: of a load or store, a thread's.
  void add(Work work, int bytes = 0);
  Code finish();

 private:
  Code code_;
  std::string file_;
  int line_ = 0;
  std::map<std::pair<std::string, int>, LineOfCode> lines_;
};

}  // namespace smelt::inspect
