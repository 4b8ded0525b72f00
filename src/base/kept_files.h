// A cache on disk: each entry one file, under the hash of all that made it.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace smelt {

/// A name of what was added, one text after the other: 32 hexadecimal digits, so that two never meet.
class KeyHash {
 public:
  KeyHash& add(std::string_view text);
  std::string text() const;

 private:
  uint64_t a_ = 14695981039346656037ull, b_ = 0x9e3779b97f4a7c15ull;
};

/// `body` as one file: its kind, a checksum, its key, itself.
std::string sealed(std::string_view kind, std::string_view key, std::string_view body);
/// The body, within `file`; nothing for what is no such file, is damaged, or has another key.
std::optional<std::string_view> unsealed(std::string_view kind, std::string_view key, std::string_view file);

/// Thread-safe; several processes may share a folder.
class KeptFiles {
 public:
  /// `folder` is made when first written to; empty: nothing is kept. `kind` is the files' first line, `suffix` ends their names;
  /// `what` are they, for a folder that cannot be written, which is said once.
  KeptFiles(std::filesystem::path folder, std::string kind, std::string suffix, std::string what);

  bool any() const { return !folder_.empty(); }
  /// Nothing where there is none, or one that is damaged, which is said.
  std::optional<std::string> read(const std::string& key) const;
  /// Under a temporary name, then renamed.
  void write(const std::string& key, std::string_view body) const;

 private:
  std::filesystem::path path_of(const std::string& key) const { return folder_ / key.substr(0, 2) / (key + suffix_); }

  std::filesystem::path folder_;
  std::string kind_, suffix_, what_;
  mutable std::mutex mutex_;
  mutable bool warned_ = false;
};

}  // namespace smelt
