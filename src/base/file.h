// Files: read-only mappings, and outputs that appear whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

namespace smelt {

/// A whole file mapped read-only; throws with the path and the system's reason. Who writes to the file while it is mapped changes
/// what is read, and who shortens it ends the process by SIGBUS: replace such files (AtomicFile does) instead of writing to them.
class MappedFile {
 public:
  static std::shared_ptr<MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  const uint8_t* data() const { return data_; }
  int64_t size() const { return size_; }
  /// Throws Error where the file has been written to, or has another size, since it was opened: what was read of it may be of two
  /// versions. A file that was replaced under its name is another one; the old one stays as it is while it is mapped.
  void check_unchanged() const;
  /// The open mapping that an address lies in; null where it lies in none.
  static std::shared_ptr<const MappedFile> holding(const void* address);

 private:
  MappedFile() = default;
  std::string path_;
  int fd_ = -1;
  int64_t changed_s_ = 0, changed_ns_ = 0;  // when it was last written to
  uint8_t* data_ = nullptr;
  int64_t size_ = 0;
};

/// Writes to a temporary name beside `path` that nobody can guess, and renames on commit(). Destroyed before commit, on an error
/// or on Ctrl-C, the temporary file is removed; what a killed process left is removed when the same path is written again. A
/// full disk or a missing permission is an Error that names the path.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  void write(const void* data, int64_t size);
  void write(std::string_view text) { write(text.data(), static_cast<int64_t>(text.size())); }
  void commit() { commit_together({this}); }
  /// Files that belong together: none takes its name before all are written and closed, and no signal comes between.
  static void commit_together(std::initializer_list<AtomicFile*> files);

 private:
  void close();
  std::filesystem::path path_, temp_;
  int fd_ = -1;
};

std::string read_text(const std::filesystem::path& path);

/// Up to so many bytes from the beginning; none where it is no regular file: a pipe would be waited for.
std::string read_head(const std::filesystem::path& path, size_t most);
void write_text(const std::filesystem::path& path, std::string_view text);

/// Makes a folder and those that hold it, where they are not there; throws Error with the path and the system's reason.
void make_folders(const std::filesystem::path& path);

/// `given`, as an option names it; where that is empty, SMELT_CACHE_DIR, else XDG_CACHE_HOME/smelt, else ~/.cache/smelt, which is
/// created on first use. Throws Error where it cannot be.
std::filesystem::path cache_dir(const std::filesystem::path& given = {});

/// Installs handlers for SIGINT, SIGTERM, SIGHUP and SIGPIPE that remove unfinished AtomicFiles and exit with 128 + the signal's
/// number; one for SIGBUS says that a mapped file became shorter. For the command only.
void clean_up_on_signals();

/// 64-bit FNV-1a, for content names; not for security.
uint64_t hash_bytes(const void* data, int64_t size, uint64_t seed = 14695981039346656037ull);
/// The same over words of 8 bytes, each mixed into all bits: as fast as memory is read. Not for security either.
uint64_t hash_words(const void* data, int64_t size, uint64_t seed);

}  // namespace smelt
