#include "tune/cache.h"

#include <sqlite3.h>

#include <cctype>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/untrusted_database.h"
#include "tune/timing_json.h"

namespace smelt::tune {
namespace {

using Json = nlohmann::json;
constexpr int busy_timeout_ms = 3000;
constexpr int format_version = 1;

constexpr const char* schema =
    "CREATE TABLE IF NOT EXISTS timings(problem TEXT NOT NULL, device TEXT NOT NULL, versions TEXT NOT NULL, level INTEGER NOT "
    "NULL,"
    " timings TEXT NOT NULL, PRIMARY KEY(problem, device, versions)) WITHOUT ROWID";

}  // namespace

/// A prepared statement; every failure throws Error with SQLite's reason.
class Statement {
 public:
  Statement(sqlite3* db, std::string_view sql) : db_(db) {
    check(sqlite3_prepare_v2(db, sql.data(), static_cast<int>(sql.size()), &statement_, nullptr));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;

  Statement& bind(std::string_view text) {
    check(sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT));
    return *this;
  }
  Statement& bind(int number) {
    check(sqlite3_bind_int(statement_, ++bound_, number));
    return *this;
  }
  Statement& bind(const CacheKey& key) { return bind(key.problem).bind(key.device).bind(key.versions); }
  /// True when there is a row.
  bool step() {
    const int rc = sqlite3_step(statement_);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) check(rc);
    return rc == SQLITE_ROW;
  }
  std::string text(int column) const {
    const auto* t = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return t ? std::string(t, static_cast<size_t>(sqlite3_column_bytes(statement_, column))) : std::string();
  }
  int number(int column) const { return sqlite3_column_int(statement_, column); }
  /// Ends its reading, so that it can be bound and stepped again.
  void reset() {
    sqlite3_reset(statement_);
    bound_ = 0;
  }

 private:
  void check(int rc) {
    if (rc != SQLITE_OK) fail("{}", sqlite3_errmsg(db_));
  }
  sqlite3* db_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

namespace {

constexpr std::string_view columns = "SELECT problem, device, versions, level, timings FROM timings ";

/// The entries of the rows that a statement of these columns has.
std::vector<CacheEntry> read_all(Statement& s) {
  std::vector<CacheEntry> entries;
  while (s.step()) {
    const Json timings = Json::parse(s.text(4), nullptr, false);
    try {
      entries.push_back({{s.text(0), s.text(1), s.text(2)}, s.number(3), timings_from(timings)});
    } catch (const Json::exception&) {
      // Another version wrote the row, or it is damaged: it counts as missing, so that the problem is measured again.
    } catch (const Error&) {
    }
  }
  return entries;
}

/// A pipe in the place of a database, or of a file that SQLite keeps beside it, would be waited for without end.
void check_regular(const std::filesystem::path& path) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    const std::filesystem::path file = path.string() + suffix;
    std::error_code ignored;
    const auto status = std::filesystem::status(file, ignored);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
      fail("{} is no regular file", file.filename().string());
  }
}

}  // namespace

std::filesystem::path cache_path(const std::filesystem::path& dir) { return dir / "tuning.db"; }

void Cache::open_database(const std::filesystem::path& path) {
  const std::string name = path.empty() ? ":memory:" : path.string();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(busy_timeout_ms);
  while (true) {
    bool busy = false, has_folder = false;
    try {
      if (path.has_parent_path()) make_folders(path.parent_path());
      has_folder = true;
      check_regular(path);
      if (sqlite3_open_v2(name.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, nullptr) !=
          SQLITE_OK) {
        fail("{}", db_ ? sqlite3_errmsg(db_) : "out of memory");
      }
      sqlite3_busy_timeout(db_, busy_timeout_ms);
      distrust(db_);
      if (!path.empty()) {
        Statement(db_, "PRAGMA journal_mode=WAL").step();
        // The disk is waited for at checkpoints only: a build beside other work waited for a time slice at each of its entries.
        // After a loss of power the last timings may be missing, the rest is whole.
        Statement(db_, "PRAGMA synchronous=NORMAL").step();
      }
      Statement(db_, schema).step();
      Statement(db_, "SELECT count(*) FROM timings").step();
      path_ = path;
      return;
    } catch (const std::exception& e) {
      const std::string reason = e.what();
      const int code = db_ ? sqlite3_errcode(db_) & 0xff : SQLITE_OK;
      busy = code == SQLITE_BUSY;
      const bool readonly = !has_folder || code == SQLITE_READONLY || code == SQLITE_CANTOPEN;
      const bool no_room = code == SQLITE_FULL || code == SQLITE_IOERR;
      sqlite3_close(db_);
      db_ = nullptr;
      if (!busy || std::chrono::steady_clock::now() > deadline) {
        throw Error(fmt::format("tuning cache {}: {}", name, reason),
                    readonly  ? "Give another folder (--cache-dir, SMELT_CACHE_DIR)"
                    : no_room ? "Make room on its disk, or give another folder (--cache-dir, SMELT_CACHE_DIR)"
                              : fmt::format("Delete {} to begin with an empty cache", name));
      }
    }
    // Switching a new database to WAL fails at once if another process does the same; SQLite's busy timeout does not cover it.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::shared_ptr<Cache> Cache::open_or_throw(const std::filesystem::path& path) {
  std::shared_ptr<Cache> cache(new Cache);
  cache->open_database(path);
  cache->warn_only_ = false;
  return cache;
}

std::shared_ptr<Cache> Cache::open(const std::filesystem::path& path) {
  std::shared_ptr<Cache> cache(new Cache);
  cache->later_ = path;
  cache->is_there();
  return cache;
}

void Cache::open_or_warn(const std::filesystem::path& path) {
  try {
    open_database(path);
  } catch (const Error& e) {
    open_database({});
    const bool known = take_unwritable(path);
    warn("{}; {}timings are not kept. {}", e.what(), known ? "what it holds is used, and new " : "", e.next());
  }
}

bool Cache::is_there() {
  std::error_code unreachable;  // which opening it says
  if (later_ && !later_->empty() &&
      std::filesystem::symlink_status(*later_, unreachable).type() != std::filesystem::file_type::not_found)
    open_or_warn(*std::exchange(later_, std::nullopt));
  return db_ != nullptr;
}

// SQLite can read a database that it cannot lock only if it is told that nobody changes it (immutable=1).
bool Cache::take_unwritable(const std::filesystem::path& path) {
  std::string uri = "file:";
  for (const unsigned char c : path.string())
    uri += std::isalnum(c) || c == '/' ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02x}", c);
  Cache there;
  try {
    check_regular(path);
    if (sqlite3_open_v2((uri + "?immutable=1").c_str(), &there.db_,
                        SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_FULLMUTEX, nullptr) != SQLITE_OK)
      return false;
    distrust(there.db_);
    Statement all(there.db_, columns);
    for (CacheEntry& e : read_all(all)) keep(std::move(e));
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::shared_ptr<Cache> Cache::in_memory() {
  std::shared_ptr<Cache> cache(new Cache);
  cache->later_.emplace();
  cache->warn_only_ = false;
  return cache;
}

Cache::~Cache() { close(); }

void Cache::close() {
  find_.reset();
  sqlite3_close(db_);
  db_ = nullptr;
}

void Cache::give_up(std::string_view why) {
  if (!warn_only_) fail("tuning cache {}: {}", path_.string(), why);
  warn("tuning cache {}: {}; timings are not kept", path_.string(), why);
  close();
  open_database({});
}

std::optional<CacheEntry> Cache::find(const CacheKey& key) {
  std::lock_guard lock(mutex_);
  if (!is_there()) return std::nullopt;
  try {
    if (!find_) find_ = std::make_unique<Statement>(db_, fmt::format("{}WHERE problem=? AND device=? AND versions=?", columns));
    find_->reset();  // of a search that an exception ended
    auto entries = read_all(find_->bind(key));
    find_->reset();
    if (!entries.empty()) return std::move(entries.front());
  } catch (const Error& e) {
    give_up(e.what());
  }
  return std::nullopt;
}

// A row of the same level may have other tactics, because another filter allowed them. Its timings stay as they are, so that
// processes that measure at the same time agree; but those under load make room for others, or for faster ones under load, and those of
// another number of threads for this one's.
bool Cache::add_known(CacheEntry& entry) {
  const auto known = find(entry.key);
  if (!known || known->level != entry.level) return false;
  std::vector<Timing> timings = known->timings;
  for (const Timing& t : entry.timings) {
    const auto k = std::ranges::find_if(timings, [&](const Timing& k) { return k.tactic == t.tactic && k.config == t.config; });
    if (k == timings.end()) {
      timings.push_back(t);
    } else if (t.with_threads > 0) {
      continue;
    } else if (k->with_threads > 0 || (k->under_load > 0 && t.under_load == 0)) {
      *k = t;
    } else if (k->under_load > 0) {
      const int times = k->under_load + t.under_load;
      if (t.min < k->min) *k = t;
      k->under_load = times;
    }
  }
  entry.timings = std::move(timings);
  return entry.timings != known->timings;
}

CacheEntry Cache::keep(CacheEntry entry) {
  std::lock_guard lock(mutex_);
  if (!is_there() && later_) {
    const std::filesystem::path path = *later_;
    later_.reset();
    open_or_warn(path);
  }
  try {
    const bool more = add_known(entry);
    Statement(db_,
              "INSERT INTO timings(problem, device, versions, level, timings) VALUES(?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
              " level=excluded.level, timings=excluded.timings WHERE excluded.level > level OR (? AND excluded.level = level)")
        .bind(entry.key)
        .bind(entry.level)
        .bind(dump(to_json(entry.timings)))
        .bind(int{more})
        .step();
    // The row cannot be read back, so it is damaged and is replaced whatever its level.
    if (const auto kept = find(entry.key)) return *kept;
    Statement(db_, "INSERT OR REPLACE INTO timings(problem, device, versions, level, timings) VALUES(?, ?, ?, ?, ?)")
        .bind(entry.key)
        .bind(entry.level)
        .bind(dump(to_json(entry.timings)))
        .step();
  } catch (const Error& e) {
    give_up(e.what());
  }
  return find(entry.key).value_or(entry);
}

std::vector<CacheEntry> Cache::of_problem(const std::string& problem, const std::string& versions) {
  const std::lock_guard lock(mutex_);
  if (!is_there()) return {};
  try {
    Statement all(db_, fmt::format("{}WHERE problem=? AND versions=?", columns));
    return read_all(all.bind(problem).bind(versions));
  } catch (const Error& e) {
    give_up(e.what());
  }
  return {};
}

std::vector<std::string> Cache::devices(const std::string& versions) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> found;
  if (!is_there()) return found;
  try {
    Statement all(db_, "SELECT DISTINCT device FROM timings WHERE versions=?");
    for (all.bind(versions); all.step();) found.push_back(all.text(0));
  } catch (const Error& e) {
    give_up(e.what());
  }
  return found;
}

std::unordered_set<std::string> Cache::problems(const std::string& device, const std::string& versions) {
  const std::lock_guard lock(mutex_);
  std::unordered_set<std::string> found;
  if (!is_there()) return found;
  try {
    Statement all(db_, "SELECT problem FROM timings WHERE device=? AND versions=?");
    for (all.bind(device).bind(versions); all.step();) found.insert(all.text(0));
  } catch (const Error& e) {
    give_up(e.what());
  }
  return found;
}

std::vector<CacheEntry> Cache::list() {
  std::lock_guard lock(mutex_);
  if (!is_there()) return {};
  try {
    Statement all(db_, fmt::format("{}ORDER BY problem, device, versions", columns));
    return read_all(all);
  } catch (const Error& e) {
    give_up(e.what());
    return {};
  }
}

int Cache::merge(Cache& other) {
  int taken = 0;
  for (const CacheEntry& e : other.list()) {
    const auto mine = find(e.key);
    if (mine && (mine->level > e.level || (mine->level == e.level && !mine->under_load()))) continue;
    if (mine && mine->level == e.level && e.under_load()) continue;
    keep(e);
    ++taken;
  }
  return taken;
}

std::string Cache::export_json() {
  Json entries = Json::array();
  for (const CacheEntry& e : list()) {
    entries.push_back({{"problem", e.key.problem},
                       {"device", e.key.device},
                       {"versions", e.key.versions},
                       {"level", e.level},
                       {"timings", to_json(e.timings)}});
  }
  return dump({{"version", format_version}, {"entries", entries}}, 1) + "\n";
}

int Cache::import_json(std::string_view text) {
  auto scratch = in_memory();
  const auto refuse = [](const std::string& why) {
    throw Error("not an exported tuning cache: " + why, "Give what `smelt cache export` wrote.", ExitCode::usage);
  };
  const Json file = Json::parse(text, nullptr, false);
  if (file.is_discarded()) refuse("it is not JSON");
  if (!file.is_object() || !file.contains("version") || !file.contains("entries") || !file["entries"].is_array())
    refuse("it has no version and list of entries");
  if (file["version"] != format_version)
    fail_usage("exported cache of version {}, expected {}", dump(file["version"]).substr(0, 40), format_version);
  size_t number = 0;
  for (const Json& e : file["entries"]) {
    try {
      scratch->keep({{e.at("problem"), e.at("device"), e.at("versions")}, count_in(e, "level"), timings_from(e.at("timings"))});
    } catch (const Json::exception&) {
      refuse(fmt::format("entry {} lacks a field, or has one of another type", number));
    } catch (const Error& error) {
      refuse(fmt::format("entry {}: {}", number, error.what()));
    }
    ++number;
  }
  return merge(*scratch);
}

int Cache::clear() {
  std::lock_guard lock(mutex_);
  if (!is_there()) return 0;
  try {
    Statement(db_, "DELETE FROM timings").step();
    return sqlite3_changes(db_);
  } catch (const Error& e) {
    give_up(e.what());
    return 0;
  }
}

}  // namespace smelt::tune
