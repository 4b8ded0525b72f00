// Nsight Systems' SQLite export. Of interest: StringIds (id, value); CUPTI_ACTIVITY_KIND_KERNEL (start, end, correlationId,
// globalPid, shortName, demangledName), _MEMCPY (copyKind), _MEMSET and _GRAPH_TRACE (graphId: whole CUDA graphs, whose kernels
// are not in _KERNEL then); CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId), the calls that asked for them;
// NVTX_EVENTS (start, end, text or textId, globalTid), ranges of threads. Times are nanoseconds. A correlationId is one process's.
#include <sqlite3.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/untrusted_database.h"
#include "profile/imports.h"

namespace smelt::profile {
namespace {

class Database {
 public:
  explicit Database(const std::filesystem::path& file) {
    sqlite3* opened = nullptr;
    const int result = sqlite3_open_v2(file.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr);
    db_.reset(opened);
    if (result != SQLITE_OK) complain();
    distrust(opened);
  }
  using Row = std::function<void(sqlite3_stmt*)>;
  void each(const std::string& query, const Row& row) const {
    sqlite3_stmt* made = nullptr;
    if (sqlite3_prepare_v2(db_.get(), query.c_str(), -1, &made, nullptr) != SQLITE_OK) complain();
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(made, &sqlite3_finalize);
    int result = SQLITE_OK;
    while ((result = sqlite3_step(statement.get())) == SQLITE_ROW) row(statement.get());
    if (result != SQLITE_DONE) complain();
  }
  bool has(const std::string& table, const std::string& column = {}) const {
    bool found = false;
    each("PRAGMA table_info(" + table + ")", [&](sqlite3_stmt* s) { found = found || column.empty() || text(s, 1) == column; });
    return found;
  }
  static std::string text(sqlite3_stmt* s, int column) {
    const auto* t = reinterpret_cast<const char*>(sqlite3_column_text(s, column));
    return t ? t : "";
  }

 private:
  [[noreturn]] void complain() const { fail("damaged: {}", sqlite3_errmsg(db_.get())); }
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> db_{nullptr, &sqlite3_close};
};

struct Range {
  int64_t begin, end;
  std::string text;
};

/// The ranges of a thread that are open at a time. Asked in the order of time.
class Ranges {
 public:
  void add(Range r) { all_.push_back(std::move(r)); }
  void sort() {
    std::ranges::stable_sort(
        all_, [](const Range& a, const Range& b) { return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; });
  }
  /// Their labels as levels of a scope, the outermost first.
  std::vector<std::string> at(int64_t time) {
    for (; next_ < all_.size() && all_[next_].begin <= time; ++next_) {
      open_.insert(next_);
      ends_.emplace(all_[next_].end, next_);
    }
    for (; !ends_.empty() && ends_.begin()->first < time; ends_.erase(ends_.begin())) open_.erase(ends_.begin()->second);
    std::vector<std::string> scope;
    for (auto r = open_.begin(); r != open_.end() && scope.size() < deepest_scope; ++r) add_levels(scope, all_[*r].text);
    return scope;
  }

 private:
  std::vector<Range> all_;
  std::set<size_t> open_;                      // a file may have them all open at once
  std::set<std::pair<int64_t, size_t>> ends_;  // of those
  size_t next_ = 0;
};

struct Work {
  int64_t asked, thread;  // when, and by which
  std::string name, op;
  double us;
};

constexpr const char *kernels = "CUPTI_ACTIVITY_KIND_KERNEL", *graphs = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
                     *copies = "CUPTI_ACTIVITY_KIND_MEMCPY", *fills = "CUPTI_ACTIVITY_KIND_MEMSET",
                     *calls = "CUPTI_ACTIVITY_KIND_RUNTIME";
constexpr std::string_view moved_on_gpu = "copy on the GPU";

/// What follows `key` between quotes in a dictionary as Python prints it, of words without escapes.
std::string printed_value(const std::string& dictionary, std::string_view key) {
  const size_t at = dictionary.find(key);
  if (at == std::string::npos) return "";
  const size_t begin = at + key.size(), end = dictionary.find('\'', begin);
  return end == std::string::npos ? "" : dictionary.substr(begin, end - begin);
}

/// A range's label without what tells one call from the next. PyTorch's emit_nvtx writes "aten::conv2d, seq = 7, op_id = 12,
/// sizes = [[…]]"; PyProf and DLProf write dictionaries, with a path of functions or an operator's name among their members.
std::string label_of(const std::string& text) {
  if (text.starts_with("{'"))
    for (const std::string_view key : {"'funcStack': '/", "'op': '"})
      if (std::string value = printed_value(text, key); !value.empty()) return value;
  size_t end = text.size();
  for (const std::string_view what : {", seq = ", ", op_id = ", ", sizes = "}) end = std::min(end, text.find(what));
  return text.substr(0, end);
}

std::map<int64_t, Ranges> ranges_by_thread(const Database& db) {
  std::map<int64_t, Ranges> threads;
  if (!db.has("NVTX_EVENTS")) return threads;
  const std::string label = db.has("NVTX_EVENTS", "textId")
                                ? "coalesce(nullif(e.text, ''), (SELECT value FROM StringIds WHERE id = e.textId))"
                                : "e.text";
  db.each("SELECT e.start, e.end, " + label + ", e.globalTid FROM NVTX_EVENTS e WHERE e.end > e.start", [&](sqlite3_stmt* s) {
    if (const std::string text = label_of(Database::text(s, 2)); !text.empty())
      threads[sqlite3_column_int64(s, 3)].add({sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1), text});
  });
  for (auto& [thread, ranges] : threads) ranges.sort();
  return threads;
}

/// The calls that asked for a table's work, as a join: `r` has their start and thread.
std::string joined_calls(const Database& db, const std::string& table) {
  const std::string process = "globalTid >> 24";  // a thread's number has its process's in front
  return fmt::format(
      " LEFT JOIN (SELECT correlationId, {} AS process, min(start) AS start, globalTid FROM {} GROUP BY "
      "correlationId, process) r ON r.correlationId = k.correlationId{}",
      process, calls, db.has(table, "globalPid") ? " AND r.process = k.globalPid >> 24" : "");
}

/// Appends the work of a table; `name` is SQL for a row's name.
void read_work(const Database& db, const std::string& table, const std::string& name, const char* op, std::vector<Work>& all) {
  if (!db.has(table)) return;
  for (const char* column : {"start", "end"})
    if (!db.has(table, column)) fail("damaged: its table {} has no column '{}'", table, column);
  const bool asked = db.has(calls) && db.has(table, "correlationId");
  const std::string query = fmt::format(
      "SELECT {}, {}, CASE WHEN typeof(k.start) = 'integer' AND typeof(k.end) = 'integer' THEN k.end - k.start END FROM {} k{}",
      asked ? "coalesce(r.start, k.start), coalesce(r.globalTid, 0)" : "k.start, 0", name, table,
      asked ? joined_calls(db, table) : "");
  db.each(query, [&](sqlite3_stmt* s) {
    if (sqlite3_column_type(s, 3) != SQLITE_INTEGER) fail("damaged: times in its table {} are no numbers", table);
    const std::string named = Database::text(s, 2);
    all.push_back({sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1), named,
                   named == moved_on_gpu         ? "move"
                   : named.starts_with("pages ") ? "pages"
                                                 : op,
                   static_cast<double>(std::max<int64_t>(0, sqlite3_column_int64(s, 3))) / 1e3});
  });
}

std::vector<Work> work_of(const Database& db) {
  std::vector<Work> all;
  std::string named = "NULL";  // exports of some versions lack one of these
  for (const char* column : {"mangledName", "demangledName", "shortName"})
    if (db.has(kernels, column))
      named = fmt::format("coalesce((SELECT value FROM StringIds WHERE id = k.{}), {})", column, named);
  read_work(db, kernels, "coalesce(" + named + ", 'kernel')", "kernel", all);
  const size_t before = all.size();
  read_work(db, graphs, db.has(graphs, "graphId") ? "'CUDA graph ' || coalesce(k.graphId, '')" : "'CUDA graph'", "graph", all);
  if (const size_t whole = all.size() - before; whole > 0)
    warn("{} launches of CUDA graphs are in it as one each: nsys profile --cuda-graph-trace=node records their kernels", whole);
  const std::string kind = fmt::format(
      "CASE k.copyKind WHEN 1 THEN 'copy to the GPU' WHEN 2 THEN 'copy to the host' WHEN 8 THEN "
      "'{}' WHEN 10 THEN 'copy between GPUs' WHEN 11 THEN 'pages to the GPU' WHEN 12 THEN 'pages to the host' ELSE 'copy' END",
      moved_on_gpu);
  read_work(db, copies, db.has(copies, "copyKind") ? kind : "'copy'", "copy", all);
  read_work(db, fills, "'fill'", "fill", all);
  std::ranges::stable_sort(all, {}, &Work::asked);
  return all;
}

}  // namespace

Timings from_nsight(const std::filesystem::path& file) {
  const Database db(file);
  if (!(db.has(kernels) || db.has(graphs)) || !db.has("StringIds")) {
    const bool exported = db.has("StringIds") && db.has("TARGET_INFO_SESSION_START_TIME");
    throw Error("an SQLite file without kernels of Nsight Systems",
                exported ? "What was recorded ran none: see that it used the GPU, and record with nsys profile --trace=cuda,nvtx."
                         : "nsys export --type sqlite writes one.",
                ExitCode::unsupported);
  }
  std::map<int64_t, Ranges> threads = ranges_by_thread(db);
  const std::vector<Work> all = work_of(db);
  Timings t{.origin = "Nsight Systems", .gpu = true};
  std::map<std::string, size_t> rows;
  for (const Work& w : all) {
    std::vector<std::string> scope;
    if (const auto at = threads.find(w.thread); at != threads.end()) scope = at->second.at(w.asked);
    scope.erase(std::unique(scope.begin(), scope.end()), scope.end());  // an operator's range lies in its call's of the same name
    std::string name;
    for (const std::string& level : scope) name += level + "/";
    name += w.name;
    const auto [at, added] = rows.try_emplace(name, t.nodes.size());
    if (added) t.nodes.push_back({.name = name, .op = w.op, .scope = own_names(std::move(scope))});
    NodeTime& n = t.nodes[at->second];
    n.calls += 1;
    n.self_gpu_us += w.us;
    n.total_gpu_us += w.us;
  }
  if (t.nodes.empty()) fail("an export of Nsight Systems without a kernel's time");
  return t;
}

}  // namespace smelt::profile
