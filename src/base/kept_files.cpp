#include "base/kept_files.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace smelt {
namespace {

std::string checksum(std::string_view bytes) {
  return fmt::format("{:016x}", hash_bytes(bytes.data(), static_cast<int64_t>(bytes.size())));
}

/// The text before the next end of line, which goes from `rest`; nothing where there is none.
std::optional<std::string_view> line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  if (end == rest.npos) return std::nullopt;
  const std::string_view text = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return text;
}

}  // namespace

KeyHash& KeyHash::add(std::string_view text) {
  const auto size = static_cast<int64_t>(text.size());
  for (uint64_t* h : {&a_, &b_}) *h = hash_bytes(text.data(), size, hash_bytes(&size, sizeof size, *h));
  return *this;
}

std::string KeyHash::text() const { return fmt::format("{:016x}{:016x}", a_, b_); }

std::string sealed(std::string_view kind, std::string_view key, std::string_view body) {
  const std::string rest = fmt::format("{}\n{}", key, body);
  return fmt::format("{}\n{}\n{}", kind, checksum(rest), rest);
}

std::optional<std::string_view> unsealed(std::string_view kind, std::string_view key, std::string_view file) {
  if (line(file) != kind) return std::nullopt;
  const auto sum = line(file);
  if (!sum || *sum != checksum(file) || line(file) != key) return std::nullopt;
  return file;
}

KeptFiles::KeptFiles(std::filesystem::path folder, std::string kind, std::string suffix, std::string what)
    : folder_(std::move(folder)), kind_(std::move(kind)), suffix_(std::move(suffix)), what_(std::move(what)) {}

std::optional<std::string> KeptFiles::read(const std::string& key) const {
  std::error_code ignored;
  if (!any() || !std::filesystem::exists(path_of(key), ignored)) return std::nullopt;
  try {
    const auto file = MappedFile::open(path_of(key));
    const auto body = unsealed(kind_, key, {reinterpret_cast<const char*>(file->data()), static_cast<size_t>(file->size())});
    if (body) return std::string(*body);
    warn("{} is damaged; its kernel is compiled again", path_of(key).string());
  } catch (const Error&) {  // removed in between, or not ours to read
  }
  return std::nullopt;
}

void KeptFiles::write(const std::string& key, std::string_view body) const {
  if (!any()) return;
  try {
    make_folders(path_of(key).parent_path());
    AtomicFile file(path_of(key));
    file.write(sealed(kind_, key, body));
    file.commit();
  } catch (const std::exception& e) {
    std::lock_guard lock(mutex_);
    if (!std::exchange(warned_, true)) warn("{}; {} are not kept", e.what(), what_);
  }
}

}  // namespace smelt
