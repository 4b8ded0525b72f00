// The tuning cache: measurements in SQLite (write-ahead logging; several processes may use it at a time).
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tune/timing.h"

struct sqlite3;

namespace smelt::tune {

/// What a timing is valid for.
struct CacheKey {
  std::string problem;   // "gemm:f32>f32:48x4096x4096:rcr:bias+relu"
  std::string device;    // processor, instruction set and threads
  std::string versions;  // "smelt 0.1.0, oneDNN 3.2.0"
  auto operator<=>(const CacheKey&) const = default;
};

struct CacheEntry {
  CacheKey key;
  int level = 0;                // the tuning level it was measured at
  std::vector<Timing> timings;  // in the candidates' fixed order
  bool under_load() const {
    return std::ranges::any_of(timings, [](const Timing& t) { return t.under_load > 0; });
  }
};

class Statement;  // of SQLite: cache.cpp

class Cache {
 public:
  /// Opens the database; where there is none it is made when the first entry is kept: a process that measures nothing leaves none.
  /// Never throws: a database that is corrupt, locked for too long or not writable gives one warning. Its entries are used where they
  /// can be read, and new timings are lost with the process.
  static std::shared_ptr<Cache> open(const std::filesystem::path& path);
  /// Opens or creates the database, and throws Error naming the file and SQLite's reason: for commands that are about the cache.
  static std::shared_ptr<Cache> open_or_throw(const std::filesystem::path& path);
  /// A cache that lives as long as the process.
  static std::shared_ptr<Cache> in_memory();
  ~Cache();

  std::optional<CacheEntry> find(const CacheKey& key);
  /// Keeps the entry, unless an entry of the same or a higher level is there already. Of an entry of the same level it replaces the
  /// timings that were taken under load. Returns the entry that is kept, so that processes that measured the same problem at the
  /// same time agree.
  CacheEntry keep(CacheEntry entry);

  /// The problem's entries for every device with these versions.
  std::vector<CacheEntry> of_problem(const std::string& problem, const std::string& versions);
  /// The devices of which there are entries with these versions.
  std::vector<std::string> devices(const std::string& versions);
  /// The problems of which there are entries for that device and these versions.
  std::unordered_set<std::string> problems(const std::string& device, const std::string& versions);
  /// All entries, by key.
  std::vector<CacheEntry> list();
  /// Takes the entries of another database that are missing here or have a lower level here, and those for which this one has
  /// timings under load only; returns how many it took.
  int merge(Cache& other);
  /// {"version": 1, "entries": [{"problem": …, "device": …, "versions": …, "level": 2, "timings": […]}, …]}
  std::string export_json();
  /// Merges the entries of a text that export_json wrote. Throws Error (usage) with what is wrong in the text.
  int import_json(std::string_view text);
  /// Removes all entries; returns how many.
  int clear();

  const std::filesystem::path& path() const { return path_; }  // empty when in memory

 private:
  Cache() = default;
  void open_database(const std::filesystem::path& path);  // throws
  void open_or_warn(const std::filesystem::path& path);
  /// Whether there is a database to read; opens one that has come to be.
  bool is_there();
  bool take_unwritable(const std::filesystem::path& path);
  void give_up(std::string_view why);
  void close();

  /// Joins the entry with the row of the same level; true if `entry` then differs from that row.
  bool add_known(CacheEntry& entry);

  std::recursive_mutex mutex_;
  sqlite3* db_ = nullptr;
  std::unique_ptr<Statement> find_;  // prepared once
  std::filesystem::path path_;
  std::optional<std::filesystem::path> later_;  // of a database that is made, in memory where empty, when an entry is kept
  bool warn_only_ = true;
};

/// DIR/tuning.db
std::filesystem::path cache_path(const std::filesystem::path& dir);

}  // namespace smelt::tune
