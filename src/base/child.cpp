#include "base/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"

namespace smelt {

Child::Child(const std::vector<std::string>& words) : name_(words.front()) {
  // Sockets: writing to one whose other side is gone is an error and no signal.
  int in[2], out[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0) fail("{} was not run: {}", name_, std::strerror(errno));
  if (::pipe2(out, O_CLOEXEC) != 0) {
    ::close(in[0]), ::close(in[1]);
    fail("{} was not run: {}", name_, std::strerror(errno));
  }
  std::vector<char*> pointers;
  for (const std::string& w : words) pointers.push_back(const_cast<char*>(w.c_str()));
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in[1], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  const int failed = ::posix_spawnp(&process_, name_.c_str(), &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(in[1]), ::close(out[1]);
  to_ = in[0], from_ = out[0];
  if (failed == 0) return;
  ::close(to_), ::close(from_);
  fail("{} was not run: {}", name_, std::strerror(failed));
}

Child::~Child() {
  ::close(to_), ::close(from_);
  ::kill(process_, SIGKILL);
  int status = 0;
  while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
}

void Child::lost(const std::string& what) const { fail("{}: {}", name_, what); }

void Child::say(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::send(to_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) lost("it has ended");
    sent += static_cast<size_t>(n);
  }
}

std::string Child::line(double limit_s) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
  for (;;) {
    if (const size_t at = read_.find('\n'); at != read_.npos) {
      const std::string found = read_.substr(0, at);
      read_.erase(0, at + 1);
      return found;
    }
    const auto left = std::chrono::duration<double, std::milli>(end - std::chrono::steady_clock::now()).count();
    if (left <= 0) lost("it does not answer");
    pollfd readable{from_, POLLIN, 0};
    if (::poll(&readable, 1, static_cast<int>(left) + 1) <= 0) continue;
    char block[65536];
    const ssize_t n = ::read(from_, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) lost("it ended before it answered");
    read_.append(block, static_cast<size_t>(n));
  }
}

}  // namespace smelt
