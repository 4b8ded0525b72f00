#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace smelt {
namespace {

/// How long a process had a core, and how long it was ready and had none until it last got one; `known` where the system says so.
struct Times {
  bool known = false;
  std::chrono::nanoseconds ran{0}, waited{0};
};

Times times_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/schedstat");
  int64_t ran = 0, waited = 0;
  if (!(file >> ran >> waited)) return {};
  return {true, std::chrono::nanoseconds(ran), std::chrono::nanoseconds(waited)};
}

/// Whether a process runs or would if it had a core.
bool is_ready(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name = line.rfind(')');
  return name != std::string::npos && line.compare(name, 3, ") R") == 0;
}

}  // namespace

Finished run_program(const std::vector<std::string>& words, int input, int limit_s) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("{} was not run: {}", words.front(), std::strerror(errno));
  std::vector<char*> pointers;
  for (const std::string& w : words) pointers.push_back(const_cast<char*>(w.c_str()));
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (input >= 0)
    ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  else
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  Finished f;
  f.not_started = ::posix_spawnp(&child, words.front().c_str(), &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (f.not_started != 0) {
    ::close(ends[0]);
    return f;
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(limit_s);
  Times before;
  bool is_late = false;
  for (;;) {
    const Times times = times_of(child);
    auto left = std::chrono::ceil<std::chrono::milliseconds>(end + times.waited - std::chrono::steady_clock::now()).count();
    if (left <= 0) {  // a wait for a core is in no sum before it ends: whether there is one shows a moment later
      if (!times.known || (is_late && (times.ran != before.ran || !is_ready(child)))) break;
      left = 20;
      is_late = true;
    } else {
      is_late = false;
    }
    before = times;
    pollfd readable{ends[0], POLLIN, 0};
    if (::poll(&readable, 1, static_cast<int>(left)) <= 0) continue;
    char block[65536];
    const ssize_t n = ::read(ends[0], block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    f.in_time = n == 0;
    if (n <= 0) break;
    f.output.append(block, static_cast<size_t>(n));
  }
  ::close(ends[0]);
  if (!f.in_time) ::kill(child, SIGKILL);
  while (::waitpid(child, &f.status, 0) < 0 && errno == EINTR) {
  }
  return f;
}

}  // namespace smelt
