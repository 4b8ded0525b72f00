#include "base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/error.h"

namespace smelt {
namespace {

// Temporary files under way, where a signal handler can find them: it may neither lock nor allocate. A slot is free when
// its flag is 0, being written when 1, and holds a path when 2.
struct Pending {
  std::atomic<int> state{0};
  char path[4096];
};
Pending pending[64];

void remember(const std::string& path) {
  if (path.size() >= sizeof pending[0].path) return;  // a longer path cannot be opened either
  for (Pending& p : pending) {
    int free = 0;
    if (!p.state.compare_exchange_strong(free, 1)) continue;
    std::memcpy(p.path, path.c_str(), path.size() + 1);
    p.state = 2;
    return;
  }
}

void forget(const std::string& path) {
  for (Pending& p : pending)
    if (p.state == 2 && path == p.path) p.state = 0;
}

// A signal may come to any thread: that one ends the process once no other makes a temporary file or gives files their names.
std::atomic<int> under_way{0};
std::atomic<bool> ending{false};

/// While it lives, no signal but SIGBUS ends the process.
class Uninterrupted {
 public:
  Uninterrupted() {
    sigset_t all;
    ::sigfillset(&all);
    ::sigdelset(&all, SIGBUS);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    ++under_way;
    if (!ending) return;
    --under_way;
    while (true) ::pause();
  }
  ~Uninterrupted() {
    --under_way;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Uninterrupted(const Uninterrupted&) = delete;

 private:
  sigset_t before_;
};

void on_signal(int number) {
  constexpr int longest_ms = 10'000;  // of a file system that does not answer
  ending = true;
  for (int ms = 0; number != SIGBUS && under_way > 0 && ms < longest_ms; ++ms) ::poll(nullptr, 0, 1);
  for (Pending& p : pending)
    if (p.state == 2) ::unlink(p.path);
  if (number == SIGBUS) {
    static constexpr char text[] =
        "smelt: a file that was being read became shorter, or its disk failed (SIGBUS)\n"
        "Replace files of weights by a rename instead of writing to them while they are in use.\n";
    [[maybe_unused]] const ssize_t said = ::write(STDERR_FILENO, text, sizeof text - 1);
  }
  ::_exit(128 + number);
}

constexpr std::string_view temp_suffix = ".smelt-tmp-";
constexpr size_t temp_digits = 16;

std::string random_digits() {
  uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits))
    fail("no random numbers: {}", std::strerror(errno));
  return fmt::format("{:016x}", bits);
}

/// Removes what writers of `path` left that were killed. A writer holds a lock on its file, which ends with it.
void remove_leftovers(const std::filesystem::path& path) {
  constexpr time_t age_s = 60;  // a writer that has no lock yet is younger
  const std::string prefix = path.filename().string() + std::string(temp_suffix);
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path.has_parent_path() ? path.parent_path() : ".", error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix) || name.size() != prefix.size() + temp_digits) continue;
    const int fd = ::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    struct stat info;
    if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_mtime + age_s < ::time(nullptr) &&
        ::flock(fd, LOCK_EX | LOCK_NB) == 0)
      ::unlink(entry->path().c_str());
    ::close(fd);
  }
}

constexpr int closed = -1, gone = -2;  // for AtomicFile's descriptor: written, and under its name

std::string reason(int error) { return std::strerror(error); }

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  struct stat info;
  if (::stat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) fail("{}: cannot write: it is a folder", path_.string());
    temp_ = path_;  // a pipe or a device is written as it is
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    remove_leftovers(path_);
    temp_ = path_.string() + std::string(temp_suffix) + random_digits();
    const Uninterrupted whole;
    remember(temp_.string());
    fd_ = ::open(temp_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ >= 0) ::flock(fd_, LOCK_EX | LOCK_NB);  // where locks do not work, leftovers stay
  }
  if (fd_ >= 0) return;
  const int error = errno;
  forget(temp_.string());
  fail("{}: cannot write: {}", path_.string(), reason(error));
}

AtomicFile::~AtomicFile() {
  if (fd_ == gone) return;
  if (fd_ != closed) ::close(fd_);
  if (temp_ == path_) return;
  ::unlink(temp_.c_str());
  forget(temp_.string());
}

void AtomicFile::write(const void* data, int64_t size) {
  const char* p = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(fd_, p, static_cast<size_t>(std::min<int64_t>(size, 1 << 30)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("{}: cannot write {} more bytes: {}", path_.string(), size, reason(errno));
    p += n;
    size -= n;
  }
}

void AtomicFile::close() {
  if (::close(fd_) != 0) {  // the destructor removes the temporary file
    const int error = errno;
    fd_ = closed;
    fail("{}: cannot write: {}", path_.string(), reason(error));
  }
  fd_ = closed;
}

void AtomicFile::commit_together(std::initializer_list<AtomicFile*> files) {
  for (AtomicFile* f : files) f->close();
  int error = 0;
  std::string where;
  const Uninterrupted whole;
  for (AtomicFile* f : files) {
    if (f->temp_ != f->path_ && ::rename(f->temp_.c_str(), f->path_.c_str()) != 0) {
      error = errno;
      where = f->path_.string();
      break;
    }
    f->fd_ = gone;
    if (f->temp_ != f->path_) forget(f->temp_.string());
  }
  if (error) fail("{}: cannot write: {}", where, reason(error));
}

std::string read_text(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return {reinterpret_cast<const char*>(file->data()), static_cast<size_t>(file->size())};
}

std::string read_head(const std::filesystem::path& path, size_t most) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return "";
  std::ifstream file(path, std::ios::binary);
  std::string head(most, '\0');
  file.read(head.data(), static_cast<std::streamsize>(most));
  head.resize(static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
  return head;
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void make_folders(const std::filesystem::path& path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (failed) fail("{}: cannot be made: {}", path.string(), failed.message());
}

std::filesystem::path cache_dir(const std::filesystem::path& given) {
  if (!given.empty()) return given;
  const auto variable = [](const char* name) {
    const char* v = std::getenv(name);
    return std::string(v ? v : "");
  };
  std::filesystem::path dir = variable("SMELT_CACHE_DIR");
  if (dir.empty() && !variable("XDG_CACHE_HOME").empty()) dir = std::filesystem::path(variable("XDG_CACHE_HOME")) / "smelt";
  if (dir.empty() && !variable("HOME").empty()) dir = std::filesystem::path(variable("HOME")) / ".cache" / "smelt";
  if (dir.empty())
    throw Error("no folder for the cache: neither SMELT_CACHE_DIR, XDG_CACHE_HOME nor HOME is set",
                "Set SMELT_CACHE_DIR to a folder.");
  try {
    make_folders(dir);
  } catch (const Error& e) {
    throw Error(fmt::format("the cache folder {}", e.what()), "Set SMELT_CACHE_DIR to a folder that can be written.");
  }
  return dir;
}

void clean_up_on_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGBUS}) {
    struct sigaction before = {};
    ::sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaction(number, &action, nullptr);  // nohup's choice stays
  }
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGXFSZ, &action, nullptr);  // a file beyond the limit of `ulimit -f` is a write that fails
}

uint64_t hash_bytes(const void* data, int64_t size, uint64_t seed) {
  const auto* p = static_cast<const uint8_t*>(data);
  uint64_t h = seed;
  for (int64_t i = 0; i < size; ++i) h = (h ^ p[i]) * 1099511628211ull;
  return h;
}

uint64_t hash_words(const void* data, int64_t size, uint64_t seed) {
  const auto* p = static_cast<const uint8_t*>(data);
  uint64_t h = seed;
  for (; size > 0; p += 8, size -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, p, static_cast<size_t>(std::min<int64_t>(size, 8)));
    h = (h ^ word) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 32;
  }
  return h;
}

}  // namespace smelt
