#include "inspect/kernel.h"

#include <algorithm>

namespace smelt::inspect {

std::string_view name(Work w) {
  constexpr std::string_view names[] = {"tensor core",   "fp64",
                                        "fp32",          "fp16",
                                        "integer",       "conversion",
                                        "special",       "load, global",
                                        "store, global", "load, shared",
                                        "store, shared", "load, local",
                                        "store, local",  "asynchronous copy",
                                        "atomic",        "load, constant or parameter",
                                        "move",          "control",
                                        "barrier",       "other"};
  return names[static_cast<size_t>(w)];
}

int Code::widest_load() const {
  int widest = 0;
  for (const LineOfCode& l : lines) widest = std::max(widest, l.widest_load);
  return widest;
}

void CodeBuilder::add(Work work, int bytes) {
  ++code_.instructions;
  ++code_.mix[work];
  LineOfCode& l = lines_[{file_, line_}];
  ++l.instructions;
  switch (work) {
    case Work::load_global:
      ++l.loads;
      l.widest_load = std::max(l.widest_load, bytes);
      break;
    case Work::store_global:
      ++l.stores;
      l.widest_store = std::max(l.widest_store, bytes);
      break;
    case Work::async_copy:
      ++l.loads;
      l.widest_load = std::max(l.widest_load, bytes);
      break;
    case Work::load_shared:
    case Work::store_shared: ++l.shared; break;
    case Work::load_local:
    case Work::store_local: ++l.local; break;
    default: break;
  }
}

Code CodeBuilder::finish() {
  for (auto& [at, line] : lines_) {
    line.file = at.first;
    line.line = at.second;
    code_.lines.push_back(line);
  }
  return std::move(code_);
}

}  // namespace smelt::inspect
