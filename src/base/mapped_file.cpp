#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace smelt {
namespace {

/// A file as it is at one time: the system's device and number of it, its size, and when it was last written to.
using Version = std::tuple<uint64_t, uint64_t, int64_t, int64_t, int64_t>;

/// The mappings that are open, by their last byte's successor and by their files.
struct Mappings {
  std::mutex mutex;
  std::map<const uint8_t*, std::weak_ptr<const MappedFile>> by_end;
  std::map<Version, std::weak_ptr<MappedFile>> by_version;
};
Mappings& mappings() {
  static auto* const all = new Mappings;  // files may be closed after static objects are gone
  return *all;
}

std::string reason(int error) { return std::strerror(error); }

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

std::shared_ptr<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // opening a pipe does not wait for its writer
  if (file.fd < 0) fail("{}: cannot open: {}", path.string(), reason(errno));
  struct stat info;
  if (::fstat(file.fd, &info) != 0) fail("{}: cannot read its size: {}", path.string(), reason(errno));
  if (!S_ISREG(info.st_mode))
    fail("{}: expected a regular file, found a {}", path.string(), S_ISDIR(info.st_mode) ? "folder" : "device or pipe");
  std::shared_ptr<MappedFile> mapped(new MappedFile);
  mapped->path_ = path.string();
  mapped->size_ = info.st_size;
  mapped->changed_s_ = info.st_mtim.tv_sec;
  mapped->changed_ns_ = info.st_mtim.tv_nsec;
  if (info.st_size == 0) return mapped;
  // A file that is mapped already, and was not written to since, is mapped once for all sessions of this process.
  Mappings& all = mappings();
  const Version version{info.st_dev, info.st_ino, mapped->size_, mapped->changed_s_, mapped->changed_ns_};
  const std::lock_guard lock(all.mutex);
  std::weak_ptr<MappedFile>& known = all.by_version[version];
  if (auto open = known.lock()) return open;
  void* p = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (p == MAP_FAILED) fail("{}: cannot map {} bytes: {}", path.string(), info.st_size, reason(errno));
  mapped->data_ = static_cast<uint8_t*>(p);
  mapped->fd_ = std::exchange(file.fd, -1);
  known = mapped;
  all.by_end[mapped->data_ + mapped->size_] = mapped;
  return mapped;
}

std::shared_ptr<const MappedFile> MappedFile::holding(const void* address) {
  Mappings& all = mappings();
  std::shared_ptr<const MappedFile> file;  // outlives the lock: the last handle of a file, let go here, takes it
  const std::lock_guard lock(all.mutex);
  const auto at = all.by_end.upper_bound(static_cast<const uint8_t*>(address));
  if (at == all.by_end.end()) return nullptr;
  file = at->second.lock();
  return file && file->data_ <= address ? file : nullptr;
}

void MappedFile::check_unchanged() const {
  struct stat info;
  if (fd_ < 0 || ::fstat(fd_, &info) != 0) return;
  if (info.st_size == size_ && info.st_mtim.tv_sec == changed_s_ && info.st_mtim.tv_nsec == changed_ns_) return;
  throw Error(fmt::format("{}: the file was written to while it was in use: {} bytes, then {}", path_, size_,
                          static_cast<int64_t>(info.st_size)),
              "Load it again once it is complete; replace files in use by a rename.");
}

MappedFile::~MappedFile() {
  if (data_) {
    Mappings& all = mappings();
    const std::lock_guard lock(all.mutex);
    all.by_end.erase(data_ + size_);
    std::erase_if(all.by_version, [](const auto& entry) { return entry.second.expired(); });
  }
  if (data_) ::munmap(data_, static_cast<size_t>(size_));
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace smelt
