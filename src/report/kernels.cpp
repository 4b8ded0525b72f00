#include "report/kernels.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

namespace smelt::report {
namespace {

using inspect::Limit;

Cell limit_cell(int blocks) { return blocks == inspect::Occupancy::no_limit ? Cell("–") : Cell(blocks); }

std::string answer(const inspect::Multiprocessor& m, const inspect::Launch& launch) {
  const inspect::Occupancy o = inspect::occupancy(m, launch);
  std::string text;
  if (o.blocks == 0)
    text = fmt::format("no block runs on {}: {}", m.arch(), o.refused);
  else
    text = fmt::format("{} block{} of {} warp{} on a multiprocessor of {}: {} of {} warps ({}), limited by {}", o.blocks,
                       o.blocks == 1 ? "" : "s", o.warps_per_block, o.warps_per_block == 1 ? "" : "s", m.arch(), o.warps,
                       o.most_warps, format(o.share(), Unit::percent), o.limiter());
  for (const std::string& change : inspect::what_if(m, launch)) text += "\n  " + change;
  if (o.blocks > 0) {
    const inspect::Change room = inspect::room(m, launch);
    text += fmt::format("\n  free: up to {} registers or {} of shared memory change nothing", room.registers.value_or(0),
                        inspect::bytes_text(room.shared.value_or(0)));
  }
  return text;
}

/// The lines of a source, read once; empty where there is no such file.
class Sources {
 public:
  explicit Sources(const std::map<std::string, std::string>& texts) : texts_(texts) {}
  std::string line(const std::string& file, int number) {
    auto [at, added] = files_.try_emplace(file);
    if (added) at->second = given(file) ? split(*given(file)) : read(file);
    const std::vector<std::string>& lines = at->second;
    if (number < 1 || static_cast<size_t>(number) > lines.size()) return "";
    const std::string& text = lines[static_cast<size_t>(number) - 1];
    const size_t begin = text.find_first_not_of(" \t\r");
    return begin == text.npos ? "" : text.substr(begin, 100);
  }

 private:
  /// NVRTC puts the working folder before the names of what it is given.
  const std::string* given(const std::string& file) const {
    for (const auto& [name, text] : texts_)
      if (file == name || file.ends_with("/" + name)) return &text;
    return nullptr;
  }
  static std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> lines;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  }
  static std::vector<std::string> read(const std::string& file) {
    std::error_code error;
    if (file.empty() || !std::filesystem::is_regular_file(file, error) || std::filesystem::file_size(file, error) > (16 << 20))
      return {};
    std::ifstream in(file);
    return split(std::string(std::istreambuf_iterator<char>(in), {}));
  }
  const std::map<std::string, std::string>& texts_;
  std::map<std::string, std::vector<std::string>> files_;
};

/// "41% integer, 22% move, 9% tensor core": what most of them do.
std::string mix_text(const inspect::Code& code) {
  std::vector<std::pair<int, std::string_view>> kinds;
  for (const auto& [work, count] : code.mix) kinds.emplace_back(count, name(work));
  std::ranges::stable_sort(kinds, std::greater(), [](const auto& k) { return k.first; });
  std::string text;
  kinds.resize(std::min<size_t>(kinds.size(), 4));
  for (const auto& [count, kind] : kinds)
    text += fmt::format("{}{:.0f}% {}", text.empty() ? "" : ", ", 100.0 * count / code.instructions, kind);
  return text;
}

}  // namespace

InspectedKernel inspected(inspect::Kernel kernel) {
  InspectedKernel k;
  const int threads = kernel.required_threads > 0 ? kernel.required_threads : kernel.most_threads;
  k.assumed_threads = threads < 1 || threads > 1024;
  k.launch = {.threads = k.assumed_threads ? 256 : threads,
              .registers = kernel.registers.value_or(0),
              .static_shared = kernel.static_shared.value_or(0),
              .barriers = std::min(kernel.barriers.value_or(0), 16)};
  k.kernel = std::move(kernel);
  return k;
}

Table resource_table(const inspect::Multiprocessor& m, const inspect::Launch& launch) {
  const inspect::Occupancy o = inspect::occupancy(m, launch);
  Table t{.key = "resources",
          .title = "Occupancy on " + m.arch(),
          .columns = {{"resource", "resource"},
                      {"block", "a block takes"},
                      {"multiprocessor", "a multiprocessor has"},
                      {"blocks", "lets in", Unit::count},
                      {"limits", "limits"}}};
  const auto add = [&](Limit l, const std::string& takes, const std::string& has) {
    t.rows.push_back({name(l), takes, has, limit_cell(o.of(l)), o.limited_by(l) ? "yes" : ""});
  };
  const int64_t registers = o.registers_per_warp * o.warps_per_block;
  add(Limit::registers, fmt::format("{} ({} a warp)", registers, o.registers_per_warp), "65536");
  add(Limit::shared,
      inspect::bytes_text(o.shared_per_block) +
          (m.reserved ? fmt::format(" ({} of them the system's)", inspect::bytes_text(m.reserved)) : ""),
      inspect::bytes_text(m.shared));
  add(Limit::warps, std::to_string(o.warps_per_block), std::to_string(m.warps));
  add(Limit::blocks, "1", std::to_string(m.blocks));
  if (launch.barriers > 0) add(Limit::barriers, std::to_string(launch.barriers), std::to_string(m.barriers));
  t.note = answer(m, launch);
  return t;
}

namespace {

/// A table of launches: columns that say which, then the occupancy of each.
Table occupancy_of(std::vector<Column> which) {
  Table t{.key = "occupancy", .title = "Occupancy", .columns = std::move(which)};
  t.columns.insert(t.columns.end(), {{"blocks", "blocks", Unit::count},
                                     {"warps", "warps", Unit::count},
                                     {"most_warps", "of", Unit::count},
                                     {"occupancy", "occupancy", Unit::percent},
                                     {"limiter", "limited by"},
                                     {"what_if", "what if"}});
  return t;
}

void add_occupancy(Table& t, std::vector<Cell> which, const inspect::Multiprocessor& m, const inspect::Launch& launch) {
  const inspect::Occupancy o = inspect::occupancy(m, launch);
  which.insert(which.end(), {o.blocks, o.warps, o.most_warps, o.share(), o.blocks > 0 ? o.limiter() : o.refused,
                             fmt::format("{}", fmt::join(inspect::what_if(m, launch), "; "))});
  t.rows.push_back(std::move(which));
}

}  // namespace

Table architecture_table(const inspect::Launch& launch) {
  Table t = occupancy_of({{"arch", "architecture"}});
  for (const inspect::Multiprocessor& m : inspect::multiprocessors()) {
    add_occupancy(t, {m.arch()}, m, launch);
  }
  return t;
}

Table kernel_table(const std::vector<InspectedKernel>& kernels) {
  Table t{.key = "kernels",
          .title = "Kernels",
          .columns = {{"step", "step"},
                      {"kernel", "kernel"},
                      {"arch", "architecture"},
                      {"registers", "registers", Unit::count},
                      {"static_shared_bytes", "shared", Unit::bytes},
                      {"dynamic_shared_bytes", "dynamic", Unit::bytes},
                      {"stack_bytes", "stack", Unit::bytes},
                      {"spill_store_bytes", "spills, stored", Unit::bytes},
                      {"spill_load_bytes", "loaded", Unit::bytes},
                      {"barriers", "barriers", Unit::count},
                      {"grid", "grid"},
                      {"block_threads", "threads", Unit::count},
                      {"most_threads", "at most", Unit::count},
                      {"parameters", "parameters", Unit::count},
                      {"parameter_bytes", "of bytes", Unit::bytes},
                      {"constant_bytes", "constants", Unit::bytes},
                      {"code_bytes", "code", Unit::bytes},
                      {"instructions", "instructions", Unit::count},
                      {"declared", "virtual registers"},
                      {"widest_load_bytes", "widest load", Unit::bytes},
                      {"mix", "instructions do"}}};
  if (std::ranges::any_of(kernels,
                          [](const InspectedKernel& k) { return !k.step.empty(); }))  // there are many, and these say least
    for (const std::string_view key :
         {"arch", "most_threads", "parameters", "parameter_bytes", "constant_bytes", "code_bytes", "declared"})
      std::ranges::find(t.columns, key, &Column::key)->only_json = true;
  bool stack_is_local = false;
  for (const InspectedKernel& i : kernels) {
    const inspect::Kernel& k = i.kernel;
    std::string declared;
    for (const auto& [type, count] : k.declared) declared += fmt::format("{}{} {}", declared.empty() ? "" : ", ", count, type);
    const int most = k.required_threads > 0 ? k.required_threads : k.most_threads;
    t.rows.push_back({i.step,
                      i.problem.empty() ? k.entry : i.problem,
                      k.arch,
                      known(k.registers),
                      known(k.static_shared),
                      positive(i.launch.dynamic_shared),
                      known(k.stack),
                      known(k.spill_stores),
                      known(k.spill_loads),
                      known(k.barriers),
                      i.grid,
                      positive(i.assumed_threads ? 0 : i.launch.threads),
                      positive(most),
                      k.parameters,
                      positive(k.parameter_bytes),
                      positive(k.constant),
                      positive(k.code_bytes),
                      k.code ? Cell(k.code->instructions) : Cell(""),
                      declared,
                      positive(k.code ? k.code->widest_load() : 0),
                      k.code ? mix_text(*k.code) : ""});
    stack_is_local = stack_is_local || (k.stack.value_or(0) > 0 && !k.spill_stores);
  }
  if (stack_is_local) t.note = "A stack is local memory: arrays indexed at run time, and registers that were spilled.";
  return t;
}

Table occupancy_table(const std::vector<InspectedKernel>& kernels) {
  Table t = occupancy_of({{"kernel", "kernel"}, {"threads", "threads", Unit::count}});
  bool assumed = false;
  std::vector<const InspectedKernel*> shown;
  for (const InspectedKernel& i : kernels) {
    if (!i.kernel.registers && i.launch.registers == 0) continue;
    const inspect::Multiprocessor* known = inspect::find_multiprocessor(i.kernel.arch);
    if (!known) continue;
    const auto same = [&](const InspectedKernel* o) {
      return o->problem == i.problem && o->kernel.entry == i.kernel.entry && o->kernel.arch == i.kernel.arch &&
             o->launch == i.launch;
    };
    if (!i.step.empty() && std::ranges::any_of(shown, same)) continue;
    shown.push_back(&i);
    add_occupancy(t, {i.problem.empty() ? i.kernel.entry : i.problem, i.launch.threads}, *known, i.launch);
    assumed = assumed || i.assumed_threads;
  }
  if (assumed) t.note = "Nothing says how many threads a block has; 256 are assumed. Say it: --launch threads=128";
  return t;
}

Table mix_table(const inspect::Kernel& kernel) {
  Table t{.key = "mix",
          .title = fmt::format("Instructions of {}{}", kernel.entry, kernel.code ? " (" + kernel.code->from + ")" : ""),
          .columns = {{"kind", "kind"}, {"instructions", "instructions", Unit::count}, {"share", "share", Unit::percent}}};
  if (!kernel.code) return t;
  for (const auto& [work, count] : kernel.code->mix)
    t.rows.push_back({name(work), count, static_cast<double>(count) / kernel.code->instructions});
  t.sort_by("instructions");
  return t;
}

Table line_table(const inspect::Kernel& kernel, const std::map<std::string, std::string>& texts) {
  Table t{.key = "lines",
          .title = "Lines of " + kernel.entry,
          .columns = {{"line", "line"},
                      {"instructions", "instructions", Unit::count},
                      {"loads", "loads", Unit::count},
                      {"widest_load_bytes", "widest", Unit::bytes},
                      {"stores", "stores", Unit::count},
                      {"widest_store_bytes", "widest ", Unit::bytes},
                      {"shared", "shared", Unit::count},
                      {"local", "local", Unit::count},
                      {"source", "source"}}};
  if (!kernel.code) return t;
  Sources sources(texts);
  for (const inspect::LineOfCode& l : kernel.code->lines) {
    if (l.line == 0 && kernel.code->lines.size() == 1) return t;  // the code names no lines
    t.rows.push_back({fmt::format("{}:{}", std::filesystem::path(l.file).filename().string(), l.line), l.instructions,
                      positive(l.loads), positive(l.widest_load), positive(l.stores), positive(l.widest_store),
                      positive(l.shared), positive(l.local), sources.line(l.file, l.line)});
  }
  t.note = "Loads and stores of global memory, bytes a thread";
  return t;
}

}  // namespace smelt::report
